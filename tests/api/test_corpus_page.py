"""report.html: one file, drawn by Chromium without a network."""
import base64
import json
import os
import re
import shutil
import subprocess
import zlib
from xml.etree import ElementTree

import numpy
import pytest
from conftest import PATIENCE, slow_if
from corpus_runs import corpus, ndjson, texts

FIGURES = ["2", "3", "4", "5", "9", "6a", "6b", "7", "8", "10", "11a", "11b", "12", "13", "A1", "sensitivity", "stability", "noise", "focus", "tokens", "neighbours"]
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium-headless-shell") or shutil.which("chromium")


@pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
@pytest.mark.parametrize(("options", "small"), [
    slow_if(True, [], False), (["--layers", "last", "--max-tokens", "9"], False), slow_if(True, [], True)])
def test_page_draws_every_figure_offline(headscope, tmp_path, options, small):
    ndjson(tmp_path / "in", texts(12, seed=8))
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
        assert "<svg" in found[0] and "<figcaption>" in found[0] and "text" in found[0]
        assert all(f">{kind}</button>" in found[0] for kind in ("CSV", "PNG", "SVG", "PDF"))
        assert "NaN" not in found[0] and "undefined" not in found[0]
    assert drawn.count('class="holds') == 8
    assert 'id="examples"' in drawn and "Open in the viewer" in drawn


def picture(svg):
    """The palette of a map's picture and its bytes, [side, side], as the page has it before its script runs."""
    data = base64.b64decode(re.search(r'data:image/png;base64,([^"]+)"', svg)[1])
    at, chunks = 8, {}
    while at < len(data):
        n, kind = int.from_bytes(data[at:at + 4], "big"), data[at + 4:at + 8]
        chunks[kind] = data[at + 8:at + 8 + n]
        at += 12 + n
    side = int.from_bytes(chunks[b"IHDR"][:4], "big")
    rows = numpy.frombuffer(zlib.decompress(chunks[b"IDAT"]), "u1").reshape(side, side + 1)[:, 1:]
    palette = numpy.frombuffer(chunks[b"PLTE"], "u1").reshape(256, 3).astype(int)
    return palette, rows


def test_similarities_below_zero_have_colours_of_their_own(headscope, tmp_path):
    ndjson(tmp_path / "in", texts(12, seed=8))
    done = corpus(headscope, tmp_path / "in", "-o", tmp_path / "all", "--max-tokens", "24", "--layers", "all")
    assert done.returncode == 0, done.stderr
    # The layers with the least and the most similarities below 0 depend on the weights.
    arrays = numpy.load(tmp_path / "all" / "report.npz")
    counts = sum((arrays[name] < -0.12 * abs(arrays[name]).max((1, 2), keepdims=True)).sum((1, 2))
                 for name in ("similarity_sum", "first_similarity"))
    layers = sorted(counts.argsort()[[0, 1, -4, -3, -2, -1]].tolist())
    done = corpus(headscope, tmp_path / "in", "-o", tmp_path / "out", "--max-tokens", "24", "--layers", ",".join(map(str, layers)))
    assert done.returncode == 0, done.stderr
    source = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    arrays = numpy.load(tmp_path / "out" / "report.npz")
    n, below, above, one_sided = len(arrays["reached"]), 0, 0, 0
    reached = numpy.minimum.outer(arrays["reached"], arrays["reached"]).clip(1)
    maps = {f"{name}:{layer}": values[layer] for layer in range(len(layers))
            for name, values in (("similarity", arrays["similarity_sum"] / reached), ("first_text", arrays["first_similarity"]))}
    for svg in re.findall(r"<svg.*?</svg>", source, re.S):
        key = re.search(r'<image data-name="([^"]+)"', svg)
        if not key or key[1] not in maps:
            continue
        values, (palette, cells) = maps[key[1]], picture(svg)
        low, middle, high = (float(re.search(rf'data-name="{name}"[^>]*>([^<]+)<', svg)[1]) for name in ("low", "middle", "high"))
        seen, colours = cells > 0, palette[cells]
        if values[seen].min() >= 0:
            assert low >= 0 and tuple(palette[1]) == (251, 248, 243)
            one_sided += 1
            continue
        assert (low, middle) == (-high, 0)
        assert palette[128].sum() == palette[1:].sum(axis=1).max()  # lightest in the middle
        assert (colours[seen & numpy.eye(n, dtype=bool)] > 238).all()  # where all is 0
        warmth = colours[..., 0] - colours[..., 2]
        far = seen & (abs(values) > 0.12 * high)
        assert (numpy.sign(warmth) == numpy.sign(values))[far].all(), key[1]
        below, above = below + (far & (values < 0)).sum(), above + (far & (values > 0)).sum()
    assert below > 5 and above > 40 and one_sided


