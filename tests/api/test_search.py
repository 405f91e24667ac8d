"""Searches and typical texts of a corpus run, beside an own reading of the maps of /analyze."""
import contextlib
import gzip
import io
import json
import math
import os
import random
import shutil
import socket
import sqlite3
import struct
import subprocess
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
from conftest import HEADSCOPE, PATIENCE, Server, until
from corpus_runs import ndjson
from test_client_python import package as headscope
from test_corpora import send, wait
from test_syntax import place_tokens, sentence

LAYERS, PAIRS = [1, 4], 32
OPTIONS = ["--layers", "1,4", "--examples", "5", "--search-texts", "24"]
TAGS = ["NOUN", "VERB", "DET"]


def tagged(block, choose):
    """The block with other parts of speech than NOUN for some words, and those by (start of the line, tag)."""
    lines = []
    for line in block.split("\n"):
        columns = line.split("\t")
        if len(columns) == 10 and columns[0].isdigit():
            columns[3] = choose.choice(TAGS)
        lines.append("\t".join(columns))
    return "\n".join(lines)


@pytest.fixture(scope="module")
def bank(tmp_path_factory):
    choose = random.Random(3)
    made = [sentence(choose, number) for number in range(40)]
    blocks = [tagged(block, choose) for block, _, _ in made]
    path = tmp_path_factory.mktemp("bank") / "bank.conllu"
    path.write_text("\n".join(blocks))
    return path, blocks, [text for _, text, _ in made], [words for _, _, words in made]


def corpus(path, out, *options):
    subprocess.run([HEADSCOPE, "corpus", path, "-o", out, *OPTIONS, *options], check=True, capture_output=True, timeout=PATIENCE)
    return out


@pytest.fixture(scope="module")
def run(bank, tmp_path_factory):
    return corpus(bank[0], tmp_path_factory.mktemp("run") / "out")


