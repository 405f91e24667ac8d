"""Prompts of sentence encoders: which one applies, what pooling leaves out, and offsets that stay the text's."""
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import served_models, until
from corpus_runs import arrays, corpus, ndjson, report

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import family_bert  # noqa: E402
from test_classes import check  # noqa: E402
from test_embedding import POOLS, TEXT, write_modules  # noqa: E402
from test_formats import npz, safetensors  # noqa: E402

PROMPTS = {"query": "find the war: ", "document": "", "glued": "air"}
FILE = "config_sentence_transformers.json"
# name -> ways of pooling, include_prompt
ENCODERS = {"mean": (["mean"], False), "cls": (["cls", "max"], False), "last": (["lasttoken", "mean_sqrt_len_tokens"], False),
            "weighted": (["weightedmean"], False), "whole": (["mean"], True)}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root, made = tmp_path_factory.mktemp("prompts"), {}
    for name, (ways, include) in ENCODERS.items():
        made[name] = family_bert.write_random(root / name)
        hidden = json.loads((made[name] / "config.json").read_text())["hidden_size"]
        write_modules(made[name], ways, [], False, hidden,
                      {"embedding_dimension": hidden, "pooling_mode": ways, "include_prompt": include})
        (made[name] / FILE).write_text(json.dumps({"prompts": PROMPTS, "default_prompt_name": "query"}))
    made["bare"] = family_bert.write_random(root / "bare")
    made["many"] = family_bert.write_random(root / "many")
    write_modules(made["many"], ["mean"], [], False, hidden)
    (made["many"] / FILE).write_text(json.dumps({"prompts": {f"prompt {i}": "a" for i in range(90)}}))
    return made


@pytest.fixture(scope="module")
def served(folders):
    yield from served_models(folders)


def ask(server, model, **fields):
    return server.analyze({"text": TEXT, "model": model, "outputs": ["embedding", "hidden_states"], "digits": 9,
                           "layers": "all", **fields})


def pooled(states, ways, first):
    """Pools in float64 without the first tokens. weightedmean keeps the weights of the whole text."""
    def one(way):
        weights = np.arange(1, len(states) + 1)[first:]
        return weights @ states[first:] / weights.sum() if way == "weightedmean" else POOLS[way](states[first:])
    return np.concatenate([one(way) for way in ways])


@pytest.mark.parametrize("name", ENCODERS)
def test_vectors_leave_out_the_prompt_unless_it_is_included(served, name):
    ways, include = ENCODERS[name]
    found = ask(served, name)
    prompt = found["prompt"]
    assert prompt["name"] == "query" and prompt["text"] == PROMPTS["query"]
    alone = served.post("/tokenize", {"text": PROMPTS["query"], "model": name, "prompt_name": ""}).json()
    assert prompt["tokens"] == len(alone["tokens"]) - 1 and found["tokens"][:prompt["tokens"]] == alone["tokens"][:-1]
    check(found["embedding"]["vector"], pooled(np.array(found["hidden_states"][-1]), ways, 0 if include else prompt["tokens"]))


def test_the_prompt_is_the_text_before_the_text(served):
    for prompt in PROMPTS:
        named = ask(served, "whole", prompt_name=prompt)
        written = ask(served, "whole", text=PROMPTS[prompt] + TEXT, prompt_name="")
        assert named["input_ids"] == written["input_ids"] and named["embedding"] == written["embedding"]
        assert named["prompt"]["name"] == prompt and "prompt" not in written


def test_offsets_and_words_are_those_of_the_text(served):
    plain, named = (served.post("/tokenize", {"text": TEXT, "model": "mean", "prompt_name": name}).json() for name in ("", "query"))
    n = named["prompt"]["tokens"]
    assert named["tokens"][n:] == plain["tokens"][1:]
    for member in ("offset_mapping", "word_ids", "special_tokens_mask"):
        assert named[member][n:] == plain[member][1:], member
    assert all(offsets == [0, 0] for offsets in named["offset_mapping"][:n])
    assert named["word_ids"][:n] == [None] * n and named["special_tokens_mask"][:n] == [1] + [0] * (n - 1)