@pytest.mark.slow
def test_one_text_is_that_of_an_answer(headscope, server, tmp_path):
    """Figures 4, 5 and 9 show the first text, in shards too, with the maps of an answer."""
    ndjson(tmp_path / "in", texts(12, seed=8))
    whole, shards = tmp_path / "whole", [tmp_path / f"shard-{k}" for k in range(2)]
    for out, options in [(whole, []), *((out, ["--shard", f"{k}/2"]) for k, out in enumerate(shards))]:
        done = corpus(headscope, tmp_path / "in", "-o", out, *options, small=False)
        assert done.returncode == 0, done.stderr
    subprocess.run([headscope, "merge", *shards, "-o", tmp_path / "merged"], check=True, capture_output=True, timeout=PATIENCE)
    report = json.loads((whole / "report.json").read_text())
    one = report["one_text"]
    assert json.loads((tmp_path / "merged" / "report.json").read_text())["one_text"] == one
    first = report["examples"]["texts"][0]
    assert one["number"] == first["number"] == 0 and first["text"] == texts(12, seed=8)[0]
    answer = json.loads(server.post("/analyze", {
        "text": first["text"], "layers": [1, 6, 11], "heads": "all", "max_tokens": 128,
        "outputs": ["attentions", "similarities"]}).body)
    attention, similarity = (numpy.array(answer[name]) for name in ("attentions", "similarities"))
    T = attention.shape[-1]
    assert one["tokens"] == answer["tokens"] and len(one["tokens"]) == T
    special = numpy.array(answer["special_tokens_mask"], bool)
    assert one["sentences"] == numpy.where(special, -1, answer["sentence_ids"]).tolist()
    assert [(m["kind"], m["layer"], m["head"]) for m in one["maps"]] == [
        *(("attention", layer, 0) for layer in (1, 6, 11)), *(("attention", layer, None) for layer in (1, 6, 11)), ("similarity", 11, 0)]
    expected = [*attention[:, 0], *attention.sum(1), similarity[-1, 0]]
    for shown, values in zip(one["maps"], expected):
        numpy.testing.assert_allclose(numpy.reshape(shown["values"], (T, T)), values, rtol=2e-5, atol=1e-6)
    columns = attention[-1, 0].sum(0)
    assert one["high"] == list(numpy.flatnonzero(columns >= 0.3 * columns.max()))
    assert 1 <= len(one["heads"]) <= 2
    for head in one["heads"]:
        upper = numpy.triu(similarity[-1, head["head"]], 1)
        strongest = numpy.sort(upper[upper >= 0.3 * upper.max()])[::-1][:12] / upper.max()
        numpy.testing.assert_allclose([n for _, _, n in head["pairs"]], strongest, rtol=1e-4)
        assert all(abs(upper[i, j] / upper.max() - n) < 1e-4 for i, j, n in head["pairs"])