def search(folder, head, **options):
    arguments = [f"--{name}={value}" for name, value in options.items()]
    done = subprocess.run([HEADSCOPE, "search", folder, f"--head={head}", "--format=json", *arguments], capture_output=True,
                          text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def maps(server, bank):
    """For each text: tokens, special, attention and similarity [l][h][T][T], and the words of the tokens."""
    found = []
    for text, words in zip(bank[2], bank[3]):
        got = server.post("/analyze?format=npz", {"text": text, "layers": LAYERS, "outputs": ["attentions", "similarities"]})
        answer = np.load(io.BytesIO(got.body))
        special = answer["special_tokens_mask"].astype(bool)
        found.append((answer["tokens"], special, answer["attentions"], answer["similarities"],
                      place_tokens(words, answer["offset_mapping"], special)))
    return found


def partners(weights, special):
    """(i, j, weight): of each token that is not special its strongest other one, the strongest 32."""
    kept = []
    for i in np.flatnonzero(~special):
        row = np.where(special, -np.inf, weights[i])
        row[i] = -np.inf
        kept += [(int(i), int(row.argmax()), float(row.max()))] if np.isfinite(row.max()) else []
    return sorted(kept, key=lambda pair: -pair[2])[:PAIRS]


def pairs_of(maps, layer, head, of):
    """(text, i, j, weight) of the first 24 texts."""
    listed = []
    for number, (_, special, attention, similarity, _) in enumerate(maps[:24]):
        weights = attention[layer, head]
        if of == "similarity":
            weights = similarity[layer, head] / similarity[layer, head][~np.eye(len(special), dtype=bool)].max()
        listed += [(number, *pair) for pair in partners(weights, special) if pair[2] >= 0]
    return sorted(listed, key=lambda pair: -pair[3])


def pos_of(block, words):
    """The part of speech of each word of the text: that of its first part."""
    tags, joined = [], None
    for line in block.split("\n"):
        columns = line.split("\t")
        if len(columns) != 10 or "." in columns[0]:
            continue
        if "-" in columns[0]:
            joined = int(columns[0].split("-")[1])
            tags.append(None)
            continue
        if joined is not None and int(columns[0]) <= joined:
            tags[-1] = tags[-1] or columns[3]
        else:
            tags.append(columns[3])
    assert len(tags) == len(words)
    return tags


def assert_pairs(answer, expected):
    assert answer["total"] == len(expected) and answer["texts"] == 24
    weights = [pair["weight"] for pair in answer["pairs"]]
    np.testing.assert_allclose(weights, [pair[3] for pair in expected[:len(weights)]], rtol=1e-4, atol=1e-6)
    assert weights == sorted(weights, reverse=True)
    places = {(pair[0], pair[1], pair[2]) for pair in expected}
    assert all((pair["text"], pair["from"]["position"], pair["to"]["position"]) in places for pair in answer["pairs"])


@pytest.mark.parametrize("of", ["attention", "similarity"])
@pytest.mark.parametrize(("layer", "head"), [(0, 3), (1, 7)])
def test_pairs_are_the_strongest_of_each_token(run, maps, of, layer, head):
    expected = pairs_of(maps, layer, head, of)
    assert_pairs(search(run, f"{LAYERS[layer]}.{head}", of=of, limit=1000), expected)
    assert_pairs(search(run, f"{LAYERS[layer]}.{head}", of=of, limit=7), expected)
    some = [pair for pair in expected if -9 <= pair[2] - pair[1] <= 2 and pair[3] >= 0.01]
    assert some
    assert_pairs(search(run, f"{LAYERS[layer]}.{head}", of=of, limit=1000, distance="-9..2", min=0.01), some)


def test_conditions_choose_by_token_part_of_speech_and_relation(run, maps, bank):
    everything = pairs_of(maps, 0, 5, "attention")

    def token(pair, at):
        return maps[pair[0]][0][pair[at]]

    def word(pair, at):
        return maps[pair[0]][4][pair[at]]

    def pos(pair, at):
        return pos_of(bank[1][pair[0]], bank[3][pair[0]])[word(pair, at)]

    def relation(pair, at):
        return bank[3][pair[0]][word(pair, at)][3]

    noun_to_verb = [pair for pair in everything if pos(pair, 1) == "NOUN" and pos(pair, 2) == "VERB"]
    assert noun_to_verb
    found = search(run, "1.5", **{"from": "pos=NOUN", "to": "pos=VERB", "limit": 1000})
    assert_pairs(found, noun_to_verb)
    assert {pair["from"]["pos"] for pair in found["pairs"]} == {"NOUN"}
    objects = [pair for pair in everything if relation(pair, 1) == "obj" and token(pair, 2) == "the"]
    assert objects
    assert_pairs(search(run, "1.5", **{"from": "rel=obj", "to": "text=THE", "limit": 1000}), objects)
    both = [pair for pair in noun_to_verb if token(pair, 2) == "was"]
    assert_pairs(search(run, "1.5", **{"from": "pos=NOUN", "to": "pos=VERB,text=was"}), both)
    commas = [pair for pair in everything if token(pair, 2) == ","]
    assert commas
    assert_pairs(search(run, "1.5", **{"to": "text=,", "limit": 1000}), commas)
    assert_pairs(search(run, "1.5", **{"from": "pos=NOUN", "to": "text=,,pos=PUNCT"}),
                 [pair for pair in commas if pos(pair, 1) == "NOUN" and pos(pair, 2) == "PUNCT"])
    assert search(run, "1.5", **{"from": "pos=XYZ"})["total"] == 0
    pair = search(run, "1.5", limit=1)["pairs"][0]
    assert pair["body"] == bank[2][pair["text"]] and pair["file"].endswith("bank.conllu")
    start, end = pair["from"]["chars"]
    assert pair["body"][start:end] == pair["from"]["token"].removeprefix("##")


FIGURES = {
    "previous": lambda attention, placed, words: np.diagonal(attention, -1).sum() / len(attention),
    "next": lambda attention, placed, words: np.diagonal(attention, 1).sum() / len(attention),
    "self": lambda attention, placed, words: np.diagonal(attention).mean(),
    "first": lambda attention, placed, words: attention[:, 0].mean(),
}


def assert_examples(answer, values):
    expected = sorted(values, key=lambda number: (-np.float32(values[number]), number))[:5]
    np.testing.assert_allclose([one["value"] for one in answer["examples"]], [values[n] for n in expected], rtol=1e-4)
    for one, number in zip(answer["examples"], expected):
        assert one["text"] == number or abs(values[one["text"]] - values[number]) < 1e-5


@pytest.mark.parametrize("by", FIGURES)
def test_examples_are_the_texts_where_a_figure_is_highest(run, maps, by):
    values = {number: FIGURES[by](attention[1, 2].astype(float), placed, None)
              for number, (_, _, attention, _, placed) in enumerate(maps)}
    assert_examples(search(run, "4.2", by=by), values)


@pytest.mark.parametrize("by", ["separator_attention", "same_sentence_share", "focal_share"])
def test_examples_without_special_tokens_have_the_figures_of_a_summary(server, tmp_path, by):
    texts = [f"The {noun} was long. It {verb}, and the {noun} ended! Why?" for noun in ("war", "bridge", "city") for verb in ("fell", "came")]
    ndjson(tmp_path / "in.jsonl", texts)
    subprocess.run([HEADSCOPE, "corpus", tmp_path / "in.jsonl", "-o", tmp_path / "out", "--layers=1", "--special-tokens=mask", "--examples=5"],
                   check=True, capture_output=True)
    for head in (0, 7):
        values = {number: server.analyze({"text": text, "layers": [1], "heads": [head], "outputs": ["summary"], "special_tokens": "mask",
                                          "digits": 9})["summary"][0][0][by] for number, text in enumerate(texts)}
        assert_examples(search(tmp_path / "out", f"1.{head}", by=by, limit=5), values)


def test_texts_that_lost_their_beginning(tmp_path):
    """The kept text begins at its first token, and places of tokens are in it."""
    folder = tmp_path / "model"
    shutil.copytree(Path(__file__).resolve().parents[2] / "model" / "mini", folder)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "truncation_side": "left"}))
    texts = ["Über the bridge people crossed the old river, and a boat left.", "war"]
    ndjson(tmp_path / "in.jsonl", texts)
    subprocess.run([HEADSCOPE, "corpus", tmp_path / "in.jsonl", "-o", tmp_path / "out", "--model", folder, "--layers=1",
                    "--max-tokens=6", "--examples=2", "--search-texts=2"], check=True, capture_output=True)
    found = search(tmp_path / "out", "1.0", by="self", limit=2)["examples"]
    assert {one["body"] for one in found} == {"a boat left.", "war"}
    pairs = search(tmp_path / "out", "1.0", limit=100)["pairs"]
    left = [pair for pair in pairs if pair["text"] == 0]
    assert left and {pair["body"] for pair in left} == {"a boat left."}
    for pair in left:
        for end in (pair["from"], pair["to"]):
            start, stop = end["chars"]
            assert pair["body"][start:stop] == end["token"]
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert {one["text"] for one in report["examples"]["texts"]} == {"a boat left.", "war"}
    assert report["tokens"] == 6 + 3


