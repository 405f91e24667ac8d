"""The figures of a summary that the lengths of a head's outputs give, against NumPy in float64.

They are recomputed from the answer's own head outputs, similarities and pairs. Lengths are of float32 numbers, so
pairs whose products differ by less than 1e-6 may count either way.
"""
import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import HEADSCOPE, PATIENCE

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import checkpoint  # noqa: E402
import experiments  # noqa: E402

MINI = Path(__file__).resolve().parents[2] / "model/mini"
TEXT = ("The police at the airport were new. The airport was built after the war, and the war was long: the city had no "
        "money, no police and no airport! Who was in charge of it? An old office of the city, as many said.")
ZEROED = {"layers": "all", "heads": [3], "kind": "zero"}
CONSTANT = {"layers": "all", "heads": "all", "kind": "mean"}


def ask(server, text=TEXT, **fields):
    body = {"text": text, "layers": "all", "heads": "all", "max_pairs": 100000, "threshold": 0.3,
            "outputs": ["head_outputs", "similarities", "summary", "pairs"], **fields}
    answer = server.post("/analyze?format=npz", body)
    assert answer.status == 200, answer.body
    with np.load(io.BytesIO(answer.body)) as arrays:
        return dict(arrays)


def measured(found, fields):
    """[l][h][T][d]: the vectors that similarities are of."""
    vectors = found["head_outputs"].astype(float)
    if fields.get("similarity_space") == "residual":
        model = checkpoint.load(MINI)
        vectors = np.stack([experiments.written(model, layer, of) for layer, of in enumerate(vectors)])
    if fields.get("center") == "text":
        vectors = vectors - vectors.mean(-2, keepdims=True)
    return vectors


def bounds_of_overlap(vectors, high, keep):
    """The least and the largest number of high pairs that can be among as many of the longest outputs."""
    length = np.sqrt((vectors**2).sum(-1))
    products = np.outer(length, length)
    counted = np.triu(np.outer(keep, keep), 1)
    cut = np.sort(products[counted])[-high.sum()]
    near = counted & (np.abs(products - cut) <= 1e-6 * cut)
    sure = (high & (products > cut) & ~near).sum()
    return sure, sure + (high & near).sum()


def check(found, fields):
    vectors, special = measured(found, fields), found["special_tokens_mask"].astype(bool)
    keep = ~special if fields.get("special_tokens") == "mask" else np.ones(len(special), bool)
    n_undefined = 0
    for l, h in np.ndindex(vectors.shape[:2]):
        mine = (found["pairs_layer"] == found["layers"][l]) & (found["pairs_head"] == found["heads"][h])
        high = np.zeros((len(keep), len(keep)), bool)
        high[found["pairs_i"][mine], found["pairs_j"][mine]] = True
        assert high.sum() == found["summary_high_pairs"][l, h] == mine.sum()
        overlap, ratio = found["summary_longest_overlap"][l, h], found["summary_participation_ratio"][l, h]
        if high.any():
            least, most = bounds_of_overlap(vectors[l, h], high, keep)
            assert least - 1e-5 <= overlap * high.sum() <= most + 1e-5 * high.sum()
        else:
            assert np.isnan(overlap)
            n_undefined += 1
        kept = vectors[l, h][keep]
        values = np.linalg.eigvalsh(kept.T @ kept)
        if values.max(initial=0) > 0:
            np.testing.assert_allclose(ratio, values.sum() ** 2 / (values**2).sum(), rtol=1e-5)
            s = found["similarities"][l, h][np.ix_(keep, keep)].astype(float)
            squares = (kept**2).sum(-1)
            np.testing.assert_allclose(ratio, squares.sum() ** 2 / ((s**2).sum() + (squares**2).sum()), rtol=1e-5)
        else:
            assert np.isnan(ratio)
    return n_undefined


@pytest.mark.parametrize("fields", [
    {}, {"center": "text"}, {"similarity_space": "residual"}, {"special_tokens": "mask"},
    {"center": "text", "special_tokens": "mask", "threshold": 0.6}, {"interventions": [ZEROED]}],
    ids=["plain", "centred", "residual", "masked", "centred, masked", "zeroed"])
def test_lengths_of_mini(server, fields):
    found = ask(server, **fields)
    assert check(found, fields) == (12 if "interventions" in fields else 0)
    overlap = found["summary_longest_overlap"]
    assert np.nanmin(overlap) < np.nanmax(overlap) == 1


def test_one_token_has_no_pairs_and_one_direction(server):
    found = ask(server, "war", special_tokens="mask")
    assert check(found, {"special_tokens": "mask"}) == 144
    np.testing.assert_allclose(found["summary_participation_ratio"], 1, rtol=1e-6)


def test_constant_outputs_have_one_direction_and_only_ties(server):
    """All products are equal, so all pairs are those of the longest outputs."""
    found = ask(server, "The war was long.", interventions=[CONSTANT])
    assert (found["summary_high_pairs"] == 7 * 6 // 2).all() and (found["summary_longest_overlap"] == 1).all()
    np.testing.assert_allclose(found["summary_participation_ratio"], 1, rtol=1e-6)


def test_no_outputs_have_no_figures(server):
    fields = {"outputs": ["summary"], "layers": [2], "heads": [3], "interventions": [{"layers": [2], "heads": [3], "kind": "zero"}]}
    head = server.analyze({"text": TEXT, **fields})["summary"][0][0]
    assert head["high_pairs"] == 0 and head["longest_overlap"] is None and head["participation_ratio"] is None
    centred = server.analyze({"text": TEXT, **fields, "center": "text", "interventions": [CONSTANT]})["summary"][0][0]
    assert centred["longest_overlap"] is None and centred["participation_ratio"] is None


@pytest.mark.parametrize("options", [(), ("--center", "text"), ("--similarity-space", "residual")], ids=["plain", "centred", "residual"])
def test_maps_that_are_shown_and_not_kept_give_the_same(tmp_path, options):
    """One thread sees all heads as a pass computes them; the maps of one head are kept."""
    def figures(*heads):
        output = tmp_path / "answer.npz"
        command = [HEADSCOPE, "analyze", "--outputs", "summary", *heads, *options, "--format", "npz", "-o", output, TEXT]
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        with np.load(output) as arrays:
            return {name: of for name, of in arrays.items() if name.startswith("summary_")}

    shown, kept = figures("--layers", "all"), figures("--layers", "7", "--heads", "5")
    for name in ("summary_longest_overlap", "summary_participation_ratio", "summary_high_pairs"):
        assert shown[name].shape == (12, 12) and shown[name][7, 5] == kept[name][0, 0]


def test_a_long_text_has_them_by_strips(start_server):
    """Where --max-maps has no memory for both passes, the changed pass is observed."""
    text, options = " ".join(TEXT.split() * 12), ["--cache", "0"]
    fields = {"max_tokens": 512, "layers": [0, 7], "heads": "all", "outputs": ["summary"], "interventions": [ZEROED]}
    small, large = (start_server(*options, "--max-maps", size).analyze({"text": text, **fields}) for size in ("44M", "1G"))
    assert len(small["tokens"]) == 512 and small["summary"] == large["summary"]
    assert small["summary"][1][0]["longest_overlap"] is not None
