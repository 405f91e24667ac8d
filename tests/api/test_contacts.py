"""Contacts of residues, against the float64 reference, and invariants. tests/reference/transformers_check.py compares them with
transformers."""
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import served_models
from test_formats import npz, safetensors

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import family_bert  # noqa: E402
import family_esm  # noqa: E402

SHAPES = {"rotary": {}, "esm1b": dict(rotary=False, normed=True, prefix="", n_layers=2, n_heads=6), "bf16": dict(dtype="BF16", n_shards=3)}
# <eos> (2) ends the first, is within the second, and is not in the third. Others have one residue, and none.
TEXTS = {"usual": [0, *range(5, 70), 2], "within": [0, 9, 8, 7, 2, 9, 9, 4, 2], "without": [11, 12, 13, 14, 15], "one": [0, 9, 2],
         "ends": [0, 2, 2, 2], "none": [0, 2], "single": [5]}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("contacts")
    made = {name: family_esm.write_random(root / name, contacts=True, **shape) for name, shape in SHAPES.items()}
    return {**made, "bare": family_esm.write_random(root / "bare"), "bert": family_bert.write_random(root / "bert")}


@pytest.fixture(scope="module")
def served(folders):
    yield from served_models(folders)


def ask(server, text, model="rotary", **fields):
    return server.analyze({"input_ids": TEXTS[text], "model": model, "outputs": ["contacts"], "digits": 9, **fields})


@pytest.mark.parametrize("text", ["usual", "within", "without", "one", "ends"])
@pytest.mark.parametrize("name", SHAPES)
def test_against_the_reference(served, folders, name, text):
    answer = ask(served, text, name, outputs=["contacts", "attentions"], layers="all")
    found = np.array(answer["contacts"])
    expected = family_esm.contacts(folders[name], TEXTS[text], np.array(answer["attentions"]))
    assert found.shape == expected.shape == (len(TEXTS[text]) - 2,) * 2
    assert np.abs(found - expected).max() <= 1e-5
    assert (found == found.T).all() and (text in ("one", "ends") or found.max() - found.min() > 0.1)


@pytest.mark.parametrize("text", ["none", "single"])
def test_a_text_without_residues(served, text):
    assert ask(served, text)["contacts"] == []


def test_layers_and_heads_of_the_request_change_nothing(served):
    every = ask(served, "usual", layers="all")["contacts"]
    assert ask(served, "usual", layers=[1], heads=[2])["contacts"] == every


@pytest.mark.parametrize("read", [npz, lambda *request: safetensors(*request)[1]])
def test_arrays_are_the_json(served, read):
    body = {"input_ids": TEXTS["usual"], "model": "rotary", "outputs": ["contacts"]}
    arrays = read(served, body)["contacts"]
    assert arrays.dtype == np.float32
    assert arrays.tolist() == np.float32(ask(served, "usual")["contacts"]).tolist()


def test_interventions_change_them(served, folders):
    change = [{"kind": "uniform", "layers": [0], "heads": [1]}]
    answer = ask(served, "usual", outputs=["contacts", "attentions"], layers="all", interventions=change)
    expected = family_esm.contacts(folders["rotary"], TEXTS["usual"], np.array(answer["attentions"]))
    assert np.abs(np.array(answer["contacts"]) - expected).max() <= 1e-5
    assert np.abs(np.array(ask(served, "usual")["contacts"]) - expected).max() > 1e-3


def test_maps_that_are_computed_again_give_the_same(folders):
    ids = [0, *(5 + i % 200 for i in range(150)), 2]
    found = []
    for kept in ("1G", "1M"):
        for server in served_models({"rotary": folders["rotary"]}, "--max-maps", kept, "--cache", "0"):
            found.append(server.analyze({"input_ids": ids, "outputs": ["contacts"], "digits": 9})["contacts"])
            refused = server.post("/analyze", {"input_ids": ids, "outputs": ["attentions"], "layers": "all"})
            assert refused.status == (200 if kept == "1G" else 422)
    assert found[0] == found[1]


@pytest.mark.parametrize("model", ["bare", "bert"])
def test_models_without_the_head_refuse_it(served, model):
    refused = served.post("/analyze", {"text": "a", "model": model, "outputs": ["attentions", "contacts"]})
    assert refused.status == 422
    problem = refused.json()
    assert model + " has no contact head" in problem["detail"] and "contact_head.regression" in problem["detail"]
    assert problem["pointer"] == "/outputs/1"
