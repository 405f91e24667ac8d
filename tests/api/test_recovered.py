"""effects_of and patch_map beside the interventions that do the same, one pass at a time."""
import io

import numpy as np
import pytest

TEXT, OTHER = "The cat sat on the mat.", "The dog lay on the rug."
TARGET = {"tokens": ["cat", "dog"], "position": 2}
FIGURES = ["hidden_change", "similarity_change", "prediction_kl", "logprob_change", "target_change"]
PATCH = {"kind": "patch", "from": {"text": OTHER}}


def arrays(server, **fields):
    got = server.post("/analyze?format=npz", {"text": TEXT, "layers": "all", "target": TARGET, **fields})
    assert got.status == 200, got.body
    return dict(np.load(io.BytesIO(got.body)))


def target_after(server, **intervention):
    """The target of the clean text and of the text with one intervention."""
    return arrays(server, outputs=[], interventions=[intervention])["changes_target"].astype(float)


@pytest.fixture(scope="module")
def ends(server):
    """The target of TEXT and of OTHER: a text whose embeddings are all patched is the other text."""
    return target_after(server, **PATCH, what="hidden", layers=[-1])


@pytest.mark.parametrize("change", [{"kind": "mean"}, {"kind": "scale", "factor": -0.5}, {"kind": "scale", "factor": 0}, PATCH])
def test_effects_of_a_change_are_what_the_intervention_changes(server, ends, change):
    effects = arrays(server, outputs=["effects"], effects_of=change)
    for layer, head in [(0, 3), (5, 7), (11, 0)]:
        before, after = target_after(server, layers=[layer], heads=[head], **change)
        assert abs(effects["effects_target_change"][layer, head] - (after - before)) < 1e-4
        states = arrays(server, outputs=["hidden_states"], interventions=[{"layers": [layer], "heads": [head], **change}])
        assert abs(effects["effects_hidden_change"][layer, head] - states["changes_hidden"][-1].mean()) < 1e-6
        if change["kind"] == "patch":
            expected = (after - before) / (ends[1] - ends[0])
            assert abs(effects["effects_recovered"][layer, head] - expected) < 1e-4
    assert ("effects_recovered" in effects) == (change["kind"] == "patch")


def test_a_scale_of_0_is_zero_and_of_1_nothing(server):
    zero, scaled, nothing, plain = (
        arrays(server, outputs=["effects"], predictions={"positions": [2]}, **change)
        for change in ({"effects_of": {"kind": "zero"}}, {"effects_of": {"kind": "scale", "factor": 0}},
                       {"effects_of": {"kind": "scale", "factor": 1}}, {}))
    for name in FIGURES:
        np.testing.assert_array_equal(zero["effects_" + name], plain["effects_" + name])
        np.testing.assert_array_equal(scaled["effects_" + name], plain["effects_" + name])
        assert not nothing["effects_" + name].any()


def test_patches_from_the_text_itself_have_nothing_to_recover(server):
    same = {"kind": "patch", "from": {"text": TEXT}}
    got = arrays(server, outputs=["effects", "patch_map"], effects_of=same, predictions={"positions": [2]})
    for name in FIGURES:
        assert not got["effects_" + name].any()
    assert np.isnan(got["effects_recovered"]).all() and np.isnan(got["patch_map"]).all()
    said = server.post("/analyze", {"text": TEXT, "outputs": ["patch_map"], "effects_of": same, "target": TARGET}).json()
    assert said["patch_map"] == [[None] * 9] * 13


def test_the_patch_map_is_what_patched_states_change(server, ends):
    patch_map = arrays(server, outputs=["patch_map"], effects_of=PATCH)["patch_map"]
    assert patch_map.shape == (13, 9)
    for state, position in [(0, 2), (0, 6), (4, 2), (11, 6), (12, 2), (12, 3)]:
        before, after = target_after(server, what="hidden", layers=[state - 1], positions=[position], **PATCH)
        assert abs(patch_map[state, position] - (after - before) / (ends[1] - ends[0])) < 1e-4, (state, position)
    assert abs(patch_map[12, 2] - 1) < 1e-6 and not np.delete(patch_map[12], 2).any()  # the target reads position 2 alone
    selected = arrays(server, outputs=["patch_map"], effects_of=PATCH, layers=[3], heads=[1])["patch_map"]
    np.testing.assert_array_equal(selected, patch_map)


def test_patches_apply_above_interventions(server):
    off = {"kind": "zero", "layers": [6], "heads": [1]}
    got = arrays(server, outputs=["effects", "patch_map"], effects_of=PATCH, interventions=[off])
    both = arrays(server, outputs=[], interventions=[off, {**PATCH, "layers": [3], "heads": [2]}])["changes_target"]
    before = arrays(server, outputs=[], interventions=[off])["changes_target"][1]
    assert abs(got["effects_target_change"][3, 2] - (both[1] - before)) < 1e-4
    assert abs(got["patch_map"][12, 2] - 1) < 1e-6


REFUSALS = [
    ({"effects_of": {"kind": "uniform"}, "outputs": ["effects"]}, "/effects_of/kind", '"zero", "scale", "mean" or "patch"'),
    ({"effects_of": {"kind": "scale"}, "outputs": ["effects"]}, "/effects_of/factor", "scale requires a factor"),
    ({"effects_of": {"kind": "mean", "factor": 2}, "outputs": ["effects"]}, "/effects_of/factor", "only scale and the intervention add take a factor"),
    ({"effects_of": {"kind": "mean", "from": {"text": "a"}}, "outputs": ["effects"]}, "/effects_of/from", "only patch and the intervention add take 'from'"),
    ({"effects_of": {"kind": "patch"}, "outputs": ["effects"]}, "/effects_of/from", "patch requires from"),
    ({"effects_of": {"kind": "zero", "heads": [1]}, "outputs": ["effects"]}, "/effects_of", "kind, factor, from and estimate"),
    ({"effects_of": "zero", "outputs": ["effects"]}, "/effects_of", "kind, factor, from and estimate"),
    ({"effects_of": {"kind": "zero"}}, "/effects_of", "the outputs effects and patch_map"),
    ({"effects_of": {"kind": "patch", "from": {"text": "a"}}, "outputs": ["effects"]}, "/effects_of/from", "this one has 3 tokens"),
    ({"outputs": ["patch_map"]}, "/effects_of", "patch_map requires a text to patch from"),
    ({"outputs": ["patch_map"], "effects_of": {"kind": "mean"}}, "/effects_of", "patch_map requires a text to patch from"),
    ({"outputs": ["patch_map"], "effects_of": PATCH}, "/target", "patch_map requires target"),
]


@pytest.mark.parametrize(("fields", "pointer", "detail"), REFUSALS)
def test_what_effects_of_cannot_be_is_refused(server, fields, pointer, detail):
    got = server.post("/analyze", {"text": TEXT, **fields})
    assert got.status == 422 and got.json()["pointer"] == pointer and detail in got.json()["detail"], got.body


def test_a_figure_shows_what_is_recovered(server):
    got = server.post("/analyze?format=csv", {"text": TEXT, "effects_of": PATCH, "target": TARGET, "figure": {"kind": "effects"}})
    assert got.status == 200 and b"target recovered" in got.body, got.body[:300]
