"""Windows of a long text: `window` and `stride` of /analyze and /tokenize."""
import json

import numpy as np
import pytest
from test_cli import headscope, on_a_terminal
from test_corpus_windows import WINDOW, texts, windows_of
from test_formats import npz, safetensors

TEXT = next(text for text in texts(12) if len(text.split()) == 90)
MAPS = {"outputs": ["attentions", "similarities"], "max_tokens": WINDOW, "digits": 9}


def whole_of(server, **fields):
    return server.analyze({"text": TEXT, "max_tokens": 512, "outputs": [], **fields})


def all_windows(server, request):
    first = server.analyze({**request, "window": 0})
    return [first] + [server.analyze({**request, "window": k}) for k in range(1, first["windows"])]


@pytest.mark.parametrize("stride", [0, 7])
def test_each_window_is_the_text_that_its_ids_are(server, stride):
    whole = whole_of(server)
    cut = windows_of(whole["input_ids"], stride)
    answers = all_windows(server, {"text": TEXT, "stride": stride, **MAPS})
    assert len(cut) > 3 and [answer["input_ids"] for answer in answers] == cut
    for answer, ids in zip(answers, cut):
        alone = server.analyze({"input_ids": ids, **MAPS})
        assert answer["truncated"] and answer["windows"] == len(cut)
        assert all(answer[name] == alone[name] for name in ["attentions", "similarities", "tokens", "sentence_ids"])


@pytest.mark.parametrize("stride", [0, 7])
def test_windows_say_where_they_are(server, stride):
    whole = whole_of(server)
    n_text = len(whole["input_ids"]) - 2
    covered = []
    for index, answer in enumerate(all_windows(server, {"text": TEXT, "stride": stride, **MAPS})):
        start, end = answer["window"]["tokens"]
        assert answer["window"]["index"] == index and start == index * (WINDOW - 2 - stride)
        for name in ["input_ids", "offset_mapping", "word_ids"]:
            assert answer[name][1:-1] == whole[name][1 + start:1 + end]
        assert answer["window"]["chars"] == [answer["offset_mapping"][1][0], answer["offset_mapping"][-2][1]]
        covered += range(start, end)
    assert sorted(set(covered)) == list(range(n_text)) and (stride or len(covered) == n_text)


def test_a_short_text_is_its_only_window(server):
    plain = server.analyze({"text": "The river.", **MAPS})
    window = server.analyze({"text": "The river.", "window": 0, **MAPS})
    assert window.pop("windows") == 1 and window.pop("window") == {"index": 0, "tokens": [0, 3], "chars": [0, 10]}
    for answer in (plain, window):
        answer.pop("timings_ms", None)
    assert window == plain and not plain["truncated"]
    empty = server.analyze({"text": "", "window": 0, **MAPS})
    assert empty["window"] == {"index": 0, "tokens": [0, 0], "chars": [0, 0]} and not empty["truncated"]


def test_the_second_text_of_a_pair_is_cut(server):
    pair = {"text": "the old bridge", "text_pair": TEXT}
    whole = whole_of(server, **pair)
    n_before = whole["token_type_ids"].index(1)
    cut = windows_of(whole["input_ids"], 4, n_before)
    answers = all_windows(server, {**pair, "stride": 4, **MAPS})
    assert [answer["input_ids"] for answer in answers] == cut
    assert all(answer["token_type_ids"][:n_before + 1] == [0] * n_before + [1] for answer in answers)
    assert answers[0]["window"]["chars"][0] == 0 and answers[-1]["window"]["chars"][1] == len(TEXT)


def test_words_are_cut_and_have_no_places_in_a_text(server):
    words = TEXT.split()
    whole = server.analyze({"words": words, "max_tokens": 512, "outputs": []})
    answers = all_windows(server, {"words": words, **MAPS})
    assert [answer["input_ids"] for answer in answers] == windows_of(whole["input_ids"], 0)
    assert all(answer["window"]["chars"] is None for answer in answers)
    assert npz(server, {"words": words, "window": 1, **MAPS})["window_chars"].tolist() == [-1, -1]


def test_binary_answers_and_tokens_say_the_same(server):
    request = {"text": TEXT, "window": 2, "stride": 3, **MAPS}
    answer, arrays, tensors = server.analyze(request), npz(server, request), safetensors(server, request)[1]
    tokens = server.post("/tokenize", {name: request[name] for name in ["text", "window", "stride", "max_tokens"]}).json()
    for found in (arrays, tensors):
        assert (int(found["window"]), int(found["windows"])) == (2, answer["windows"])
        assert [found["window_tokens"].tolist(), found["window_chars"].tolist()] == [answer["window"]["tokens"], answer["window"]["chars"]]
    for name in ["window", "windows", "input_ids", "offset_mapping", "truncated"]:
        assert tokens[name] == answer[name]
    np.testing.assert_array_equal(arrays["attentions"], np.array(answer["attentions"], np.float32))


def test_patches_take_their_values_from_the_same_window(server):
    other = TEXT.replace("the", "a")
    whole, source = whole_of(server), whole_of(server, text=other)
    assert len(whole["input_ids"]) == len(source["input_ids"])

    def patched(**origin):
        return [{"layers": [3], "heads": [1], "kind": "patch", "positions": "all", "from": origin}]
    answer = server.analyze({"text": TEXT, "window": 2, "interventions": patched(text=other), **MAPS})
    ids = windows_of(source["input_ids"], 0)[2]
    alone = server.analyze({"input_ids": answer["input_ids"], "interventions": patched(input_ids=ids), **MAPS})
    assert answer["similarities"] == alone["similarities"]
    refused = server.post("/analyze", {"text": TEXT, "window": 2, "interventions": patched(text="the war"), **MAPS})
    assert refused.status == 422 and refused.json()["pointer"] == "/interventions/0/from"
    assert "this text has 1 window of 24 tokens" in refused.json()["detail"]


@pytest.mark.parametrize(("fields", "pointer", "why"), [
    ({"window": 9}, "/window", "allowed are 0 to"),
    ({"window": 0, "text": "a " * 300000}, "/window", "more than 262144 tokens: cut it into several texts"),
    ({"window": 0, "text": "river " * 30, "text_pair": "war"}, "/window", "33 of max_tokens 24 go to what is in each window"),
])
def test_windows_that_do_not_exist_are_refused(server, fields, pointer, why):
    answer = server.post("/analyze", {"text": TEXT, **MAPS, **fields})
    assert answer.status == 422 and answer.json()["pointer"] == pointer and why in answer.json()["detail"]


def test_the_terminal_names_the_window(tmp_path):
    (tmp_path / "text").write_text(TEXT)
    arguments = ["analyze", str(tmp_path / "text"), "--max-tokens", str(WINDOW)]
    answer = json.loads(headscope(*arguments, "--window", "1", "--outputs", "pairs").stdout)
    assert f"mini: {WINDOW} tokens, window 1 of 0 to {answer['windows'] - 1}\r\n" in on_a_terminal(*arguments, "--window", "1")[1]
    assert "the text was cut (--max-tokens; --window 1 has its next part)" in on_a_terminal(*arguments)[1]
    refused = headscope(*arguments, "--window", "99")
    assert refused.returncode == 2 and f"--window is 99; this text has {answer['windows']} windows of 24 tokens".encode() in refused.stderr