def test_examples_of_syntax(run, maps, bank):
    from test_syntax import point
    values = {}
    for number, (_, _, attention, _, placed) in enumerate(maps):
        there, attended = point(attention.astype(float), placed, False)
        right = [attended[1, 2, there.index(w)] == word[2] for w, word in enumerate(bank[3][number])
                 if word[2] >= 0 and w in there and word[2] in there and not word[3].startswith("punct")]
        if right:
            values[number] = np.mean(right)
    assert_examples(search(run, "4.2", by="syntax_attention"), values)


def answers(folder):
    return [search(folder, "1.5", **{"from": "pos=NOUN", "limit": 1000}), search(folder, "4.11", of="similarity"),
            *(search(folder, "4.2", by=by) for by in ["previous", "high_pairs", "syntax_similarity"])]


def test_workers_and_shards_give_the_same_answers(run, bank, tmp_path):
    assert answers(corpus(bank[0], tmp_path / "one", "--workers", "1")) == answers(run)
    shards = [corpus(bank[0], tmp_path / f"shard{i}", "--shard", f"{i}/3") for i in range(3)]
    subprocess.run([HEADSCOPE, "merge", *shards[:2], "-o", tmp_path / "some"], check=True, capture_output=True)
    subprocess.run([HEADSCOPE, "merge", tmp_path / "some", shards[2], "-o", tmp_path / "some"], check=True, capture_output=True)
    assert answers(tmp_path / "some") == answers(run)


def test_a_run_that_was_killed_gives_the_same_answers(bank, tmp_path):
    """The database of a killed run is ahead of its checkpoint, or has a transaction to roll back."""
    (tmp_path / "long.conllu").write_text("\n".join(bank[1] * 15))
    out, whole = tmp_path / "out", corpus(tmp_path / "long.conllu", tmp_path / "whole")
    killed = subprocess.Popen([HEADSCOPE, "corpus", tmp_path / "long.conllu", "-o", out, *OPTIONS, "--save", "0.001"],
                              stderr=subprocess.DEVNULL)
    until(lambda: (out / "state").exists())
    killed.kill()
    killed.wait()
    assert not (out / "report.json").exists()
    for arguments in (["search", out, "--head=1.5"], ["report", out, "-o", out / "page.html"]):
        done = subprocess.run([HEADSCOPE, *arguments], capture_output=True, text=True, timeout=PATIENCE)
        assert f"the run in '{out}' is not finished" in done.stderr and "--resume completes it" in done.stderr, done.stderr
    assert answers(corpus(tmp_path / "long.conllu", out, "--resume")) == answers(whole)


def test_the_database_keeps_no_text_that_nothing_needs(run):
    with sqlite3.connect(f"file:{run}/search.sqlite?mode=ro", uri=True) as database:
        texts = {text for text, in database.execute("SELECT text FROM texts")}
        listed = {text for text, in database.execute("SELECT text FROM examples")}
        assert texts == listed | set(range(24)) and len(listed - set(range(24))) > 0
        assert database.execute("SELECT max(place) FROM examples").fetchone() == (4,)
        assert database.execute("SELECT count(*) FROM strongest").fetchone() == (24 * 2 * 12,)


# ---- HTTP ----

