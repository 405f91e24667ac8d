"""The signal-to-noise ratio of corpus runs, against least squares by NumPy from the service's own maps.

The slow test computes 200 paragraphs by a forward pass of its own in float64, plain and centred.
"""
import io
import json
import lzma
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import MINI
from corpus_runs import SMALL, arrays, assert_same, command, corpus, ndjson, report, texts

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "reference"))
import analysis  # noqa: E402
import checkpoint  # noqa: E402
import family_bert  # noqa: E402
import signal_noise  # noqa: E402

PARAGRAPHS = ROOT.parent / "shared" / "corpus" / "paragraphs-20k.jsonl.xz"  # too large for the tree
N_TEXTS, MAIN = 36, 2


def analyzed(headscope, text, *options):
    done = subprocess.run(command(headscope, "analyze", *options, "--format", "npz", "-"), input=text.encode(),
                          capture_output=True, check=True)
    with np.load(io.BytesIO(done.stdout)) as maps:
        return dict(maps)


def reference_of(headscope, lines, *options):
    found = signal_noise.SignalNoise(2, 12)
    for number, line in enumerate(lines):
        maps = analyzed(headscope, line, *SMALL[:4], "--outputs", "similarities", *options)  # without the control
        found.add(number, maps["input_ids"], maps["special_tokens_mask"], maps["sentence_ids"], maps["similarities"])
    return found


