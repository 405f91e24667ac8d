"""`headscope corpus` against tests/reference/corpus.py: every array of report.npz.

Counts are equal but for elements within 1e-5 of a threshold or of a bin's edge; how many there were is printed
(pytest -s). Sums agree to the accuracy of the forward pass. HEADSCOPE_TEXTS=200 takes 200 paragraphs.
"""

import json
import lzma
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "reference"))
import checkpoint  # noqa: E402
import corpus  # noqa: E402
import experiments  # noqa: E402
import family_bert  # noqa: E402
import predictor  # noqa: E402

HEADSCOPE = os.environ["HEADSCOPE"]
MINI = ROOT / "model" / "mini"
PARAGRAPHS = ROOT.parent / "shared" / "corpus" / "paragraphs-20k.jsonl.xz"  # too large for the tree
N_PARAGRAPHS = int(os.environ.get("HEADSCOPE_TEXTS", "24"))

# Sums of what the forward pass gives in float32: allowed error for each text.
ERRORS = {"similarity_sum": 1e-3, "first_similarity": 1e-3, "normalized_sum": 1e-3, "attention_mass": 1e-3, "attention_sum": 1e-5,
          "attention_sum_no_columns": 1e-5, "attention_sum_no_columns_no_diagonal": 1e-5, "signal_moments": 1e-1,
          "noise_moments": 1e-1, "signal_strata_sums": 1e-1, "noise_strata_sums": 1e-1, "focal_share_sum": 1e-6,
          "part_focal_share_sum": 1e-6, "even_same_sentence_sum": 1e-9}
PROFILES = 3e-5  # and of a mean


def made_up_texts():
    """Short and long ones from the vocabulary's own words."""
    words = [w for w in (MINI / "vocab.txt").read_text().split("\n") if w.isalpha()]
    rng = np.random.default_rng(7)
    texts = ["war", "Is it? It is."]
    for size in (5, 20, 60, 90, 110, 130, 200):
        chosen = rng.choice(words[:300], size)
        marks = rng.choice(["", "", "", "", "", ",", ",", ".", ".", "!"], size)
        texts.append(" ".join(word + mark for word, mark in zip(chosen, marks)))
    return texts


def short_texts():
    return made_up_texts()[:5]


def pairs_of_words():
    """Those in which something is left without special tokens to compare."""
    return made_up_texts()[1:]


def paragraphs():
    if not PARAGRAPHS.exists():
        pytest.skip(f"{PARAGRAPHS} is not here")
    with lzma.open(PARAGRAPHS, "rt") as lines:
        return [json.loads(next(lines))["text"] for _ in range(N_PARAGRAPHS)]


def token_ids(text, tmp_path):
    output = tmp_path / "tokens.json"
    subprocess.run([HEADSCOPE, "analyze", "--outputs", "pairs", "--heads", "0", "--max-pairs", "0", "--format", "json",
                    "-o", str(output), "-"], input=text.encode(), check=True, timeout=PATIENCE)
    answer = json.loads(output.read_text())
    return np.array(answer["input_ids"]), np.array(answer["special_tokens_mask"], bool)


CENTERED = ["--center", "text"]
# As --special-tokens mask, --attention-threshold and --sentence-ends say.
OTHERWISE = {"attention": 0.5, "ends": ["!", "the"], "masked": True}


def reference_of(texts, tmp_path, attention=0.3, ends=".!?", masked=False, centered=False):
    vocab = (MINI / "vocab.txt").read_text().split("\n")
    model = checkpoint.load(MINI)
    reference = corpus.Corpus(corpus.Options(
        model.n_layers, model.n_heads, cls=vocab.index("[CLS]"), sep=vocab.index("[SEP]"), comma=vocab.index(","),
        tau_a=attention,
        ends={vocab.index(mark) for mark in ends}, vocab_size=len([w for w in vocab if w])))
    for number, text in enumerate(texts):
        ids, special = token_ids(text, tmp_path)
        heads = family_bert.forward(model, ids)
        mean = heads.outputs.mean(-2, keepdims=True) if centered else 0
        similarities = corpus.analysis.similarity(heads.outputs - mean)
        kept = np.flatnonzero(~special) if masked else np.arange(len(ids))
        maps = [array[..., kept[:, None], kept] for array in (heads.attentions, similarities)]
        reference.add(number, ids[kept], special[kept], *maps)
    return reference


def report_of(texts, tmp_path, *options):
    lines, folder = tmp_path / "texts.jsonl", tmp_path / "run"
    lines.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    subprocess.run([HEADSCOPE, "corpus", str(lines), "-o", str(folder), *options], check=True, timeout=PATIENCE,
                   capture_output=True)
    with np.load(folder / "report.npz") as arrays:
        return dict(arrays)


def check_listed(report, reference, name):
    """The listed ids are the most frequent ones, with their counts."""
    counts = reference.arrays[name]
    for l, (ids, listed) in enumerate(zip(report[name + "_ids"], report[name + "_counts"])):
        near = reference.near[name][l]
        some = ids >= 0
        assert (np.diff(listed) <= 0).all() and (listed[~some] == 0).all()
        assert np.abs(counts[l, ids[some]] - listed[some]).sum() <= near
        missing = np.delete(counts[l], ids[some])
        assert missing.max() <= (listed.min() if some.all() else 0) + near


