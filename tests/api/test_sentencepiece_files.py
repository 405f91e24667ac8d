"""Folders with a sentencepiece model alone: Llama, Mistral, Gemma, PEGASUS, mBART. Ids are those of transformers 5.24, for mBART
with the table of characters of its version 4. tests/reference/published_tokenizers_check.py compares more texts."""
import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import HEADSCOPE, PATIENCE

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import family_bert  # noqa: E402

NORMAL, UNKNOWN, CONTROL, OWN, BYTE = 1, 2, 3, 4, 6
UNIGRAM, BPE = 1, 2


def field(number, data):
    return bytes([number << 3 | 2, len(data)]) + data


def flag(number, value):
    key = number << 3
    return (bytes([key]) if key < 128 else bytes([key & 127 | 128, key >> 7])) + bytes([value])


def model_of(pieces, kind, unknown, keeps_spaces=True, scores=None):
    """A sentencepiece model: pieces with their types, in falling score unless scores say otherwise."""
    def score(rank, piece, type_):
        return struct.pack("<f", (scores or {}).get(piece, -rank if type_ == NORMAL else 0))

    listed = b"".join(field(1, field(1, piece.encode()) + b"\x15" + score(rank, piece, type_) + flag(3, type_))
                      for rank, (piece, type_) in enumerate(pieces))
    trainer = flag(3, kind) + flag(35, any(type_ == BYTE for _, type_ in pieces)) + flag(40, unknown)
    return listed + field(2, trainer) + (field(3, flag(4, 0)) if keeps_spaces else b"")


