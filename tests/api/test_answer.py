"""Answers to questions by fine-tuned checkpoints, against the float64 reference, and invariants."""
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import served_models

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import encoder  # noqa: E402
import family_albert  # noqa: E402
import family_bert  # noqa: E402
import family_deberta_v2  # noqa: E402
import family_electra  # noqa: E402
import family_modernbert  # noqa: E402
import family_mpnet  # noqa: E402
import family_roberta  # noqa: E402
import task_head  # noqa: E402
from test_classes import check  # noqa: E402
from test_formats import npz, safetensors  # noqa: E402

QUESTION = "the war was at the airport"
PASSAGE = "the police came for the war " * 8
TASK, BEST, LONGEST = "QuestionAnswering", 5, 30
FAMILIES = {
    "bert": (family_bert, {}), "distilbert": (family_bert, dict(distil=True, prefix="distilbert.")),
    "roberta": (family_roberta, dict(types=2)), "electra": (family_electra, {}), "albert": (family_albert, {}),
    "mpnet": (family_mpnet, {}), "deberta": (family_deberta_v2, dict(conv=3)), "modernbert": (family_modernbert, {}),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("answers")
    made = {name: task_head.add(module.write_random(root / name, **shape), TASK, 2)
            for name, (module, shape) in FAMILIES.items()}
    return {**made, "tagger": task_head.add(family_bert.write_random(root / "tagger"), "TokenClassification", 2)}


@pytest.fixture(scope="module")
def served(folders):
    yield from served_models(folders)


def ask(server, model="bert", **fields):
    body = {"text": QUESTION, "text_pair": PASSAGE, "model": model, "outputs": ["answer", "hidden_states"], "digits": 9,
            "layers": "all", **fields}
    return server.analyze({name: value for name, value in body.items() if value is not None})


def assert_best(found, inside):
    """The spans are those of highest score among all of the passage's."""
    starts, ends = (np.array(found[name]) for name in ("start_logits", "end_logits"))
    scores = {(i, j): starts[i] + ends[j] for i in inside for j in inside if i <= j < i + LONGEST}
    best = found["best"]
    assert len(best) == min(BEST, len(scores)) == len({(span["start"], span["end"]) for span in best})
    assert np.allclose([span["score"] for span in best], sorted(scores.values())[::-1][:BEST], rtol=1e-5, atol=1e-5)
    first = {i: p for i, p in zip(inside, encoder.softmax(starts[inside]) if inside else [])}
    last = {i: p for i, p in zip(inside, encoder.softmax(ends[inside]) if inside else [])}
    for span in best:
        assert span["score"] == pytest.approx(scores[span["start"], span["end"]], rel=1e-5, abs=1e-5)
        assert span["probability"] == pytest.approx(first[span["start"]] * last[span["end"]], rel=1e-4)


@pytest.mark.parametrize("name", FAMILIES)
def test_against_the_reference(served, folders, name):
    answer = ask(served, name)
    found = answer["answer"]
    expected = task_head.logits(folders[name], answer["hidden_states"][-1], TASK)
    check(found["start_logits"], expected[:, 0])
    check(found["end_logits"], expected[:, 1])
    special, offsets = answer["special_tokens_mask"], answer["offset_mapping"]
    separator = special.index(1, 1)
    inside = [i for i in range(separator, len(special)) if not special[i]]
    assert len(inside) > LONGEST
    assert_best(found, inside)
    for span in found["best"]:
        assert span["chars"] == [offsets[span["start"]][0], offsets[span["end"]][1]]
        assert span["text"] == PASSAGE[slice(*span["chars"])] != ""


def test_characters_are_code_points(served):
    passage = "\u00e9\U0001F600 the war \u0434\u0430"
    best = ask(served, text_pair=passage)["answer"]["best"]
    assert best and [span["text"] for span in best] == [passage[slice(*span["chars"])] for span in best]
    assert all(span["text"] for span in best)


def test_without_a_pair_the_passage_is_the_text(served):
    answer = ask(served, text_pair=None)
    inside = [i for i, special in enumerate(answer["special_tokens_mask"]) if not special]
    assert_best(answer["answer"], inside)
    assert all(span["text"] == QUESTION[slice(*span["chars"])] for span in answer["answer"]["best"])


def test_an_empty_passage_has_no_answer(served):
    assert ask(served, text_pair="")["answer"]["best"] == []
    assert ask(served, text="", text_pair=None)["answer"]["best"] == []


def test_ids_have_spans_without_text(served):
    texts = ask(served)
    ids, types = texts["input_ids"], texts["token_type_ids"]
    best = ask(served, text=None, text_pair=None, input_ids=ids, token_type_ids=types)["answer"]["best"]
    assert [(span["start"], span["end"]) for span in best] == [
        (span["start"], span["end"]) for span in texts["answer"]["best"]]
    assert all(span["chars"] is None and span["text"] is None for span in best)


@pytest.mark.parametrize("read", [npz, lambda *request: safetensors(*request)[1]])
def test_arrays_are_the_json(served, read):
    body = {"text": QUESTION, "text_pair": PASSAGE, "model": "bert", "outputs": ["answer"],
            "interventions": [{"kind": "zero", "layers": [0]}]}
    arrays = dict(read(served, body))
    answer = served.post("/analyze", {**body, "digits": 9}).json()
    for prefix, found in (("", answer["answer"]), ("changes_", answer["changes"]["answer"])):
        best = found["best"]
        for name in ("start_logits", "end_logits"):
            assert arrays[prefix + name].tolist() == np.float32(found[name]).tolist()
        assert arrays[prefix + "answer_tokens"].tolist() == [[span["start"], span["end"]] for span in best]
        assert arrays[prefix + "answer_chars"].tolist() == [span["chars"] for span in best]
        assert arrays[prefix + "answer_probabilities"].tolist() == np.float32([x["probability"] for x in best]).tolist()


def test_changes_have_the_answer_of_the_other_pass(served):
    plain = ask(served)["answer"]
    changed = ask(served, interventions=[{"kind": "zero"}])
    assert changed["changes"]["answer"] == plain and changed["answer"] != plain


def test_lines_and_command_line_have_the_answer(served, headscope, folders):
    body = {"text": QUESTION, "text_pair": PASSAGE, "model": "bert", "outputs": ["answer"]}
    single = served.post("/analyze", body).json()["answer"]
    lines = served.request("POST", "/analyze", "\n".join([json.dumps(body)] * 2),
                           {"Content-Type": "application/x-ndjson"}).body.splitlines()
    done = subprocess.run([headscope, "analyze", "--model", folders["bert"], "--outputs", "answer", "--text-pair",
                           PASSAGE, "-"], input=QUESTION, text=True, capture_output=True, check=True)
    for found in (*lines, done.stdout):
        found = json.loads(found)["answer"]
        assert np.allclose(found["start_logits"], single["start_logits"], rtol=1e-3, atol=1e-4)
        assert len(found["best"]) == BEST


@pytest.mark.parametrize("model, output, task", [("tagger", "answer", "token-classification"),
                                                 ("bert", "classes", "question-answering")])
def test_a_model_without_the_head_is_refused(served, model, output, task):
    answer = served.post("/analyze", {"text": QUESTION, "model": model, "outputs": ["pairs", output]})
    assert answer.status == 422 and answer.json()["pointer"] == "/outputs/1"
    assert f"its task is {task}" in answer.json()["detail"]