@pytest.fixture(scope="module", params=[(), ("--center", "text")], ids=["plain", "centred"])
def run(request, headscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("signal")
    lines = texts(N_TEXTS, seed=42)
    done = corpus(headscope, ndjson(folder / "texts.jsonl", lines), "-o", folder / "out", *request.param)
    assert done.returncode == 0, done.stderr
    return folder, reference_of(headscope, lines, *request.param), request.param


def assert_sums(data, due, tolerance):
    np.testing.assert_array_equal(data["snr_yy"], due.yy)
    np.testing.assert_allclose(data["snr_xx"], due.xx[0], rtol=1e-9, atol=1e-3)
    np.testing.assert_allclose(data["snr_xy"], due.xy[0], rtol=0, atol=tolerance * np.abs(due.xy).max())
    np.testing.assert_allclose(data["snr"], due.ratio(), rtol=0, atol=tolerance)
    for null in range(3):
        np.testing.assert_allclose(data["snr_null"][null], due.ratio(1 + null), rtol=0, atol=tolerance)


def test_ratios_are_those_of_least_squares(run):
    folder, due, _ = run
    assert_sums(arrays(folder / "out"), due, 1e-5)  # the fits to a few short texts amplify errors


def decibels(ratio):
    return 10 * np.log10(ratio) if ratio > 0 else None


def test_report_has_decibels_nulls_and_intervals(run):
    said, data = report(run[0] / "out"), arrays(run[0] / "out")
    highest = data["snr_null"].max(0)
    for l in range(2):
        for h in range(12):
            head = said["head_figures"][MAIN][l][h]
            assert head["snr"] == pytest.approx(data["snr"][l, h], rel=1e-9)
            assert head["snr_db"] == (pytest.approx(decibels(data["snr"][l, h])) if data["snr"][l, h] > 0 else None)
            assert head["snr_null"] == pytest.approx(highest[l, h], rel=1e-9)
            interval = head["intervals"]["snr"]
            assert interval["low"] < head["snr"] < interval["high"] and 0 <= interval["p_adjusted"] <= 1
            assert head["intervals"]["snr_db"]["high"] == pytest.approx(decibels(interval["high"]))
    summary = said["signal_noise"]
    assert summary["heads"] == 24 and summary["null"] == pytest.approx(highest.max(), rel=1e-9)
    assert summary["heads_above_null"] == (data["snr"] > highest.max()).sum()


def test_terms_are_added_last(run):
    said, due = report(run[0] / "out"), run[1]
    for k, term in enumerate(["identity", "sentence", "product"]):
        expected = due.term(9 + k)
        heads = said["head_figures"][MAIN]
        found = np.array([[head[f"snr_{term}"] for head in layer] for layer in heads])
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
        for l, layer in enumerate(heads):
            for h, head in enumerate(layer):
                assert head["intervals"][f"snr_{term}"]["low"] < found[l, h] < head["intervals"][f"snr_{term}"]["high"]
        row = said["signal_noise"]["terms"][1 + k]
        l, h = divmod(int(found.argmax()), 12)
        assert (row["term"], row["layer"], row["head"]) == (term, (0, 2)[l], h)
        for name, value in [("highest_db", found.max()), ("median_db", np.median(found))]:
            assert row[name] == (pytest.approx(decibels(value)) if value > 0 else None)
    assert said["signal_noise"]["terms"][0]["highest_db"] == pytest.approx(decibels(due.ratio().max()), abs=1e-2)


def test_terms_of_one_sentence_texts_are_identity_alone(headscope, tmp_path):
    """"Same sentence" is constant there, and "both" is "same token": neither has a ratio, or takes that of the other."""
    lines = ndjson(tmp_path / "texts", [re.sub("[.!?]", "and", text) for text in texts(N_TEXTS, seed=42)])
    done = corpus(headscope, lines, "-o", tmp_path / "out", "--control", "untrained:7")
    assert done.returncode == 0, done.stderr
    said = report(tmp_path / "out")
    for head in (head for layer in said["head_figures"][MAIN] for head in layer):
        assert head["snr_identity"] == pytest.approx(head["snr"], abs=1e-9) and head["snr"] != 0
        assert head["snr_sentence"] is head["snr_product"] is None
        assert head["intervals"]["snr_product"] == {"low": None, "high": None}
    _, identity, *others = said["signal_noise"]["terms"]
    assert identity["highest_db"] is not None and identity["untrained"]["highest_db"] is not None
    nothing = dict.fromkeys(["layer", "head", "highest_db", "low_db", "high_db", "median_db", "untrained"])
    assert others == [{"term": term, **nothing} for term in ("sentence", "product")]
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert '<th scope="row">sentence</th><td>–</td><td' in page


def test_terms_stand_beside_those_of_random_weights(headscope, tmp_path):
    lines = ndjson(tmp_path / "texts", texts(N_TEXTS, seed=42))
    for name, options in [("trained", []), ("random", ["--untrained", "7"])]:
        done = corpus(headscope, lines, "-o", tmp_path / name, "--control", "untrained:7", *options)
        assert done.returncode == 0, done.stderr
    trained, random = report(tmp_path / "trained"), report(tmp_path / "random")
    for of, own, name in zip(trained["signal_noise"]["terms"], random["signal_noise"]["terms"], ["snr", "snr_identity", "snr_sentence", "snr_product"],
                             strict=True):
        assert of["untrained"]["highest_db"] == own["untrained"]["highest_db"] == own["highest_db"] != of["highest_db"]
        assert of["untrained"]["median_db"] == own["median_db"] and own["untrained"]["heads_above"] == 0
        ratios, others = (np.array([[head[name] for head in layer] for layer in run["head_figures"][MAIN]]) for run in (trained, random))
        assert of["untrained"]["heads_above"] == (ratios > others.max()).sum()
    assert corpus(headscope, lines, "-o", tmp_path / "alone", "--control", "none").returncode == 0
    assert all(term["untrained"] is None for term in report(tmp_path / "alone")["signal_noise"]["terms"])
    page = (tmp_path / "trained" / "report.html").read_text(encoding="utf-8")
    assert "Untrained: highest, dB" in page and f"<td>{trained['signal_noise']['terms'][1]['highest_db']:.1f}</td>" in page


def test_best_heads_are_chosen_on_even_texts_and_measured_on_odd_ones(run):
    said, due = report(run[0] / "out"), run[1]
    gain, rest = due.halves()
    even, odd = gain / rest
    order = np.argsort(-even, axis=None)
    assert said["signal_noise"]["best"]
    for place, best in enumerate(said["signal_noise"]["best"]):
        l, h = divmod(int(order[place]), 12)
        assert (best["layer"], best["head"]) == ((0, 2)[l], h)
        for name, value in [("chosen_db", even[l, h]), ("other_half_db", odd[l, h])]:
            expected = decibels(value)
            assert best[name] == (None if expected is None else pytest.approx(expected, abs=1e-2))


def test_page_explains_the_ratio(run):
    page = (run[0] / "out" / "report.html").read_text(encoding="utf-8")
    assert 'id="signal_noise"' in page and "heads are above the null" in page
    assert len(re.findall("<tr[ >]", page)) == page.count("</tr>")


def test_the_colour_bar_has_the_range_of_the_ratios(run):
    page = (run[0] / "out" / "report.html").read_text(encoding="utf-8")
    grid = page.split('id="figure-noise"')[1].split("</svg>")[0]
    heads = report(run[0] / "out")["head_figures"][MAIN]
    known = [head["snr_db"] for layer in heads for head in layer if head["snr_db"] is not None]
    *numbers, low, words = re.findall("<text[^>]*>([^<]*)", grid)[-4:]
    assert words == "decibels" and low == f"{min(known):.3g}" and f"{max(known):.3g}" in numbers


def test_the_colour_bar_of_one_ratio_has_a_width(headscope, tmp_path):
    done = corpus(headscope, ndjson(tmp_path / "texts", texts(6, seed=19)), "-o", tmp_path / "out", "--control", "none", "--layers", "0",
                  "--max-tokens", "24", small=False)
    assert done.returncode == 0, done.stderr
    known = [head["snr_db"] for head in report(tmp_path / "out")["head_figures"][MAIN][0] if head["snr_db"] is not None]
    assert len(known) == 1
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    *numbers, low, words = re.findall("<text[^>]*>([^<]*)", page.split('id="figure-noise"')[1].split("</svg>")[0])[-4:]
    assert "decibels".startswith(words.rstrip("…")) and low == f"{known[0]:.3g}" and f"{known[0] + 1:.3g}" in numbers


def test_shards_and_interrupted_runs_have_the_same_ratios(headscope, run, tmp_path):
    folder, _, options = run
    parts = [tmp_path / str(n) for n in range(3)]
    for n, part in enumerate(parts):
        assert corpus(headscope, folder / "texts.jsonl", "-o", part, "--shard", f"{n}/3", *options).returncode == 0
    done = subprocess.run(command(headscope, "merge", *parts[::-1], "-o", tmp_path / "all"), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert_same(folder / "out", tmp_path / "all")
    assert report(tmp_path / "all")["signal_noise"] == report(folder / "out")["signal_noise"]


def test_texts_of_one_token_have_no_ratio(headscope, tmp_path):
    assert corpus(headscope, ndjson(tmp_path / "texts", ["war"] * 12), "-o", tmp_path / "out").returncode == 0
    said = report(tmp_path / "out")
    head = said["head_figures"][MAIN][0][0]
    assert head["snr"] is None and head["snr_db"] is None and head["snr_null"] is None
    terms = said["signal_noise"].pop("terms")
    assert said["signal_noise"] == {"null": None, "null_db": None, "heads_above_null": 0, "heads": 24, "best": []}
    assert all(term["highest_db"] is None and term["median_db"] is None for term in terms)


@pytest.mark.slow
@pytest.mark.parametrize("centred", [False, True])
def test_ratios_of_paragraphs_by_a_forward_pass_in_float64(headscope, centred, tmp_path):
    if not PARAGRAPHS.exists():
        pytest.skip(f"{PARAGRAPHS} is not here")
    with lzma.open(PARAGRAPHS, "rt") as lines:
        chosen = [json.loads(next(lines))["text"] for _ in range(200)]
    options = ["--center", "text"] if centred else []
    assert corpus(headscope, ndjson(tmp_path / "texts", chosen), "-o", tmp_path / "out", *options, small=False).returncode == 0
    model, due = checkpoint.load(MINI), signal_noise.SignalNoise(12, 12)
    for number, text in enumerate(chosen):
        given = analyzed(headscope, text, "--outputs", "pairs", "--max-pairs", "0")
        outputs = family_bert.forward(model, given["input_ids"]).outputs
        similarities = analysis.similarity(outputs - (outputs.mean(-2, keepdims=True) if centred else 0))
        due.add(number, given["input_ids"], given["special_tokens_mask"], given["sentence_ids"], similarities)
    data = arrays(tmp_path / "out")
    assert_sums(data, due, 1e-6)
    shutil.rmtree(tmp_path / "out")
