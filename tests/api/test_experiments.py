"""Interventions and their changes against tests/reference/experiments.py, and invariants."""
import io
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import served_models

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import analysis  # noqa: E402
import checkpoint  # noqa: E402
import family_nomic_bert  # noqa: E402
import predictor  # noqa: E402
from experiments import Intervention, divergence, forward  # noqa: E402
from test_predictions import CHECKPOINTS  # noqa: E402

MINI = Path(__file__).resolve().parents[2] / "model" / "mini"
TEXT = "The war ended in 1945. It was a long war, and Paris is the [MASK] of France."
OUTPUTS = ["attentions", "similarities", "head_outputs", "hidden_states"]
LAYERS, HEADS = list(range(12)), list(range(12))

SETS = {
    "one head": [Intervention([3], [7], "zero")],
    "a layer": [Intervention([0], HEADS, "zero")],
    "all": [Intervention(LAYERS, HEADS, "mean")],
    "scaled": [Intervention([2, 9], [0, 11], "scale", -1.5), Intervention([2], [11], "scale", 2.0)],
    "maps": [Intervention([1, 4], [2, 3], "uniform"), Intervention([4, 5], [5], "identity")],
    "cut": [Intervention(LAYERS, HEADS, "cut", distance=5), Intervention([2], [4, 7], "cut", distance=1),
            Intervention([3], [4], "uniform")],
    "together": [Intervention([6], [1, 2], "uniform"), Intervention([6], [2, 3], "mean"),
                 Intervention([6], [3], "scale", 0.25), Intervention([8], HEADS[::2], "zero")],
}


def as_request(interventions):
    return [{name: value for name, value in change._asdict().items() if value is not None} for change in interventions]


def answer(server, interventions, **options):
    body = {"text": TEXT, "layers": "all", "outputs": OUTPUTS, "interventions": interventions, **options}
    got = server.post("/analyze?format=npz", body)
    assert got.status == 200, got.body
    return dict(np.load(io.BytesIO(got.body)))


def relative(changed, baseline, axes):
    return np.sqrt(((changed - baseline) ** 2).sum(axes)) / np.sqrt((baseline**2).sum(axes))


@pytest.fixture(scope="module")
def model():
    return checkpoint.load(MINI)


@pytest.mark.parametrize("name", SETS)
def test_interventions_are_those_of_the_reference(server, model, name):
    got = answer(server, as_request(SETS[name]))
    ids, types = got["input_ids"], got["token_type_ids"]
    changed, baseline = forward(model, ids, types, SETS[name]), forward(model, ids, types, [])
    similarities = [analysis.similarity(heads.outputs) for heads in (changed, baseline)]
    for mine, expected in [("attentions", changed.attentions), ("head_outputs", changed.outputs),
                           ("similarities", similarities[0]), ("hidden_states", changed.hidden_states)]:
        np.testing.assert_allclose(got[mine], expected, rtol=0, atol=2e-5 * np.abs(expected).max(), err_msg=mine)
    for mine, expected in [("hidden", relative(changed.hidden_states, baseline.hidden_states, -1)),
                           ("attentions", relative(changed.attentions, baseline.attentions, (-1, -2))),
                           ("similarities", relative(*similarities, (-1, -2)))]:
        np.testing.assert_allclose(got["changes_" + mine], expected, rtol=1e-3, atol=1e-5, err_msg=mine)


def test_a_cut_longer_than_the_text_changes_no_bit(server):
    got, plain = answer(server, [{"kind": "cut", "distance": 511}]), answer(server, [])
    for name in OUTPUTS:
        assert np.array_equal(got[name], plain[name])


@pytest.mark.parametrize("change, pointer", [
    ({"kind": "cut"}, "/distance"), ({"kind": "cut", "distance": 0}, "/distance"), ({"kind": "cut", "distance": 1.5}, "/distance"),
    ({"kind": "zero", "distance": 3}, "/distance"), ({"kind": "cut", "distance": 3, "factor": 2}, "/factor"),
])
def test_wrong_distances_are_refused(server, change, pointer):
    got = server.post("/analyze", {"text": TEXT, "interventions": [change]})
    assert (got.status, got.json()["pointer"]) == (422, "/interventions/0" + pointer)


