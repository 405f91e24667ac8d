"""The target of effects and changes, against the outputs under each head's own intervention."""
import csv
import io
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import served_models

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import encoder  # noqa: E402
import family_bert  # noqa: E402
import family_gpt2  # noqa: E402
import family_llama  # noqa: E402
import family_modernbert  # noqa: E402
import task_head  # noqa: E402
from test_formats import npz  # noqa: E402

TEXT, PAIR = "the war was at the airport", "the police came for the war"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    root = tmp_path_factory.mktemp("targets")
    folders = {
        "one": task_head.add(family_bert.write_random(root / "one"), "SequenceClassification", 3),
        "mean": task_head.add(family_modernbert.write_random(root / "mean"), "SequenceClassification", 4, classifier_pooling="mean"),
        "late": task_head.add(family_llama.write_random(root / "late", kind="eurobert"), "SequenceClassification", 3),
        "last": task_head.add(family_gpt2.write_random(root / "last"), "SequenceClassification", 3),
        "several": task_head.add(family_bert.write_random(root / "several"), "SequenceClassification", 4,
                                 problem_type="multi_label_classification"),
        "score": task_head.add(family_bert.write_random(root / "score"), "SequenceClassification", 1),
        "tagger": task_head.add(family_bert.write_random(root / "tagger"), "TokenClassification", 5),
        "answers": task_head.add(family_bert.write_random(root / "answers"), "QuestionAnswering", 2),
        "gpt2": family_gpt2.write_random(root / "gpt2"),
        "many": task_head.add(family_bert.write_random(root / "many"), "SequenceClassification", 90),
    }
    yield from served_models(folders, "--model=mini")


def ask(server, **fields):
    return server.analyze({"text": TEXT, "layers": "all", "digits": 9, **fields})


def follow(server, read, target, **fields):
    """Effects of the first and the last layer's heads, and read(answer) of a pass without that head minus that with it."""
    if target:
        fields["target"] = target
    outputs = {name: fields.pop(name) for name in ("outputs", "predictions") if name in fields}
    layers = [0, len(ask(server, outputs=["attentions"], **fields)["layers"]) - 1]
    effects = ask(server, outputs=["effects"], **{**fields, "layers": layers})["effects"]
    before = read(ask(server, **outputs, **fields))
    for l, row in zip(layers, effects):
        for h, effect in enumerate(row):
            changed = ask(server, **outputs, **fields, interventions=[{"layers": [l], "heads": [h], "kind": "zero"}])
            yield effect, before, read(changed), changed.get("changes")


def close(found, expected, scale=1.0):
    assert abs(found - expected) <= 2e-5 * max(scale, abs(expected)), (found, expected)


@pytest.mark.parametrize("model", ["one", "mean", "late", "last", "several"])
def test_the_predicted_class(served, model):
    for effect, before, after, changes in follow(served, lambda a: np.array(a["classes"]["logits"]), None, model=model,
                                                 outputs=["classes"]):
        top = before.argmax()
        close(effect["target_change"], after[top] - before[top])
        close(changes["target"]["before"], before[top])
        close(changes["target"]["after"], after[top])
        if model == "several":
            p, q = 1 / (1 + np.exp(-before)), 1 / (1 + np.exp(-after))
            kl = (p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))).sum()
        else:
            p, q = encoder.softmax(before), encoder.softmax(after)
            kl = (p * np.log(p / q)).sum()
        close(effect["class_kl"], kl)


@pytest.mark.parametrize("target", [{"class": 1}, {"class": "LABEL_1"}])
def test_a_class_by_number_or_label(served, target):
    for effect, before, after, _ in follow(served, lambda a: a["classes"]["logits"][1], target, model="one", outputs=["classes"]):
        close(effect["target_change"], after - before)


def test_a_score_has_no_divergence(served):
    effect = ask(served, model="score", outputs=["effects"])["effects"][0][0]
    assert "target_change" in effect and "class_kl" not in effect


def test_a_tokens_class(served):
    for effect, before, after, _ in follow(served, lambda a: a["classes"]["logits"][2], {"class": 4, "position": 2},
                                           model="tagger", outputs=["classes"]):
        close(effect["target_change"], after[4] - before[4])
        p, q = encoder.softmax(np.array(before)), encoder.softmax(np.array(after))
        close(effect["class_kl"], (p * np.log(p / q)).sum())


def test_a_span(served):
    fields = {"model": "answers", "text_pair": PAIR, "outputs": ["answer"]}
    for effect, before, after, _ in follow(served, lambda a: a["answer"]["start_logits"][9] + a["answer"]["end_logits"][11],
                                           {"span": [9, 11]}, **fields):
        close(effect["target_change"], after - before)


