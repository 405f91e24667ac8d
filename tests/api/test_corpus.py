"""`headscope corpus`, `merge` and `report`: formats, bad lines, interruptions, shards."""
import csv
import fcntl
import gzip
import html
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import termios
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs

import numpy as np
import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import checkpoint  # noqa: E402
from conftest import MINI, PATIENCE, failing, slow_if, unsanitized, until
from corpus_runs import SMALL, arrays, assert_same, command, corpus, ndjson, report, texts

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.fixture(scope="module")
def plain_run(headscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    ndjson(folder / "texts.jsonl", texts(203))
    done = corpus(headscope, folder / "texts.jsonl", "-o", folder / "out")
    assert done.returncode == 0, done.stderr
    return folder


def test_three_reports(plain_run):
    assert sorted(p.name for p in (plain_run / "out").iterdir()) == ["report.html", "report.json", "report.npz", "state"]
    said = report(plain_run / "out")
    assert said["texts"] == 203 and said["reached"][0] == 203
    assert said["provenance"]["input"]["files"] == [str(plain_run / "texts.jsonl")]
    assert said["provenance"]["options"]["thresholds"] == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert said["layers"] == [0, 2] and said["threshold_main"] == 2
    assert len(said["findings"]) == 8 and all(f["measured"] and f["criterion"] for f in said["findings"])
    with np.load(plain_run / "out" / "report.npz") as file:
        assert json.loads(str(file["provenance"])) == said["provenance"]
        assert file["location"].shape == (2, 12, 24, 24) and file["location"].dtype == np.int64


def test_figures_follow_from_the_arrays(plain_run):
    said, data = report(plain_run / "out"), arrays(plain_run / "out")
    head = said["head_figures"][2][1][5]
    assert head["high"] == data["high"][2, 1, 5] > 0
    assert head["repeated_share"]["value"] == pytest.approx(data["repeated"][2, 1, 5] / data["high"][2, 1, 5])
    chance = data["all_same_sentence"] / data["all_ordinary"]
    assert said["chance"]["same_sentence_share"] == pytest.approx(chance)
    assert head["same_sentence_lift"] == pytest.approx(data["same_sentence"][2, 1, 5] / data["high_ordinary"][2, 1, 5] / chance)
    distances = data["distance"][2, 1, 5]
    assert head["mean_distance"]["value"] == pytest.approx((distances * np.arange(24)).sum() / distances.sum())


def test_cells_of_maps_are_sums_of_squares(headscope, plain_run, tmp_path):
    done = corpus(headscope, plain_run / "texts.jsonl", "-o", tmp_path / "out", "--map-bins", "5")  # of 24 positions
    assert done.returncode == 0, done.stderr
    whole, pooled = arrays(plain_run / "out"), arrays(tmp_path / "out")
    assert whole["map_step"] == 1 and pooled["map_step"] == 5 == report(tmp_path / "out")["map_step"]
    for name in ["location", "attention_sum", "attention_sum_no_columns_no_diagonal", "similarity_sum", "first_similarity"]:
        full = np.pad(whole[name], [(0, 0)] * (whole[name].ndim - 2) + [(0, 1)] * 2)
        squares = full.reshape(*full.shape[:-2], 5, 5, 5, 5).sum((-3, -1))
        np.testing.assert_allclose(pooled[name], squares, rtol=1e-9, atol=1e-9, err_msg=name)
    np.testing.assert_array_equal(pooled["distance"], whole["distance"])
    page = [(folder / "out" / "report.html").stat().st_size for folder in (plain_run, tmp_path)]
    assert page[1] < page[0]


def test_examples_are_the_extremes_of_the_sample(plain_run):
    examples = report(plain_run / "out")["examples"]
    assert len(examples["texts"]) == 128
    kept = {(t["line"], t["text"]) for t in examples["texts"]}
    assert len(kept) == 128
    for figure in ("repeated_share", "mean_distance", "high_pairs"):
        high, low = examples["highest"][figure][1][5], examples["lowest"][figure][1][5]
        assert len(high) == len(low) == 3
        assert high[0][1] >= high[1][1] >= high[2][1] >= low[2][1] >= low[1][1] >= low[0][1]
    links = re.findall(r'href="http://127.0.0.1:8080/#(view=head.*?)"', (plain_run / "out" / "report.html").read_text())
    linked = [parse_qs(html.unescape(link)) for link in links]
    assert {link["text"][0] for link in linked} == {t["text"] for t in examples["texts"]}
    assert {(link["layer"][0], link["max"][0]) for link in linked} == {("2", "24")}


def forms(folder, lines):
    """The same texts in every form that is read."""
    dumped = [json.dumps({"id": n, "text": line}, ensure_ascii=n % 2 == 0) for n, line in enumerate(lines)]
    data = {
        "objects": "\n".join(dumped) + "\n",
        "no_last_newline": "\n".join(dumped),
        "windows": "\ufeff" + "\r\n".join(dumped) + "\r\n",
        "blank_lines": "\n \n" + "\n\n".join(dumped) + "\n\t\n",
        "strings": "\n".join(json.dumps(line) for line in lines),
        "plain": "\n".join(lines) + "\n",
    }
    for name, text in data.items():
        (folder / name).write_bytes(text.encode())
        yield [folder / name], None
    (folder / "packed").write_bytes(gzip.compress(data["objects"].encode()))
    yield [folder / "packed"], None
    half = data["plain"].encode().index(b"\n", len(data["plain"]) // 2) + 1
    two = gzip.compress(data["plain"].encode()[:half]) + gzip.compress(data["plain"].encode()[half:])
    (folder / "two_members").write_bytes(two)
    yield [folder / "two_members"], None
    (folder / "first").write_text("\n".join(dumped[:40]))
    (folder / "second").write_text("\n".join(lines[40:]))
    yield [folder / "first", folder / "second"], None
    yield ["-"], data["objects"].encode()
    yield ["-"], gzip.compress(data["strings"].encode())


def test_every_form_of_input_counts_the_same(headscope, tmp_path):
    lines = texts(90, seed=1)
    first = None
    for n, (inputs, stdin) in enumerate(forms(tmp_path, lines)):
        out = tmp_path / f"out{n}"
        done = corpus(headscope, *inputs, "-o", out, "--workers", 1 + n % 3, stdin=stdin)
        assert done.returncode == 0, (inputs, done.stderr)
        assert report(out)["bad_lines"] == {"count": 0, "lines": []}
        if first is None:
            first = arrays(out)
            assert first["texts"] == 90
        for name, array in arrays(out).items():
            assert array.tobytes() == first[name].tobytes(), (inputs, name)


BAD = ['{"text": "fine"}', '{"text": 3}', '{"txt": "a"}', '{"text": "cut', '[1, 2]', "7", '"also fine"', "null",
       b'{"text": "\xff"}', '{"text": "fine \\u0000 too"}', r'{"text": "C:\é"}']


def test_bad_lines_are_listed_and_passed_over(headscope, tmp_path):
    (tmp_path / "in").write_bytes(b"\n".join(b if isinstance(b, bytes) else b.encode() for b in BAD) + b"\n")
    done = corpus(headscope, tmp_path / "in", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    said = report(tmp_path / "out")
    assert said["texts"] == 3
    assert said["bad_lines"]["count"] == 8
    assert [line["line"] for line in said["bad_lines"]["lines"]] == [2, 3, 4, 5, 6, 8, 9, 11]
    assert all(line["file"] == str(tmp_path / "in") and line["why"] for line in said["bad_lines"]["lines"])
    assert "8 bad lines" in done.stderr
    done = corpus(headscope, tmp_path / "in", "-o", tmp_path / "strict", "--strict")
    assert done.returncode == 1 and "line " in done.stderr
    assert not (tmp_path / "strict" / "report.json").exists()


def test_a_line_has_a_bound(headscope, tmp_path):
    with open(tmp_path / "in", "wb") as file:
        file.write(b'"short"\n"' + b"a " * (3 << 20) + b'"\n"short"\n')
    done = corpus(headscope, tmp_path / "in", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    said = report(tmp_path / "out")
    assert said["texts"] == 2 and said["bad_lines"]["lines"][0]["line"] == 2


FORMATS = {
    "jsonl": ("a.jsonl", lambda lines: "".join(json.dumps({"text": line}) + "\n" for line in lines)),
    "deep": ("a.jsonl", lambda lines: "".join(json.dumps({"a": {"b": line}, "text": 3}) + "\n" for line in lines)),
    "json": ("a.json", lambda lines: json.dumps([{"id": n, "text": line} for n, line in enumerate(lines)], indent=1)),
    "strings": ("b", lambda lines: json.dumps(lines)),
    "csv": ("a.csv", lambda lines: rows(lines, ",", "a text")),
    "column": ("b.csv", lambda lines: "".join(f'"{line.replace(chr(34), chr(34) * 2)}"\n' for line in ["text", *lines])),
    "semicolons": ("c.csv", lambda lines: rows(lines, ";")),
    "tsv": ("a.tsv", lambda lines: rows(lines, "\t")),
    "rows": ("c", lambda lines: rows(lines, ",")),
    "paragraphs": ("a.txt", lambda lines: "\r\n\r\n".join(lines) + "\n\n\n"),
    "conllu": ("a.conllu", lambda lines: "".join(f"# sent_id = {n}\n# text = {line}\n1\tno\t_\n\n" for n, line in enumerate(lines))),
    "words": ("d", lambda lines: "\n".join(words(line) for line in lines)),
}
OPTIONS = {"deep": ["--field", "a.b"], "csv": ["--field", "a text"], "paragraphs": ["--input-format", "paragraphs"]}
NAMED = {"deep": "jsonl", "strings": "json", "column": "csv", "semicolons": "csv", "rows": "csv", "words": "conllu"}


def rows(lines, delimiter, name="text"):
    table = io.StringIO()
    writer = csv.writer(table, delimiter=delimiter)
    writer.writerow(["id", name, "note"])
    writer.writerows([n, line, "two\nlines, \"quoted\""] for n, line in enumerate(lines))
    return table.getvalue()


def words(line):
    """A block of CoNLL-U without its text: a word of two parts, one that was not written, one without a space behind it."""
    first, *rest = line.split(" ")
    block = f"1-2\t{first}\t" + "_\t" * 7 + "_\n1\tx\t_\n2\ty\t_\n2.1\tghost\t_\n"
    for n, word in enumerate(rest):
        block += f"{n + 3}\t{word[:1]}\t" + "_\t" * 7 + "SpaceAfter=No\n" if len(word) > 1 else ""
        block += f"{n + 53}\t{word[1:] or word}\t" + "_\t" * 7 + "_\n"
    return block


@pytest.fixture(scope="module")
def sixty(headscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sixty")
    lines = [line.replace("\r", "") for line in texts(60, seed=12)]
    ndjson(folder / "in", lines)
    assert corpus(headscope, folder / "in", "-o", folder / "out").returncode == 0
    return lines, arrays(folder / "out")


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_is_seen_and_named(headscope, sixty, tmp_path, kind):
    lines, whole = sixty
    name, make = FORMATS[kind]
    data = make(lines).encode()
    (tmp_path / name).write_bytes(data)
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(data))
    subprocess.run(["zstd", "-q", tmp_path / name], check=True)
    for packing in ("", ".gz", ".zst") if kind in ("jsonl", "column") else ("",):
        done = corpus(headscope, tmp_path / (name + packing), "-o", tmp_path / f"out{packing}", *OPTIONS.get(kind, []))
        assert done.returncode == 0, done.stderr
        said = report(tmp_path / f"out{packing}")
        assert said["bad_lines"]["count"] == 0 and said["texts"] == 60
        assert said["provenance"]["input"]["formats"] == [NAMED.get(kind, kind) + {"": "", ".gz": ", gzip", ".zst": ", zstd"}[packing]]
        for array, value in arrays(tmp_path / f"out{packing}").items():
            assert array.startswith("syntax_") or value.tobytes() == whole[array].tobytes(), (array, packing)


FASTA = b"\n>sp|P1 first > protein\nMKTAY\r\nIAKQR*\n>\nMST NPK\n>three\nACG>T\nA\n>four\n\n"


@pytest.mark.parametrize("name, options", [("a.fasta", []), ("b.FAA.gz", []), ("c.fa", []), ("d", ["--input-format", "fasta"])])
def test_sequences_of_fasta(headscope, tmp_path, name, options):
    """A sequence is the lines behind its header, which is no text; a header without one is a bad record."""
    (tmp_path / name).write_bytes(gzip.compress(FASTA) if name.endswith(".gz") else FASTA)
    (tmp_path / "in").write_text("MKTAYIAKQR\nMSTNPK\nACG>TA\n")
    for file, more in ((name, options), ("in", [])):
        assert corpus(headscope, tmp_path / file, "-o", tmp_path / f"out {file}", *more).returncode == 0
    said = report(tmp_path / f"out {name}")
    bad = said["bad_lines"]  # the header and the empty line behind it
    assert said["texts"] == 3 and bad["count"] == 2 and bad["lines"][0]["line"] == 10
    assert bad["lines"][0]["why"] == "a header without a sequence (2 lines)"
    assert said["provenance"]["input"]["formats"] == ["fasta" + (", gzip" if name.endswith(".gz") else "")]
    expected = arrays(tmp_path / "out in")
    for array, value in arrays(tmp_path / f"out {name}").items():
        assert value.tobytes() == expected[array].tobytes(), array


def test_what_is_no_fasta(headscope, tmp_path):
    (tmp_path / "a.fasta").write_text("MKTAY\n")
    done = corpus(headscope, tmp_path / "a.fasta", "-o", tmp_path / "out")
    assert done.returncode == 1 and "is not FASTA: it does not begin with >" in done.stderr


@pytest.mark.parametrize("nibble", [0x50, 0x5f])
def test_zstd_may_begin_with_what_it_skips(headscope, tmp_path, nibble):
    notes = bytes([nibble]) + b"\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"notes"
    packed = subprocess.run(["zstd", "-q"], input=b"one text\nanother\n", capture_output=True, check=True).stdout
    (tmp_path / "in").write_bytes(notes + notes + packed + notes + packed)
    assert corpus(headscope, tmp_path / "in", "-o", tmp_path / "out").returncode == 0
    said = report(tmp_path / "out")
    assert said["texts"] == 4 and said["provenance"]["input"]["formats"] == ["text, zstd"]


def test_a_bad_row_is_listed_where_it_begins(headscope, tmp_path):
    (tmp_path / "in.csv").write_bytes(b'id,text\r\n1,"two\r\nlines"\r\n2\r\n3,"clo"sed\r\n4,fine,\r\n5,"open\r\n')
    done = corpus(headscope, tmp_path / "in.csv", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    said = report(tmp_path / "out")
    assert said["texts"] == 2 and [line["line"] for line in said["bad_lines"]["lines"]] == [4, 5, 7]
    (tmp_path / "in.json").write_text('[\n "one",\n 2,\n\n {"text":\n  3}, {"text": "cut')
    done = corpus(headscope, tmp_path / "in.json", "-o", tmp_path / "more")
    assert done.returncode == 0, done.stderr
    said = report(tmp_path / "more")
    assert said["texts"] == 1 and [line["line"] for line in said["bad_lines"]["lines"]] == [3, 5, 6]


def test_a_row_wider_than_its_header_is_bad(headscope, tmp_path):
    """Its text would be cut at the delimiter. Fields of nothing at the end are no such row."""
    (tmp_path / "in.csv").write_bytes(b'text\na cat, a dog\n"a cat, a dog"\na cat,,\n')
    assert corpus(headscope, tmp_path / "in.csv", "-o", tmp_path / "out").returncode == 0
    said = report(tmp_path / "out")
    assert said["texts"] == 2 and [line["line"] for line in said["bad_lines"]["lines"]] == [2]
    assert said["bad_lines"]["lines"][0]["why"].startswith("a row of 2 fields; the header has 1. Put quotation marks")


@pytest.mark.parametrize(("data", "arguments", "why"), [
    (b'[{"text": "a"} {"text": "b"}]', [], "not JSON: end of file expected"),
    (b"", [], "empty"), (b"\n \n\n", [], "empty"), (b"[]", ["--input-format", "json"], "empty"), (b"text,id\n", [], "empty"),
    (b'{"txt": "a"}\n{"text": 1}\n', [], "line 1: an object without"), (b"\x00\x01ELF", [], "not text"),
    (b"PK\x03\x04 and more", [], "zip"), ("abc".encode("utf-16"), [], "UTF-16"), (b"\xff\n\xfe\xff\n", [], "UTF-8"),
    (b"id,words\n1,a\n", ["--input-format", "csv"], "no column 'text'"), (b"a text\n", ["--field", "body"], "no field 'body'"),
    (b"a text\n", ["--input-format", "json"], "bracket"), (b"# sent_id = 1\n\n", [], "neither words"),
    (gzip.compress(b"\0" * 9, mtime=0), [], "not text"), (b"\x28\xb5\x2f\xfd\0", [], "cut short"), (b"\x28\xb5\x2f\xfd" + b"\xff" * 40, [], "zstd"),
])
def test_an_input_without_a_text_is_an_error(headscope, tmp_path, data, arguments, why):
    (tmp_path / "in").write_bytes(data)
    for n, place in enumerate((tmp_path / "in", "-")):
        done = corpus(headscope, place, "-o", tmp_path / f"out{n}", *arguments, stdin=data)
        assert done.returncode == 1 and why in done.stderr, done.stderr
        assert not (tmp_path / f"out{n}").exists()
    (tmp_path / "mine").mkdir()
    assert corpus(headscope, tmp_path / "in", "-o", tmp_path / "mine", *arguments).returncode == 1
    assert not list((tmp_path / "mine").iterdir())


def test_nothing_is_left_of_a_text_of_special_tokens(headscope, tmp_path):
    (tmp_path / "in").write_text('{"text": ""}\n{"text": "one"}\n')
    done = corpus(headscope, tmp_path / "in", "-o", tmp_path / "out", "--special-tokens", "mask")
    assert done.returncode == 0, done.stderr
    said = report(tmp_path / "out")
    assert said["texts"] == said["tokens"] == 1 and said["empty_texts"] == 1


def test_a_shard_may_be_without_texts(headscope, tmp_path):
    ndjson(tmp_path / "in", texts(5, seed=3))
    for n in range(2):
        done = corpus(headscope, tmp_path / "in", "-o", tmp_path / str(n), "--shard", f"{n}/2")
        assert done.returncode == 0, done.stderr
    said = report(tmp_path / "1")
    assert said["texts"] == 0 and [f["holds"] for f in said["findings"]] == [None] * 8
    assert said["head_figures"][0][0][0]["repeated_share"]["value"] is None
    assert merge(headscope, tmp_path / "0", tmp_path / "1", "-o", tmp_path / "all").returncode == 0


def test_damaged_gzip_is_an_error(headscope, tmp_path):
    data = gzip.compress(b"some text\n" * 5000)
    (tmp_path / "cut.gz").write_bytes(data[:-9])
    (tmp_path / "flipped.gz").write_bytes(data[:40] + bytes([data[40] ^ 0x55]) + data[41:])
    for name in ("cut.gz", "flipped.gz", "absent"):
        done = corpus(headscope, tmp_path / name, "-o", tmp_path / f"out-{name}")
        assert done.returncode == 1 and name in done.stderr
        assert not (tmp_path / f"out-{name}" / "report.json").exists()


@pytest.mark.parametrize("arguments", [
    [], ["x"], ["-o", "out"], ["x", "-o", "out", "--shard", "4/4"], ["x", "-o", "out", "--shard", "1"],
    ["x", "-o", "out", "--thresholds", "0.3,0.2"], ["x", "-o", "out", "--thresholds", "0,0.5"],
    ["x", "-o", "out", "--layers", "12"], ["x", "-o", "out", "--max-tokens", "1"],
    ["x", "-o", "out", "--max-tokens", "513"], ["x", "-o", "out", "--model", "nowhere"],
])
def test_refused_options(headscope, tmp_path, arguments):
    (tmp_path / "x").write_text("a text\n")
    done = subprocess.run(command(headscope, "corpus", *arguments), cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode in (1, 2)
    assert done.stderr.startswith(b"headscope corpus: ")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("option", "value", "why"), [
    ("--layers", "0,12", "is 12; it must be a layer of the model: 0 to 11"),
    ("--layers", "0,", 'is "0,"; expected last|all, or numbers like 0,3,-1'),
    ("--thresholds", "0.3,0.2", 'is "0.3,0.2"; it must be up to 16 ascending numbers in (0, 1], like 0.1,0.2,0.3'),
    ("--attention-threshold", "1.5", "is 1.5; it must be a number in (0, 1]"),
    ("--attention-threshold", "much", 'is "much"; expected a number'),
    ("--max-tokens", "513", "is 513; it must be an integer from 2 to 512"),
    ("--max-tokens", "+8", 'is "+8"; expected an integer'),
    ("--sentence-ends", "the,nowordofit", 'is "nowordofit"; it must be a token of the model\'s vocabulary'),
    ("--map-bins", "1", 'is "1"; it must be an integer from 2 to 4096'),
    ("--masked-share", "2", 'is "2"; it must be a number in [0, 1]'),
    ("--mask-seed", "-1", 'is "-1"; it must be an integer from 0 to 2^63 - 1'),
    ("--mask-seed", "7", "is of --masked-share; give the fraction of tokens, too"),
    ("--field", 1000 * "a", "it must be a name of less than"),
])
def test_a_refused_setting_is_quoted(headscope, tmp_path, option, value, why):
    (tmp_path / "x").write_text("a text\n")
    done = corpus(headscope, tmp_path / "x", "-o", tmp_path / "out", option, value)
    assert done.returncode == 1 and f"headscope corpus: {option} " in done.stderr and why in done.stderr


def test_window_of_a_small_model(headscope, tmp_path):
    checkpoint.write_random(tmp_path / "model", positions=20)
    (tmp_path / "x").write_text("the river and the bridge " * 20 + "\n")
    done = corpus(headscope, tmp_path / "x", "-o", tmp_path / "out", "--model", tmp_path / "model", small=False)
    assert done.returncode == 0, done.stderr
    assert report(tmp_path / "out")["provenance"]["options"]["max_tokens"] == 20


# ---- empty texts ----

EMPTY = {  # name: (content, texts, empty ones)
    "a.jsonl": ('{"text": "One cat."}\n{"text": ""}\n\n{"text": "  \\t"}\n"\\u00a0"\n"Two dogs."\n', 2, 4),
    "a.json": ('[{"text": ""}, {"text": "One cat."}, ""]', 1, 2),
    "a.csv": ('text,x\n"",1\n"  ",2\nTwo dogs.,3\n,4\n', 1, 3),
    "a.tsv": ("x\ttext\n1\t\n2\tTwo dogs.\n", 1, 1),
    "a.txt": ("One cat.\n\n  \n\u00a0\nTwo dogs.\n\n", 2, 4),
}


@pytest.mark.parametrize(("name", "special"), [*((name, "keep") for name in EMPTY), ("a.jsonl", "mask")])
def test_empty_texts_are_passed_over_and_counted(headscope, tmp_path, name, special):
    content, n_texts, n_empty = EMPTY[name]
    (tmp_path / name).write_text(content)
    done = corpus(headscope, tmp_path / name, "-o", tmp_path / "out", "--special-tokens", special)
    said = report(tmp_path / "out")
    assert (said["texts"], said["empty_texts"], said["bad_lines"]["count"]) == (n_texts, n_empty, 0)
    assert f"{n_empty} empty texts were skipped" in done.stderr
    assert f"{n_empty} empty texts left out" in (tmp_path / "out" / "report.html").read_text()
    assert corpus(headscope, tmp_path / name, "-o", tmp_path / "strict", "--strict").returncode == 0, "an empty text is no bad line"
    again = corpus(headscope, tmp_path / name, "-o", tmp_path / "out", "--resume", "--special-tokens", special)
    assert again.returncode == 0 and report(tmp_path / "out")["empty_texts"] == n_empty


def test_empty_texts_of_shards_are_added_and_blank_lines_are_not(headscope, tmp_path):
    (tmp_path / "in.jsonl").write_text(('""\n\n' + "\n".join(json.dumps(text) for text in texts(15, seed=3)) + "\n") * 3)
    assert corpus(headscope, tmp_path / "in.jsonl", "-o", tmp_path / "whole").returncode == 0
    for k in range(2):
        assert corpus(headscope, tmp_path / "in.jsonl", "-o", tmp_path / f"s{k}", "--shard", f"{k}/2").returncode == 0
    subprocess.run(command(headscope, "merge", "-o", tmp_path / "merged", tmp_path / "s0", tmp_path / "s1"), check=True)
    assert report(tmp_path / "whole")["empty_texts"] == report(tmp_path / "merged")["empty_texts"] == 6


def test_an_input_of_empty_texts_has_none(headscope, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"text": ""}\n')
    done = corpus(headscope, tmp_path / "in.jsonl", "-o", tmp_path / "out")
    assert done.returncode == 1 and "all empty" in done.stderr


# ---- pairs ----


def pairs_of(path):
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("options", [[], ["--special-tokens", "mask", "--thresholds", "0.25,0.6"]])
def test_pairs_are_those_that_are_counted(headscope, tmp_path, options):
    lines = [*texts(50, seed=13), 'a "quoted", word']
    ndjson(tmp_path / "in", lines)
    for n, name in enumerate(("pairs.csv", "more.csv.gz")):
        done = corpus(headscope, tmp_path / "in", "-o", tmp_path / f"out{n}", "--pairs", tmp_path / name, "--workers", 1 + 2 * n, *options)
        assert done.returncode == 0, done.stderr
    assert gzip.decompress((tmp_path / "more.csv.gz").read_bytes()) == (tmp_path / "pairs.csv").read_bytes()
    rows, data = pairs_of(tmp_path / "pairs.csv"), arrays(tmp_path / "out0")
    main, counts, places = int(data["threshold_main"]) if "threshold_main" in data else report(tmp_path / "out0")["threshold_main"], {}, {}
    shift = 1 if options else 0
    for row in rows:
        l, h, i, j = (int(row[name]) for name in ("layer", "head", "i", "j"))
        counts[l, h] = counts.get((l, h), 0) + 1
        places[l, h, i - shift, j - shift] = places.get((l, h, i - shift, j - shift), 0) + 1
        assert row["file"] == str(tmp_path / "in") and int(row["line"]) == int(row["text"]) + 1
    for at, layer in enumerate((0, 2)):
        for head in range(12):
            assert counts.get((layer, head), 0) == data["high"][main, at, head]
        expected = {(layer, *map(int, place)): int(data["location"][at][tuple(place)]) for place in np.argwhere(data["location"][at])}
        assert {place: n for place, n in places.items() if place[0] == layer} == expected
    assert {row["token_i"] for row in rows} >= {'"', ","} and ("[CLS]" in {row["token_i"] for row in rows}) == (not options)


def test_pairs_agree_with_analyze(headscope, tmp_path):
    (tmp_path / "in").write_text("The war had damaged the old bridge, and the bridge was closed.\n")
    assert corpus(headscope, tmp_path / "in", "-o", tmp_path / "out", "--pairs", tmp_path / "p.csv").returncode == 0
    answer = json.loads(subprocess.run(command(headscope, "analyze", tmp_path / "in", "--layers", "0,2", "--max-tokens", "24", "--outputs", "pairs",
                                               "--digits", "9", "--max-pairs", "1000000", "--format", "json"), capture_output=True, check=True).stdout)
    place = lambda p: (int(p["layer"]), int(p["head"]), int(p["i"]), int(p["j"]))
    ours = {place(row): (float(row["similarity"]), float(row["normalized"])) for row in pairs_of(tmp_path / "p.csv")}
    theirs = {place(pair): (pair["similarity"], pair["normalized"]) for pair in answer["pairs"]}
    assert ours.keys() == theirs.keys()
    for at, values in ours.items():
        assert values == pytest.approx(theirs[at], rel=1e-5)


CSV_ONLY = "name a file that ends in .csv"  # refuses what the run writes, its model and its interventions as well


@pytest.mark.parametrize(("output", "status", "said"), [
    *((name, 1, f"'{name}' would replace") for name in ("t.csv", "link.csv", "hard.csv", "./sub/../t.csv", "out/state", "words.csv", "what.csv")),
    *((name, 2, CSV_ONLY) for name in ("out/report.json", "out/../out/report.html", "m/model.safetensors", "m/vocab.txt",
                                       "what.json"))])
def test_pairs_do_not_replace_what_the_run_reads_or_writes(headscope, tmp_path, output, status, said):
    (tmp_path / "t.csv").write_text("text\nOne cat.\nTwo dogs.\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "link.csv").symlink_to("t.csv")
    os.link(tmp_path / "t.csv", tmp_path / "hard.csv")
    shutil.copytree(MINI, tmp_path / "m")
    shutil.copytree(MINI, tmp_path / "w")
    os.link(tmp_path / "w" / "vocab.txt", tmp_path / "words.csv")
    (tmp_path / "what.json").write_text('[{"type": "head_off", "layer": 0, "head": 1}]')
    os.link(tmp_path / "what.json", tmp_path / "what.csv")
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    done = subprocess.run([headscope, "corpus", "t.csv", "-o", "out", "--max-tokens", "16", "--model", "m", "--tokenizer", "w",
                           "--interventions", "what.json", "--pairs", output], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == status and said in done.stderr
    assert before == {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}


@unsanitized  # its frames are larger
def test_a_small_stack_is_enough(headscope, tmp_path):
    """Also of two models and their comparison. The Makefile's -Wframe-larger-than keeps frames small."""
    (tmp_path / "t.csv").write_text("text,label\nOne cat.,a\nTwo dogs.,b\n")
    done = subprocess.run(["sh", "-c", 'ulimit -s 256; exec "$0" "$@"', headscope, "corpus", "t.csv", "-o", "out", "--max-tokens", "16",
                           "--layers", "0", "--model", f"one={MINI}", "--model", f"two={MINI}"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "comparison.csv").exists() and (tmp_path / "out" / "two" / "report.npz").exists()


@pytest.mark.parametrize("safe", [[], ["--csv-safe"]])
def test_pairs_for_spreadsheets_hold_no_formulas(headscope, tmp_path, safe):
    (tmp_path / "-t.txt").write_text("= = + + - -\n")
    done = subprocess.run([headscope, "corpus", "-o", "out", "--layers", "0", "--max-tokens", "16", "--pairs", "p.csv", "--pairs-min", "0.01", *safe, "--", "-t.txt"],
                          cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader((tmp_path / "p.csv").open(newline="")))
    mark = "'" if safe else ""
    assert {row["file"] for row in rows} == {mark + "-t.txt"}
    assert {row["token_i"] for row in rows} >= {mark + "=", mark + "+", mark + "-"}


def test_pairs_do_not_replace_what_comes_on_standard_input(headscope, tmp_path):
    (tmp_path / "t.csv").write_text("text\nOne cat.\n")
    with open(tmp_path / "t.csv") as texts_in:
        done = subprocess.run([headscope, "corpus", "-", "-o", tmp_path / "out", "--pairs", tmp_path / "t.csv"], stdin=texts_in,
                              capture_output=True, text=True)
    assert done.returncode == 1 and "would replace the input '-'" in done.stderr and (tmp_path / "t.csv").read_text() == "text\nOne cat.\n"


@pytest.mark.parametrize("name", ["report.json", "state", "report.html", "report.npz"])
def test_a_run_does_not_replace_an_input_that_lies_in_its_folder(headscope, tmp_path, name):
    (tmp_path / name).write_text("One cat.\n")
    done = corpus(headscope, tmp_path / name, "-o", tmp_path)
    assert done.returncode == 1 and "would replace the input" in done.stderr and (tmp_path / name).read_text() == "One cat.\n"


def test_a_page_does_not_replace_the_state_that_it_is_drawn_from(headscope, tmp_path):
    (tmp_path / "t.txt").write_text("One cat.\n")
    assert corpus(headscope, tmp_path / "t.txt", "-o", tmp_path / "out").returncode == 0
    before = (tmp_path / "out" / "state").read_bytes()
    done = subprocess.run([headscope, "report", tmp_path / "out", "-o", tmp_path / "out" / "state"], capture_output=True, text=True)
    assert done.returncode == 1 and "is a file of the run itself" in done.stderr and (tmp_path / "out" / "state").read_bytes() == before


def test_pairs_are_whole_or_not_there(headscope, start_standing, long_run, tmp_path):
    (tmp_path / "pairs.csv").write_text("old")
    run, go_on = start_standing(long_run / "texts.gz", "-o", tmp_path / "out", "--pairs", tmp_path / "pairs.csv")
    run.send_signal(signal.SIGINT)
    go_on()
    run.communicate(timeout=PATIENCE)
    assert run.returncode == 130 and (tmp_path / "pairs.csv").read_text() == "old" and len(list(tmp_path.iterdir())) == 2
    done = corpus(headscope, long_run / "texts.gz", "-o", tmp_path / "out", "--resume", "--pairs", tmp_path / "pairs.csv")
    assert done.returncode == 2 and "--resume" in done.stderr
    done = corpus(headscope, long_run / "texts.gz", "-o", tmp_path / "new", "--pairs", "/dev/full")
    assert done.returncode == 1 and "No space" in done.stderr
    done = corpus(headscope, long_run / "texts.gz", "-o", tmp_path / "s", "--pairs", tmp_path / "p.csv",
                  environment={"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3"})
    assert done.returncode == 1 and "--shard" in done.stderr


def test_pairs_of_a_killed_run_are_swept_by_the_next(headscope, tmp_path):
    """Its file beside the target is a hidden one; other targets' and those that somebody writes stay."""
    ndjson(tmp_path / "in", texts(5))
    left = [tmp_path / f".{name}.0123456789abcdef.unfinished" for name in ("p.csv", "q.csv", "x.p.csv", "p.csv.0123456789abcdef")]
    for file in left:
        file.write_text("half")
    held = tmp_path / ".p.csv.fedcba9876543210.unfinished"
    with held.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert corpus(headscope, tmp_path / "in", "-o", tmp_path / "out", "--pairs", tmp_path / "p.csv").returncode == 0
    assert not left[0].exists() and all(file.exists() for file in (*left[1:], held))


def database_of(path):
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return file.execute("SELECT * FROM pairs").fetchall()


def rows_of(path):
    """A CSV's rows with the types of the database."""
    types = (int, str, int, int, int, int, int, str, str, np.float32, np.float32)
    return [tuple(kind(value) for kind, value in zip(types, row.values())) for row in pairs_of(path)]


def as_single(rows):
    return [(*row[:-2], np.float32(row[-2]), np.float32(row[-1])) for row in rows]


@pytest.fixture(scope="module")
def pairs_run(headscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    ndjson(folder / "in", [*texts(60, seed=4), 'a "quoted", word'])
    for n, name in enumerate(("all.csv", "all.sqlite", "all.db")):
        done = corpus(headscope, folder / "in", "-o", folder / f"out{n}", "--pairs", folder / name, "--workers", 1 + n)
        assert done.returncode == 0, done.stderr
    return folder


def filtered(headscope, run, folder, *options, name="some.csv"):
    done = corpus(headscope, run / "in", "-o", folder / "out", "--pairs", folder / name, *options)
    assert done.returncode == 0, done.stderr
    return rows_of(folder / name) if name.endswith("csv") else as_single(database_of(folder / name))


def test_a_database_of_pairs_holds_the_rows_of_the_csv(pairs_run):
    expected = sorted(rows_of(pairs_run / "all.csv"))
    assert len(expected) > 1000
    assert sorted(as_single(database_of(pairs_run / "all.sqlite"))) == expected == sorted(as_single(database_of(pairs_run / "all.db")))
    assert not list(pairs_run.glob("*-journal")) and not list(pairs_run.glob("*-wal")) and not list(pairs_run.glob(".*"))


@pytest.mark.parametrize("name", ["some.csv", "some.sqlite"])
def test_the_strongest_pairs_of_each_text_and_head(headscope, pairs_run, tmp_path, name):
    groups = {}
    for row in rows_of(pairs_run / "all.csv"):
        groups.setdefault((row[0], row[3], row[4]), []).append(row)
    expected = [row for rows in groups.values() for row in sorted(rows, key=lambda row: (-row[10], row[5], row[6]))[:3]]
    assert sorted(filtered(headscope, pairs_run, tmp_path, "--pairs-strongest", "3", name=name)) == sorted(expected)
    assert any(len(rows) > 3 for rows in groups.values())


def test_pairs_of_chosen_heads_above_a_similarity(headscope, pairs_run, tmp_path):
    got = filtered(headscope, pairs_run, tmp_path, "--pairs-heads", "0.3,2.11", "--pairs-min", "0.75")
    expected = [row for row in rows_of(pairs_run / "all.csv") if (row[3], row[4]) in ((0, 3), (2, 11)) and row[10] >= np.float32(0.75)]
    assert sorted(got) == sorted(expected) and expected


def test_a_sample_of_pairs_follows_from_its_seed(headscope, pairs_run, tmp_path):
    drawn = []
    for n, options in enumerate((["--workers", "1"], ["--workers", "3"], ["--pairs-seed", "7"])):
        (tmp_path / str(n)).mkdir()
        drawn.append(filtered(headscope, pairs_run, tmp_path / str(n), "--pairs-sample", "0.25", *options))
    every = set(rows_of(pairs_run / "all.csv"))
    assert drawn[0] == drawn[1] != drawn[2] and all(set(rows) <= every for rows in drawn)
    for rows in drawn:  # six standard deviations of a binomial count
        assert abs(len(rows) - len(every) / 4) < 6 * (len(every) * 3 / 16) ** 0.5


def test_a_run_tells_how_many_pairs_to_expect(headscope, tmp_path):
    ndjson(tmp_path / "in", ["The old bridge crossed the river, and the river left the bridge."] * 96)
    for name in ("p.csv", "p.csv.gz", "p.sqlite"):
        done = corpus(headscope, tmp_path / "in", "-o", tmp_path / f"out-{name}", "--pairs", tmp_path / name)
        said = re.search(r"pairs: about (\d+) rows, ([\d.]+) MB expected for 96 texts", done.stderr)
        rows = len(database_of(tmp_path / name) if name.endswith("sqlite") else pairs_of(tmp_path / name))
        assert done.returncode == 0 and int(said[1]) == rows > 0
        size = (tmp_path / name).stat().st_size / 2**20
        assert float(said[2]) == pytest.approx(size, rel=0.2, abs=0.3)
    done = corpus(headscope, "-", "-o", tmp_path / "stdin", "--pairs", tmp_path / "s.csv", stdin=(tmp_path / "in").read_bytes())
    assert done.returncode == 0 and "for each 32 texts" in done.stderr


@pytest.mark.parametrize(("options", "status", "said"), [
    (["--pairs-heads", "5"], 1, "--pairs-heads must be up to 256 heads like 5.3,7.0"),
    (["--pairs-heads", "1.0"], 1, "a layer of the run (0 to 2)"),
    (["--pairs-heads", "0.12"], 1, "a head from 0 to 11"),
    (["--pairs-heads", "0.1,"], 1, 'it is "0.1,"'),
    (["--pairs-min", "0"], 1, "--pairs-min must be a number in (0, 1]"),
    (["--pairs-sample", "nan"], 1, '--pairs-sample must be a number in (0, 1]; it is "nan"'),
    (["--pairs-strongest", "1001"], 2, "from 1 to 1000"),
])
def test_wrong_filters_of_pairs(headscope, tmp_path, options, status, said):
    ndjson(tmp_path / "in", texts(3))
    done = corpus(headscope, tmp_path / "in", "-o", tmp_path / "out", "--pairs", tmp_path / "p.sqlite", *options)
    assert done.returncode == status and said in done.stderr and not (tmp_path / "p.sqlite").exists()


def test_filters_of_pairs_need_a_file_and_a_database_a_regular_one(headscope, tmp_path):
    ndjson(tmp_path / "in", texts(3))
    done = corpus(headscope, tmp_path / "in", "-o", tmp_path / "out", "--pairs-strongest", "3")
    assert done.returncode == 2 and "--pairs" in done.stderr
    os.mkfifo(tmp_path / "pipe.sqlite")
    done = corpus(headscope, tmp_path / "in", "-o", tmp_path / "out", "--pairs", tmp_path / "pipe.sqlite")
    assert done.returncode == 1 and "is not a regular file" in done.stderr


def test_a_database_of_pairs_is_whole_or_not_there(headscope, tmp_path):
    (tmp_path / "in").write_text('{"text": "One cat."}\nno JSON\n')
    (tmp_path / "p.sqlite").write_text("old")
    done = corpus(headscope, tmp_path / "in", "-o", tmp_path / "out", "--pairs", tmp_path / "p.sqlite", "--strict")
    assert done.returncode == 1 and (tmp_path / "p.sqlite").read_text() == "old"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in", "p.sqlite"]


# ---- going on ----


def test_a_folder_is_not_overwritten(headscope, plain_run):
    done = corpus(headscope, plain_run / "texts.jsonl", "-o", plain_run / "out")
    assert done.returncode == 1 and "--resume" in done.stderr


def test_resume_of_what_is_done_writes_the_reports_again(headscope, plain_run, tmp_path):
    shutil.copytree(plain_run / "out", tmp_path / "out")
    (tmp_path / "out" / "report.npz").unlink()
    done = corpus(headscope, plain_run / "texts.jsonl", "-o", tmp_path / "out", "--resume")
    assert done.returncode == 0, done.stderr
    assert_same(plain_run / "out", tmp_path / "out")


def start(headscope, *arguments, environment=None):
    return subprocess.Popen(command(headscope, "corpus", *SMALL, *arguments), stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, env={**os.environ, **(environment or {})})


def standing_run(headscope, preload, standing, *arguments):
    """A run that has saved once and stands in its second save, until go_on() of the two returned."""
    run = start(headscope, *arguments, "--save", "0.01", environment=failing(preload, "rename", 1, "wait", standing))
    until(lambda: standing.exists() or run.poll() is not None)
    assert run.poll() is None, run.stderr.read()
    return run, standing.unlink


@pytest.fixture
def start_standing(headscope, preload, tmp_path):
    return partial(standing_run, headscope, preload, tmp_path / "standing")


@pytest.fixture(scope="module")
def long_run(headscope, tmp_path_factory):
    """Enough texts to be interrupted, and what an undisturbed run makes of them."""
    folder = tmp_path_factory.mktemp("long")
    lines = texts(1500, seed=2)
    lines[700] = lines[701] = lines[1200] = None  # become bad lines
    with gzip.open(folder / "texts.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": line}) + "\n" for line in lines)
    began = time.monotonic()
    done = corpus(headscope, folder / "texts.gz", "-o", folder / "out", "--workers", 2)
    assert done.returncode == 0, done.stderr
    folder.joinpath("seconds").write_text(str(time.monotonic() - began))
    assert report(folder / "out")["bad_lines"]["count"] == 3
    return folder


@unsanitized
@pytest.mark.parametrize("least", [3, pytest.param(15, marks=pytest.mark.slow)])
def test_kills_change_nothing(headscope, long_run, tmp_path, least):
    rng = random.Random(3)
    seconds = float(long_run.joinpath("seconds").read_text())
    kills = cycles = 0
    while cycles < least or kills < least // 3:  # a machine that is quicker now than it was is through before many of them
        out = tmp_path / f"out{cycles}"
        finished = False
        while not finished:
            run = start(headscope, long_run / "texts.gz", "-o", out, "--resume", "--save", "0.01", "--workers",
                        str(rng.randint(1, 3)))
            try:
                finished = run.wait(rng.uniform(0.02, seconds)) == 0
                assert finished, run.stderr.read()
            except subprocess.TimeoutExpired:
                run.kill()
                run.wait()
                kills += 1
            run.stderr.close()
            cycles += 1
        assert_same(long_run / "out", out)


def test_interrupt_saves_and_says_how_to_go_on(headscope, preload, tmp_path):
    inputs = [ndjson(tmp_path / f"{name}.jsonl", texts(300, seed=n)) for n, name in enumerate(["first", "second"])]
    out, standing = tmp_path / "out", tmp_path / "standing"
    # It has read the first file and stands before it opens the second.
    environment = {**failing(preload, "open", 0, "wait", standing), "FAILING_CALL_PATH": "second.jsonl"}
    for number in (signal.SIGINT, signal.SIGTERM):
        run = start(headscope, *inputs, "-o", out, "--resume", "--save", "3600", "--workers", "1", environment=environment)
        until(lambda: standing.exists() or run.poll() is not None)
        run.send_signal(number)
        standing.unlink()
        said = run.communicate(timeout=PATIENCE)[1].decode()
        assert run.returncode == 128 + number and "--resume" in said
        assert (out / "state").exists() and not (out / "report.json").exists()
    done = corpus(headscope, *inputs, "-o", out, "--resume")
    assert done.returncode == 0, done.stderr
    assert corpus(headscope, *inputs, "-o", tmp_path / "whole").returncode == 0
    assert_same(tmp_path / "whole", out)
    assert {"snr", "snr_null", "signal_strata_hist", "noise_strata_sums"} <= arrays(out).keys()
    whole, resumed = report(tmp_path / "whole"), report(out)
    assert "snr" in whole["head_figures"][0][0][0] and "dprime_within_distances" in whole["head_figures"][2][0][0]["intervals"]
    assert whole.pop("provenance")["seconds"] and resumed.pop("provenance")["seconds"]
    assert json.dumps(whole) == json.dumps(resumed)


def catches(pid, number, among="SigCgt"):
    """Returns true if a signal is in a set of the process: SigCgt, those with a handler, or ShdPnd, those that wait."""
    numbers = re.search(rf"^{among}:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.M)[1]
    return int(numbers, 16) >> (number - 1) & 1


def test_interrupt_while_waiting_for_input(headscope, tmp_path):
    run = subprocess.Popen(command(headscope, "corpus", *SMALL, "-", "-o", tmp_path / "out"), stdin=subprocess.PIPE,
                           stderr=subprocess.PIPE)
    lines = "".join(line + "\n" for line in texts(100, seed=4)).encode()
    run.stdin.write(lines[:len(lines) // 2])
    run.stdin.flush()
    until(lambda: fcntl.ioctl(run.stdin, termios.FIONREAD, bytes(4)) == bytes(4) and catches(run.pid, signal.SIGINT))
    run.send_signal(signal.SIGINT)
    assert run.wait(PATIENCE) == 128 + signal.SIGINT
    assert b"--resume" in run.stderr.read()
    done = corpus(headscope, "-", "-o", tmp_path / "out", "--resume", stdin=lines)
    assert done.returncode == 0, done.stderr
    corpus(headscope, "-", "-o", tmp_path / "whole", stdin=lines)
    assert_same(tmp_path / "whole", tmp_path / "out")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_twice_at_once_still_saves(start_standing, long_run, tmp_path, number):
    """timeout signals its command and then the whole group."""
    run, go_on = start_standing(long_run / "texts.gz", "-o", tmp_path / "out", "--workers", "1")
    run.send_signal(number)
    while catches(run.pid, number, "ShdPnd"):
        pass  # else both are delivered as one
    run.send_signal(number)
    go_on()
    assert b"stopped and saved" in run.communicate(timeout=PATIENCE)[1] and run.returncode == 128 + number


@pytest.fixture(scope="module")
def interrupted(headscope, preload, long_run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("interrupted")
    run, go_on = standing_run(headscope, preload, folder / "standing", long_run / "texts.gz", "-o", folder / "half", "--workers", "1")
    run.send_signal(signal.SIGINT)
    go_on()
    run.communicate()
    return folder / "half"


@pytest.fixture
def half_done(interrupted, tmp_path):
    return shutil.copytree(interrupted, tmp_path / "half")


@pytest.mark.parametrize(("arguments", "what"), [
    (["--attention-threshold", "0.4"], "attention_threshold"), (["--split-special-tokens"], "split_special_tokens"), (["--special-tokens", "mask"], "special_tokens"),
    (["--sentence-ends", "!"], "sentence_ends"), (["--field", "body"], "field"), (["--no-quotes"], "no_quotes"), (["--input-format", "text"], "input_format"),
    (["--max-tokens", "25"], "max_tokens"), (["--layers", "0"], "layers"), (["--map-bins", "8"], "map_step"), (["--thresholds", "0.3"], "thresholds"),
    (["--shard", "0/2"], "n_shards"), (["--backend", "openblas"], "backend"),
])
def test_resume_refuses_other_options(headscope, long_run, half_done, arguments, what):
    done = corpus(headscope, long_run / "texts.gz", "-o", half_done, "--resume", *arguments)
    assert done.returncode == 1 and what in done.stderr


def test_restart_begins_anew(headscope, long_run, half_done, tmp_path):
    """With another model or other options, which a resumed run would refuse."""
    model = checkpoint.write_random(tmp_path / "m")
    ndjson(tmp_path / "few", texts(30, seed=8))
    run = ["--model", model, "--examples", "2", tmp_path / "few"]
    refused = corpus(headscope, *run, "-o", half_done)
    assert refused.returncode == 1 and "--restart" in refused.stderr
    both = corpus(headscope, *run, "-o", half_done, "--restart", "--resume")
    assert both.returncode == 2 and "--restart" in both.stderr
    for folder in (half_done, tmp_path / "new"):  # a new folder has no run yet
        done = corpus(headscope, *run, "-o", folder, "--restart")
        assert done.returncode == 0, done.stderr
    assert_same(half_done, tmp_path / "new")


def test_resume_refuses_another_input(headscope, long_run, half_done, tmp_path):
    with gzip.open(long_run / "texts.gz", "rb") as file:
        text = file.read()
    (tmp_path / "texts").write_bytes(b'{"text": "x"}' + text[text.index(b"\n"):])
    done = corpus(headscope, tmp_path / "texts", "-o", half_done, "--resume")
    assert done.returncode == 1 and "input" in done.stderr
    done = corpus(headscope, "-", "-o", half_done, "--resume", stdin=b"x" + text[1:])
    assert done.returncode == 1 and "input" in done.stderr


@pytest.mark.parametrize(("name", "old", "new", "what"), [
    ("model.safetensors", None, None, "model_sha256"),
    ("vocab.txt", "\nriver\n", "\nRIVER\n", "model_files_sha256"),
    slow_if(True, "config.json", '"layer_norm_eps": 1e-12', '"layer_norm_eps": 1e-03', "model_files_sha256"),
    slow_if(True, "tokenizer_config.json", '"strip_accents": null', '"strip_accents": false', "model_files_sha256"),
])
def test_resume_refuses_a_model_of_which_a_file_has_changed(headscope, tmp_path, name, old, new, what):
    model = tmp_path / "model"
    model.mkdir()
    for one in ("config.json", "model.safetensors", "tokenizer_config.json", "vocab.txt"):
        (model / one).write_bytes((MINI / one).read_bytes())
    run = [ndjson(tmp_path / "in", texts(9)), "-o", tmp_path / "out", "--model", f"m={model}"]
    assert corpus(headscope, *run).returncode == 0
    assert corpus(headscope, *run, "--resume").returncode == 0
    before = (model / name).read_bytes()
    after = before[:-1] + bytes([before[-1] ^ 1]) if old is None else before.replace(old.encode(), new.encode(), 1)
    assert after != before
    (model / name).write_bytes(after)
    done = corpus(headscope, *run, "--resume")
    assert done.returncode == 1 and f"another {what}: " in done.stderr
    (model / name).write_bytes(before)
    assert corpus(headscope, *run, "--resume").returncode == 0


def test_resume_refuses_a_damaged_state(headscope, long_run, half_done):
    state = half_done / "state"
    good = state.read_bytes()
    for damaged in (good[:-1], good[:100], b"", good[:60] + b"!" + good[61:], good[:-5] + b"\x01" + good[-4:]):
        state.write_bytes(damaged)
        done = corpus(headscope, long_run / "texts.gz", "-o", half_done, "--resume")
        assert done.returncode == 1 and done.stderr.startswith("headscope corpus: ")


def test_resume_refuses_a_state_of_another_version_and_says_what_to_do(headscope, long_run, half_done):
    state = half_done / "state"
    good = state.read_bytes()
    at = good.index(b"hs-stats") + 8
    state.write_bytes(good[:at] + (1).to_bytes(8, "little") + good[at + 8:])
    done = corpus(headscope, long_run / "texts.gz", "-o", half_done, "--resume")
    assert done.returncode == 1 and str(state) in done.stderr
    assert "of version 1" in done.stderr and "anew" in done.stderr


# ---- shards ----


def merge(headscope, *arguments):
    return subprocess.run(command(headscope, "merge", *arguments), capture_output=True, text=True, check=False)


def test_four_shards_merged_are_one_run(headscope, long_run, tmp_path):
    folders = [tmp_path / f"shard{n}" for n in range(4)]
    for n, folder in enumerate(folders):
        done = corpus(headscope, long_run / "texts.gz", "-o", folder, "--shard", f"{n}/4", "--workers", 1 + n % 2)
        assert done.returncode == 0, done.stderr
    counts = [report(folder)["texts"] for folder in folders]
    assert sum(counts) == 1497 and min(counts) > 350
    done = merge(headscope, *reversed(folders), "-o", tmp_path / "all")
    assert done.returncode == 0, done.stderr
    assert_same(long_run / "out", tmp_path / "all")
    done = merge(headscope, *folders[:2], "-o", tmp_path / "some")
    assert done.returncode == 0 and "2 of 4 shards" in done.stderr
    done = merge(headscope, tmp_path / "some", *folders[2:], "-o", tmp_path / "rest")
    assert done.returncode == 0, done.stderr
    assert_same(long_run / "out", tmp_path / "rest")
    for wrong, why in [([folders[0], folders[0]], "already"), ([tmp_path / "some", folders[1]], "already"),
                       ([folders[0], long_run / "out"], "n_shards")]:
        done = merge(headscope, *wrong, "-o", tmp_path / "wrong")
        assert done.returncode == 1 and why in done.stderr
        assert not (tmp_path / "wrong" / "state").exists()


def test_two_shards_do_not_share_a_folder(headscope, start_standing, long_run, tmp_path):
    first, go_on = start_standing(long_run / "texts.gz", "-o", tmp_path / "out", "--shard", "0/2")
    assert (tmp_path / "out" / "state").exists()
    done = corpus(headscope, long_run / "texts.gz", "-o", tmp_path / "out", "--shard", "1/2", "--resume")
    go_on()
    assert done.returncode == 1 and "folder of its own" in done.stderr
    assert first.wait(PATIENCE) == 0
    first.stderr.close()
    for more in ([], ["--resume"]):
        done = corpus(headscope, long_run / "texts.gz", "-o", tmp_path / "out", "--shard", "1/2", *more)
        assert done.returncode == 1 and "holds shard 0: give shard 1 a folder" in done.stderr
    assert report(tmp_path / "out")["provenance"]["shards"]["included"] == [0]


def test_merge_refuses_other_inputs_and_unfinished_shards(headscope, long_run, half_done, tmp_path):
    ndjson(tmp_path / "a", texts(50, seed=5))
    ndjson(tmp_path / "b", list(reversed(texts(50, seed=5))))
    corpus(headscope, tmp_path / "a", "-o", tmp_path / "0", "--shard", "0/2")
    corpus(headscope, tmp_path / "b", "-o", tmp_path / "1", "--shard", "1/2")
    done = merge(headscope, tmp_path / "0", tmp_path / "1", "-o", tmp_path / "out")
    assert done.returncode == 1 and "input" in done.stderr
    done = merge(headscope, half_done, "-o", tmp_path / "out")
    assert done.returncode == 1 and "not finished" in done.stderr


@pytest.mark.parametrize("variables", [
    {"JOB_COMPLETION_INDEX": "1", "JOB_COMPLETIONS": "3"},
    {"SLURM_ARRAY_TASK_ID": "11", "SLURM_ARRAY_TASK_COUNT": "3", "SLURM_ARRAY_TASK_MIN": "10"},
    {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3"},
])
def test_shard_from_the_scheduler(headscope, tmp_path, variables):
    ndjson(tmp_path / "in", texts(60, seed=6))
    done = corpus(headscope, tmp_path / "in", "-o", tmp_path / "out", environment=variables)
    assert done.returncode == 0, done.stderr
    done = corpus(headscope, tmp_path / "in", "-o", tmp_path / "explicit", "--shard", "1/3")
    assert done.returncode == 0, done.stderr
    assert_same(tmp_path / "explicit", tmp_path / "out" / "shard-1-of-3")


def test_kubernetes_job_counts_every_shard_once(headscope, tmp_path):
    shards, whole = yaml.safe_load_all((DEPLOY / "corpus-job.yaml").read_text())
    container, = shards["spec"]["template"]["spec"]["containers"]
    n = shards["spec"]["completions"]
    assert shards["spec"]["completionMode"] == "Indexed"
    set_there = {e["name"]: e["value"] for e in container["env"]}
    ndjson(tmp_path / "texts.jsonl", texts(100, seed=9))
    there = lambda words: [word.replace("/corpus", str(tmp_path)) for word in words]
    for index in [*range(n), 1]:  # Kubernetes may start one twice
        done = subprocess.run([headscope, *there(container["args"]), *SMALL], capture_output=True, text=True, check=False,
                              env={**os.environ, **set_there, "JOB_COMPLETION_INDEX": str(index)})
        assert done.returncode == 0, done.stderr
    merging, = whole["spec"]["template"]["spec"]["containers"]
    done = subprocess.run([headscope, *there(merging["args"])], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    corpus(headscope, tmp_path / "texts.jsonl", "-o", tmp_path / "one")
    assert_same(tmp_path / "one", tmp_path / "report")


def test_texts_are_whole_behind_a_nul(headscope, tmp_path):
    """In examples, figures of one text, searches and comparisons, in a merged run and in one that goes on."""
    lines = ["before\0after and more words", "words\0or less", "\0more words"]
    ndjson(tmp_path / "in", lines)
    options = ["--search-texts", "9", "--examples", "3", "--special-tokens", "mask"]
    for part in range(2):
        assert corpus(headscope, tmp_path / "in", "-o", tmp_path / f"{part}", "--shard", f"{part}/2", *options).returncode == 0
    done = merge(headscope, tmp_path / "0", tmp_path / "1", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    said = report(tmp_path / "out")
    assert sorted(text["text"] for text in said["examples"]["texts"]) == sorted(lines)
    first = said["examples"]["texts"][0]["text"]
    answer = json.loads(subprocess.run([headscope, "analyze", "-"], input=first.encode(), capture_output=True, check=True).stdout)
    assert said["one_text"]["tokens"] == answer["tokens"]
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "\0" not in page and "> before␀after and more words <a" in page and "text=before%00after%20and" in page
    found = json.loads(subprocess.run(command(headscope, "search", "--head", "2.1", "--of", "similarity", "--format", "json", tmp_path / "out"),
                                      capture_output=True, check=True).stdout)
    assert {pair["body"] for pair in found["pairs"]} <= set(lines) and found["pairs"]
    shown = subprocess.run(command(headscope, "search", "--head", "2.1", "--of", "similarity", tmp_path / "out"), capture_output=True, check=True)
    assert b"before\\u0000after and more words" in shown.stdout
    assert subprocess.run(command(headscope, "report", tmp_path / "out", tmp_path / "0", "-o", tmp_path / "both"), check=False).returncode == 0


def test_a_table_by_columns_is_no_text(headscope, tmp_path):
    """Its columns are lists of texts, not of words."""
    texts_of = [f"this is text number {i}" for i in range(50)]
    for name, table in ("t.json", {"text": texts_of, "label": [0] * 50}), ("p.json", {"text": "one", "text_pair": texts_of}):
        (tmp_path / name).write_text(json.dumps(table), encoding="utf-8")
        done = corpus(headscope, tmp_path / name, "-o", tmp_path / "out")
        assert done.returncode == 1 and "would be a word; words are in tokens, and each text is a record" in done.stderr
    (tmp_path / "rows.jsonl").write_text(json.dumps({"text": "a text"}) + "\n" + json.dumps({"text": texts_of}) + "\n")
    done = corpus(headscope, tmp_path / "rows.jsonl", "-o", tmp_path / "rows")
    assert done.returncode == 0 and "rows.jsonl:2: element 0 of the list text would be a word" in done.stderr
    assert report(tmp_path / "rows")["texts"] == 1


def slurm_script(headscope, folder, *arguments, **more):
    (folder / "srun").write_text('#!/bin/sh\nexec "$@"\n')
    (folder / "srun").chmod(0o755)
    return subprocess.run([DEPLOY / "corpus-slurm.sh", *arguments], capture_output=True, text=True, check=False,
                          env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "HEADSCOPE": headscope, **more})


def test_slurm_script(headscope, tmp_path):
    ndjson(tmp_path / "in", texts(60, seed=10))
    for task in ("4", "5"):
        done = slurm_script(headscope, tmp_path, tmp_path / "in", tmp_path / "out", *SMALL,
                            SLURM_ARRAY_TASK_ID=task, SLURM_ARRAY_TASK_MIN="4", SLURM_ARRAY_TASK_COUNT="2")
        assert done.returncode == 0, done.stderr
    done = merge(headscope, tmp_path / "out" / "shard-0-of-2", tmp_path / "out" / "shard-1-of-2", "-o", tmp_path / "all")
    assert done.returncode == 0, done.stderr
    assert report(tmp_path / "all")["texts"] == 60


def test_slurm_script_passes_options_on(headscope, tmp_path):
    """The model that is named is analysed, or the job fails."""
    ndjson(tmp_path / "in", texts(5, seed=10))
    done = slurm_script(headscope, tmp_path, tmp_path / "in", tmp_path / "out", "--model", "/no/such")
    assert done.returncode == 1 and "/no/such" in done.stderr and not (tmp_path / "out" / "report.json").exists()
    done = slurm_script(headscope, tmp_path, tmp_path / "in", tmp_path / "out", "--model", "other=mini", "--max-tokens", "9")
    assert done.returncode == 0, done.stderr
    options = report(tmp_path / "out")["provenance"]["options"]
    assert options["max_tokens"] == 9 and report(tmp_path / "out")["provenance"]["model"]["name"] == "other"
    for wrong in ((), ("in",), ("--model", "x", "in", "out"), ("in", "-o", "out")):
        done = slurm_script(headscope, tmp_path, *wrong)
        assert done.returncode == 2 and "TEXTS FOLDER [OPTION" in done.stderr


@pytest.mark.skipif(not shutil.which("mpirun"), reason="openmpi-bin is not installed")
def test_mpirun(headscope, tmp_path):
    ndjson(tmp_path / "in", texts(100, seed=7))
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(["mpirun", "--oversubscribe", "-n", "3", headscope, "corpus", *SMALL, "--workers", "1",
                           tmp_path / "in", "-o", tmp_path / "out"], env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    done = merge(headscope, *sorted((tmp_path / "out").iterdir()), "-o", tmp_path / "all")
    assert done.returncode == 0, done.stderr
    corpus(headscope, tmp_path / "in", "-o", tmp_path / "whole")
    assert_same(tmp_path / "whole", tmp_path / "all")


def test_report_draws_the_page_again(headscope, plain_run, tmp_path):
    done = subprocess.run(command(headscope, "report", plain_run / "out", "-o", tmp_path / "page.html"),
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").read_bytes() == (plain_run / "out" / "report.html").read_bytes()
    done = subprocess.run(command(headscope, "report", tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "state" in done.stderr


def limited(limit):
    """Writes past this many bytes of a file fail with EFBIG, as if the disk were full."""
    def prepare():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    return prepare


def test_a_full_disk_is_reported_and_the_last_save_stays(headscope, half_done, long_run):
    before = (half_done / "state").read_bytes()
    done = subprocess.run([headscope, "corpus", long_run / "texts.gz", "-o", half_done, "--resume", *SMALL], capture_output=True,
                          preexec_fn=limited(65536), check=False)
    said = done.stderr.decode()
    assert done.returncode == 1 and "File too large" in said and "Input/output" not in said
    assert (half_done / "state").read_bytes() == before
    assert not [file for file in half_done.iterdir() if file.name.startswith(".")]


def test_a_run_without_enough_memory_is_refused_before_it_begins(headscope, tmp_path):
    checkpoint.write_random(tmp_path / "model", n_layers=12, n_heads=128, hidden=256, positions=4096)
    done = corpus(headscope, "-", "-o", tmp_path / "out", "--model", tmp_path / "model", "--max-tokens", "4096", "--map-bins", "4096", stdin=b"a\n",
                  small=False)
    assert done.returncode == 1 and "MB of memory" in done.stderr and not (tmp_path / "out").exists()


def test_leftovers_of_a_killed_save_go_when_the_run_goes_on(headscope, half_done, long_run):
    (half_done / ".state.0123456789abcdef.unfinished").write_bytes(b"half a save")
    held = half_done / ".report.npz.0123456789abcdef.unfinished"
    with held.open("wb") as file:  # another process is writing it
        fcntl.flock(file, fcntl.LOCK_EX)
        assert corpus(headscope, long_run / "texts.gz", "-o", half_done, "--resume").returncode == 0
        assert [name for name in half_done.iterdir() if name.name.startswith(".")] == [held]
