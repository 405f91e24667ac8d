"""Predictions of masked tokens and the lens, against the float64 reference, and invariants."""
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import served_models

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import family_albert  # noqa: E402
import family_bert  # noqa: E402
import family_deberta  # noqa: E402
import family_deberta_v2  # noqa: E402
import family_electra  # noqa: E402
import family_esm  # noqa: E402
import family_modernbert  # noqa: E402
import family_mpnet  # noqa: E402
import family_nomic_bert  # noqa: E402
import family_roberta  # noqa: E402
import predictor  # noqa: E402
from test_formats import npz, safetensors  # noqa: E402

TEXT = "the war of [MASK] was at the airport for [MASK] police"
CHECKPOINTS = {
    "bert": (family_bert, dict(), dict()),
    "bert_own_decoder_relu": (family_bert, dict(activation="relu", prefix=""), dict(tied=False)),
    "bert_f16": (family_bert, dict(hidden=60, n_heads=5), dict(dtype="F16")),
    "bert_bf16_odd": (family_bert, dict(hidden=33, n_heads=1, ffn=7), dict(dtype="BF16")),
    "bert_two_biases": (family_bert, dict(), dict(biases=2)),
    "distilbert": (family_bert, dict(distil=True, prefix="distilbert."), dict(tied=False)),
    "electra": (family_electra, dict(), dict()),
    "roberta": (family_roberta, dict(types=2), dict()),
    "mpnet": (family_mpnet, dict(), dict(tied=False)),
    "albert": (family_albert, dict(), dict()),
    "nomic": (family_nomic_bert, dict(prefix="nomic_bert."), dict()),
    "nomic_own_decoder": (family_nomic_bert, dict(prefix="nomic_bert.", authors_tensors=True), dict(tied=False)),
    "nomic_two_biases": (family_nomic_bert, dict(prefix="nomic_bert."), dict(biases=2)),
    "modernbert": (family_modernbert, dict(), dict()),
    "esm": (family_esm, dict(), dict(tied=False)),
    "first_deberta": (family_deberta, dict(), dict()),
    "deberta": (family_deberta_v2, dict(conv=3), dict()),
    "deberta_legacy": (family_deberta_v2, dict(), dict(legacy=True, tied=False)),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("predictors")
    return {name: predictor.add(module.write_random(root / name, **shape), **head)
            for name, (module, shape, head) in CHECKPOINTS.items()}


@pytest.fixture(scope="module")
def served(folders, tmp_path_factory):
    headless = family_bert.write_random(tmp_path_factory.mktemp("headless") / "model")
    models = {**folders, "headless": headless}
    yield from served_models(models)


def ask(server, model, predictions, **fields):
    return server.analyze({"text": TEXT, "model": model, "outputs": ["hidden_states"], "layers": "all",
                           "digits": 9, "predictions": predictions, **fields})


def check(reading, expected, token):
    """One reading beside the probabilities that it should have."""
    ids = [entry["id"] for entry in reading["top"]]
    probabilities = [entry["probability"] for entry in reading["top"]]
    assert np.allclose(probabilities, expected[ids], rtol=1e-4, atol=1e-7)
    assert np.allclose(probabilities, np.sort(expected)[::-1][:len(ids)], rtol=1e-4, atol=1e-7)
    assert reading["entropy"] == pytest.approx(-np.sum(expected * np.log(expected)), rel=1e-5)
    if token is not None:
        assert reading["probability"] == pytest.approx(expected[token], rel=1e-4)
        assert reading["rank"] == 1 + np.sum(expected > expected[token])


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_against_the_reference(served, folders, name):
    answer = ask(served, name, {"positions": "all", "top_k": 7, "lens": True})
    states = np.array(answer["hidden_states"])  # [L + 1][T][H]
    expected = predictor.probabilities(folders[name], states)
    assert [entry["position"] for entry in answer["predictions"]] == list(range(len(answer["tokens"])))
    for t, entry in enumerate(answer["predictions"]):
        masked = answer["tokens"][t] == "[MASK]"
        assert (entry["probability"] is None) == masked and (entry["rank"] is None) == masked
        check(entry, expected[-1, t], None if masked else answer["input_ids"][t])
        assert len(entry["layers"]) == len(states)
        for depth, reading in enumerate(entry["layers"]):
            check(reading, expected[depth, t], None if masked else answer["input_ids"][t])
        last = entry["layers"][-1]
        assert {key: entry[key] for key in last} == last


def test_masks_are_the_default_and_positions_can_be_listed(served):
    answer = ask(served, "bert", {})
    masks = [t for t, token in enumerate(answer["tokens"]) if token == "[MASK]"]
    assert [entry["position"] for entry in answer["predictions"]] == masks
    assert all(len(entry["top"]) == 5 and "layers" not in entry for entry in answer["predictions"])
    listed = ask(served, "bert", {"positions": [masks[1], 3, masks[1]], "top_k": 1})["predictions"]
    assert [entry["position"] for entry in listed] == [3, masks[1]]
    assert listed[1]["top"] == answer["predictions"][1]["top"][:1]
    assert ask(served, "bert", {}, text="no mask")["predictions"] == []
    named = served.post("/analyze", {"text": TEXT, "model": "bert", "outputs": ["predictions"], "digits": 9}).json()
    assert named["predictions"] == answer["predictions"]


def test_requested_layers_and_heads_change_nothing(served):
    whole = ask(served, "bert", {"lens": True})["predictions"]
    part = ask(served, "bert", {"lens": True}, layers=[0], heads=[1], outputs=["attentions"])["predictions"]
    assert whole == part


def test_a_probability_is_one_of_all(served):
    entry = ask(served, "bert", {"top_k": 100})["predictions"][0]
    assert sum(top["probability"] for top in entry["top"]) < 1.000001
    assert len(entry["top"]) == 100 and len({top["id"] for top in entry["top"]}) == 100


@pytest.mark.parametrize("read", [npz, lambda *request: safetensors(*request)[1]])
def test_arrays_are_the_json(served, read):
    body = {"text": TEXT, "model": "bert", "outputs": ["pairs"], "max_pairs": 0,
            "predictions": {"positions": [0, 4, 5], "top_k": 3, "lens": True}}
    arrays = dict(read(served, body))
    entries = served.post("/analyze", {**body, "digits": 9}).json()["predictions"]
    assert arrays["predictions_position"].tolist() == [entry["position"] for entry in entries]
    for k, entry in enumerate(entries):
        for row, reading in ((None, entry), *enumerate(entry["layers"])):
            def at(name):
                return arrays[f"predictions_{name}"][k] if row is None else arrays[f"predictions_layers_{name}"][k, row]
            assert at("entropy") == np.float32(reading["entropy"])
            assert at("top_ids").tolist() == [top["id"] for top in reading["top"]]
            assert at("top_probability").tolist() == [np.float32(top["probability"]) for top in reading["top"]]
            if reading["rank"] is None:
                assert at("rank") == 0 and np.isnan(at("probability"))
            else:
                assert at("rank") == reading["rank"] and at("probability") == np.float32(reading["probability"])


@pytest.mark.parametrize("predictions, pointer", [
    ([], "/predictions"), ("all", "/predictions"), ({"position": [1]}, "/predictions"),
    ({"positions": "none"}, "/predictions/positions"), ({"positions": []}, "/predictions/positions"),
    ({"positions": [1, -1]}, "/predictions/positions/1"), ({"positions": [160]}, "/predictions/positions/0"),
    ({"positions": [1.5]}, "/predictions/positions/0"), ({"top_k": 0}, "/predictions/top_k"),
    ({"top_k": 101}, "/predictions/top_k"), ({"lens": 1}, "/predictions/lens"),
])
def test_refusals(served, predictions, pointer):
    answer = served.post("/analyze", {"text": TEXT, "model": "bert", "predictions": predictions})
    assert answer.status == 422 and answer.json()["pointer"] == pointer


def test_a_position_behind_the_text(served):
    answer = served.post("/analyze", {"text": "war", "model": "bert", "predictions": {"positions": [3]}})
    assert answer.status == 422 and "3 tokens" in answer.json()["detail"]


def test_a_checkpoint_without_the_head(served):
    for body in ({"predictions": {}}, {"outputs": ["predictions"]}):
        answer = served.post("/analyze", {"text": TEXT, "model": "headless", **body})
        assert answer.status == 422 and "headless" in answer.json()["detail"]
    said = {model["name"]: model["mlm"] for model in served.get("/models").json()["models"]}
    assert said == {**dict.fromkeys(CHECKPOINTS, True), "headless": False}


def edit(folder, **config):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    return folder


def test_the_head_of_its_authors_comes_first(headscope, tmp_path):
    """A DeBERTa that went through HuggingFace's older class has a second, random head."""
    folder = predictor.add(family_deberta_v2.write_random(tmp_path / "both"))
    command = [headscope, "analyze", "--model", folder, "--predictions", "{}", "--outputs", "predictions", "-"]
    alone = subprocess.run(command, input=TEXT.encode(), capture_output=True, check=True).stdout
    predictor.add(folder, legacy=True, seed=9)
    assert subprocess.run(command, input=TEXT.encode(), capture_output=True, check=True).stdout == alone


def predict(headscope, folder):
    return subprocess.run([headscope, "analyze", "--model", folder, "--predictions", "{}", "--outputs", "predictions", "-"],
                          input=TEXT, capture_output=True, text=True)


@pytest.mark.parametrize("name", [name for name in CHECKPOINTS if name not in ("deberta", "first_deberta")])
def test_a_decoder_of_its_own_that_is_missing(headscope, folders, tmp_path, name):
    """tie_word_embeddings: false says that the decoder is not the word embedding, nor its bias that of the head: transformers
    would take random ones. The model opens without predictions."""
    folder = edit(Path(shutil.copytree(folders[name], tmp_path / name)), tie_word_embeddings=False)
    _, _, decoder, bias, _ = predictor.HEADS[json.loads((folder / "config.json").read_text())["model_type"]
                                             + (" legacy" if "legacy" in name else "")]
    weights = predictor.read_safetensors(folder / "model.safetensors")
    own_bias = decoder + ".bias" in weights or not decoder.startswith(bias + ".") or name == "esm"
    if decoder + ".weight" in weights:
        done = predict(headscope, folder)
        assert done.returncode == (0 if own_bias else 2) and (own_bias or f"has no tensor {decoder}.bias" in done.stderr)
        del weights[decoder + ".weight"]
        predictor.write_safetensors(folder / "model.safetensors", weights)
    done = predict(headscope, folder)
    assert done.returncode == 2 and f"has no tensor {decoder}.weight, and its config.json does not tie it" in done.stderr
    assert subprocess.run([headscope, "analyze", "--model", folder, "-"], input=b"a", capture_output=True).returncode == 0


@pytest.mark.parametrize("keys", [{"decoder_bias": False}, {}, {"classifier_bias": True}])
def test_the_config_says_what_has_a_bias(headscope, folders, tmp_path, keys):
    """ModernBERT's decoder_bias and classifier_bias: a tensor that is there beside them is not read, one that is missing is."""
    folder = edit(Path(shutil.copytree(folders["modernbert"], tmp_path / "model")), **keys)
    weights = predictor.read_safetensors(folder / "model.safetensors")
    done = predict(headscope, folder)
    if "classifier_bias" in keys:
        assert done.returncode != 0 and "no tensor head.dense.bias" in done.stderr
        return
    weights["head.dense.bias"] = np.ones(len(weights["head.dense.weight"]))
    predictor.write_safetensors(folder / "model.safetensors", weights)
    assert predict(headscope, folder).stdout == done.stdout
    if keys:
        weights["decoder.bias"] *= 0
        predictor.write_safetensors(folder / "model.safetensors", weights)
        edit(folder, decoder_bias=True)
        assert predict(headscope, folder).stdout == done.stdout
        del weights["decoder.bias"]
        predictor.write_safetensors(folder / "model.safetensors", weights)
        edit(folder, decoder_bias=False)
        assert predict(headscope, folder).stdout == done.stdout


def test_what_never_has_a_decoder_may_be_untied(headscope, folders, tmp_path):
    """DeBERTa's own head, and a checkpoint without a head."""
    for name, folder in (("own", folders["deberta"]), ("none", family_bert.write_random(tmp_path / "headless"))):
        folder = edit(Path(shutil.copytree(folder, tmp_path / name)), tie_word_embeddings=False)
        assert subprocess.run([headscope, "models", folder], capture_output=True).returncode == 0


def test_half_a_head_is_none(folders, tmp_path, headscope):
    """Checkpoints of sentence encoders hold parts of one at times."""
    from checkpoint import read_safetensors, write_safetensors
    half = tmp_path / "half"
    shutil.copytree(folders["bert"], half)
    weights = read_safetensors(half / "model.safetensors")
    del weights["cls.predictions.bias"]
    write_safetensors(half / "model.safetensors", weights)
    done = subprocess.run([headscope, "analyze", "--model", half, "--predictions", "{}", "-"], input=b"a",
                          capture_output=True)
    assert done.returncode == 2 and b"no masked-language-model head" in done.stderr


def test_mini_knows_a_little(server):
    """The built-in model has its head, and it is the trained one."""
    answer = server.post("/analyze", {"text": "He was born in the united [MASK] of america.",
                                      "outputs": [], "predictions": {"top_k": 3}}).json()
    assert answer["predictions"][0]["top"][0]["token"] == "states"


def test_command_line(headscope):
    done = subprocess.run([headscope, "analyze", "--outputs", "predictions", "--predictions", '{"top_k": 2}', "-"],
                          input=b"the [MASK] war", capture_output=True, check=True)
    assert len(json.loads(done.stdout)["predictions"][0]["top"]) == 2
    done = subprocess.run([headscope, "analyze", "--predictions", "{", "-"], input=b"a", capture_output=True)
    assert done.returncode == 2 and b"JSON" in done.stderr
