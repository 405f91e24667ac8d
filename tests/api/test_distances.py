"""Properties of distances between heads, rollout, effective attention and the residual space."""
import io
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import analysis  # noqa: E402
import checkpoint  # noqa: E402
import experiments  # noqa: E402
import family_albert  # noqa: E402
import family_modernbert  # noqa: E402
import family_mpnet  # noqa: E402
from test_formats import safetensors  # noqa: E402

TEXT = "The war ended in 1945. It was a long war, and the city had no money, no police and no airport!"


def answer(server, text=TEXT, **options):
    got = server.post("/analyze?format=npz", {"text": text, "layers": "all", **options})
    assert got.status == 200, got.body
    return dict(np.load(io.BytesIO(got.body)))


# ---- distances ----


@pytest.mark.parametrize("distance", ["cka", "js"])
def test_a_selection_has_its_own_distances(server, distance):
    request = {"outputs": ["head_distances"], "head_distance": distance}
    whole = answer(server, **request)["head_distances"].reshape(12, 12, 12, 12)
    part = answer(server, **request, **{"layers": [2, 11], "heads": [0, 5, 7]})["head_distances"]
    chosen = np.ix_([2, 11], [0, 5, 7], [2, 11], [0, 5, 7])
    np.testing.assert_allclose(part, whole[chosen].reshape(6, 6), rtol=0, atol=1e-6)


def test_equal_maps_are_not_apart(server):
    same = [{"kind": "uniform", "layers": [3]}, {"kind": "identity", "layers": [4]}]
    got = answer(server, layers=[3, 4], heads=[1, 2], outputs=["head_distances", "attentions"], head_distance="js",
                 interventions=same)
    n = len(got["input_ids"])
    ln = np.log
    # The divergence of 1/n everywhere and 1 in one place.
    apart = -(n - 1) / (2 * n) * ln(1 / (2 * n)) - (n + 1) / (2 * n) * ln((n + 1) / (2 * n)) - ln(n) / 2
    expected = np.kron([[0, 1], [1, 0]], np.ones((2, 2))) * apart
    np.testing.assert_allclose(got["head_distances"], expected, rtol=0, atol=2e-6)
    assert not got["head_distances"][:2, :2].any() and not got["head_distances"][2:, 2:].any()


def test_scaled_heads_keep_their_distances(server):
    request = {"layers": [11], "outputs": ["head_distances"]}
    plain = answer(server, **request)["head_distances"]
    scaled = answer(server, **request, interventions=[{"kind": "scale", "factor": -7, "layers": [11], "heads": [0, 4]}])
    np.testing.assert_allclose(scaled["head_distances"], plain, rtol=0, atol=1e-5)


def test_a_silent_head_has_no_distance(server):
    got = answer(server, layers=[5], heads=[0, 1, 2], outputs=["head_distances"],
                 interventions=[{"kind": "zero", "layers": [5], "heads": [1]}])["head_distances"]
    assert (np.isnan(got) == [[0, 1, 0], [1, 1, 1], [0, 1, 0]]).all()


@pytest.mark.parametrize("text, known", [("", False), ("war", False), ("the war", True)])
def test_fewer_than_four_tokens_have_no_cka(server, text, known):
    got = server.post("/analyze", {"text": text, "heads": [0, 1], "outputs": ["head_distances"]}).json()
    assert got["head_distances"][0][0] == (0 if known else None)
    assert (got["head_distances"][0][1] is None) == (not known)


@pytest.mark.parametrize("name", ["head_distances", "rollout", "effective_attentions"])
def test_formats_agree(server, name):
    body = {"text": TEXT, "layers": [1, 4], "heads": [3, 8], "outputs": [name], "digits": 9}
    arrays = answer(server, **body)
    said = np.array(server.post("/analyze", body).json()[name], "f4")
    np.testing.assert_array_equal(said, arrays[name])
    np.testing.assert_array_equal(safetensors(server, body)[1][name], arrays[name])


# ---- rollout, effective attention ----