@pytest.fixture(scope="module")
def kept(bank, tmp_path_factory):
    service = Server("--state", tmp_path_factory.mktemp("state"))
    sent = send(service, bank[0].read_bytes(), "layers=1,4&examples=5&search_texts=24&input_format=conllu",
                {"Content-Type": "application/octet-stream"})
    assert sent.status == 202, sent.body
    path = sent.headers["Location"]
    assert wait(service, path)["state"] == "done"
    yield service, path
    assert service.stop() == 0


def test_http_gives_the_same_answers(kept, run):
    service, path = kept
    for name, query in [("search", {"layer": 1, "head": 5, "from": "pos=NOUN", "to": "pos=VERB", "distance": "-9..9"}),
                        ("search", {"layer": 4, "head": 0, "of": "similarity", "min": 0.5, "limit": 3}),
                        ("examples", {"layer": 4, "head": 2, "by": "previous", "limit": 2})]:
        got = service.get(f"{path}/{name}?{urlencode(query)}")
        assert got.status == 200, got.body
        options = {key: value for key, value in query.items() if key not in ("layer", "head")}
        expected = search(run, f"{query['layer']}.{query['head']}", **options)
        found = got.json()
        for one in [*found.get("pairs", found.get("examples")), *expected.get("pairs", expected.get("examples"))]:
            del one["file"]
        assert found == expected


def test_the_client_asks_both(kept, run):
    service, path = kept
    client = headscope.Client(service.url)
    found = client.run(path.rsplit("/", 1)[1]).search(1, 5, from_="pos=NOUN", limit=3)
    assert [pair["weight"] for pair in found["pairs"]] == [pair["weight"] for pair in
                                                          search(run, "1.5", **{"from": "pos=NOUN", "limit": 3})["pairs"]]
    texts = client.run(path.rsplit("/", 1)[1]).examples(4, 2, "self", limit=2)
    assert [one["text"] for one in texts] == [one["text"] for one in search(run, "4.2", by="self", limit=2)["examples"]]
    client.close()


def refused(answer, status, detail):
    assert answer.status == status and detail in answer.json()["detail"], answer.body[:300]
    assert (status == 503) == ("Retry-After" in answer.headers)


def test_answers_are_bounded_while_they_are_made(start_server, tmp_path):
    """They were made whole and only then counted: an upload of 1 kB gave answers of 98 MB to each of 60 clients."""
    server = start_server("--state", str(tmp_path), "--max-held", "1M", "--cache", "0")
    line = " ".join(chr(97 + k % 26) for k in range(40)) + "\x01" * 16000 + " z\n"  # 9216 bytes are kept, JSON writes 55 kB for them
    paths = []
    for _ in range(2):
        sent = send(server, gzip.compress(line.encode() * 16), "search_texts=16&examples=16&layers=0&max_tokens=512",
                    {"Content-Type": "text/plain"})
        paths.append(sent.headers["Location"])
    assert [wait(server, path)["state"] for path in paths] == ["done", "done"]
    search, examples = (f"{paths[0]}/{name}?layer=0&head=0&" for name in ("search", "examples"))
    large = "needs more than 524288 bytes of memory"
    refused(server.get(f"{search}limit=16"), 422, large)
    refused(server.get(f"{examples}by=self&limit=16"), 422, large)
    refused(server.get(f"{paths[0]}/comparison?with={paths[1].rsplit('/', 1)[1]}"), 422, large)
    assert len(server.get(f"{search}limit=6").json()["pairs"]) == 6
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((server.host, server.port))
        client.sendall(f"GET {search}limit=6 HTTP/1.1\r\nHost: {server.host}\r\n\r\n".encode())
        assert client.recv(15) == b"HTTP/1.1 200 OK"
        refused(server.get(f"{search}limit=6"), 503, "Try again shortly")
        assert server.metric("held_bytes") < 1 << 19
    until(lambda: server.get(f"{search}limit=6").status, lambda status: status == 200)


REFUSALS = [
    ("search", "head=1", 422, "/layer", "layer is missing; it must be an integer from 0"),
    ("search", "layer=9&head=1", 422, "/layer", 'layer is "9"; it must be a layer that the run has counted'),
    ("examples", "layer=9&head=1&by=self", 422, "/layer", "a layer that the run has counted"),
    ("search", "layer=1&head=12", 422, "/head", "a head that the run has counted"),
    ("search", "layer=1&head=x", 422, "/head", "an integer from 0"),
    ("search", "layer=1&head=1&of=maps", 422, "/of", "attention or similarity"),
    ("search", "layer=1&head=1&min=2", 422, "/min", "a number in [0, 1]"),
    ("search", "layer=1&head=1&min=nan", 422, "/min", "a number in [0, 1]"),
    ("search", "layer=1&head=1&distance=3..1", 422, "/distance", "a range like -5..-1"),
    ("search", "layer=1&head=1&distance=99999999999999999999", 422, "/distance", "a range like -5..-1"),
    ("search", "layer=1&head=1&from=noun", 422, "/from", "pos=NAME, rel=NAME or text=TOKEN"),
    ("search", "layer=1&head=1&to=lemma%3Dgo", 422, "/to", "pos=NAME, rel=NAME or text=TOKEN"),
    ("search", "layer=1&head=1&from=pos%3DNOUN,pos%3DVERB", 422, "/from", "each kind once"),
    ("search", "layer=1&head=1&distance=-9223372036854775808", 422, "/distance", "a range like -5..-1"),
    ("search", "layer=1&head=1&to=text%3D,pos%3DNOUN", 422, "/to", "each kind once"),
    ("search", "layer=1&head=1&limit=1001", 422, "/limit", "an integer from 1 to 1000"),
    ("search", "layer=1&head=1&by=self", 422, "/by", "unknown"),
    ("examples", "layer=1&head=1", 422, "/by", "one of repeated_share, same_sentence_share"),
    ("examples", "layer=1&head=1&by=entropy", 422, "/by", "one of repeated_share, same_sentence_share"),
]