def test_a_token_of_prompt_and_text_has_the_offsets_of_its_part_of_the_text(served):
    found = served.post("/tokenize", {"text": "port", "model": "mean", "prompt_name": "glued"}).json()
    whole = served.post("/tokenize", {"text": "airport", "model": "mean", "prompt_name": ""}).json()
    assert found["tokens"] == whole["tokens"]
    for (start, end), (low, high), word in zip(found["offset_mapping"], whole["offset_mapping"], found["word_ids"]):
        assert [start, end] == [max(low - 3, 0), max(high - 3, 0)]
        assert word == (0 if high > 3 else None)


def test_models_list_their_prompts(served, headscope, folders):
    models = {model["name"]: model for model in served.get("/models").json()["models"]}
    assert models["mean"]["prompts"] == PROMPTS and models["mean"]["default_prompt_name"] == "query"
    assert models["bare"]["prompts"] == {} and models["bare"]["default_prompt_name"] is None
    out = subprocess.run([headscope, "models", str(folders["mean"])], capture_output=True, text=True, check=True).stdout
    assert '  prompt "query" (default): "find the war: "\n' in out and '  prompt "document": ""\n' in out


def test_other_formats_name_the_prompt(served):
    fields = {"text": TEXT, "model": "mean", "outputs": ["embedding"]}
    n = served.analyze(fields)["prompt"]["tokens"]
    arrays, (metadata, tensors) = npz(served, fields), safetensors(served, fields)
    assert arrays["prompt_tokens"] == n == tensors["prompt_tokens"]
    assert arrays["prompt"] == metadata["prompt"] == "query"


@pytest.mark.parametrize("fields, part", [
    ({"prompt_name": "title"}, '"query", "document", "glued"'),
    ({"prompt_name": None}, '"query"'),
    ({"prompt_name": "title", "model": "many"}, '"prompt 7", "prompt 8", "prompt 9", '),
    ({"prompt_name": "title", "model": "many"}, '", ...'),
    ({"prompt_name": "query", "model": "bare"}, "this model has no prompts"),
    ({"prompt_name": "query", "text": None, "words": ["a"]}, "'text' only"),
])
def test_prompts_that_are_refused(served, fields, part):
    fields = {"text": TEXT, "model": "mean", **fields}
    answer = served.post("/analyze", {k: v for k, v in fields.items() if k != "text" or v is not None})
    assert answer.status == 422 and answer.json()["pointer"] == "/prompt_name" and part in answer.json()["detail"]


def test_only_the_first_window_would_have_the_prompt(served):
    fields = {"text": TEXT, "model": "mean", "window": 0, "outputs": []}
    answer = served.post("/analyze", fields)
    assert answer.status == 422 and answer.json()["pointer"] == "/window" and 'send prompt_name ""' in answer.json()["detail"]
    assert served.analyze({**fields, "prompt_name": ""})["windows"] == 1


def test_words_and_ids_get_no_prompt(served):
    for given in ({"words": ["war"]}, {"input_ids": [5, 6]}):
        assert "prompt" not in served.post("/analyze", {"model": "mean", **given}).json()


def test_the_cosine_of_two_texts_is_a_target(served):
    query = ask(served, "mean", text="a war")["embedding"]["vector"]
    plain = ask(served, "mean")["embedding"]["vector"]
    zero = [{"layers": [1], "heads": [2], "kind": "zero"}]
    changed = ask(served, "mean", interventions=zero, target={"cosine": query})
    cosine = [np.dot(query, v) / np.linalg.norm(query) / np.linalg.norm(v) for v in (plain, changed["embedding"]["vector"])]
    check([changed["changes"]["target"]["before"], changed["changes"]["target"]["after"]], np.array(cosine))
    effects = served.analyze({"text": TEXT, "model": "mean", "outputs": ["effects"], "layers": "all", "digits": 9,
                              "target": {"cosine": query}})["effects"]
    assert effects[1][2]["target_change"] == pytest.approx(cosine[1] - cosine[0], abs=1e-6)