@pytest.mark.parametrize(("first", "options"), [("a text", ["--shard", "1/2"]), ("", [])], ids=["shard", "empty"])
def test_captions_do_not_promise_a_first_text_that_was_not_counted(headscope, tmp_path, first, options):
    """Figure 4 shows the first of the examples, which is then another text."""
    ndjson(tmp_path / "in", [first, *texts(11, seed=8)])
    done = corpus(headscope, tmp_path / "in", "-o", tmp_path / "out", *options)
    assert done.returncode == 0, done.stderr
    said = json.loads((tmp_path / "out" / "report.json").read_text())
    assert said["one_text"]["number"] == said["examples"]["texts"][0]["number"] != 0
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "The first of the examples, up to 128 tokens" in page and "first text (zeros if it was not counted)" in page
    assert "run's first text" not in page and "input's first one, if it was counted" in page


def test_figures_of_one_text_are_whole(headscope, tmp_path):
    """Up to 128 tokens of the first text: figure 5 has the mask and the means of regions, figure 9 its pairs."""
    ndjson(tmp_path / "in", [" ".join(texts(16, seed=8)), *texts(11, seed=9)])
    done = corpus(headscope, tmp_path / "in", "-o", tmp_path / "out", "--layers", "1,11", small=False)
    assert done.returncode == 0, done.stderr
    one = json.loads((tmp_path / "out" / "report.json").read_text())["one_text"]
    source = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    T = len(one["tokens"])
    assert T == 128 and all(len(shown["values"]) == T * T for shown in one["maps"])
    figure = re.search(r'<figure id="figure-5".*?</figure>', source, re.S)[0]
    titles = [row[4] for row in shown(re.search(r"<svg.*?</svg>", figure, re.S)[0]) if ":" in row[4] or "of the" in row[4]]
    assert len(titles) == 4 and titles[2] == "Mask of the tokens of high attention"
    similarity, high = numpy.reshape(one["maps"][-1]["values"], (T, T)), set(one["high"])
    starts = [i for i in range(T) if i == 0 or i in high or i - 1 in high]
    runs = list(zip(starts, [*starts[1:], T]))
    off = ~numpy.eye(T, dtype=bool)
    means = [similarity[a:b, c:d][off[a:b, c:d]].mean() for a, b in runs for c, d in runs if off[a:b, c:d].any()]
    least, most = min(0, *means), max(0, *means)
    words = f"{least:.3g} to {most:.3g}" if least < 0 else f"max {most:.3g}"
    assert titles[3] == f"Mean similarity of the regions, {words}"
    figure = re.search(r'<figure id="figure-9".*?</figure>', source, re.S)[0]
    rows = [re.findall(r"<t[hd][^>]*>([^<]*)<", row) for row in re.findall(r"<tr>.*?</tr>", figure, re.S)]
    due = [[f"{i}, {j}", one["tokens"][i], one["tokens"][j], f"{n:.3f}", str(j - i), "yes" if one["tokens"][i] == one["tokens"][j] else "no",
            "yes" if one["sentences"][i] == one["sentences"][j] >= 0 else "no"] for head in one["heads"] for i, j, n in head["pairs"]]
    assert [row for row in rows if row[0] != "Positions"] == due and due


LINE = re.compile(r'<path d="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)"([^>]*)')


def uprights(svg, attributes):
    """The places of upright lines with these attributes, in the order of drawing."""
    return [float(x) for x, _, other, _, rest in LINE.findall(svg) if x == other and attributes in rest]