def test_rollout_of_known_maps(server):
    identity = answer(server, outputs=["rollout"], interventions=[{"kind": "identity"}])["rollout"]
    n = identity.shape[-1]
    np.testing.assert_array_equal(identity, np.broadcast_to(np.eye(n, dtype="f4"), identity.shape))
    uniform = answer(server, outputs=["rollout"], interventions=[{"kind": "uniform"}])["rollout"]
    for depth, found in enumerate(uniform, 1):
        np.testing.assert_allclose(found, np.eye(n) / 2**depth + (1 - 2.0**-depth) / n, rtol=0, atol=1e-6)


def test_rollout_reads_all_heads_and_all_layers_before(server):
    whole = answer(server, outputs=["rollout"])["rollout"]
    part = answer(server, outputs=["rollout"], layers=[0, 7], heads=[5])["rollout"]
    np.testing.assert_allclose(part, whole[[0, 7]], rtol=0, atol=1e-6)


def test_a_short_text_has_no_attention_without_effect(server):
    got = answer(server, "The war is over.", outputs=["attentions", "effective_attentions"])  # 7 tokens, 12 columns
    np.testing.assert_allclose(got["effective_attentions"], got["attentions"], rtol=0, atol=1e-5)


def test_of_a_long_text_some_has_none(server):
    got = answer(server, outputs=["attentions", "effective_attentions", "values", "head_outputs"])
    effective, values = got["effective_attentions"].astype("f8"), got["values"].astype("f8")
    assert np.linalg.norm(effective - got["attentions"], axis=(-1, -2)).min() > 0.01
    scale = np.abs(values).max((-1, -2), keepdims=True)
    np.testing.assert_allclose(effective @ values / scale, got["head_outputs"] / scale, rtol=0, atol=1e-5)


# ---- the residual space ----


def turned(folder, made, layer, head, basis):
    """The checkpoint with one head's output in another basis: O -> O B, W_O -> inv(B) W_O."""
    config, weights = checkpoint.read(folder, "bert.")
    d = config["hidden_size"] // config["num_attention_heads"]
    rows, name = slice(head * d, (head + 1) * d), f"encoder.layer.{layer}.attention."
    for part in ("weight", "bias"):
        weights[name + "self.value." + part][rows] = (basis.T @ weights[name + "self.value." + part][rows])
    weights[name + "output.dense.weight"][:, rows] = weights[name + "output.dense.weight"][:, rows] @ np.linalg.inv(basis).T
    return checkpoint.save(made, config, weights)


def test_the_residual_space_does_not_depend_on_a_heads_basis(start_server, tmp_path):
    plain = checkpoint.write_random(tmp_path / "plain", seed=3)
    basis = np.random.default_rng(4).normal(size=(12, 12))
    folder = turned(plain, tmp_path / "turned", 1, 2, basis)
    server = start_server("--model", f"plain={plain}", "--model", f"turned={folder}")
    outputs = ["similarities", "value_norms", "hidden_states", "head_distances"]
    for space, is_same in [("residual", True), ("head", False)]:
        one, other = (answer(server, model=model, outputs=outputs, similarity_space=space) for model in ("plain", "turned"))
        for name in ("hidden_states", "value_norms"):
            np.testing.assert_allclose(one[name], other[name], rtol=0, atol=2e-4 * np.abs(one[name]).max())
        scale = np.abs(one["similarities"][1, 2]).max()
        assert np.allclose(one["similarities"][1, 2], other["similarities"][1, 2], rtol=0, atol=1e-4 * scale) == is_same
        assert np.allclose(one["head_distances"], other["head_distances"], rtol=0, atol=1e-3) == is_same


KINDS = pytest.mark.parametrize("kind", [{"similarity_space": "residual"}, {"center": "text"},
                                         {"similarity_space": "residual", "center": "text"}])


@KINDS
def test_the_cache_keeps_kinds_apart(server, kind):
    body = {"text": TEXT + " So it was.", "outputs": ["similarities", "pairs"], "digits": 9}
    other = {**body, **kind}
    first = [server.post("/analyze", request).json() for request in (body, other, body, other)]
    assert first[0] == first[2] and first[1] == first[3]
    assert first[0]["similarities"] != first[1]["similarities"] and first[0]["pairs"] != first[1]["pairs"]


