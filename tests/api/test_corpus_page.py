"""report.html: one file, drawn by Chromium without a network."""
import base64
import os
import re
import shutil
import subprocess
import zlib

import numpy
import pytest

from conftest import PATIENCE
from corpus_runs import corpus, ndjson, texts

FIGURES = ["2", "3", "6a", "6b", "7", "8", "10", "11a", "11b", "12", "13", "A1", "sensitivity", "stability", "noise", "focus", "tokens", "neighbours"]
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")


@pytest.mark.skipif(not shutil.which(CHROMIUM), reason="chromium is not installed")
@pytest.mark.parametrize(("options", "small"), [([], False), (["--layers", "last", "--max-tokens", "9"], False), ([], True)])
def test_page_draws_every_figure_offline(headscope, tmp_path, options, small):
    ndjson(tmp_path / "in", texts(40, seed=8))
    done = corpus(headscope, tmp_path / "in", "-o", tmp_path / "out", *options, small=small)
    assert done.returncode == 0, done.stderr
    page = tmp_path / "out" / "report.html"
    assert page.stat().st_size < 8_000_000
    source = page.read_text(encoding="utf-8")
    assert not re.search(r'(?:src|href)="(?!data:|#|https://arxiv|http://127\.0\.0\.1:8080/#view)', source)
    for figure in FIGURES:  # without a script, too
        found = re.search(rf'<figure id="figure-{figure}".*?</figure>', source, re.S)
        assert found and "<svg" in found[0] and "<figcaption>" in found[0] and not re.search(r'[" ]-?nan\b', found[0])
    assert source.count('class="holds') == 8
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=30000",
         f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=PATIENCE, check=False)
    drawn = re.sub(r'data:image[^"]*', 'data:', done.stdout)
    assert 'role="alert"' not in drawn, re.search(r'role="alert"[^<]*<?[^<]*', drawn)
    for figure in FIGURES:
        found = re.search(rf'<figure id="figure-{figure}".*?</figure>', drawn, re.S)
        assert found, (figure, done.stderr[-2000:])
        assert "<svg" in found[0] and "<figcaption>" in found[0] and "texts" in found[0]
        assert all(f">{kind}</button>" in found[0] for kind in ("CSV", "PNG", "SVG", "PDF"))
        assert "NaN" not in found[0] and "undefined" not in found[0]
    assert drawn.count('class="holds') == 8
    assert 'id="examples"' in drawn and "Open in the viewer" in drawn


def picture(svg):
    """The colours of a map's picture, [side, side, 4], as the page has it before its script runs."""
    data = base64.b64decode(re.search(r'data:image/png;base64,([^"]+)"', svg)[1])
    at, chunks = 8, {}
    while at < len(data):
        n, kind = int.from_bytes(data[at:at + 4], "big"), data[at + 4:at + 8]
        chunks[kind] = data[at + 8:at + 8 + n]
        at += 12 + n
    side = int.from_bytes(chunks[b"IHDR"][:4], "big")
    rows = numpy.frombuffer(zlib.decompress(chunks[b"IDAT"]), "u1").reshape(side, side + 1)[:, 1:]
    palette = numpy.frombuffer(chunks[b"PLTE"], "u1").reshape(256, 3).astype(int)
    return numpy.dstack([palette[rows], numpy.where(rows == 0, 0, 255)])


def test_similarities_below_zero_have_colours_of_their_own(headscope, tmp_path):
    ndjson(tmp_path / "in", texts(40, seed=8))
    done = corpus(headscope, tmp_path / "in", "-o", tmp_path / "all", "--max-tokens", "24", "--layers", "all")
    assert done.returncode == 0, done.stderr
    # The layer with the most negative similarities depends on the weights.
    sums = numpy.load(tmp_path / "all" / "report.npz")["similarity_sum"]
    layers = sorted({1, 3, int((sums / abs(sums).max((1, 2), keepdims=True)).min((1, 2)).argmin())})
    done = corpus(headscope, tmp_path / "in", "-o", tmp_path / "out", "--max-tokens", "24", "--layers", ",".join(map(str, layers)))
    assert done.returncode == 0, done.stderr
    source = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    arrays = numpy.load(tmp_path / "out" / "report.npz")
    n, below, above, one_sided = len(arrays["reached"]), 0, 0, 0
    reached = numpy.minimum.outer(arrays["reached"], arrays["reached"]).clip(1)
    maps = {f"{name}:{layer}": values[layer] for layer in range(len(layers))
            for name, values in (("similarity", arrays["similarity_sum"] / reached), ("first_text", arrays["first_similarity"]))}
    for svg in re.findall(r"<svg.*?</svg>", source, re.S):
        key = re.search(r'data-map="([^"]+)"', svg)
        if not key or key[1] not in maps:
            continue
        values, colours = maps[key[1]], picture(svg)
        low, middle, high = (float(number) for number in re.findall(r'data-range="\w+"[^>]*>([^<]+)<', svg))
        stops = re.findall(r'stop-color="(#\w+)"', svg)
        seen, warmth = colours[..., 3] > 0, colours[..., 0] - colours[..., 2]
        if values[seen].min() >= 0:
            assert low >= 0 and len(stops) == 6 and 'zero' not in svg
            one_sided += 1
            continue
        assert (low, middle, len(stops)) == (-high, 0, 11) and 'class="mark zero"' in svg
        assert stops[5] == "#fbf8f3" and len(set(stops)) == 11  # lightest in the middle
        assert (colours[seen & numpy.eye(n, dtype=bool)][:, :3] > 238).all()  # where all is 0
        far = seen & (abs(values) > 0.12 * high)
        assert (numpy.sign(warmth) == numpy.sign(values))[far].all(), key[1]
        below, above = below + (far & (values < 0)).sum(), above + (far & (values > 0)).sum()
    assert below > 10 and above > 40 and one_sided


def test_page_says_what_was_changed(headscope, tmp_path):
    ndjson(tmp_path / "in", texts(12, seed=8))
    (tmp_path / "changes").write_text('[{"layers": [0], "heads": [1], "kind": "zero"}]')
    done = corpus(headscope, tmp_path / "in", "-o", tmp_path / "out", "--layers", "last", "--interventions", tmp_path / "changes",
                  "--masked-share", "0.2")
    assert done.returncode == 0, done.stderr
    header = re.search(r"<header>.*?</header>", (tmp_path / "out" / "report.html").read_text(encoding="utf-8"), re.S)[0]
    assert "<dt>Heads changed</dt>" in header and "&quot;zero&quot;" in header
    assert re.search(r"<dt>Masked tokens</dt><dd>[\d,]+, [\d.]+ % of them found, loss [\d.]+</dd>", header)
    assert re.search(r"[\d.]+ sentences a text", header)
