"""docs/reference/arrays.md names every array of a report and of an answer, with its axes and its type."""
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import Server
from corpus_runs import corpus, ndjson, texts
from test_formats import ask, npz, safetensors

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import family_deberta_v2  # noqa: E402
import predictor  # noqa: E402
import task_head  # noqa: E402

ARRAYS = (Path(__file__).parents[2] / "docs/reference/arrays.md").read_text(encoding="utf-8")
# Lengths that differ wherever they distinguish the axes.
WINDOW, THRESHOLDS, LAYERS, HEADS, PARTS = 23, [0.2, 0.3, 0.7], [0, 3], 12, 4
CLASSES = 6


def documented(section):
    """name -> (axes, dtype, whether safetensors says it in its metadata) of the section's table of arrays."""
    part = ARRAYS.split(f"\n## {section}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)`( \*)? \| ([^|]*?) ?\| (\w+) \|", part, re.M)
    assert len(rows) == len({row[0] for row in rows}) > 0
    return {name: (axes.split(), dtype, bool(star)) for name, star, axes, dtype in rows}


def assert_described(arrays, described, lengths, requested=None):
    for name, array in arrays.items():
        axes, dtype, _ = described[name]
        kind = "text" if array.dtype.kind == "U" else str(array.dtype)
        assert kind == (requested if dtype == "requested" else dtype), name
        assert len(array.shape) == len(axes), name
        for axis, length in zip(axes, array.shape):
            assert lengths.get(axis, length) == length, (name, axis)


def test_report_arrays(headscope, tmp_path):
    ndjson(tmp_path / "texts.jsonl", texts(20))
    done = corpus(headscope, tmp_path / "texts.jsonl", "-o", tmp_path / "out", "--max-tokens", WINDOW,
                  "--layers", ",".join(map(str, LAYERS)), "--thresholds", ",".join(map(str, THRESHOLDS)),
                  "--head-distances", "cka", "--masked-share", "0.15", small=False)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "out" / "report.npz") as file:
        arrays = dict(file)
    others = ("syntax_", "label_", "pruning_", "importance_", "cut_", "attention_reached", "all_far_repeated", "far_repeated")
    # of CoNLL-U, labelled texts, --pruning-share, --importance, --cut-attention, cross heads, long texts
    described = {name: row for name, row in documented("Report").items() if not name.startswith(others)}
    assert list(arrays) == list(described)
    assert_described(arrays, described, {
        "p": PARTS, "t": len(THRESHOLDS), "l": len(LAYERS), "h": HEADS, "i": WINDOW, "j": WINDOW, "δ": WINDOW,
        "k": HEADS + 1, "b": 20, "n": 101, "c": 100, "r": 5, "f": 50, "3": 3,
        "17": 17, "l*h": len(LAYERS) * HEADS})
    said = json.loads((tmp_path / "out" / "report.json").read_text())["arrays"]
    assert list(said) == [name for name in arrays if name != "provenance"]
    for name, entry in said.items():
        assert len(entry["axes"]) == arrays[name].ndim and entry["unit"] and entry["meaning"], name


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Arrays of a model of mini's shape that has everything: a head, and scores that are a sum."""
    folder = tmp_path_factory.mktemp("model") / "deberta"
    family_deberta_v2.write_random(folder, n_layers=12, n_heads=HEADS, hidden=144)
    task_head.add(predictor.add(folder), "SequenceClassification", CLASSES)
    running = Server("--model", f"x={folder}")
    yield running
    assert running.stop() == 0


# Arrays of requests that these are not: test_windows.py, test_stacks.py and the tests of prompts, heads of tasks, gradients, logit
# attributions and contacts read them.
OTHERS = "logit_attributions|next_sentence|answer_|generated|(start|end)_logits|loss|prompt|window|stack|source_|target_source|target_estimated|contacts"
# Outputs of the unchanged pass only, or that need a text to patch from.
UNCHANGED = ("contributions", "alti", "value_zeroing", "patch_map")


@pytest.fixture(scope="module")
def body(server):
    """A request for every output that goes with interventions, except for those of other heads and models."""
    schema = server.get("/openapi.json").json()["components"]["schemas"]["AnalyzeRequest"]
    outputs = [name for name in schema["properties"]["outputs"]["items"]["enum"]
               if name not in ("next_sentence", "answer", "loss", "logit_attributions", "contacts", *UNCHANGED)]
    return {"text": "The war ended. It was a war.", "text_pair": "A war?", "layers": LAYERS, "heads": [1, 5, 7],
            "outputs": outputs, "dtype": "f2", "interventions": [{"kind": "zero", "heads": [2]}],
            "predictions": {"positions": [1, 3, 4], "top_k": 4, "lens": True}, "attribution": "integrated_gradients", "steps": 4}


@pytest.fixture(scope="module")
def unchanged(server, body):
    """A request for the other outputs, with effects of a patch from another text."""
    ids = ask(server, body).json()["input_ids"]
    request = {name: value for name, value in body.items() if name not in ("interventions", "predictions", "attribution", "steps")}
    return {**request, "outputs": ["effects", *UNCHANGED],
            "effects_of": {"kind": "patch", "from": {"input_ids": [ids[0], ids[2], *ids[2:]]}}}


@pytest.mark.parametrize("read, is_distinguished", [(npz, False), (lambda *request: safetensors(*request)[1], True)])
def test_answer_arrays(server, body, unchanged, read, is_distinguished):
    described = {name: row for name, row in documented("Answer").items()
                 if not (is_distinguished and row[2]) and not re.search(OTHERS, name)}
    arrays = {**read(server, body), **read(server, unchanged)}
    assert set(arrays) == set(described)
    assert_described(arrays, described, {
        "T": len(arrays["input_ids"]), "U": len(arrays["input_ids"]), "l": 2, "h": 3, "kv": 3, "l+1": 3,
        "L+1": 13, "17": 17, "l*h+1": 7, "d": 12, "D": 144, "2": 2, "P": len(arrays["pairs_i"]), "M": 3, "K": 4, "C": CLASSES, "G": len(arrays["segments_layer"])}, "float16")


def test_safetensors_metadata(server, body):
    available = {name for name, row in documented("Answer").items() if row[2] and not re.search(OTHERS, name)}
    assert set(safetensors(server, body)[0]) == {"format", *available}
