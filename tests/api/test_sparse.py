"""Sparse vectors of texts (SPLADE), in float64 and against sentence-transformers."""
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import served_models

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import family_bert  # noqa: E402
import family_gpt2  # noqa: E402
import family_modernbert  # noqa: E402
import predictor  # noqa: E402
from test_formats import npz, safetensors  # noqa: E402

TEXT = "the war was at the airport"
CLASS = "sentence_transformers.sparse_encoder.models."
# name -> 1_SpladePooling/config.json, the first module, other files
ENCODERS = {
    "max": ({"pooling_strategy": "max", "activation_function": "relu", "word_embedding_dimension": None}, "MLMTransformer", {}),
    "sum": ({"pooling_strategy": "sum", "embedding_dimension": 300}, "MLMTransformer", {"sentence_bert_config.json": {"max_seq_length": 100}}),
    "twice": ({"activation_function": "log1p_relu"}, "Transformer", {"sentence_bert_config.json": {"transformer_task": "fill-mask"}}),
    "both": ({"pooling_strategy": "sum", "activation_function": "log1p_relu"}, "MLMTransformer",
             {"config_sentence_transformers.json": {"prompts": {"query": ""}, "max_active_dims": 7}}),
}


def write_modules(folder, pooling, first, files):
    (folder / "modules.json").write_text(json.dumps([{"idx": 0, "path": "", "type": CLASS + first},
                                                     {"idx": 1, "path": "1_SpladePooling", "type": CLASS + "SpladePooling"}]))
    (folder / "1_SpladePooling").mkdir()
    for name, keys in {"1_SpladePooling/config.json": pooling, **files}.items():
        (folder / name).write_text(json.dumps(keys))
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("sparse")
    made = {name: write_modules(predictor.add(family_bert.write_random(root / name)), *modules) for name, modules in ENCODERS.items()}
    return {**made, "bare": predictor.add(family_modernbert.write_random(root / "bare")), "headless": family_bert.write_random(root / "headless"),
            "gpt2": family_gpt2.write_random(root / "gpt2")}


@pytest.fixture(scope="module")
def served(folders):
    yield from served_models(folders)


def ask(server, model, **fields):
    return server.analyze({"text": TEXT, "model": model, "outputs": ["sparse_embedding", "hidden_states"], "digits": 9,
                           "layers": "all", **fields})


def vector(folder, states, pooling):
    x = np.log1p(np.maximum(0, predictor.logits(folder, np.array(states))[-1]))
    x = np.log1p(x) if pooling.get("activation_function") == "log1p_relu" else x
    return x.sum(0) if pooling.get("pooling_strategy") == "sum" else x.max(0)


@pytest.mark.parametrize("name", [*ENCODERS, "bare"])
def test_against_float64(served, folders, name):
    pooling, _, files = ENCODERS.get(name, ({}, "", {}))
    answer = ask(served, name)
    found, expected = answer["sparse_embedding"], vector(folders[name], answer["hidden_states"], pooling)
    n = files.get("config_sentence_transformers.json", {}).get("max_active_dims", (expected > 0).sum())
    entries = found["entries"]
    assert 5 < len(entries) == n < 300
    weights = [entry["weight"] for entry in entries]
    assert weights == sorted(weights, reverse=True) and weights[-1] > 0
    assert {entry["id"] for entry in entries} == set(np.argsort(-expected)[:n])
    assert np.abs(weights - expected[[entry["id"] for entry in entries]]).max() <= 1e-5 * expected.max()
    assert found["pooling"] == pooling.get("pooling_strategy", "max")
    assert found["activation"] == pooling.get("activation_function", "relu")
    words = (folders[name] / "vocab.txt").read_text().splitlines()
    assert all(entry["token"] == words[entry["id"]] for entry in entries if entry["id"] < len(words))


def test_a_changed_model_gives_another_vector(served, folders):
    changed = ask(served, "max", interventions=[{"layers": [0], "kind": "zero"}])
    expected = vector(folders["max"], changed["hidden_states"], {})
    assert {entry["id"] for entry in changed["sparse_embedding"]["entries"]} == set(np.flatnonzero(expected > 0))
    assert changed["sparse_embedding"] != ask(served, "max")["sparse_embedding"]


@pytest.mark.parametrize("read", [npz, lambda *request: safetensors(*request)[1]])
def test_arrays_are_the_json(served, read):
    body = {"text": TEXT, "model": "sum", "outputs": ["sparse_embedding"]}
    arrays, entries = read(served, body), ask(served, "sum")["sparse_embedding"]["entries"]
    assert arrays["sparse_embedding_ids"].dtype == np.int32 and arrays["sparse_embedding_weights"].dtype == np.float32
    assert arrays["sparse_embedding_ids"].tolist() == [entry["id"] for entry in entries]
    assert arrays["sparse_embedding_weights"].tolist() == np.float32([entry["weight"] for entry in entries]).tolist()


