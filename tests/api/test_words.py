"""Maps of whole words in place of their pieces: against NumPy from the maps of tokens, in every format, and in figures."""
import csv
import io
import json
import os
import subprocess

import numpy as np
import pytest
from test_formats import npz, safetensors
from test_reference import assert_close

HEADSCOPE = os.environ["HEADSCOPE"]
TEXT = "Archaeologists photographed unbelievably ornamented sarcophagi. Photographers applauded!"
PAIR = {"text": "Archaeologists photographed", "text_pair": "Archaeologists photographed sarcophagi"}
REQUESTS = {
    "text": {"text": TEXT},
    "pair": PAIR,
    "normalised": {"text": TEXT, "normalize": "max", "special_tokens": "mask"},
    "centred mean": {"text": TEXT, "center": "text", "reduce": "mean"},
    "words": {"words": ["sarcophagi", "photographers applauded", "!"]},
    "changed": {"text": TEXT, "interventions": [{"kind": "zero", "layers": [2], "heads": [1]}]},
    "empty": {"text": ""},
}


def words_of(answer):
    """The runs of tokens with one number, in one text."""
    words, last = [], None
    for i, number in enumerate(answer["word_ids"]):
        key = None if number is None else (number, answer["token_type_ids"][i])
        if key is None or key != last:
            words.append([i, i + 1])
        else:
            words[-1][1] = i + 1
        last = key
    return words


def merged(maps, rows, columns, over_columns):
    maps = np.asarray(maps, float)
    down = np.stack([maps[..., a:b, :].mean(-2) for a, b in rows], -2)
    return np.stack([getattr(down[..., a:b], over_columns)(-1) for a, b in columns], -1)


@pytest.mark.parametrize("name", REQUESTS)
def test_maps_of_words_follow_from_those_of_tokens(server, name):
    request = {**REQUESTS[name], "layers": "all", "digits": 9}
    whole = server.analyze({**request, "outputs": ["attentions", "similarities"]})
    some = server.analyze({**request, "outputs": ["word_attentions", "word_similarities"]})
    words = words_of(whole)
    assert some["word_tokens"] == words and "source_word_tokens" not in some
    assert len(words) < len(whole["tokens"]) or name == "empty"
    attention = np.asarray(some["word_attentions"])
    assert_close(attention, merged(whole["attentions"], words, words, "sum"), 1e-6)
    assert_close(attention.sum(-1), np.ones(attention.shape[:-1]), 1e-5)
    expected = merged(whole["similarities"], words, words, "mean")
    expected[..., range(len(words)), range(len(words))] = 0
    assert_close(np.asarray(some["word_similarities"]), expected, 1e-6 * max(1, np.abs(expected).max()))


def test_given_ids_are_words_by_themselves(server):
    ids = server.analyze({"text": TEXT, "outputs": []})["input_ids"]
    answer = server.analyze({"input_ids": ids, "outputs": ["attentions", "word_attentions"]})
    assert answer["word_tokens"] == [[i, i + 1] for i in range(len(ids))]
    assert answer["word_attentions"] == answer["attentions"]


def test_formats_agree(server):
    request = {"text": TEXT, "layers": [0, 3], "heads": [1, 5], "digits": 9, "outputs": ["word_attentions", "word_similarities"]}
    answer, arrays, tensors = server.analyze(request), npz(server, request), safetensors(server, request)[1]
    for name in ("word_tokens", "word_attentions", "word_similarities"):
        assert np.array_equal(arrays[name], tensors[name])
        assert_close(arrays[name], np.array(answer[name]), 1e-6 * np.abs(arrays[name]).max())


def test_figures_draw_words(server, tmp_path):
    request = {"text": TEXT, "layers": [1], "heads": [4]}
    maps = npz(server, {**request, "outputs": ["word_attentions"]})["word_attentions"][0, 0]
    figure = {"merge_words": True}
    rows = list(csv.DictReader(io.StringIO(server.post("/analyze?format=csv", {**request, "figure": figure}).body.decode())))
    assert len(rows) == maps.size
    for row in rows:
        assert float(row["value"]) == pytest.approx(maps[int(row["row"]), int(row["column"])], rel=1e-5, abs=1e-9)
    labels = {row["row_label"] for row in rows}
    assert "archaeologists" in {label.lower() for label in labels} and not any("##" in label for label in labels)
    svg = server.post("/analyze?format=svg", {**request, "figure": {**figure, "show": "both", "width_mm": 300}})
    assert svg.status == 200 and b">archaeologists<" in svg.body.lower()
    out = tmp_path / "words.svg"
    subprocess.run([HEADSCOPE, "plot", TEXT, "--layers", "1", "--heads", "4", "--merge-words", "-o", out], check=True)
    assert "archaeologists" in out.read_text().lower()


def test_figures_of_no_maps_refuse_words(server):
    answer = server.post("/analyze?format=svg", {"text": TEXT, "figure": {"kind": "distances", "merge_words": True}})
    assert (answer.status, json.loads(answer.body)["pointer"]) == (422, "/figure/merge_words")