def test_a_scale_of_1_changes_no_bit(server):
    got = answer(server, [{"kind": "scale", "factor": 1}])
    plain = server.post("/analyze?format=npz", {"text": TEXT, "layers": "all", "outputs": OUTPUTS})
    for name, array in np.load(io.BytesIO(plain.body)).items():
        if name != "request":
            np.testing.assert_array_equal(got[name], array)
    for name in ["changes_hidden", "changes_attentions", "changes_similarities"]:
        assert not got[name].any()


def test_the_last_layer_changes_no_map_but_its_own_similarities(server):
    got = answer(server, [{"layers": [-1], "heads": [4], "kind": "zero"}])
    assert not got["changes_attentions"].any()
    assert not np.delete(got["changes_similarities"], 11, 0).any() and got["changes_similarities"][11, 4] == 1
    assert not got["changes_hidden"][:-1].any() and got["changes_hidden"][-1].all()


def test_the_order_of_a_set_does_not_matter(server):
    changes = as_request(SETS["together"])
    first, second = answer(server, changes), answer(server, changes[::-1])
    for name in set(first) - {"request"}:
        np.testing.assert_array_equal(first[name], second[name])


def test_a_selection_has_its_own_changes_and_all_hidden_ones(server):
    changes = as_request(SETS["one head"])
    whole = answer(server, changes)
    part = answer(server, changes, layers=[3, 5], heads=[1, 7])
    assert part["changes_hidden"].shape == whole["changes_hidden"].shape
    for name in ["changes_attentions", "changes_similarities"]:
        np.testing.assert_allclose(part[name], whole[name][np.ix_([3, 5], [1, 7])], rtol=1e-3, atol=1e-6)


def test_the_cache_keeps_them_apart(server):
    body = {"text": TEXT + " Once more.", "outputs": ["similarities"], "digits": 9}
    changed = {**body, "interventions": [{"kind": "mean", "layers": [0]}]}
    first = [server.post("/analyze", request).json() for request in (body, changed, body, changed)]
    assert first[0] == first[2] and first[1] == first[3]
    assert first[0]["similarities"] != first[1]["similarities"]


def test_earlier_requests_change_nothing(server, start_server):
    """Layers that a baseline shares come from whatever the cache holds of it; a server without one computes all."""
    text = {"text": TEXT + " Twice more."}
    requests = [{}, {"outputs": ["hidden_states"], "layers": "all"}, {"interventions": as_request(SETS["one head"])},
                {"interventions": as_request(SETS["maps"]), "layers": [1, 4], "heads": [2]}, {"outputs": ["effects"], "layers": [9]},
                {"interventions": [{"kind": "mean", "layers": [11]}], "outputs": ["pairs"]},
                {"interventions": [{"kind": "mean", "layers": [11]}, {"kind": "zero", "layers": [7]}], "layers": "all"}]
    fresh = start_server("--cache", "0")
    for body in [*requests, *requests[::-1]]:
        whole = {**text, **body, "digits": 9}
        assert server.post("/analyze", whole).json() == fresh.post("/analyze", whole).json()


@pytest.mark.parametrize("lens", [False, True])
def test_changes_tell_what_the_baseline_predicts(server, lens):
    body = {"text": TEXT, "outputs": [], "digits": 9, "predictions": {"positions": [1, 18], "top_k": 3, "lens": lens}}
    plain = server.post("/analyze", body).json()["predictions"]
    changed = server.post("/analyze", {**body, "interventions": as_request(SETS["a layer"])}).json()
    assert changed["changes"]["predictions"] == plain != changed["predictions"]
    arrays = answer(server, as_request(SETS["a layer"]), outputs=[], predictions=body["predictions"])
    names = [name for name in arrays if name.startswith("predictions_")]
    assert len(names) == (11 if lens else 6)
    expected = dict(np.load(io.BytesIO(server.post("/analyze?format=npz", body).body)))
    for name in names:
        np.testing.assert_array_equal(arrays["changes_" + name], expected[name])