@pytest.mark.parametrize("model, part", [("headless", "no masked-language-model head"), ("gpt2", "gpt2 predicts next tokens")])
def test_models_that_predict_no_masked_tokens_refuse_it(served, model, part):
    refused = served.post("/analyze", {"text": TEXT, "model": model, "outputs": ["attentions", "sparse_embedding"]})
    assert refused.status == 422 and refused.json()["pointer"] == "/outputs/1" and part in refused.json()["detail"]


@pytest.mark.parametrize("pooling, first, files, part", [
    ({"pooling_strategy": "mean"}, "MLMTransformer", {}, "pooling_strategy must be max or sum; it is mean"),
    ({"pooling_strategy": 1}, "MLMTransformer", {}, "pooling_strategy must be a string"),
    ({"activation_function": "gelu"}, "MLMTransformer", {}, "activation_function must be relu or log1p_relu; it is gelu"),
    ({"embedding_dimension": 299}, "MLMTransformer", {}, "embedding_dimension"),
    ({"word_embedding_dimension": 48}, "MLMTransformer", {}, "word_embedding_dimension"),
    ({}, "Transformer", {}, "sentence_bert_config.json: transformer_task is feature-extraction; SpladePooling reads what \"fill-mask\" gives"),
    ({}, "MLMTransformer", {"sentence_bert_config.json": {"transformer_task": "feature-extraction"}}, "transformer_task is feature-extraction"),
    ({}, "MLMTransformer", {"config_sentence_transformers.json": {"max_active_dims": 0}}, "max_active_dims"),
    ({}, "LSTM", {}, "LSTM are not supported"),
    ({}, "Pooling", {}, "Pooling is module 0"),
])
def test_modules_that_are_refused(headscope, tmp_path, pooling, first, files, part):
    folder = write_modules(predictor.add(family_bert.write_random(tmp_path / "model")), pooling, first, files)
    done = subprocess.run([headscope, "models", str(folder)], capture_output=True, text=True)
    assert done.returncode == 1 and part in done.stderr, done.stderr


@pytest.mark.parametrize("kinds, part", [
    (("MLMTransformer", "Pooling"), "Pooling is module 1"),
    (("MLMTransformer", "SpladePooling", "Normalize"), "Normalize is module 2"),
    (("Transformer", "Pooling"), "transformer_task is fill-mask; Pooling reads what \"feature-extraction\" gives"),
])
def test_orders_that_are_refused(headscope, tmp_path, kinds, part):
    folder = write_modules(predictor.add(family_bert.write_random(tmp_path / "model")), {"pooling_mode": "mean"}, "MLMTransformer",
                           {"sentence_bert_config.json": {"transformer_task": "fill-mask"}})
    (folder / "1_SpladePooling").rename(folder / f"1_{kinds[1]}")
    if kinds[1] == "SpladePooling":
        (folder / "1_SpladePooling" / "config.json").write_text("{}")
    (folder / "modules.json").write_text(json.dumps(
        [{"path": f"{i}_{kind}" if i else "", "type": CLASS + kind} for i, kind in enumerate(kinds)]))
    done = subprocess.run([headscope, "models", str(folder)], capture_output=True, text=True)
    assert done.returncode == 1 and part in done.stderr, done.stderr


# Computes vectors with sentence-transformers in float64, from encoders that it saved.
ORACLE = """
import sys
try:
    import torch
    from sentence_transformers import SparseEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sparse_encoder.modules import SpladePooling
except ImportError as error:
    print(error)
    sys.exit(77)
import json
base, root, text = sys.argv[1:]
vectors = {}
for name, options, more in (("a", {}, {}), ("b", {"pooling_strategy": "sum"}, {"max_active_dims": 9}),
                            ("c", {"activation_function": "log1p_relu"}, {"prompts": {"query": "the war: "}, "default_prompt_name": "query"})):
    body = Transformer(base, transformer_task="fill-mask")
    SparseEncoder(modules=[body, SpladePooling(**options)], device="cpu", **more).save(f"{root}/{name}")
    vectors[name] = SparseEncoder(f"{root}/{name}", device="cpu").double().encode([text])[0].to_dense().tolist()
print(json.dumps(vectors))
"""


def test_against_sentence_transformers(headscope, tmp_path):
    python = os.environ.get("TRANSFORMERS_PYTHON", sys.executable)
    base = predictor.add(family_bert.write_random(tmp_path / "base"))
    done = subprocess.run([python, "-c", ORACLE, base, tmp_path, TEXT], capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip(f"{python}: {done.stdout.strip()}; TRANSFORMERS_PYTHON may name another")
    assert done.returncode == 0, done.stderr
    for name, expected in json.loads(done.stdout.splitlines()[-1]).items():
        answer = subprocess.run([headscope, "analyze", "--model", str(tmp_path / name), "--outputs", "sparse_embedding",
                                 "--format", "json", "--digits", "9", "-"], input=TEXT, capture_output=True, text=True, check=True)
        found = np.zeros(len(expected))
        for entry in json.loads(answer.stdout)["sparse_embedding"]["entries"]:
            found[entry["id"]] = entry["weight"]
        assert np.abs(found - expected).max() <= 1e-5 * max(expected)