def test_the_loss(served):
    for effect, before, after, changes in follow(served, lambda a: a["loss"]["mean"], {"loss": True}, model="gpt2",
                                                 outputs=["loss"]):
        close(effect["target_change"], after - before)
        close(changes["target"]["after"], after)


def test_two_tokens(served):
    text = "the war was at the [MASK] ."
    fields = {"model": "mini", "text": text, "predictions": {"positions": [6], "top_k": 100}, "outputs": ["predictions"]}
    top = [entry["token"] for entry in ask(served, **fields)["predictions"][0]["top"][:2]]

    def odds(answer):
        found = {entry["token"]: entry["probability"] for entry in answer["predictions"][0]["top"]}
        return np.log(found[top[0]] / found[top[1]])

    for effect, before, after, _ in list(follow(served, odds, {"tokens": top, "position": 6}, **fields))[:6]:
        close(effect["target_change"], after - before, 10)
    ids = [served.post("/tokenize", {"text": token, "model": "mini"}).json()["input_ids"][1] for token in top]
    two, *single = (ask(served, model="mini", text=text, outputs=["effects"], layers=[1], target=target)["effects"][0]
                    for target in ({"tokens": top, "position": 6}, *({"token": token, "position": 6} for token in ids)))
    for h in range(len(two)):
        close(two[h]["target_change"], single[0][h]["target_change"] - single[1][h]["target_change"], 10)


@pytest.mark.parametrize("name, scale", [("probability", lambda p: p), ("log_probability", np.log)])
@pytest.mark.parametrize("model, text, position", [("mini", "the war was at the [MASK] .", 6), ("gpt2", TEXT, 6)])
def test_the_probability_of_a_token(served, model, text, position, name, scale):
    """Patches, effects and changes follow it, as the predictions have it."""
    fields = {"model": model, "text": text, "predictions": {"positions": [position], "top_k": 100}, "outputs": ["predictions"]}
    token = ask(served, **fields)["predictions"][0]["top"][0]["token"]
    target = {name: token, "position": position}

    def chance(answer):
        return scale(next(entry["probability"] for entry in answer["predictions"][0]["top"] if entry["token"] == token))

    for effect, before, after, changes in list(follow(served, chance, target, **fields))[:6]:
        assert abs(effect["target_change"] - (after - before)) < 2e-6
        assert changes["target"] == {"before": pytest.approx(before, abs=2e-6), "after": pytest.approx(after, abs=2e-6)}
    other = text.replace("war", "police")
    patched = ask(served, model=model, text=text, target=target, outputs=["patch_map"],
                  effects_of={"kind": "patch", "from": {"text": other}})["patch_map"]
    np.testing.assert_allclose(patched[-1][position], 1, atol=1e-4)
    answer = ask(served, **fields)
    clean, goal = chance(answer), chance(ask(served, **{**fields, "text": other}))
    war = answer["tokens"].index("war")
    state = {"kind": "patch", "what": "hidden", "layers": [0], "positions": [war], "from": {"text": other}}
    changed = ask(served, **fields, target=target, interventions=[state])["changes"]["target"]["after"]
    np.testing.assert_allclose(patched[1][war], (changed - clean) / (goal - clean), rtol=1e-3, atol=1e-4)


def test_the_sentence_vector(served):
    for effect, before, after, changes in follow(served, lambda a: np.array(a["embedding"]["vector"]), {"embedding": True},
                                                 model="mean", pooling="max", outputs=["embedding"]):
        expected = 1 - before @ after / np.linalg.norm(before) / np.linalg.norm(after)
        assert abs(effect["target_change"] - expected) < 1e-6
        assert changes["target"]["before"] == 0 and abs(changes["target"]["after"] - expected) < 1e-6


def test_arrays_are_the_json(served):
    fields = {"text": TEXT, "model": "one", "layers": "all", "digits": 9, "outputs": ["effects"],
              "interventions": [{"layers": [0], "heads": [1], "kind": "zero"}]}
    answer, arrays = served.post("/analyze", fields).json(), npz(served, fields)
    for name in ("target_change", "class_kl"):
        listed = [[effect[name] for effect in row] for row in answer["effects"]]
        np.testing.assert_allclose(arrays["effects_" + name], listed, rtol=1e-6)
    np.testing.assert_allclose(arrays["changes_target"], list(answer["changes"]["target"].values()), rtol=1e-6)


