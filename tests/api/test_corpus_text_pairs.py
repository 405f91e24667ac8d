"""Corpus records with two texts: each pair is one sequence, as /analyze makes it."""
import json
import random
import subprocess

import numpy as np
import pytest
from corpus_runs import WORDS, arrays, assert_same, corpus, report
from test_corpora import OPTIONS, send, wait

LAYERS = [0, 2]


def pairs(n):
    rng = random.Random(5)
    return [{"text": " ".join(rng.choices(WORDS, k=rng.randint(1, 14))),
             "text_pair": " ".join(rng.choices(WORDS, k=rng.randint(0, 14)))} for _ in range(n)]


def jsonl(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture(scope="module")
def run(headscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    jsonl(folder / "in.jsonl", pairs(40) + [{"text": "the war", "text_pair": None}])
    done = corpus(headscope, folder / "in.jsonl", "-o", folder / "out", "--search-texts", "50")
    assert done.returncode == 0, done.stderr
    return folder


def test_counts_are_those_of_analyze(server, run):
    data, n_tokens = arrays(run / "out"), 0
    expected = {name: np.zeros((2, 12), np.int64) for name in ("high", "repeated", "same_sentence")}
    even = np.zeros(2, np.int64)
    for record in pairs(40) + [{"text": "the war"}]:
        answer = server.analyze({**record, "layers": LAYERS, "max_tokens": 24, "outputs": ["pairs"], "max_pairs": 1000000})
        n_tokens += len(answer["tokens"])
        sentences = np.array(answer["sentence_ids"])
        above = np.triu_indices(len(sentences), 1)
        ordinary = ~np.array(answer["special_tokens_mask"], bool)  # special tokens are in no sentence
        same = (sentences[above[0]] == sentences[above[1]]) & ordinary[above[0]] & ordinary[above[1]]
        even += [len(above[0]), np.count_nonzero(same)]
        for pair in answer["pairs"]:
            at = LAYERS.index(pair["layer"]), pair["head"]
            expected["high"][at] += 1
            expected["repeated"][at] += pair["same_token"]
            expected["same_sentence"][at] += pair["same_sentence"]
    assert report(run / "out")["tokens"] == n_tokens
    assert [data["all_pairs"], data["all_same_sentence"]] == even.tolist()
    for name, counts in expected.items():
        assert np.array_equal(data[name][2], counts), name


def test_every_format_gives_the_same(headscope, run, tmp_path):
    table = "premise,label,hypothesis\n" + "".join(
        ",".join(json.dumps(value, ensure_ascii=False) for value in (record["text"], 1, record["text_pair"])) + "\n" for record in pairs(40))
    (tmp_path / "in.csv").write_text(table)
    jsonl(tmp_path / "in.jsonl", [{"q": record["text"], "p": {"q": record["text_pair"]}} for record in pairs(40)])
    named = ["--field", "premise", "--pair-field", "hypothesis"]
    assert corpus(headscope, tmp_path / "in.csv", "-o", tmp_path / "csv", *named).returncode == 0
    assert corpus(headscope, tmp_path / "in.jsonl", "-o", tmp_path / "jsonl", "--field", "q", "--pair-field", "p.q").returncode == 0
    jsonl(tmp_path / "in.json", pairs(40))
    assert corpus(headscope, tmp_path / "in.json", "-o", tmp_path / "json", "--input-format", "jsonl").returncode == 0
    expected = arrays(tmp_path / "json")
    for folder in ("csv", "jsonl"):
        for name, value in arrays(tmp_path / folder).items():
            assert value.tobytes() == expected[name].tobytes(), (folder, name)


def test_examples_have_both_texts(run):
    kept = {example["number"]: example for example in report(run / "out")["examples"]["texts"]}
    given = pairs(40)
    for number, example in kept.items():
        if number < 40:
            assert given[number]["text"].startswith(example["text"]) and given[number]["text_pair"].startswith(example["text_pair"])
    assert "text_pair" not in kept[40]
    page = (run / "out" / "report.html").read_text()
    assert page.count("&amp;pair=") == 40


def test_shards_merge_to_the_whole(headscope, run, tmp_path):
    for shard in range(3):
        assert corpus(headscope, run / "in.jsonl", "-o", tmp_path / "shards" / str(shard), "--shard", f"{shard}/3").returncode == 0
    assert corpus(headscope, run / "in.jsonl", "-o", tmp_path / "whole").returncode == 0
    subprocess.run([headscope, "merge", "-o", tmp_path / "merged", *sorted((tmp_path / "shards").iterdir())], check=True)
    assert_same(tmp_path / "whole", tmp_path / "merged")


@pytest.mark.parametrize(("record", "options", "why"), [
    ({"text": "a", "text_pair": 3}, [], "no second text: text_pair must be a string or a list of strings"),
    ({"text": "a", "text_pair": "b"}, ["--pair-field", "p"], "no second text: p must be a string"),
    ({"text": "a", "text_target": "b"}, [], "text_target is not read by runs"),
    ({"text": "a", "text_pair": "b"}, ["--special-tokens", "mask"], "special_tokens must be keep"),
])
def test_what_is_no_pair_is_a_bad_line(headscope, tmp_path, record, options, why):
    done = corpus(headscope, jsonl(tmp_path / "in.jsonl", [record]), "-o", tmp_path / "out", *options)
    assert done.returncode == 1 and why in done.stderr


def test_columns_that_are_not_there_are_named(headscope, tmp_path):
    (tmp_path / "in.csv").write_text("text,text_target\na,b\n")
    (tmp_path / "two.csv").write_text("text,other\na,b\n")
    (tmp_path / "in.txt").write_text("a\n")
    for name, options, why in (("in.csv", [], "a column 'text_target', which a run without stack does not read"),
                               ("two.csv", ["--pair-field", "p"], "no column 'p' for the pair_field"),
                               ("in.txt", ["--input-format", "text", "--pair-field", "p"], "has no field 'p'")):
        done = corpus(headscope, tmp_path / name, "-o", tmp_path / "out", *options)
        assert done.returncode == 1 and why in done.stderr, done.stderr


def test_a_field_alone_is_read_by_its_name(headscope, tmp_path):
    jsonl(tmp_path / "in.jsonl", pairs(3))
    assert corpus(headscope, tmp_path / "in.jsonl", "-o", tmp_path / "out", "--field", "text").returncode == 0
    assert all("text_pair" not in example for example in report(tmp_path / "out")["examples"]["texts"])


def test_uploads_have_pairs_that_a_search_shows(start_server, tmp_path):
    server = start_server("--state", tmp_path / "state")
    body = "".join(json.dumps({"q": record["text"], "p": record["text_pair"]}) + "\n" for record in pairs(6)).encode()
    sent = send(server, body, f"{OPTIONS}&field=q&pair_field=p&search_texts=6", {"Content-Type": "application/x-ndjson"})
    run = wait(server, sent.headers["Location"])
    assert run["state"] == "done"
    found = server.get(f"/corpora/{run['id']}/search?layer=0&head=0&limit=1000").json()
    shown = [(pair["body"], pair[end]["token"], *pair[end]["chars"]) for pair in found["pairs"] for end in ("from", "to")]
    plain = [(body[start:end], token) for body, token, start, end in shown if token in WORDS]
    assert plain and all(text == token for text, token in plain)
    assert any(start > body.index("\n") for body, token, start, _ in shown if token in WORDS)