def test_charts_of_heads_show_their_own_chance_and_intervals(headscope, tmp_path):
    """Dotted lines of figures 8 and 11a are at the heads' chance; the dots of stability have intervals."""
    ndjson(tmp_path / "in", texts(60, seed=8))
    done = corpus(headscope, tmp_path / "in", "-o", tmp_path / "out", "--layers", "last", "--max-tokens", "24")
    assert done.returncode == 0, done.stderr
    source = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    said = json.loads((tmp_path / "out" / "report.json").read_text())
    heads = said["head_figures"][said["threshold_main"]][0]
    chance = said["chance"]["same_sentence_share"]
    charts = {name: re.findall(r"<svg.*?</svg>", re.search(rf'<figure id="figure-{name}".*?</figure>', source, re.S)[0], re.S)
              for name in ("8", "11a", "stability")}
    dotted, dashed = (uprights(charts["8"][0], f'stroke-dasharray="{dash}.00') for dash in (1, 3))
    own = numpy.array([head["same_sentence_share"]["chance_same_distance"] for head in heads])
    assert len(dotted) == len(dashed) == 12
    far = abs(own - chance) > 0.02
    steps = (numpy.array(dotted) - dashed)[far] / (own - chance)[far]
    assert far.sum() > 3 and steps.min() > 0 and numpy.ptp(steps) < 0.02 * steps.max()
    assert len(uprights(charts["11a"][0], 'stroke-dasharray="1.00')) == 12
    for chart, name in zip(charts["stability"], ["repeated_share", "same_sentence_share", "mean_distance", "focal_share"]):
        lengths = [abs(float(below) - float(above)) for x, below, other, above, rest in LINE.findall(chart)
                   if x == other and "2f6fb8" in rest]
        widths = [head[name]["high"] - head[name]["low"] for head in heads]
        assert len(lengths) == 12
        numpy.testing.assert_allclose(lengths / numpy.max(lengths), widths / numpy.max(widths), atol=0.02)


def test_contents_lead_to_every_part(headscope, tmp_path):
    ndjson(tmp_path / "in", texts(12, seed=8))
    done = corpus(headscope, tmp_path / "in", "-o", tmp_path / "out", "--layers", "last")
    assert done.returncode == 0, done.stderr
    source = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    contents = re.search(r'<nav class="contents".*?</nav>', source, re.S)[0]
    parts = re.findall(r'<(?:figure|section) id="([^"]+)"', source)
    assert sorted(re.findall(r'href="#([^"]+)"', contents)) == sorted(parts) and len(parts) == len(FIGURES) + 5


def shown(svg):
    """The texts of a chart: (left, right, baseline, size, words), those that read upwards left out."""
    root = ElementTree.fromstring(svg)
    found = []
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        if text.get("transform"):
            continue
        x, y, size = (float(text.get(name)) for name in ("x", "y", "font-size"))
        width = size * sum(0.4 if letter in "fijlrt.,:;'|!()[] " else 0.62 for letter in text.text or "")
        left = x - {"start": 0, "middle": width / 2, "end": width}[text.get("text-anchor")]
        found.append((left, left + width, y, size, text.text))
    return found


def test_charts_have_readable_labels_that_do_not_overlap(headscope, tmp_path):
    ndjson(tmp_path / "in", texts(12, seed=8))
    done = corpus(headscope, tmp_path / "in", "-o", tmp_path / "out", "--max-tokens", "24")
    assert done.returncode == 0, done.stderr
    source = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    figure = re.search(r'<figure id="figure-6a".*?</figure>', source, re.S)[0]
    assert {f"head {h}" for h in range(12)} <= {row[4] for row in shown(re.search(r"<svg.*?</svg>", figure, re.S)[0])}
    for number in ("6a", "6b", "7", "8", "11a", "11b"):  # bars are shares of what they count
        figure = re.search(rf'<figure id="figure-{number}".*?</figure>', source, re.S)[0]
        heights = [float(text) for text in re.findall(r'text-anchor="end"[^>]*>([\d.]+)<', figure)]
        assert heights and max(heights) <= 1, number
    for svg in re.findall(r"<svg.*?</svg>", source, re.S):
        rows = shown(svg)
        assert rows and all(size >= 5 for _, _, _, size, _ in rows)
        for i, (left, right, y, size, words) in enumerate(rows):
            for other_left, other_right, other_y, _, other in rows[:i]:
                apart = abs(y - other_y) > 0.8 * size or min(right, other_right) - max(left, other_left) < 0.2 * size
                assert apart, (words, other, svg[:300])


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