def test_a_cosine_needs_numbers(served):
    n = len(ask(served, "mean")["embedding"]["vector"])
    for wrong in ("x", None, 1e39):
        answer = served.post("/analyze", {"text": TEXT, "model": "mean", "outputs": ["effects"], "target": {"cosine": [1] * (n - 1) + [wrong]}})
        assert answer.status == 422 and answer.json()["pointer"] == "/target/cosine" and f"a list of {n} numbers" in answer.json()["detail"]


@pytest.mark.parametrize("vector", [[1, 2], "x", [], None])
def test_a_cosine_needs_a_vector_of_the_same_width(served, vector):
    answer = served.post("/analyze", {"text": TEXT, "model": "mean", "outputs": ["effects"], "target": {"cosine": vector}})
    assert answer.status == 422 and answer.json()["pointer"] == "/target/cosine" and "list of" in answer.json()["detail"]


def test_a_corpus_run_puts_a_named_prompt_before_its_texts(headscope, folders, tmp_path):
    """A run with a prompt has the figures of a run over texts that begin with it. Empty texts stay left out."""
    lines = [TEXT, "the war was long.", "", "port"]
    ndjson(tmp_path / "plain.jsonl", lines)
    ndjson(tmp_path / "written.jsonl", [line and PROMPTS["query"] + line for line in lines])
    (tmp_path / "model").symlink_to(folders["mean"])

    def run(name, out, *options):
        return corpus(headscope, tmp_path / f"{name}.jsonl", "-o", tmp_path / out, "--model", tmp_path / "model", *options, small=False)

    for name, out, *options in [("plain", "none"), ("plain", "named", "--prompt-name", "query"), ("written", "written")]:
        done = run(name, out, *options)
        assert done.returncode == 0, done.stderr
    sums = [arrays(tmp_path / out) for out in ("named", "written")]
    assert {name: array.tobytes() for name, array in sums[0].items()} == {name: array.tobytes() for name, array in sums[1].items()}
    none, named, written = (report(tmp_path / out) for out in ("none", "named", "written"))
    options = [one["provenance"]["options"] for one in (none, named)]
    assert [one["prompt_name"] for one in options] == [None, "query"]
    assert [one["prompt"] for one in options] == [None, PROMPTS["query"]]
    assert named["empty_texts"] == 1 and named["one_text"]["tokens"] == written["one_text"]["tokens"] != none["one_text"]["tokens"]
    assert f"“{PROMPTS['query']}”" in (tmp_path / "named" / "report.html").read_text(encoding="utf-8")
    assert "<dt>Prompt" not in (tmp_path / "none" / "report.html").read_text(encoding="utf-8")
    done = run("plain", "named", "--prompt-name", "glued", "--resume")
    assert done.returncode == 1 and "prompt" in done.stderr
    done = run("plain", "other", "--prompt-name", "title")
    assert done.returncode == 1 and '--prompt-name is "title"' in done.stderr and '"query"' in done.stderr


def test_a_run_of_the_service_takes_a_prompt(start_server, folders, tmp_path):
    server = start_server("--model", f"mean={folders['mean']}", "--state", str(tmp_path))
    kind = {"Content-Type": "text/plain"}
    run = server.request("POST", "/corpora?prompt_name=query", TEXT.encode(), kind).json()
    until(lambda: server.get(f"/corpora/{run['id']}").json()["state"], lambda state: state == "done")
    assert server.get(f"/corpora/{run['id']}/report").json()["provenance"]["options"]["prompt_name"] == "query"
    refused = server.request("POST", "/corpora?prompt_name=title", TEXT.encode(), kind)
    assert refused.status == 422 and refused.json()["pointer"] == "/prompt_name" and '"query"' in refused.json()["detail"]