def test_rows_of_centred_similarity_sum_to_minus_their_diagonal(server):
    """And outputs stay as they are: O less its mean gives S."""
    got = answer(server, outputs=["similarities", "head_outputs"], center="text")
    np.testing.assert_array_equal(got["head_outputs"], answer(server, outputs=["head_outputs"])["head_outputs"])
    outputs = got["head_outputs"].astype(float)
    outputs -= outputs.mean(-2, keepdims=True)
    largest = np.abs(got["similarities"]).max()
    np.testing.assert_allclose(-got["similarities"].sum(-1), (outputs**2).sum(-1), rtol=0, atol=1e-5 * largest)


@KINDS
def test_changes_are_those_of_the_kind(server, kind):
    request = {"outputs": ["similarities"], **kind}
    changed = answer(server, **request, interventions=[{"kind": "scale", "factor": 2, "layers": [-1]}])
    baseline = answer(server, **request)["similarities"]
    np.testing.assert_allclose(changed["similarities"][-1], 4 * baseline[-1], rtol=1e-4, atol=1e-4 * np.abs(baseline[-1]).max())
    np.testing.assert_allclose(changed["changes_similarities"][-1], 3, rtol=1e-4)


OUTPUT_WEIGHTS = {  # family -> module, prefix of names, the name of W_O of a layer
    "albert": (family_albert, "albert.", lambda l: "encoder.albert_layer_groups.0.albert_layers.0.attention.dense.weight"),
    "modernbert": (family_modernbert, "model.", lambda l: f"layers.{l}.attn.Wo.weight"),
    "mpnet": (family_mpnet, "mpnet.", lambda l: f"encoder.layer.{l}.attention.attn.o.weight"),
}


@pytest.mark.parametrize("family", OUTPUT_WEIGHTS)
def test_other_families(start_server, tmp_path, family):
    module, prefix, name = OUTPUT_WEIGHTS[family]
    folder = module.write_random(tmp_path / family, seed=5, **next(iter(module.VARIANTS.values())))
    server = start_server("--model", f"x={folder}")
    outputs = ["similarities", "value_norms", "values", "head_outputs", "rollout", "effective_attentions"]
    got = answer(server, outputs=outputs, similarity_space="residual")
    heads = module.forward(folder, got["input_ids"], got["token_type_ids"])
    weights = checkpoint.read(folder, prefix)[1]
    for l, outputs in enumerate(heads.outputs):
        weight = weights[name(l)].reshape(len(weights[name(l)]), len(outputs), -1)
        written = np.einsum("htd,ohd->hto", outputs, weight)
        expected = analysis.similarity(written[None])[0]
        np.testing.assert_allclose(got["similarities"][l], expected, rtol=0, atol=2e-5 * np.abs(expected).max())
        norms = np.linalg.norm(np.einsum("htd,ohd->hto", got["values"][l], weight), axis=-1)
        np.testing.assert_allclose(got["value_norms"][l], norms, rtol=1e-4)
    np.testing.assert_allclose(got["rollout"], experiments.rollout(heads.attentions), rtol=0, atol=1e-5)
    scale = np.abs(got["values"]).max()
    np.testing.assert_allclose(got["effective_attentions"] @ got["values"], heads.outputs, rtol=0, atol=2e-5 * scale)


def test_an_unknown_kind_is_refused(server):
    fields = {"similarity_space": '"head", "residual"', "center": '"none", "text"', "head_distance": '"cka", "js"'}
    for field, allowed in fields.items():
        got = server.post("/analyze", {"text": TEXT, field: "other"})
        assert got.status == 422 and got.json()["pointer"] == "/" + field and allowed in got.json()["detail"]


@KINDS
def test_effects_are_those_of_the_kind(server, kind):
    request = {"outputs": ["effects", "similarities"], **kind}
    got = answer(server, **request)
    off = answer(server, **request, interventions=[{"kind": "zero", "layers": [9], "heads": [4]}])
    change = np.linalg.norm(off["similarities"][10:] - got["similarities"][10:], axis=(-1, -2))
    change /= np.linalg.norm(got["similarities"][10:], axis=(-1, -2))
    np.testing.assert_allclose(got["effects_similarity_change"][9, 4], change.mean(), rtol=1e-3)