def test_json_says_what_npz_says(server):
    changes = as_request(SETS["scaled"])
    arrays = answer(server, changes, outputs=[])
    said = server.post("/analyze", {"text": TEXT, "layers": "all", "outputs": [], "digits": 9,
                                    "interventions": changes}).json()["changes"]
    for name in ["hidden", "attentions", "similarities"]:
        np.testing.assert_array_equal(np.array(said[name], "f4"), arrays["changes_" + name])


# ---- effects ----

EFFECTS = ["hidden_change", "similarity_change", "prediction_kl", "logprob_change"]


def effects(server, **options):
    """name -> [l][h]"""
    got = server.post("/analyze?format=npz", {"text": TEXT, "layers": "all", "outputs": ["effects"], **options})
    assert got.status == 200, got.body
    return dict(np.load(io.BytesIO(got.body)))


def mask_id(server, model="mini"):
    return server.post("/tokenize", {"text": "[MASK]", "model": model}).json()["input_ids"][1]


def expected_changes(layer, baseline, changed):
    """hidden_change and similarity_change. baseline and changed: (hidden states, similarities)."""
    similarities = relative(changed[1], baseline[1], (-1, -2))[layer + 1:]
    return [relative(changed[0][-1], baseline[0][-1], -1).mean(), similarities.mean() if similarities.size else 0]


def expected_predictions(p, q, positions, ids, mask):
    """prediction_kl and logprob_change, of the last layer's probabilities [T][V]."""
    known = [at for at in positions if ids[at] != mask]
    return [divergence(p[positions], q[positions]).mean(), np.log(q[known, ids[known]] / p[known, ids[known]]).mean()]


def test_effects_are_those_of_the_reference(server, model):
    positions = [3, 17, 18]
    got = effects(server, predictions={"positions": positions})
    ids, types = got["input_ids"], got["token_type_ids"]
    baseline = forward(model, ids, types, [])
    known = predictor.probabilities(MINI, baseline.hidden_states[-1:])[0]
    for layer, head in [(0, 0), (0, 11), (1, 5), (4, 3), (7, 9), (10, 2), (11, 5)]:
        changed = forward(model, ids, types, [Intervention([layer], [head], "zero")])
        odds = predictor.probabilities(MINI, changed.hidden_states[-1:])[0]
        both = [(heads.hidden_states, analysis.similarity(heads.outputs)) for heads in (baseline, changed)]
        expected = [*expected_changes(layer, *both), *expected_predictions(known, odds, positions, ids, mask_id(server))]
        for name, value in zip(EFFECTS, expected):
            np.testing.assert_allclose(got["effects_" + name][layer, head], value, rtol=1e-3, err_msg=name,
                                       atol=1e-6 if name == "logprob_change" else 1e-8)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("experiments")
    with_head = {name: predictor.add(module.write_random(root / name, **shape), **head)
                 for name, (module, shape, head) in CHECKPOINTS.items()}
    return {**with_head, "nomic_bert": family_nomic_bert.write_random(root / "nomic_bert")}


@pytest.fixture(scope="module")
def families(folders):
    yield from served_models(folders)


SHORT = "the war of [MASK] was at the airport for [MASK] police"