BYTES = [(f"<0x{value:02X}>", BYTE) for value in range(256)]
WORDS = [(piece, NORMAL) for piece in ("he", "▁t", "▁the", "wa", "ar", "▁w", "▁▁", "the", "▁", "t", "h", "e", "w", "a", "r")]
LLAMA = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL), *BYTES, *WORDS]
GEMMA = [("<pad>", CONTROL), ("<eos>", CONTROL), ("<bos>", CONTROL), ("<unk>", UNKNOWN), ("<mask>", OWN), ("\n", OWN), *BYTES, *WORDS]
PEGASUS = [("<pad>", CONTROL), ("</s>", CONTROL), ("<unk>", UNKNOWN), *WORDS]
MBART = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL), *WORDS]
LLAMA_CONFIG = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
GEMMA_CONFIG = {"tokenizer_class": "GemmaTokenizer", "add_bos_token": True, "bos_token": "<bos>", "eos_token": "<eos>"}
TEXT = "  the  war<s>the \u00e9\nw"
LLAMA_FILE = "tokenizer.model", model_of(LLAMA, BPE, 0)
# name: model_type, file, its bytes, tokenizer_config.json
CASES = {
    "llama": ("llama", *LLAMA_FILE, LLAMA_CONFIG),
    "llama legacy": ("llama", *LLAMA_FILE, {**LLAMA_CONFIG, "legacy": True, "add_eos_token": True}),
    "llama spaceless": ("llama", *LLAMA_FILE, {**LLAMA_CONFIG, "add_prefix_space": False}),
    "llama bare": ("llama", *LLAMA_FILE, None),
    "llama by scores": ("llama", "tokenizer.model", model_of(LLAMA, BPE, 0, scores={"ar": 5.0}), None),
    "mistral": ("mistral", *LLAMA_FILE, LLAMA_CONFIG),
    "mistral modern": ("mistral", *LLAMA_FILE, {**LLAMA_CONFIG, "legacy": False}),
    "gemma": ("gemma", "tokenizer.model", model_of(GEMMA, BPE, 3), GEMMA_CONFIG),
    "pegasus": ("pegasus", "spiece.model", model_of(PEGASUS, UNIGRAM, 2, False), None),
    "mbart": ("mbart", "sentencepiece.bpe.model", model_of(MBART, UNIGRAM, 0, False), {"tokenizer_class": "MBartTokenizer", "src_lang": "de_DE"}),
    "mbart50": ("mbart", "sentencepiece.bpe.model", model_of(MBART, UNIGRAM, 0, False), {"tokenizer_class": "MBart50Tokenizer"}),
}
# name: ids of TEXT, ids of the pair "the" and "war"
IDS = {
    "llama": ([1, 267, 261, 265, 262, 273, 1, 266, 267, 198, 172, 13, 271], [1, 261, 1, 267, 262, 273]),
    "llama legacy": ([1, 267, 261, 265, 262, 273, 1, 261, 267, 198, 172, 13, 271, 2], [1, 261, 2, 1, 267, 262, 273, 2]),
    "llama spaceless": ([1, 267, 261, 265, 262, 273, 1, 266, 267, 198, 172, 13, 271], [1, 266, 1, 262, 273]),
    "llama bare": ([265, 261, 265, 262, 273, 1, 261, 267, 198, 172, 13, 271], [261, 267, 262, 273]),
    "llama by scores": ([265, 261, 267, 264, 263, 1, 261, 267, 198, 172, 13, 271], [261, 264, 263]),
    "mistral": ([1, 265, 261, 265, 262, 273, 1, 261, 267, 198, 172, 13, 271], [1, 261, 1, 267, 262, 273]),
    "mistral modern": ([1, 267, 261, 265, 262, 273, 1, 266, 267, 198, 172, 13, 271], [1, 261, 1, 267, 262, 273]),
    "gemma": ([2, 270, 264, 268, 265, 276, 66, 121, 68, 269, 270, 201, 175, 5, 274], [2, 269, 2, 265, 276]),
    "pegasus": ([108, 111, 110, 105, 113, 114, 105, 111, 1], [108, 111, 110, 1]),
    "mbart": ([6, 9, 8, 0, 6, 12, 3, 9, 2, 21], [6, 9, 8, 2, 21]),
    "mbart50": ([22, 6, 9, 8, 0, 6, 12, 3, 16, 2], [22, 6, 9, 8, 2]),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return family_bert.write_random(tmp_path_factory.mktemp("model") / "bert", vocab=320)


def write(folder, kind, file, content, config):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    (folder / file).write_bytes(content)
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def run(model, folder, *options, text):
    command = [HEADSCOPE, "analyze", "--model", str(model), "--tokenizer", str(folder), "--outputs", "summary", *options, "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=PATIENCE)


@pytest.mark.parametrize("name", CASES)
def test_ids(model, tmp_path, name):
    folder = write(tmp_path / "folder", *CASES[name])
    for (text, options), ids in zip([(TEXT, []), ("the", ["--text-pair", "war"])], IDS[name]):
        done = run(model, folder, *options, text=text)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["input_ids"] == ids


@pytest.mark.parametrize("listed", [False, True])
def test_a_language_in_a_text_of_m2m100(model, tmp_path, listed):
    """Its token is found if tokenizer_config.json names it, as published folders do."""
    config = {"tokenizer_class": "M2M100Tokenizer", "language_codes": "wmt21",
              **({"additional_special_tokens": [f"__{code}__" for code in ("en", "ha", "is", "ja", "cs", "ru", "zh", "de")]} if listed else {})}
    pieces = [piece for piece in MBART if piece[0] != "\u2581\u2581"]
    folder = write(tmp_path / "folder", "m2m_100", "sentencepiece.bpe.model", model_of(pieces, UNIGRAM, 0, False), config)
    vocab = {piece: i for i, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", *(piece for piece, _ in pieces[3:])])}
    (folder / "vocab.json").write_text(json.dumps(vocab))
    done = run(model, folder, text="war__de__the")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    found = answer["tokens"]
    assert ("__de__" in found) == listed and found[0] == "__en__" and answer["input_ids"][0] == len(vocab)
    assert not listed or answer["input_ids"][found.index("__de__")] == len(vocab) + 7


def test_offsets(model, tmp_path):
    """A mark before the text stands for the character behind it, and bytes for their character."""
    answer = json.loads(run(model, write(tmp_path / "folder", *CASES["llama"]), text="war \u00e9").stdout)
    assert answer["tokens"] == ["<s>", "\u2581", "wa", "r", "\u2581", "<0xC3>", "<0xA9>"]
    assert answer["offset_mapping"] == [[0, 0], [0, 1], [0, 2], [2, 3], [3, 4], [4, 5], [4, 5]]


REFUSED = {
    "no file": (("llama", "README.md", b"", LLAMA_CONFIG), "the folder has neither tokenizer.json nor tokenizer.model"),
    "unigram": (("llama", "tokenizer.model", model_of(LLAMA, UNIGRAM, 0), LLAMA_CONFIG), "tokenizer.model is a Unigram; only BPE is supported"),
    "own pieces": (("mistral", "tokenizer.model", model_of(GEMMA, BPE, 3), LLAMA_CONFIG), "the user-defined piece '<mask>' is not supported"),
    "spaces": (("mistral", "tokenizer.model", model_of(LLAMA, BPE, 0, False), LLAMA_CONFIG), "drops or keeps white space"),
    "damaged": (("gemma", "tokenizer.model", b"\x0a\x7f", None), "the sentencepiece model is truncated or malformed"),
    "text": (("llama", "tokenizer.model", b"IQ== 0\nIg== 1\n", LLAMA_CONFIG), "the sentencepiece model is truncated or malformed"),
    "legacy": (("llama", *LLAMA_FILE, {**LLAMA_CONFIG, "legacy": 1}), "'legacy' must be true or false"),
    "mask": (("pegasus", "spiece.model", CASES["pegasus"][2], {"mask_token": "<mask_9>"}), "mask_token must be '<mask_2>'"),
    "offset": (("pegasus", "spiece.model", CASES["pegasus"][2], {"offset": 0}), "offset must be 103"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(model, tmp_path, name):
    case, message = REFUSED[name]
    done = run(model, write(tmp_path / "folder", *case), text="the")
    assert done.returncode == 1 and message in done.stderr


def test_a_tokenizer_json_counts_before_the_model(model, tmp_path):
    """The file beside it is not read, so that checksums stay what they were."""
    added = [{"id": i, "content": token, "special": True} for i, token in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"))]
    vocab = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "the": 5, "war": 6}
    file = {"model": {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"}, "pre_tokenizer": {"type": "WhitespaceSplit"},
            "normalizer": None, "post_processor": None, "added_tokens": added}
    folder = write(tmp_path / "folder", "bert", "tokenizer.json", json.dumps(file).encode(), None)
    first = run(model, folder, text="the war")
    assert first.returncode == 0 and json.loads(first.stdout)["input_ids"] == [5, 6], first.stderr
    (folder / "tokenizer.model").write_bytes(b"damaged")
    assert run(model, folder, text="the war").stdout == first.stdout


def test_merges_without_end(tmp_path):
    """A long piece that is repeated has a hundred merges each time: a file would take a hundredfold of its size."""
    pieces = [*LLAMA, *(("a" * n, NORMAL) for n in range(2, 100)), *[("a" * 100, NORMAL)] * 1000]
    large = family_bert.write_random(tmp_path / "bert", vocab=len(pieces))
    done = run(large, write(tmp_path / "folder", "llama", "tokenizer.model", model_of(pieces, BPE, 0), LLAMA_CONFIG), text="the")
    assert done.returncode == 1 and f"its {len(pieces)} pieces have more than 16 merges each" in done.stderr


def test_words_begin_with_a_space(model, tmp_path):
    """Llama's tokenizer numbers a whole text as one word, so maps of words end them before the next space."""
    folder = write(tmp_path / "folder", *CASES["llama"])
    done = run(model, folder, "--outputs", "word_attentions", text="the war the tea")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    words = ["".join(answer["tokens"][a:b]) for a, b in answer["word_tokens"]]
    assert words == ["<s>", "▁the", "▁war", "▁the", "▁tea"] and len(answer["tokens"]) > len(words)
    assert len(answer["word_attentions"][0][0]) == len(words)