def assert_is_the_references(report, reference, n_texts):
    """Every array of the reference."""
    np.testing.assert_allclose(report["thresholds"], reference.options.thresholds, rtol=1e-6)
    np.testing.assert_array_equal(report["layers"], np.arange(reference.options.n_layers))
    for name in ("focus", "focal"):
        check_listed(report, reference, name)
    for name, expected in reference.means().items():
        if name in ("focus", "focal"):
            continue
        if name.startswith("profiles_"):
            np.testing.assert_allclose(report[name], expected, rtol=PROFILES, atol=PROFILES, err_msg=name)
            continue
        actual, near = report[name], reference.near[name]
        assert actual.shape == expected.shape, name
        difference = np.abs(actual - expected)
        if name in ERRORS:
            difference = np.maximum(difference - ERRORS[name] * np.maximum(n_texts, np.abs(expected)), 0)
        in_all = difference.reshape(*near.shape, -1).sum(-1)
        assert (in_all <= near).all(), (name, (in_all - near).max())
        if near.any():
            print(f"{name}: differs by {in_all.sum():g} of {expected.sum():g}; {near.sum():g} is near an edge")


@pytest.mark.parametrize(("make_texts", "options", "settings"), [
    (made_up_texts, [], {}), pytest.param(paragraphs, [], {}, marks=pytest.mark.slow),
    (short_texts, CENTERED, {"centered": True}),
    pytest.param(made_up_texts, CENTERED, {"centered": True}, marks=pytest.mark.slow),
    pytest.param(paragraphs, CENTERED, {"centered": True}, marks=pytest.mark.slow),
    pytest.param(pairs_of_words, [*CENTERED, "--special-tokens", "mask"], {"centered": True, "masked": True},
                 marks=pytest.mark.slow),
    pytest.param(pairs_of_words, ["--special-tokens", "mask", "--attention-threshold", "0.5", "--sentence-ends", "!,the"],
                 OTHERWISE, marks=pytest.mark.slow),
])
def test_report_is_the_references(make_texts, options, settings, tmp_path):
    texts = make_texts()
    report, reference = report_of(texts, tmp_path, *options), reference_of(texts, tmp_path, **settings)
    assert_is_the_references(report, reference, len(texts))


# ---- experiments ----


def chance_of(seed, number, position):
    """splitmix64, as docs/reference/formulas.md says."""
    whole = (1 << 64) - 1
    x = (seed * 0x9e3779b97f4a7c15 + number * 0xbf58476d1ce4e5b9 + (position + 1) * 0x94d049bb133111eb) & whole
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & whole
    x = (x ^ x >> 27) * 0x94d049bb133111eb & whole
    return ((x ^ x >> 31) >> 11) * 2.0**-53


OFF = [experiments.Intervention([0, 3], [1, 4], "zero"), experiments.Intervention([7], [2], "mean")]


@pytest.mark.slow
@pytest.mark.parametrize("distance", ["cka", "js"])
def test_an_experiment_is_the_references(distance, tmp_path):
    """Similarities of what heads write, with some heads off, their distances, and what the model then predicts."""
    texts, layers = made_up_texts()[1:7], [0, 4, 11]
    changes = tmp_path / "off.json"
    changes.write_text(json.dumps([{k: v for k, v in change._asdict().items() if v is not None} for change in OFF]))
    report = report_of(texts, tmp_path, "--layers", ",".join(map(str, layers)), "--interventions", str(changes),
                       "--similarity-space", "residual", "--head-distances", distance, "--masked-share", "0.3",
                       "--mask-seed", "7")
    model, vocab = checkpoint.load(MINI), (MINI / "vocab.txt").read_text().split("\n")
    sums, hsic, js, n_masked, right, loss = np.zeros((3, 128, 128)), 0, 0, 0, 0, 0.0
    profiles = np.zeros((3, 12))
    for number, text in enumerate(texts):
        ids, special = token_ids(text, tmp_path)
        types, n = np.zeros(len(ids), int), len(ids)
        heads = experiments.forward(model, ids, types, OFF)
        maps = np.array([experiments.residual_similarity(model, l, heads.outputs[l]) for l in layers])
        sums[:, :n, :n] += maps.sum(1)
        flat, looks = maps.reshape(36, n, n), heads.attentions[layers].reshape(36, n, n)
        if n > 3 and distance == "cka":
            hsic = hsic + np.array([[experiments.hsic(one, other) for one in flat] for other in flat])
        js = js + experiments.js_distances(looks)
        profiles += np.trace(heads.attentions[layers], axis1=-2, axis2=-1) / n
        hidden = [i for i in range(n) if not special[i] and chance_of(7, number, i) < np.float32(0.3)]
        masked = np.array(ids)
        masked[hidden] = vocab.index("[MASK]")
        odds = predictor.probabilities(MINI, experiments.forward(model, masked, types, OFF).hidden_states)[-1]
        n_masked += len(hidden)
        right += (odds[hidden].argmax(-1) == ids[hidden]).sum()
        loss -= np.log(odds[hidden, ids[hidden]]).sum()
    scale = np.abs(sums).max((1, 2), keepdims=True)
    np.testing.assert_allclose(report["similarity_sum"] / scale, sums / scale, rtol=0, atol=1e-4)
    np.testing.assert_allclose(report["profiles_self"], profiles / len(texts), rtol=0, atol=PROFILES)
    if distance == "js":
        np.testing.assert_allclose(report["head_distances"], js / len(texts), rtol=0, atol=1e-5)
    else:
        own = hsic.diagonal()
        scale = np.sqrt(np.where(own > 0, own, np.nan))  # not known of a head that is off
        expected = 1 - hsic / np.outer(scale, scale)
        np.testing.assert_allclose(report["head_distances"], expected, rtol=0, atol=1e-4)
    assert report["masked_tokens"] == n_masked > 20 and report["masked_right"] == right
    np.testing.assert_allclose(report["masked_loss_sum"], loss, rtol=1e-4)