@pytest.mark.parametrize(("name", "query", "status", "pointer", "detail"), REFUSALS)
def test_what_cannot_be_searched_for_is_refused(kept, name, query, status, pointer, detail):
    got = kept[0].get(f"{kept[1]}/{name}?{query}")
    assert got.status == status and got.json()["pointer"] == pointer and detail in got.json()["detail"], got.body


def test_runs_without_such_texts_say_so(kept):
    service, path = kept
    sent = send(service, b'{"text": "One cat."}\n', "layers=0")
    wait(service, sent.headers["Location"])
    got = service.get(f"{sent.headers['Location']}/search?layer=0&head=0")
    assert got.status == 404 and "start one with search_texts=N (--search-texts N" in got.json()["detail"]
    assert service.get("/corpora/nothing/examples?layer=0&head=0&by=self").status == 404
    for query, name in [("examples=65", "/examples"), ("search_texts=10001", "/search_texts"), ("examples=-1", "/examples")]:
        got = send(service, b'"x"\n', query)
        assert got.status == 422 and got.json()["pointer"] == name, got.body


def test_the_command_prints_what_it_finds(run):
    """The table, beside the JSON of the same search."""
    for options, name in [({"of": "similarity", "limit": 3}, "pairs"), ({"by": "self", "limit": 3}, "examples")]:
        found = search(run, "1.1", **options)
        arguments = [f"--{key}={value}" for key, value in options.items()]
        done = subprocess.run([HEADSCOPE, "search", run, "--head=1.1", *arguments], capture_output=True, text=True)
        lines = done.stdout.splitlines()
        assert done.returncode == 0 and done.stderr == "" and len(found[name]) == 3
        if name == "pairs":
            assert lines.pop(0) == f"{found['total']} pairs in {found['texts']} texts"
        assert len(lines) == 3
        for line, one in zip(lines, found[name]):
            assert line.endswith(f"  {one['file']}:{one['line']}  {one['body']}")
            assert float(line.split()[0]) == pytest.approx(one["weight" if name == "pairs" else "value"], rel=1e-3)
            if name == "pairs":
                sides = [f"{one[side]['token']} ({one[side]['position']})" for side in ("from", "to")]
                assert f"  {sides[0]} -> {sides[1]}  " in line