@pytest.mark.parametrize("name", [*CHECKPOINTS, "nomic_bert"])
def test_effects_are_what_interventions_change(families, folders, name):
    has_head = name in CHECKPOINTS
    request = {"text": SHORT, "model": name, **({"predictions": {"positions": "all"}} if has_head else {})}
    got = effects(families, **request)
    assert ("effects_prediction_kl" in got) == has_head

    def pass_with(**change):
        arrays = answer(families, [change], outputs=["hidden_states", "similarities"], **request)
        return arrays["hidden_states"], arrays["similarities"]

    known = pass_with(kind="scale", factor=1)
    for layer, head in np.ndindex(got["effects_hidden_change"].shape):
        changed = pass_with(layers=[int(layer)], heads=[int(head)], kind="zero")
        expected = expected_changes(layer, known, changed)
        if has_head:
            odds = [predictor.probabilities(folders[name], states)[-1] for states, _ in (known, changed)]
            positions = np.arange(len(got["input_ids"]))
            expected += expected_predictions(*odds, positions, got["input_ids"], mask_id(families, name))
        for figure, value in zip(EFFECTS, expected):
            np.testing.assert_allclose(got["effects_" + figure][layer, head], value, rtol=2e-3, atol=2e-6, err_msg=figure)


def test_effects_of_a_selection_are_those_of_all(server):
    whole = effects(server)
    part = effects(server, layers=[2, 11], heads=[0, 7, 8])
    for name in EFFECTS:
        np.testing.assert_array_equal(part["effects_" + name], whole["effects_" + name][np.ix_([2, 11], [0, 7, 8])])


def test_effects_above_an_intervention(server, model):
    """A head that is off already does nothing; others are compared with the changed pass."""
    off = [Intervention([4, 5], [3], "zero"), Intervention([4], [4], "scale", 2.5)]
    got = effects(server, interventions=as_request(off))
    ids, types = got["input_ids"], got["token_type_ids"]
    for name in EFFECTS[:3]:
        assert got["effects_" + name][4, 3] == got["effects_" + name][5, 3] == 0
    baseline = forward(model, ids, types, off)
    for layer, head in [(2, 1), (4, 4), (4, 5)]:
        changed = forward(model, ids, types, [*off, Intervention([layer], [head], "zero")])
        np.testing.assert_allclose(got["effects_hidden_change"][layer, head],
                                   relative(changed.hidden_states[-1], baseline.hidden_states[-1], -1).mean(), rtol=1e-3)
        on = np.array([(at, number) not in [(4, 3), (5, 3)] for at in LAYERS for number in HEADS]).reshape(12, 12)
        both = [analysis.similarity(heads.outputs)[layer + 1:][on[layer + 1:]] for heads in (changed, baseline)]
        np.testing.assert_allclose(got["effects_similarity_change"][layer, head], relative(*both, (-1, -2)).mean(),
                                   rtol=1e-3)


def test_effects_without_anything_to_predict(server):
    got = server.post("/analyze", {"text": "No mask here.", "outputs": ["effects"], "heads": [0, 1]}).json()["effects"]
    assert [list(head) for head in got[0]] == [EFFECTS, EFFECTS]
    for head in got[0]:
        assert head["hidden_change"] > 0 and head["similarity_change"] == 0
        assert head["prediction_kl"] is None and head["logprob_change"] is None
    alone = server.post("/analyze", {"input_ids": [5], "outputs": ["effects"], "layers": [0]}).json()["effects"]
    assert alone[0][0]["similarity_change"] is None and alone[0][0]["hidden_change"] > 0


def test_a_position_behind_the_text(server):
    for outputs in (["effects"], ["predictions"], []):
        refused = server.post("/analyze", {"text": "short", "outputs": outputs, "predictions": {"positions": [1, 50]}})
        assert refused.status == 422 and "position 50" in refused.json()["detail"]
        assert refused.json()["pointer"] == "/predictions/positions"


def test_json_effects_are_the_arrays(server):
    arrays = effects(server, layers=[3, 4], heads=[1, 2, 3])
    said = server.post("/analyze", {"text": TEXT, "layers": [3, 4], "heads": [1, 2, 3], "outputs": ["effects"],
                                    "digits": 9}).json()["effects"]
    for name in EFFECTS:
        values = np.array([[np.nan if head[name] is None else head[name] for head in layer] for layer in said], "f4")
        np.testing.assert_array_equal(values, arrays["effects_" + name])
