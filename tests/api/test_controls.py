"""Controls of a corpus run: the network with random weights, and the pairs of the longest outputs."""
import json
import lzma
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from corpus_runs import arrays, assert_same, command, corpus, ndjson, report, texts

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import analysis  # noqa: E402
import checkpoint  # noqa: E402
import experiments  # noqa: E402
import family_bert  # noqa: E402
import family_t5  # noqa: E402

MINI = Path(__file__).resolve().parents[2] / "model/mini"
PARAGRAPHS = MINI.parents[2] / "shared/corpus/paragraphs-20k.jsonl.xz"  # too large for the tree
MAIN = 2  # the threshold 0.3

LAYERS = ["--layers", "1,6,11", "--max-tokens", "24"]


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    return ndjson(tmp_path_factory.mktemp("texts") / "texts", texts(40, seed=11))


def run(headscope, lines, folder, *more):
    done = corpus(headscope, lines, *LAYERS, "-o", folder, *more, small=False)
    assert done.returncode == 0, done.stderr
    return folder


def evidence(folder):
    return [claim["evidence"] for claim in report(folder)["findings"]]


@pytest.mark.parametrize("options", [(), ("--center", "text", "--special-tokens", "mask")], ids=["plain", "centred"])
def test_the_control_is_the_model_with_random_weights(headscope, lines, tmp_path, options):
    trained = run(headscope, lines, tmp_path / "trained", "--control", "untrained:7", *options)
    random = run(headscope, lines, tmp_path / "random", "--untrained", "7", "--control", "untrained:7", *options)
    own, of_random = evidence(trained), evidence(random)
    assert [one["untrained"] for one in own] == [one["observed"] for one in of_random]
    assert [one["untrained"] for one in of_random] == [one["observed"] for one in of_random]
    assert all(one["untrained"]["value"] is not None for one in own)
    assert [one["observed"]["value"] for one in own] != [one["untrained"]["value"] for one in own]
    assert not any(claim["verdict"] == "holds" for claim in report(random)["findings"])
    assert report(trained)["provenance"]["options"]["control"] == "untrained:7"


def test_a_control_changes_no_other_figure(headscope, lines, tmp_path):
    alone = run(headscope, lines, tmp_path / "alone", "--control", "none")
    beside = run(headscope, lines, tmp_path / "beside")
    found, other = arrays(alone), arrays(beside)
    assert list(found) == list(other) and all(found[name].tobytes() == other[name].tobytes() for name in found)
    assert {one["untrained"] for one in evidence(alone)} == {None}
    assert [one["observed"] for one in evidence(alone)] == [one["observed"] for one in evidence(beside)]
    options = [report(folder)["provenance"]["options"]["control"] for folder in (alone, beside)]
    assert options == ["none", "untrained:0"]  # on by itself
    page = (beside / "report.html").read_text(encoding="utf-8")
    assert 'data-label="Untrained">' in page


def test_what_random_weights_show_as_well_has_no_effect(headscope, lines, tmp_path):
    """Centred outputs of random weights have most similarities below 0.1, and more than Gaussian ones."""
    below = {}
    for control in ("none", "untrained:1"):
        folder = run(headscope, lines, tmp_path / control, "--untrained", "2", "--center", "text", "--max-tokens", "64",
                     "--control", control)
        below[control], = (f for f in report(folder)["findings"] if "below 0.1" in f["criterion"])
    chance, random, own = (below["untrained:1"]["evidence"][name]["value"] for name in ("chance", "untrained", "observed"))
    assert own > 0.5 and own > chance and abs(own - random) < 0.05 * random
    assert below["untrained:1"]["verdict"] == "no effect"