@pytest.mark.parametrize(("options", "says"), [
    (["--head=9.0"], '--head: layer is "9"; it must be a layer that the run has counted'),
    (["--head=1.99"], '--head is "99"; it must be a head that the run has counted'),
    (["--head=1.0", "--distance=3..1"], '--distance is "3..1"; it must be an integer, j - i, or a range like -5..-1'),
])
def test_the_command_names_the_wrong_option(run, options, says):
    done = subprocess.run([HEADSCOPE, "search", run, *options], capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == "" and says in done.stderr, done.stderr


@pytest.fixture(scope="module")
def plain_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    ndjson(folder / "in.jsonl", ["The war was long.", "The bridge was old."])
    subprocess.run([HEADSCOPE, "corpus", folder / "in.jsonl", "-o", folder / "out", "--layers=0,2", "--search-texts=2"],
                   check=True, capture_output=True)
    return folder / "out"


def test_a_run_whose_texts_are_gone_is_neither_resumed_nor_merged(plain_run, tmp_path):
    texts, options = plain_run.parent / "in.jsonl", ["--layers=0,2", "--search-texts=2"]
    for shard in (0, 1):
        subprocess.run([HEADSCOPE, "corpus", texts, "-o", tmp_path / str(shard), *options, "--shard", f"{shard}/2"], check=True, capture_output=True)
    (tmp_path / "1" / "search.sqlite").unlink()
    for arguments, says in ((["corpus", texts, "-o", tmp_path / "1", *options, "--shard", "1/2", "--resume"], "start again in another folder"),
                            (["merge", "-o", tmp_path / "all", tmp_path / "0", tmp_path / "1"], "count this shard again")):
        done = subprocess.run([HEADSCOPE, *arguments], capture_output=True, text=True)
        assert done.returncode == 1 and f"{tmp_path}/1/search.sqlite' is missing: {says}" in done.stderr, done.stderr
    assert not (tmp_path / "all" / "state").exists()


def test_texts_without_parts_of_speech_are_not_searched_for_them(plain_run):
    """An empty answer would say that the head pairs no nouns."""
    for condition in ("pos=NOUN", "rel=nsubj,text=war"):
        done = subprocess.run([HEADSCOPE, "search", plain_run, "--head=0.1", "--from", condition], capture_output=True, text=True)
        assert done.returncode == 2 and "only texts of CoNLL-U files have pos and rel" in done.stderr, done.stderr
    done = subprocess.run([HEADSCOPE, "search", plain_run, "--head=0.1", "--from", "text=war"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout, done.stderr
    done = subprocess.run([HEADSCOPE, "search", plain_run, "--head=7.1"], capture_output=True, text=True)
    assert done.returncode == 2 and '--head: layer is "7"' in done.stderr, done.stderr


def test_a_figure_that_no_text_has_is_refused(tmp_path):
    """An empty list would say that the head has no typical texts."""
    ndjson(tmp_path / "in.jsonl", ["The war was long. The war was over.", "The bridge was old."])
    subprocess.run([HEADSCOPE, "corpus", tmp_path / "in.jsonl", "-o", tmp_path / "out", "--layers=0", "--examples=2"], check=True, capture_output=True)
    command = [HEADSCOPE, "search", tmp_path / "out", "--head=0.1"]
    done = subprocess.run([*command, "--by=syntax_attention"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == "", done.stderr
    assert ('--by is "syntax_attention"; it must be one of repeated_share, same_sentence_share, mean_distance, focal_share, high_pairs, '
            "separator_attention, self, previous, next, first: only texts of CoNLL-U files have syntactic heads\n") in done.stderr
    sql(tmp_path / "out" / "search.sqlite", "DELETE FROM examples WHERE figure = 'focal_share' AND head = 1")
    done = subprocess.run([*command, "--by=focal_share"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "0 texts: the figure is undefined in every text of this head\n"), done.stderr
    sql(tmp_path / "out" / "search.sqlite", "DELETE FROM examples WHERE figure = 'focal_share'")
    done = subprocess.run([*command, "--by=focal_share"], capture_output=True, text=True)
    assert done.returncode == 2 and "first: it is undefined in every text of the run" in done.stderr, done.stderr


# ---- databases that are damaged or forged ----

def ask(folder, *arguments):
    """(exit code, errors) of a search in a folder; a crash or a sanitizer's report fails the test."""
    done = subprocess.run([HEADSCOPE, "search", folder, "--head=1.1", *arguments], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode in (0, 1) and "Sanitizer" not in done.stderr and "runtime error" not in done.stderr, done.stderr
    assert done.returncode == 0 or done.stderr.startswith("headscope search: "), done.stderr
    return done.returncode, done.stderr


SEARCHES = [["--from", "pos=NOUN", "--to", "text=war"], ["--of", "similarity", "--limit", "1000"], ["--by", "previous"]]


@pytest.fixture
def copied(run, tmp_path):
    """The database of the run, to be damaged, in a folder of its own."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "search.sqlite").write_bytes((run / "search.sqlite").read_bytes())
    return tmp_path / "run" / "search.sqlite"


@pytest.mark.parametrize("seed", range(8))
def test_flipped_bytes_of_the_database_crash_nothing(copied, seed):
    choose, data = random.Random(seed), bytearray(copied.read_bytes())
    for _ in range(1 << seed):
        data[choose.randrange(len(data))] = choose.randrange(256)
    copied.write_bytes(data)
    for arguments in SEARCHES:
        ask(copied.parent, *arguments)


@pytest.mark.parametrize(("content", "why"), [
    (lambda data: b"", "not headscope's"), (lambda data: b"no database at all" * 100, "not headscope's"),
    (lambda data: data[:len(data) // 2], "malformed"), (lambda data: data[:4096], "malformed"),
    (lambda data: b"\0" * len(data), "not headscope's")], ids=["empty", "text", "half", "page", "zeros"])
def test_a_database_that_is_none_is_named(copied, content, why):
    copied.write_bytes(content(copied.read_bytes()))
    answers = [ask(copied.parent, *arguments) for arguments in SEARCHES]
    assert all(code == 1 and "search.sqlite cannot be read" in errors for code, errors in answers), answers
    assert any(why in errors for _, errors in answers), answers


def sql(path, *statements):
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA ignore_check_constraints = 1")
        for statement in statements:
            db.execute(statement)
    db.close()


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT 1 AS layer, 1 AS head, i AS text,"


@pytest.mark.parametrize("statements", [
    ["DROP TABLE strongest", f"CREATE VIEW strongest AS {ENDLESS} x'00' AS attention, x'00' AS similarity FROM n"],
    ["DROP TABLE texts"], ["DROP TABLE names", "DROP TABLE vocabulary"],
    ["ALTER TABLE strongest RENAME COLUMN attention TO other"]], ids=["view", "texts", "names", "column"])
def test_a_database_of_other_tables_is_refused(copied, statements):
    sql(copied, *statements)
    code, errors = ask(copied.parent, "--from", "text=war")
    assert code == 1 and "search.sqlite cannot be read" in errors


def test_pairs_that_no_text_has_are_passed_over(copied):
    pairs = b"".join(struct.pack("<HHf", i, j, w) for i, j, w in [
        (1, 2, math.inf), (2, 1, math.nan), (60000, 1, 0.9), (1, 65535, 0.8), (1, 2, -1.0), (1, 2, 0.5)])
    with sqlite3.connect(copied) as db:
        db.execute("UPDATE strongest SET attention = ?", (pairs + b"xyz",))
    db.close()
    got = search(copied.parent, "1.1", limit=1000)
    assert got["pairs"] and {pair["weight"] for pair in got["pairs"]} == {0.5}
    assert {(pair["from"]["position"], pair["to"]["position"]) for pair in got["pairs"]} == {(1, 2)}


@pytest.mark.parametrize("change", ["UPDATE examples SET value = 9e999", "UPDATE examples SET text = -5",
                                    "UPDATE texts SET tokens = NULL"], ids=["infinite", "no-text", "no-tokens"])
def test_examples_that_are_damaged_are_not_left_out_in_silence(copied, change):
    with contextlib.suppress(sqlite3.IntegrityError):
        sql(copied, change)
    if "NULL" in change:
        sql(copied, "UPDATE texts SET tokens = zeroblob(0)")
    code, errors = ask(copied.parent, "--by", "previous")
    assert code == 1 and "damaged" in errors


def test_texts_of_a_forged_database_change_no_terminal(copied):
    sql(copied, "UPDATE texts SET body = char(27) || '[2J' || char(155) || 'x' || char(7), file = char(27) || ']0;title'")
    done = subprocess.run([HEADSCOPE, "search", copied.parent, "--head=1.1"], capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0 and b"->" in done.stdout
    assert not set(done.stdout) & {0x1b, 0x07} and b"\xc2\x9b" not in done.stdout


# ---- databases that compute ----

COMPUTED = f"({ENDLESS.replace('SELECT 1 AS layer, 1 AS head, i AS text,', 'SELECT count(*) FROM n')})"
FORGED = {
    "trigger": ["CREATE TRIGGER t BEFORE DELETE ON examples BEGIN SELECT " + COMPUTED + "; END"],
    "view": ["DROP TABLE vocabulary", f"CREATE VIEW vocabulary AS SELECT {COMPUTED} AS id, 'a' AS token"],
    "generated": ["CREATE TABLE other AS SELECT layer, head, text FROM strongest", "DROP TABLE strongest",
                  "CREATE TABLE strongest(layer, head, text, attention BLOB GENERATED ALWAYS AS (zeroblob(300000000)), similarity BLOB)",
                  "INSERT INTO strongest(layer, head, text) SELECT * FROM other", "DROP TABLE other"],
    "check": ["DROP TABLE vocabulary", "CREATE TABLE vocabulary(id INTEGER PRIMARY KEY, token TEXT CHECK (randomblob(99999999)))"],
    "index": ["CREATE INDEX i ON texts(hex(zeroblob(length(body) + 1000)))"],
}


def endless(path):
    """Links the pages of a table so that a walk through them passes 200 ** 6 leaves."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        root, size = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'vocabulary'").fetchone()[0], db.execute("PRAGMA page_size").fetchone()[0]
    data = bytearray(path.read_bytes())
    pages = len(data) // size
    leaf = bytes(data[(root - 1) * size:root * size])

    def inner(child):
        cells = struct.pack(">IB", child, 1) * 200
        at = size - len(cells)
        head = struct.pack(">BHHHBI", 5, 0, 200, at, 0, child) + b"".join(struct.pack(">H", at + 5 * k) for k in range(200))
        return head.ljust(at, b"\0") + cells

    data[(root - 1) * size:root * size] = inner(pages + 1)
    for level in range(1, 6):
        data += inner(pages + level + 1)
    data += leaf
    data[28:32] = struct.pack(">I", len(data) // size)
    path.write_bytes(data)


@pytest.fixture(scope="module")
def counted(bank, tmp_path_factory):
    folder = tmp_path_factory.mktemp("counted")
    for k in "01":
        corpus(bank[0], folder / k, "--shard", f"{k}/2")
    return folder


@pytest.fixture
def shards(counted, tmp_path):
    """The folders of two shards, to be damaged."""
    return [Path(shutil.copytree(counted / k, tmp_path / k)) for k in "01"]


def runs_of(*command):
    return subprocess.run([HEADSCOPE, *command], capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.mark.parametrize("how", [*FORGED, "endless"])
def test_no_command_computes_what_a_forged_database_says(shards, how):
    first, second = shards
    if how == "endless":
        endless(second / "search.sqlite")
    else:
        sql(second / "search.sqlite", *FORGED[how])
    searched = runs_of("search", second, "--head=1.1", "--from", "text=nowhere")
    merged = runs_of("merge", "-o", first.parent / "merged", first, second)
    again = runs_of("merge", "-o", second, second, first)  # writes into the forged one
    for done in (searched, merged, again):
        assert done.returncode == 1 and "search.sqlite" in done.stderr, done.stderr


def test_a_journal_that_names_another_file_deletes_nothing(shards):
    """SQLite deletes the file that a journal names as that of a transaction over several databases."""
    first, second = shards
    victim = first.parent / "precious"
    victim.write_text("still here")
    magic, name = bytes.fromhex("d9d505f920a163d7"), str(victim).encode()
    with contextlib.closing(sqlite3.connect(second / "search.sqlite")) as db:
        size = db.execute("PRAGMA page_size").fetchone()[0]
    pages = (second / "search.sqlite").stat().st_size // size
    (second / "search.sqlite-journal").write_bytes(
        (magic + struct.pack(">IIIII", 0, 0, pages, 512, size)).ljust(512, b"\0") +
        struct.pack(">I", 0x40000000 // size + 1) + name + struct.pack(">II", len(name), sum(name)) + magic)
    done = runs_of("merge", "-o", second, second, first)
    assert victim.exists() and victim.read_text() == "still here"
    assert done.returncode == 1 and "search.sqlite-journal is not headscope's" in done.stderr, done.stderr


@pytest.mark.parametrize("what", ["search.sqlite", "state"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_is_no_file_of_the_run_is_not_read(shards, what, kind):
    first, second = shards
    (second / what).unlink()
    if kind == "pipe":
        os.mkfifo(second / what)
    else:
        (second / what).symlink_to(first / what)
    merged = runs_of("merge", "-o", first.parent / "merged", first, second)
    assert merged.returncode == 1 and what in merged.stderr, merged.stderr
    if what == "search.sqlite":
        searched = runs_of("search", second, "--head=1.1", "--from", "text=war")
        assert searched.returncode == 1 and f"{what} is not a regular file" in searched.stderr, searched.stderr


def test_the_database_keeps_within_the_space_that_was_reserved(start_server, tmp_path):
    """A token may stand for thousands of bytes: here 2,000 texts of a word, é and a row of control characters."""
    line = "a " + "é" * 700 + "\x01" * 16000 + " z\n"
    server = start_server("--state", str(tmp_path))
    sent = send(server, gzip.compress(line.encode() * 2000), "search_texts=1500&examples=2&layers=0&max_tokens=8",
                {"Content-Type": "text/plain"})
    assert sent.status == 202, sent.body
    run = sent.headers["Location"].rsplit("/", 1)[1]
    largest = 0

    def state():
        nonlocal largest
        sizes = [file.stat().st_size for file in (tmp_path / "runs" / run).glob("search.sqlite*") if file.exists()]
        largest = max(largest, sum(sizes))
        return server.get(f"/corpora/{run}").json()["state"]

    assert until(state, lambda now: now not in ("queued", "running")) == "done"
    with contextlib.closing(sqlite3.connect(tmp_path / "corpora.db")) as db:
        reserved = db.execute("SELECT reserved FROM runs").fetchone()[0]
    assert 0 < largest < reserved
    with contextlib.closing(sqlite3.connect(tmp_path / "runs" / run / "search.sqlite")) as db:
        bodies = [body for body, in db.execute("SELECT body FROM texts")]
    assert len(bodies) >= 1500 and {len(body.encode()) for body in bodies} == {1152} and line.startswith(bodies[0])
    assert server.get(f"/corpora/{run}/search?layer=0&head=0&limit=2").json()["pairs"]


def test_names_beyond_a_limit_are_left_out(tmp_path):
    """Parts of speech come from the file; any number of them would fit into a text. Its first word has one where [CLS] is masked."""
    blocks = "\n\n".join(f"1\tdog\tdog\tP{k}\t_\t_\t0\tR{k}\t_\t_" for k in range(5000))
    (tmp_path / "bank.conllu").write_text(blocks + "\n\n")
    folder = corpus(tmp_path / "bank.conllu", tmp_path / "out", "--search-texts=5000", "--layers=1", "--max-tokens=8",
                    "--special-tokens=mask")
    with contextlib.closing(sqlite3.connect(folder / "search.sqlite")) as db:
        assert db.execute("SELECT count(*), max(name) FROM names").fetchone() == (4096, 4096)