@pytest.mark.parametrize("text, part", [
    ("[]", "not a JSON object"),
    ('{"prompts": []}', "prompts must be an object"),
    ('{"prompts": {"a": 1}}', "the prompt a must be a string"),
    ('{"prompts": {"": "x"}}', "has 0 bytes"),
    (json.dumps({"prompts": {"a": "x" * 16385}}), "at most 16384 bytes"),
    (json.dumps({"prompts": {"a" * 201: "x"}}), "has 201 bytes"),
    (json.dumps({"prompts": {str(i): "x" for i in range(1025)}}), "at most 1024"),
    ('{"prompts": {"a": "x"}, "default_prompt_name": "b"}', "default_prompt_name is b"),
    ('{"prompts": {"a": "x"}, "default_prompt_name": 1}', "default_prompt_name"),
])
def test_files_that_are_refused(headscope, tmp_path, text, part):
    folder = family_bert.write_random(tmp_path / "model")
    write_modules(folder, ["mean"], [], False, json.loads((folder / "config.json").read_text())["hidden_size"])
    (folder / FILE).write_text(text)
    done = subprocess.run([headscope, "models", str(folder)], capture_output=True, text=True)
    assert done.returncode == 1 and part in done.stderr and FILE in done.stderr, done.stderr


# Computes vectors with sentence-transformers in float64, by prompt, from encoders that it saved.
ORACLE = """
import sys
try:
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
except ImportError as error:
    print(error)
    sys.exit(77)
import json
base, root, texts = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
prompts = {"query": "query: ", "long": "Represent the na\u00efve \u6771 sentence: ", "glued": "air"}
vectors = {}
for name, ways, include in (("a", "mean", False), ("b", ["cls", "max", "weightedmean"], False),
                            ("c", ["mean_sqrt_len_tokens", "lasttoken"], False), ("d", "mean", True)):
    body = Transformer(base)
    pooling = Pooling(body.get_embedding_dimension(), pooling_mode=ways, include_prompt=include)
    model = SentenceTransformer(modules=[body, pooling, Normalize()], device="cpu", prompts=dict(prompts), default_prompt_name="query")
    model.save(f"{root}/{name}")
    model = SentenceTransformer(f"{root}/{name}", device="cpu").double()
    for prompt in (None, "", *prompts):
        named = {} if prompt is None else {"prompt": ""} if prompt == "" else {"prompt_name": prompt}
        vectors[f"{name} {prompt}"] = [model.encode(text, **named).tolist() for text in texts]
print(json.dumps(vectors))
"""


def compare_with_sentence_transformers(base, root):
    python = os.environ.get("TRANSFORMERS_PYTHON", sys.executable)
    texts = [TEXT, "port \u6771\u4eac!", "a"]
    done = subprocess.run([python, "-c", ORACLE, base, root, json.dumps(texts)], capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip(f"{python}: {done.stdout.strip()}; TRANSFORMERS_PYTHON may name another")
    assert done.returncode == 0, done.stderr
    servers = served_models({name: root / name for name in "abcd"})
    server = next(servers)
    vectors = json.loads(done.stdout.splitlines()[-1])
    assert len(vectors) == 20
    for key, expected in vectors.items():
        name, _, prompt = key.partition(" ")
        for text, vector in zip(texts, expected):
            options = {} if prompt == "None" else {"prompt_name": prompt}
            check(server.analyze({"text": text, "model": name, "outputs": ["embedding"], "digits": 9, **options})["embedding"]["vector"],
                  np.array(vector))
    next(servers, None)


def test_against_sentence_transformers(tmp_path):
    compare_with_sentence_transformers(Path(__file__).parents[2] / "model" / "mini", tmp_path)
