"""Patching: invariants, and a comparison with PyTorch's forward hooks."""
import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import HEADSCOPE, PATIENCE

HOOKS = Path(__file__).resolve().parents[1] / "reference" / "patching_hooks.py"
NOT_INSTALLED = 77
TEXT, OTHER = "The cat sat on the mat.", "The dog lay on the rug."
ARRAYS = ["attentions", "similarities", "head_outputs", "hidden_states"]


def answer(server, text, interventions=(), **options):
    body = {"text": text, "layers": "all", "outputs": ARRAYS, "interventions": list(interventions), **options}
    got = server.post("/analyze?format=npz", body)
    assert got.status == 200, got.body
    return dict(np.load(io.BytesIO(got.body)))


def patch(text=OTHER, **members):
    return {"kind": "patch", "from": {"text": text}, **members}


@pytest.mark.parametrize("members", [{}, {"layers": [3], "heads": [5], "positions": [2]},
                                     {"what": "hidden", "layers": [-1, 4, 11]}])
def test_a_patch_from_the_text_itself_changes_no_bit(server, members):
    plain, patched = answer(server, TEXT), answer(server, TEXT, [patch(TEXT, **members)])
    for name in ARRAYS:
        np.testing.assert_array_equal(patched[name], plain[name])


@pytest.mark.parametrize("layer", [-1, 0, 5, 11])
def test_a_state_patched_at_all_positions_gives_the_other_text_from_there_on(server, layer):
    other, patched = answer(server, OTHER), answer(server, TEXT, [patch(what="hidden", layers=[layer])])
    np.testing.assert_array_equal(patched["hidden_states"][layer + 1:], other["hidden_states"][layer + 1:])
    np.testing.assert_array_equal(patched["attentions"][layer + 1:], other["attentions"][layer + 1:])
    own = answer(server, TEXT)
    np.testing.assert_array_equal(patched["hidden_states"][:layer + 1], own["hidden_states"][:layer + 1])


def test_heads_take_the_other_outputs_at_the_positions_alone(server):
    own, other = answer(server, TEXT), answer(server, OTHER)
    patched = answer(server, TEXT, [patch(layers=[4], heads=[1, 7], positions=[2, 3])])["head_outputs"][4]
    expected = own["head_outputs"][4].copy()
    for head in (1, 7):
        expected[head, [2, 3]] = other["head_outputs"][4, head, [2, 3]]
    np.testing.assert_array_equal(patched, expected)


def test_all_heads_of_all_layers_patched_are_those_of_the_other_text(server):
    patched, other = answer(server, TEXT, [patch()]), answer(server, OTHER)
    np.testing.assert_array_equal(patched["head_outputs"], other["head_outputs"])
    np.testing.assert_array_equal(patched["similarities"], other["similarities"])
    assert not np.array_equal(patched["attentions"][1:], other["attentions"][1:])  # the residual stream is the text's own


def test_a_later_patch_counts_and_other_kinds_apply_to_it(server):
    third = "A bird sat in the sun."
    both = [patch(layers=[2], heads=[3]), patch(third, layers=[2], heads=[3])]
    np.testing.assert_array_equal(answer(server, TEXT, both)["hidden_states"],
                                  answer(server, TEXT, both[1:])["hidden_states"])
    off = {"kind": "zero", "layers": [2], "heads": [3]}
    np.testing.assert_array_equal(answer(server, TEXT, [*both, off])["hidden_states"],
                                  answer(server, TEXT, [off])["hidden_states"])


def test_ids_name_the_other_text_too_and_the_cache_keeps_sources_apart(server):
    ids = server.post("/tokenize", {"text": OTHER}).json()["input_ids"]
    by_text = answer(server, TEXT, [patch(layers=[1])])
    by_ids = answer(server, TEXT, [{"kind": "patch", "layers": [1], "from": {"input_ids": ids}}])
    again = answer(server, TEXT, [patch("A bird sat in the sun.", layers=[1])])
    np.testing.assert_array_equal(by_ids["hidden_states"], by_text["hidden_states"])
    assert not np.array_equal(again["hidden_states"], by_text["hidden_states"])


def test_a_server_without_a_cache_gives_the_same(server, start_server):
    patches = [patch(layers=[5], heads=[2]), patch(what="hidden", layers=[7], positions=[1])]
    effects = {"outputs": ["effects"], "layers": [6], "heads": [0, 1], "interventions": patches, "text": TEXT, "digits": 9}
    fresh = start_server("--cache", "0")
    assert server.post("/analyze", effects).json() == fresh.post("/analyze", effects).json()
    np.testing.assert_array_equal(answer(server, TEXT, patches)["hidden_states"], answer(fresh, TEXT, patches)["hidden_states"])


