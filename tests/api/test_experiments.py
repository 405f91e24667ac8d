"""Interventions and their changes beside tests/reference/experiments.py, and what must hold of them."""
import io
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import analysis  # noqa: E402
import checkpoint  # noqa: E402
from experiments import Intervention, forward  # noqa: E402

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
    "together": [Intervention([6], [1, 2], "uniform"), Intervention([6], [2, 3], "mean"),
                 Intervention([6], [3], "scale", 0.25), Intervention([8], HEADS[::2], "zero")],
}


def told(interventions):
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
    got = answer(server, told(SETS[name]))
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
    changes = told(SETS["together"])
    first, second = answer(server, changes), answer(server, changes[::-1])
    for name in set(first) - {"request"}:
        np.testing.assert_array_equal(first[name], second[name])


def test_a_selection_has_its_own_changes_and_all_hidden_ones(server):
    changes = told(SETS["one head"])
    whole = answer(server, changes)
    part = answer(server, changes, layers=[3, 5], heads=[1, 7])
    assert part["changes_hidden"].shape == whole["changes_hidden"].shape
    for name in ["changes_attentions", "changes_similarities"]:
        np.testing.assert_allclose(part[name], whole[name][np.ix_([3, 5], [1, 7])], rtol=1e-3, atol=1e-6)


def test_the_cache_keeps_them_apart(server):
    body = {"text": TEXT + " Once more.", "outputs": ["similarities"], "digits": 9}
    changed = {**body, "interventions": [{"kind": "mean", "layers": [0]}]}
    first = [server.post("/analyze", asked).json() for asked in (body, changed, body, changed)]
    assert first[0] == first[2] and first[1] == first[3]
    assert first[0]["similarities"] != first[1]["similarities"]


def test_json_says_what_npz_says(server):
    changes = told(SETS["scaled"])
    arrays = answer(server, changes, outputs=[])
    said = server.post("/analyze", {"text": TEXT, "layers": "all", "outputs": [], "digits": 9,
                                    "interventions": changes}).json()["changes"]
    for name in ["hidden", "attentions", "similarities"]:
        np.testing.assert_array_equal(np.array(said[name], "f4"), arrays["changes_" + name])