@pytest.mark.parametrize("model, target, pointer, part", [
    ("one", {"class": "good"}, "/target/class", 'an integer from 0 to 2, or "LABEL_0", "LABEL_1", "LABEL_2"'),
    ("one", {"class": 3}, "/target/class", "from 0 to 2"),
    ("many", {"class": "good"}, "/target/class", '"LABEL_9", "LABEL_10", "LABEL_11"'),
    ("many", {"class": "good"}, "/target/class", '", ...'),
    ("one", {"class": "LABEL_1\0"}, "/target/class", "from 0 to 2"),
    ("one", {"class": 0, "position": 1}, "/target/position", "leave position out"),
    ("tagger", {"class": 0}, "/target", "needs a position"),
    ("tagger", {"class": 0, "position": 50}, "/target/position", "outside the text"),
    ("tagger", {"class": 0, "position": -1}, "/target/position", "an integer from 0"),
    ("mini", {"class": 0}, "/target/class", "has no classes"),
    ("one", {"token": "war", "position": 1}, "/target/token", "has no head that predicts tokens"),
    ("mini", {"token": "qqqqqq", "position": 1}, "/target/token", "of the model's vocabulary"),
    ("one", {"probability": "war", "position": 1}, "/target/probability", "has no head that predicts tokens"),
    ("mini", {"probability": "qqqqqq", "position": 1}, "/target/probability", "of the model's vocabulary"),
    ("mini", {"probability": "war"}, "/target", "needs a position"),
    ("mini", {"log_probability": "war"}, "/target", "needs a position"),
    ("mini", {"tokens": ["war"], "position": 1}, "/target/tokens", "a list of two tokens"),
    ("mini", {"tokens": ["war", 10 ** 9], "position": 1}, "/target/tokens", "a list of two tokens"),
    ("mini", {"token": "war"}, "/target", "needs a position"),
    ("answers", {"span": [5, 3]}, "/target/span", "first and last token"),
    ("answers", {"span": [1, 30]}, "/target/span", "outside the text"),
    ("one", {"span": [1, 2]}, "/target/span", "question answering"),
    ("one", {"loss": True}, "/target/loss", "predicts the next token"),
    ("gpt2", {"loss": 1}, "/target/loss", "true"),
    ("one", {"embedding": False}, "/target/embedding", "true"),
    ("one", {}, "/target", "one of class"),
    ("one", [], "/target", "one of class"),
    ("one", {"class": 0, "loss": True}, "/target", "one of class"),
    ("one", {"span": [0, 1], "position": 1}, "/target", "one of class"),
])
def test_targets_that_are_refused(served, model, target, pointer, part):
    answer = served.post("/analyze", {"text": TEXT, "model": model, "outputs": ["effects"], "target": target})
    assert answer.status == 422, answer.body
    assert answer.json()["pointer"] == pointer and part in answer.json()["detail"], answer.json()


def test_a_figure_of_predictions_needs_a_head_for_them(served):
    for kind in ("predictions", "lens"):
        answer = served.post("/analyze?format=svg", {"text": TEXT, "model": "one", "figure": {"kind": kind}})
        assert answer.status == 422 and answer.json()["pointer"] == "/figure/kind" and "has no masked-language-model head" in answer.json()["detail"]


def test_a_text_of_one_token_has_no_loss(served):
    answer = served.post("/analyze", {"input_ids": [5], "model": "gpt2", "outputs": ["effects"], "target": {"loss": True}})
    assert answer.status == 422 and answer.json()["pointer"] == "/target/loss" and "one token has no loss" in answer.json()["detail"]


@pytest.mark.parametrize(("model", "target", "also"), [
    ("one", {"class": 1}, "KL of classes"), ("mini", {"token": "war", "position": 2}, "change of hidden states"),
    ("gpt2", {"loss": True}, "KL of predictions"),
])
def test_the_figure_of_effects_shows_the_target(served, model, target, also):
    fields = {"text": TEXT, "model": model, "target": target, "layers": [0, 1]}
    answer = served.post("/analyze?format=csv", {**fields, "figure": {"kind": "effects"}})
    rows = list(csv.DictReader(io.StringIO(answer.body.decode(), newline="")))
    assert {"change of the target", also} <= {row["panel"].split(", ")[0] for row in rows}
    effects = ask(served, outputs=["effects"], **fields)["effects"]
    for row in rows:
        if row["panel"].startswith("change of the target"):
            effect = effects[int(row["row"])][int(row["column"])]
            assert float(row["value"]) == pytest.approx(effect["target_change"], rel=1e-6, abs=1e-9)
            assert (row["row_label"], row["column_label"]) == (row["row"], row["column"])
    svg = served.post("/analyze?format=svg", {**fields, "figure": {"kind": "effects", "width_mm": 170}}).body.decode()
    assert "change of the target" in svg
