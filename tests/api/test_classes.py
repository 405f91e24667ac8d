"""Classes of fine-tuned checkpoints, against the float64 reference, and invariants."""
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import served_models

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import checkpoint  # noqa: E402
import encoder  # noqa: E402
import family_albert  # noqa: E402
import family_bert  # noqa: E402
import family_deberta  # noqa: E402
import family_deberta_v2  # noqa: E402
import family_electra  # noqa: E402
import family_esm  # noqa: E402
import family_falcon  # noqa: E402
import family_gpt2  # noqa: E402
import family_gpt_neox  # noqa: E402
import family_llama  # noqa: E402
import family_modernbert  # noqa: E402
import family_mpnet  # noqa: E402
import family_nomic_bert  # noqa: E402
import family_roberta  # noqa: E402
import task_head  # noqa: E402
from test_formats import npz, safetensors  # noqa: E402

TEXT, PAIR = "the war was at the airport", "the police came for the war"
SEQUENCE, TOKENS, NEXT = "SequenceClassification", "TokenClassification", "NextSentencePrediction"
LABELS = {"0": "gut", "1": "плохо", "2": "中立的", "3": "\"a\\b\n"}
FAMILIES = {
    "bert": (family_bert, {}), "distilbert": (family_bert, dict(distil=True, prefix="distilbert.")),
    "roberta": (family_roberta, dict(types=2)), "electra": (family_electra, {}), "albert": (family_albert, {}),
    "mpnet": (family_mpnet, {}), "first_deberta": (family_deberta, {}), "deberta": (family_deberta_v2, dict(conv=3)),
    "esm": (family_esm, {}),
    "modernbert": (family_modernbert, {}), "nomic": (family_nomic_bert, {}),
    "gpt2": (family_gpt2, {}), "neox": (family_gpt_neox, {}), "falcon": (family_falcon, {}), "llama": (family_llama, {}),
    "eurobert": (family_llama, dict(kind="eurobert")),
}
# name -> family, its shape, task, classes, more of config.json
CHECKPOINTS = {
    **{f"{name}_{task[0]}": (*family, task, 3, {}) for name, family in FAMILIES.items() for task in (SEQUENCE, TOKENS)},
    "bare": (family_bert, dict(prefix=""), SEQUENCE, 4, dict(id2label=LABELS)),
    "several": (family_bert, {}, SEQUENCE, 4, dict(problem_type="multi_label_classification")),
    "score": (family_roberta, dict(types=2), SEQUENCE, 1, {}),
    "regression": (family_bert, {}, SEQUENCE, 2, dict(problem_type="regression")),
    "unnamed": (family_bert, {}, SEQUENCE, 2, dict(id2label=None)),
    "mean": (family_modernbert, {}, SEQUENCE, 5, dict(classifier_pooling="mean")),
    "eurobert_bos": (family_llama, dict(kind="eurobert"), SEQUENCE, 3, dict(classifier_pooling="bos")),
    "eurobert_mean": (family_llama, dict(kind="eurobert"), SEQUENCE, 3, dict(classifier_pooling="mean")),
    "deberta_tanh": (family_deberta_v2, {}, SEQUENCE, 2, dict(pooler_hidden_act="tanh")),
    "next": (family_bert, {}, NEXT, 2, {}),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("classes")
    return {name: task_head.add(module.write_random(root / name, **shape), task, n, **more)
            for name, (module, shape, task, n, more) in CHECKPOINTS.items()}


@pytest.fixture(scope="module")
def served(folders):
    yield from served_models(folders)


def ask(server, model, output="classes", **fields):
    return server.analyze({"text": TEXT, "model": model, "outputs": [output, "hidden_states"], "digits": 9,
                           "layers": "all", **fields})


def check(found, expected):
    assert np.abs(np.array(found) - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("pair", [{}, {"text_pair": PAIR}], ids=["one", "pair"])
@pytest.mark.parametrize("name", [name for name in CHECKPOINTS if name != "next"])
def test_against_the_reference(served, folders, name, pair):
    answer = ask(served, name, **pair)
    task, classes = CHECKPOINTS[name][2], answer["classes"]
    config = json.loads((folders[name] / "config.json").read_text())
    expected = task_head.logits(folders[name], answer["hidden_states"][-1], task)
    check(classes["logits"], expected)
    labels = config["id2label"] or {"0": "LABEL_0", "1": "LABEL_1"}
    assert classes["labels"] == [labels[str(i)] for i in range(len(labels))]
    best = np.argmax(np.array(classes["logits"]), -1)
    if task == TOKENS:
        assert classes["task"] == "token-classification" and "problem_type" not in classes
        check(classes["probabilities"], encoder.softmax(expected))
        assert classes["predicted"] == [classes["labels"][i] for i in best]
    elif name == "several":
        assert classes["problem_type"] == "multi_label_classification"
        check(classes["probabilities"], 1 / (1 + np.exp(-expected)))
        assert classes["predicted"] == [label for label, x in zip(classes["labels"], classes["probabilities"]) if x >= 0.5]
    elif name in ("score", "regression"):
        assert classes["problem_type"] == "regression"
        assert classes["probabilities"] is None and classes["predicted"] is None
    else:
        assert classes["task"] == "text-classification"
        assert classes["problem_type"] == "single_label_classification"
        check(classes["probabilities"], encoder.softmax(expected))
        assert classes["predicted"] == classes["labels"][best]


@pytest.mark.parametrize("name", ["gpt2", "neox", "llama"])
def test_causal_models_read_the_last_token_that_is_no_padding(tmp_path, name):
    """transformers takes the rightmost token that is not pad_token_id, the first one if all are."""
    module, shape = FAMILIES[name]
    folder = task_head.add(module.write_random(tmp_path / name, **shape), SEQUENCE, 3, pad_token_id=7)
    texts = {"plain": [9, 5, 8], "behind": [9, 5, 8, 7, 7], "within": [9, 7, 8], "all": [7, 7, 7]}
    for server in served_models({name: folder}):
        for kind, ids in texts.items():
            answer = server.analyze({"input_ids": ids, "model": name, "layers": "all", "digits": 9,
                                     "outputs": ["classes", "hidden_states", "effects"]})
            end = {"all": 1}.get(kind, 3)
            check(answer["classes"]["logits"], task_head.logits(folder, np.array(answer["hidden_states"])[-1][:end], SEQUENCE))
            off = server.analyze({"input_ids": ids, "model": name, "outputs": ["classes"], "digits": 9,
                                  "interventions": [{"kind": "zero", "layers": [1], "heads": [0]}]})
            best = np.argmax(answer["classes"]["logits"])
            change = off["classes"]["logits"][best] - answer["classes"]["logits"][best]
            assert answer["effects"][1][0]["target_change"] == pytest.approx(change, abs=1e-4)


def test_next_sentence(served, folders):
    answer = ask(served, "next", "next_sentence", text_pair=PAIR)
    expected = task_head.logits(folders["next"], answer["hidden_states"][-1], NEXT)
    check(answer["next_sentence"]["logits"], expected)
    assert answer["next_sentence"]["probability"] == pytest.approx(encoder.softmax(expected)[0], rel=1e-5)


@pytest.mark.parametrize("read", [npz, lambda *request: safetensors(*request)[1]])
@pytest.mark.parametrize("name", ["bert_S", "bert_T", "score"])
def test_arrays_are_the_json(served, read, name):
    body = {"text": TEXT, "model": name, "outputs": ["classes"], "interventions": [{"kind": "zero", "layers": [0]}]}
    arrays = dict(read(served, body))
    answer = served.post("/analyze", {**body, "digits": 9}).json()
    for prefix, classes in (("", answer["classes"]), ("changes_", answer["changes"]["classes"])):
        assert arrays[prefix + "class_logits"].tolist() == np.float32(classes["logits"]).tolist()
        if classes["probabilities"] is None:
            assert prefix + "class_probabilities" not in arrays
        else:
            assert arrays[prefix + "class_probabilities"].tolist() == np.float32(classes["probabilities"]).tolist()


@pytest.mark.parametrize("read", [npz, lambda *request: safetensors(*request)[1]])
def test_arrays_of_the_next_sentence_are_the_json(served, read):
    body = {"text": TEXT, "text_pair": PAIR, "model": "next", "outputs": ["next_sentence"], "interventions": [{"kind": "zero", "layers": [0]}]}
    arrays = dict(read(served, body))
    answer = served.post("/analyze", {**body, "digits": 9}).json()
    for prefix, found in (("", answer["next_sentence"]), ("changes_", answer["changes"]["next_sentence"])):
        assert arrays[prefix + "next_sentence_logits"].tolist() == np.float32(found["logits"]).tolist()


def test_changes_have_the_classes_of_both_passes(served):
    plain = ask(served, "bert_S")["classes"]
    changed = ask(served, "bert_S", interventions=[{"kind": "zero"}])
    assert changed["changes"]["classes"] == plain and changed["classes"] != plain
    same = ask(served, "bert_S", interventions=[{"kind": "scale", "factor": 1}])
    assert same["classes"] == same["changes"]["classes"] == plain
    following = {"interventions": [{"kind": "zero"}], "text_pair": PAIR}
    changed = ask(served, "next", "next_sentence", **following)
    assert changed["changes"]["next_sentence"] == ask(served, "next", "next_sentence", text_pair=PAIR)["next_sentence"]
    assert changed["changes"]["next_sentence"] != changed["next_sentence"]


def test_lines_have_the_classes_of_single_requests(served):
    bodies = [{"text": text, "model": "bert_S", "outputs": ["classes"]} for text in (TEXT, PAIR, "")]
    answer = served.request("POST", "/analyze", "\n".join(map(json.dumps, bodies)),
                            {"Content-Type": "application/x-ndjson"})
    for line, body in zip(answer.body.splitlines(), bodies, strict=True):
        found, expected = json.loads(line)["classes"], served.post("/analyze", body).json()["classes"]
        assert np.allclose(found["logits"], expected["logits"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model, output", [("next", "classes"), ("bert_S", "next_sentence")])
def test_a_model_without_the_head_is_refused(served, model, output):
    answer = served.post("/analyze", {"text": TEXT, "model": model, "outputs": ["pairs", output]})
    assert answer.status == 422 and answer.json()["pointer"] == "/outputs/1"
    assert output in answer.json()["detail"] and "its task is" in answer.json()["detail"]


def test_models_tell_the_task_and_the_labels(served, headscope, folders):
    models = {model["name"]: model for model in served.get("/models").json()["models"]}
    assert models["bare"]["labels"] == list(LABELS.values())
    assert models["bare"]["task"] == "text-classification"
    assert models["bare"]["problem_type"] == "single_label_classification"
    assert models["score"]["problem_type"] == "regression"
    assert (models["bert_T"]["task"], models["bert_T"]["problem_type"]) == ("token-classification", None)
    assert (models["next"]["task"], models["next"]["labels"]) == (None, None)
    listed = subprocess.run([headscope, "models", folders["bert_T"]], capture_output=True, text=True, check=True)
    assert "token-classification" in listed.stdout


def write(folder, **more):
    return task_head.add(family_bert.write_random(folder), SEQUENCE, 3, **more)


@pytest.mark.parametrize("more, message", [
    (dict(id2label={"0": "a", "2": "b"}), '"1" is missing'), (dict(id2label=["a"]), "id2label must be an object"),
    (dict(id2label={}), "1 to 16384"), (dict(id2label={"0": None}), '"0" is missing'),
    (dict(id2label={"0": "a" * 1001}), "at most 1000 bytes"), (dict(problem_type="ranking"), '"ranking"'),
    (dict(id2label={"0": "a"}), "classifier.weight must have the shape [1, 48]"),
    (dict(id2label=None, num_labels=0), "num_labels"), (dict(problem_type=3), "problem_type must be a string"),
])
def test_a_config_that_contradicts_itself_is_refused(headscope, tmp_path, more, message):
    done = subprocess.run([headscope, "analyze", "--model", write(tmp_path / "m", **more), "-"], input="x", text=True,
                          capture_output=True)
    assert done.returncode == 1 and message in done.stderr


def test_a_head_whose_tensors_are_missing_is_refused(headscope, tmp_path):
    folder = write(tmp_path / "m")
    weights = checkpoint.read_safetensors(folder / "model.safetensors")
    del weights["bert.pooler.dense.weight"]
    checkpoint.write_safetensors(folder / "model.safetensors", weights)
    done = subprocess.run([headscope, "models", folder], text=True, capture_output=True)
    assert done.returncode == 1 and "no tensor bert.pooler.dense.weight" in done.stderr
