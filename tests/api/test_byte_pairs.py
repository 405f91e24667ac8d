"""RoBERTa with its own kind of tokenizer, byte-level BPE, from text to maps. The tokenizer is the first of the
oracle's fixtures, which tests/unit/test_tokenizer_oracle.c replays."""
import json
import lzma
import os
import pathlib
import struct
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "reference"))
import family_roberta  # noqa: E402
from test_cli import on_a_terminal  # noqa: E402

HEADSCOPE = os.environ["HEADSCOPE"]


def roberta_with(folder, vocab, fixtures):
    """Random weights of RoBERTa with the tokenizer of a unit test's fixtures."""
    family_roberta.write_random(folder, vocab=vocab)
    for path in (*folder.glob("vocab.txt"), *folder.glob("tokenizer*")):
        path.unlink()
    with lzma.open(ROOT / "tests" / "unit" / fixtures) as file:
        n_bytes = struct.unpack("<II", file.read(8))[1]
        (folder / "tokenizer.json").write_bytes(file.read(n_bytes))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return roberta_with(tmp_path_factory.mktemp("byte_pairs") / "roberta", 700, "tokenizer_bpe_oracle.xz")


def run(*arguments, stdin=""):
    done = subprocess.run([HEADSCOPE, *map(str, arguments)], input=stdin, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_models_tells_the_family(folder):
    assert run("models", folder).splitlines()[1].split()[:2] == ["roberta", "roberta"]


def test_a_pair(folder):
    """Two separators between the texts, all of type 0, and yet sentences know where the second text begins."""
    answer = json.loads(run("analyze", "--model", folder, "--layers", "all", "--outputs", "attentions",
                            "--text-pair", "Caf\u00e9 of <mask>.", "-", stdin="The the. Of"))
    assert answer["tokens"] == ["<s>", "The", "\u0120the", ".", "\u0120O", "f", "</s>", "</s>",
                                "C", "a", "f", "\u00c3", "\u00a9", "\u0120of", "<mask>", ".", "</s>"]
    assert answer["token_type_ids"] == 17 * [0]
    assert answer["sentence_ids"] == 4 * [0] + 4 * [1] + 9 * [2]
    assert answer["offset_mapping"][11:15] == [[3, 4], [3, 4], [5, 7], [8, 14]]


def test_maps(folder, tmp_path):
    run("analyze", "--model", folder, "--layers", "all", "--outputs", "attentions", "-o", tmp_path / "a.npz", "-",
        stdin="The caf\u00e9's <mask> was <pad> closed in 1916.")
    answer = np.load(tmp_path / "a.npz")
    expected = family_roberta.forward(folder, answer["input_ids"], answer["token_type_ids"]).attentions
    assert np.abs(answer["attentions"].astype(float) - expected).max() < 1e-5


def test_a_corpus(folder, tmp_path):
    (tmp_path / "texts.jsonl").write_text("".join(
        json.dumps({"text": f"The battle of {n} was won, and lost. Then came others."}) + "\n" for n in range(8)))
    run("corpus", "--model", folder, "--output", tmp_path / "run", tmp_path / "texts.jsonl")
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["texts"] == 8


def test_a_person_reads_text(folder, tmp_path):
    """Bytes that are whole characters are shown as such, a space as a mark; programs get the vocabulary's pieces."""
    text = tmp_path / "text"
    text.write_text("The caf\u00e9's <mask>\nwas \u2014 closed")
    code, page = on_a_terminal("analyze", "--model", str(folder), str(text))
    assert code == 0 and "<s> The" in page and "<mask>" in page and "\u2423c" in page and "\u240a" in page
    assert "\u27e8C3\u27e9 \u27e8A9\u27e9" in page  # two tokens, neither a whole character
    assert not set("\u0120\u010a\u00c3\u00e2") & set(page)


@pytest.fixture(scope="module")
def causal(tmp_path_factory):
    """RoBERTa's weights with GPT-2's tokenizer, which adds no special tokens."""
    return roberta_with(tmp_path_factory.mktemp("causal") / "gpt2", 800, "tokenizer_causal_oracle.xz")


def test_no_special_tokens(causal):
    answer = json.loads(run("analyze", "--model", causal, "--layers", "all", "--outputs", "attentions", "-",
                            stdin="The the. Of"))
    assert answer["tokens"] == ["The", "\u0120the", ".", "\u0120O", "f"]
    assert answer["special_tokens_mask"] == 5 * [0]
    assert answer["sentence_ids"] == [0, 0, 0, 1, 1]
    answer = json.loads(run("analyze", "--model", causal, "--max-tokens", "2", "-", stdin="The the. Of"))
    assert answer["tokens"] == ["The", "\u0120the"] and answer["truncated"]


def test_a_text_without_tokens(causal):
    done = subprocess.run([HEADSCOPE, "analyze", "--model", str(causal), "-"], input="", capture_output=True, text=True)
    assert done.returncode != 0 and "no tokens" in done.stderr


def test_only_a_first_token(causal, tmp_path):
    """Llama's template: <s> A."""
    folder = tmp_path / "bos"
    folder.mkdir()
    for path in causal.iterdir():
        (folder / path.name).symlink_to(path)
    file = json.loads((causal / "tokenizer.json").read_text())
    step = [{"SpecialToken": {"id": "<|bos|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    file["post_processor"] = {"type": "TemplateProcessing", "single": step,
                              "pair": step + [{"Sequence": {"id": "B", "type_id": 0}}],
                              "special_tokens": {"<|bos|>": {"id": "<|bos|>", "ids": [1], "tokens": ["<|bos|>"]}}}
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").write_text(json.dumps(file))
    answer = json.loads(run("analyze", "--model", folder, "--text-pair", "of", "-", stdin="The the"))
    assert answer["tokens"] == ["<|bos|>", "The", "\u0120the", "of"]
    assert answer["special_tokens_mask"] == [1, 0, 0, 0]
    assert json.loads(run("analyze", "--model", folder, "-", stdin=""))["tokens"] == ["<|bos|>"]