def test_shards_and_workers_give_the_same_control(headscope, lines, tmp_path):
    whole = run(headscope, lines, tmp_path / "whole", "--workers", "1")
    parts = [run(headscope, lines, tmp_path / str(n), "--shard", f"{n}/2", "--workers", "2") for n in range(2)]
    done = subprocess.run(command(headscope, "merge", *parts[::-1], "-o", tmp_path / "all"), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert_same(whole, tmp_path / "all")
    assert evidence(whole)[0]["untrained"]["low"] is not None
    refused = corpus(headscope, lines, *LAYERS, "-o", whole, "--resume", "--control", "untrained:5", small=False)
    assert refused.returncode == 1 and "another control" in refused.stderr


def test_the_control_is_of_the_first_records(headscope, tmp_path):
    every = [f"{word} {n}" for n in range(672) for word in ("a", "the river", "war is")]
    assert len(every) > 2000
    small = ["--layers", "11", "--max-tokens", "8"]
    shown = []
    for name, n in (("all", len(every)), ("first", 2000)):
        done = corpus(headscope, ndjson(tmp_path / f"{name}.jsonl", every[:n]), *small, "-o", tmp_path / name, small=False)
        assert done.returncode == 0, done.stderr
        shown.append([one and one["untrained"] for one in (f.get("evidence") for f in report(tmp_path / name)["findings"] if f["applies"])])
    assert shown[0] == shown[1]
    assert arrays(tmp_path / "all")["block_texts"].sum() == len(every)


@pytest.mark.parametrize("text", ["trained", "untrained:", "untrained:-1", "untrained:x", "untrained7"])
def test_other_controls_are_refused(headscope, lines, tmp_path, text):
    done = corpus(headscope, lines, "-o", tmp_path / "out", "--control", text)
    assert done.returncode == 1 and "untrained:SEED" in done.stderr


def test_heads_of_a_decoder_have_no_control(headscope, tmp_path):
    folder = family_t5.write_random(tmp_path / "model", seed=3, decoder=True)
    path = tmp_path / "texts.jsonl"
    path.write_text(json.dumps({"text": "a war", "text_target": "the war"}) + "\n")
    for control, code in (("auto", 0), ("none", 0), ("untrained", 1)):
        done = corpus(headscope, path, "--model", folder, "--stack", "decoder", "-o", tmp_path / control, "--max-tokens", "8",
                      "--control", control, small=False)
        assert done.returncode == code, done.stderr
    assert {one["untrained"] for one in evidence(tmp_path / "auto") if one} == {None}


def test_claims_that_training_aimed_at_have_no_verdict(headscope, lines, tmp_path):
    trained = run(headscope, lines, tmp_path / "trained", "--control", "none")
    random = run(headscope, lines, tmp_path / "random", "--untrained", "1", "--control", "none")
    aimed = {claim["id"]: claim["verdict"] == "trained for" for claim in report(trained)["findings"]}
    assert [name for name, is_aimed in aimed.items() if is_aimed] == ["separators", "focal", "threshold"]
    assert all(claim["holds"] is None for claim in report(trained)["findings"] if aimed[claim["id"]])
    assert not any(claim["verdict"] == "trained for" for claim in report(random)["findings"])
    page = (trained / "report.html").read_text(encoding="utf-8")
    assert " of 5 of its claims hold here" in page and "aimed at 3 of the claims" in page
    assert "Specimen" not in (random / "report.html").read_text(encoding="utf-8")


# ---- the longest outputs, against NumPy in float64 ----


def longest(outputs, n_pairs):
    """True at the n_pairs pairs i < j with the largest |o_i| |o_j|; and these products of all pairs."""
    length = np.sqrt((outputs**2).sum(-1))
    products = np.triu(np.outer(length, length), 1)
    chosen = np.zeros(products.size, bool)
    upper = np.flatnonzero(np.triu(np.ones_like(products), 1))
    chosen[upper[np.argsort(-products.ravel()[upper], kind="stable")[:n_pairs]]] = True
    return chosen.reshape(products.shape), products


def head_of(ids, outputs):
    """Overlap, R² of S by lengths, participation ratio, mean distance, repeated pairs and focal position of one head."""
    s = analysis.similarity(outputs)
    high = analysis.high_elements(analysis.normalized(s, np.ones(len(ids), bool))[0], np.ones(len(ids), bool), 0.3)
    chosen, products = longest(outputs, high.sum())
    above = np.triu_indices(len(ids), 1)
    values = np.linalg.eigvalsh(outputs.T @ outputs)
    i, j = chosen.nonzero()
    return {"overlap": (high & chosen).sum(), "high": high.sum(), "r2": np.corrcoef(s[above], products[above])[0, 1] ** 2,
            "participation": values.sum() ** 2 / (values**2).sum(), "distance": (j - i).sum(), "repeated": (ids[i] == ids[j]).sum(),
            "focal": analysis.focal(ids, chosen)[0]}


@pytest.mark.parametrize("space, centered", [("head", False), ("head", True), ("residual", False), ("residual", True)])
def test_longest_outputs(headscope, tmp_path, space, centered):
    lines = [" ".join([*text.split(), "river the war", *text.split()[::2]]) for text in texts(10, seed=3) if len(text) > 40]
    folder = tmp_path / "out"
    done = corpus(headscope, ndjson(tmp_path / "texts", lines), "-o", folder, "--max-tokens", "64", "--control", "none",
                  "--center", "text" if centered else "none", "--similarity-space", space, small=False)
    assert done.returncode == 0, done.stderr
    model, heads, unique = checkpoint.load(MINI), [], []
    for line in lines:
        done = subprocess.run(command(headscope, "analyze", "--outputs", "pairs", "--heads", "0", "--max-pairs", "0", "--format",
                                      "json", "--max-tokens", "64", line), capture_output=True, check=True)
        ids = np.array(json.loads(done.stdout)["input_ids"])
        outputs = family_bert.forward(model, ids).outputs
        if space == "residual":
            outputs = np.stack([experiments.written(model, layer, vectors) for layer, vectors in enumerate(outputs)])
        outputs = outputs - outputs.mean(-2, keepdims=True) * centered
        heads.append([[head_of(ids, outputs[l, h]) for h in range(12)] for l in range(12)])
        unique.append(len({head["focal"] for head in heads[-1][11]} - {-1}))
    total = {name: np.array([[[head[name] for head in layer] for layer in text] for text in heads]).sum(0) for name in heads[0][0][0]}
    found, said = arrays(folder), report(folder)
    assert np.abs(found["longest_overlap"] - total["overlap"]).sum() <= 2  # pairs next to a threshold
    np.testing.assert_allclose(found["length_r2_sum"], total["r2"], rtol=1e-4)
    np.testing.assert_allclose(found["participation_sum"], total["participation"], rtol=1e-4)
    assert (found["length_r2_texts"] == len(lines)).all() and (found["participation_texts"] == len(lines)).all()
    head, layer = said["head_figures"][MAIN][11][3], said["layer_figures"][MAIN][11]
    assert head["longest_overlap"] == pytest.approx(total["overlap"][11, 3] / total["high"][11, 3], abs=1e-3)
    assert head["length_r2"] == pytest.approx(total["r2"][11, 3] / len(lines), rel=1e-4)
    assert layer["longest_overlap"] == pytest.approx(total["overlap"][11].sum() / total["high"][11].sum(), abs=1e-3)
    assert layer["participation_ratio"] == pytest.approx(total["participation"][11].mean() / len(lines), rel=1e-4)
    by_claim = {one["figure"]: one["lengths"] for one in evidence(folder)}
    assert by_claim["different focal tokens"]["value"] == pytest.approx(np.mean(unique), abs=0.2)
    assert by_claim["mean distance"]["value"] == pytest.approx(total["distance"][11].sum() / total["high"][11].sum(), rel=1e-3)
    shares = total["repeated"][11] / total["high"][11]
    assert by_claim["span of heads"]["value"] == pytest.approx(shares.max() - shares.min(), abs=1e-3)
    assert by_claim["attention on separators"] is None and by_claim["similarities below 0.1"] is None


# ---- no claim holds on random weights ----


@pytest.mark.slow
@pytest.mark.parametrize("threshold", ["0.3", "0.5"])
@pytest.mark.parametrize("center", ["none", "text"])
def test_no_claim_holds_on_random_weights(headscope, tmp_path, threshold, center):
    """Three networks of mini's shape, 200 texts each; the control is one of another seed."""
    if not PARAGRAPHS.exists():
        pytest.skip(f"{PARAGRAPHS} is not here")
    with lzma.open(PARAGRAPHS, "rt", encoding="utf-8") as file:
        lines = ndjson(tmp_path / "texts", [json.loads(next(file))["text"] for _ in range(200)])
    for seed in range(1, 4):
        done = corpus(headscope, lines, "--untrained", seed, "--center", center, "--thresholds", threshold, "-o", tmp_path / str(seed),
                      small=False)
        assert done.returncode == 0, done.stderr
        assert not [claim for claim in report(tmp_path / str(seed))["findings"] if claim["verdict"] == "holds"], seed