REFUSALS = [
    (patch("The dog lay on the old rug."), "/interventions/0/from", "this one has 10 tokens, and the text of the request has 9"),
    (patch(positions=[1, 9]), "/interventions/0/positions", "position 9 is outside the text, which has 9 tokens"),
    (patch(positions=[-1]), "/interventions/0/positions/0", "an integer from 0"),
    (patch(positions=[]), "/interventions/0/positions", "at least one position"),
    (patch(what="hidden"), "/interventions/0/layers", "-1 for the embeddings"),
    (patch(what="hidden", layers=[12]), "/interventions/0/layers/0", "an integer from -1 to 11"),
    (patch(what="hidden", layers=[1], heads=[0]), "/interventions/0", "has no heads"),
    (patch(what="maps"), "/interventions/0/what", '"heads" or "hidden"'),
    ({"kind": "patch"}, "/interventions/0/from", "patch requires from"),
    ({"kind": "patch", "from": {"text": "a", "input_ids": [1]}}, "/interventions/0/from", "it must be {"),
    ({"kind": "patch", "from": {"text_pair": "a"}}, "/interventions/0/from", "it must be {"),
    ({"kind": "patch", "from": {"input_ids": [-1]}}, "/interventions/0/from/input_ids/0", "an integer from 0"),
    ({"kind": "zero", "from": {"text": TEXT}}, "/interventions/0/from", "only patch and the intervention add take 'from'"),
    ({"kind": "mean", "positions": [1]}, "/interventions/0/positions", "only patch and add take 'positions'"),
]


@pytest.mark.parametrize(("intervention", "pointer", "detail"), REFUSALS)
def test_what_no_patch_can_be_is_refused(server, intervention, pointer, detail):
    got = server.post("/analyze", {"text": TEXT, "interventions": [intervention]})
    assert got.status == 422 and got.json()["pointer"] == pointer and detail in got.json()["detail"], got.body


def test_the_texts_to_patch_from_are_bounded(server):
    texts = [f"The {word} lay on the rug." for word in ("dog", "cat", "man", "boy", "bird", "girl", "car", "king", "book")]
    request = {"text": TEXT, "outputs": ["summary"], "interventions": [patch(text) for text in texts]}
    got = server.post("/analyze", request)
    assert got.status == 422 and got.json()["pointer"] == "/interventions/8/from" and "at most 8" in got.json()["detail"]
    assert server.post("/analyze", {**request, "interventions": request["interventions"][:8] * 2}).status == 200


def test_a_corpus_run_refuses_patches(tmp_path):
    (tmp_path / "corpus.txt").write_text(TEXT + "\n")
    (tmp_path / "patch.json").write_text('[{"kind": "patch", "from": {"text": "The dog lay on the rug."}}]')
    done = subprocess.run([HEADSCOPE, "corpus", tmp_path / "corpus.txt", "-o", tmp_path / "out", "--interventions",
                           tmp_path / "patch.json"], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and "patch and add, which change one text" in done.stderr, done.stderr


def test_the_map_patches_states_that_interventions_patch_too(server):
    """As the last patch in the list does, and as effects change heads that interventions change."""
    third = "The dog ran to the city."
    first = patch(what="hidden", layers=[3])
    options = {"outputs": ["patch_map"], "target": {"tokens": ["cat", "dog"], "position": 2},
               "effects_of": {"kind": "patch", "from": {"text": third}}}

    def target(*patches):
        return answer(server, TEXT, patches, target=options["target"])["changes_target"][1]

    found = answer(server, TEXT, [first], **options)["patch_map"]
    base, other = target(first), target(patch(third, what="hidden", layers=[11]))
    for layer, position in [(3, 1), (3, 2), (7, 2)]:
        also = patch(third, what="hidden", layers=[layer], positions=[position])
        np.testing.assert_allclose(found[layer + 1, position], (target(first, also) - base) / (other - base), atol=1e-3)


def test_hooks_in_pytorch_give_the_same():
    python = os.environ.get("TRANSFORMERS_PYTHON", sys.executable)
    done = subprocess.run([python, HOOKS], env={**os.environ, "HEADSCOPE": os.path.abspath(HEADSCOPE)},
                          capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode == NOT_INSTALLED:
        pytest.skip(f"{python}: {done.stdout.strip()}; TRANSFORMERS_PYTHON may name another")
    assert done.returncode == 0, done.stdout + done.stderr
