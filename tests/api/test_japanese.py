"""Folders of BertJapaneseTokenizer. MeCab is here own_mecab.c, but for the last tests, which need the machine's own. Ids are those of transformers 5.24; tests/reference/japanese_check.py compares more texts."""
import ctypes
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import HEADSCOPE, PATIENCE

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import family_bert  # noqa: E402

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCAB = [*SPECIAL, *"東京日本語をはがの。食べるa1", "##京", "##本", "日本", "日本語", "ガ", "令", "和", "##和", "b", "##b", "ab", "é", "株", "式"]
MECAB = {"tokenizer_class": "BertJapaneseTokenizer", "word_tokenizer_type": "mecab"}
BASIC = {"tokenizer_class": "BertJapaneseTokenizer"}
MECAB_FOLDER = "/var/lib/mecab/dic/ipadic-utf8"


def write(folder, config, vocab=VOCAB):
    """A folder as it is published: vocab.txt and tokenizer_config.json."""
    family_bert.write_random(folder, vocab=len(vocab))
    for path in (*folder.glob("vocab*"), *folder.glob("tokenizer*")):
        path.unlink()
    (folder / "vocab.txt").write_text("".join(token + "\n" for token in vocab))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The environment with the tests' own library and dictionaries."""
    folder = tmp_path_factory.mktemp("mecab")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "libmecab.so.2", Path(__file__).with_name("own_mecab.c")], check=True)
    for name, charset in (("ipadic/dicdir", "utf8"), ("unidic", "EUC-JP"), ("unidic_lite", ""), ("own", "UTF-8")):
        (folder / name).mkdir(parents=True)
        (folder / name / "dicrc").write_text(charset)
    return {"LD_LIBRARY_PATH": str(folder), "HEADSCOPE_DICTIONARIES": str(folder), "OWN_DICTIONARY": str(folder / "own")}


def run(folder, text="", environment=None, *more):
    return subprocess.run([HEADSCOPE, "analyze", "--model", folder, "--outputs", "summary", *more, "-"], input=text.encode(), capture_output=True,
                          env={**os.environ, **(environment or {})}, timeout=PATIENCE)


def read(folder, text, environment=None, *more):
    done = run(folder, text, environment, *more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def tokens(*arguments):
    return read(*arguments)["tokens"][1:-1]


def test_words_of_mecab_and_where_they_stand(tmp_path, library):
    """NFKC before MeCab; the text between special tokens goes to MeCab by itself; white space is no token."""
    answer = read(write(tmp_path / "ja", MECAB), " ｶﾞ東京\u3000は[MASK]㋿、é ", library)
    assert answer["tokens"] == ["[CLS]", "[UNK]", "京", "は", "[MASK]", "令", "##和", "[UNK]", "[SEP]"]
    assert answer["offset_mapping"] == [[0, 0], [1, 4], [4, 5], [6, 7], [7, 13], [13, 14], [13, 14], [14, 16], [0, 0]]
    assert answer["word_ids"] == [None, 0, 1, 2, 3, 4, 4, 5, None]


def test_characters_of_words(tmp_path, library):
    folder = write(tmp_path / "ja", {**MECAB, "subword_tokenizer_type": "character", "mecab_kwargs": {"mecab_dic": "ipadic"}})
    answer = read(folder, "ｶﾞ東京は語", library)
    assert answer["tokens"] == ["[CLS]", "ガ", "東", "京", "は", "語", "[SEP]"]
    assert answer["offset_mapping"][1:-1] == [[0, 2], [2, 3], [3, 4], [4, 5], [5, 6]]
    assert answer["word_ids"] == [None, 0, 0, 1, 1, 2, None]
    listed = subprocess.run([HEADSCOPE, "models", folder], capture_output=True, env={**os.environ, **library}, timeout=PATIENCE).stdout
    assert listed.splitlines()[1].split()[:3] == [b"ja", b"bert", b"Character"]


@pytest.mark.parametrize("config, text, expected", [
    ({"mecab_kwargs": {"normalize_text": False}}, "ｶﾞ日本", ["[UNK]", "日本"]),
    ({"mecab_kwargs": {"normalize_text": None, "mecab_option": None}}, "ａb", ["[UNK]"]),
    ({"mecab_kwargs": {"mecab_dic": None, "mecab_option": ""}}, "東京", ["東", "##京"]),
    ({"mecab_kwargs": None, "do_lower_case": True}, "ＡB É", ["ab", "é"]),
    ({"never_split": ["AB"]}, "AB", ["[UNK]"]),
    ({"do_subword_tokenize": False}, "日本語", ["日本", "語"]),
    ({"do_word_tokenize": False, "never_split": ["x"]}, "日本語\x1cab ab", ["日本語", "ab", "ab"]),
    ({"do_word_tokenize": None, "subword_tokenizer_type": "character"}, "ab ｶﾞ", ["a", "b", "[UNK]", "ガ"]),
])
def test_keys_that_change_tokens(tmp_path, library, config, text, expected):
    assert tokens(write(tmp_path / "ja", {**MECAB, **config}), text, library) == expected


@pytest.mark.parametrize("config, text, expected", [
    ({}, "日本語は\u3000AB、e\u0301", ["[UNK]", "[UNK]", "[UNK]", "é"]),
    ({}, "日本語 a。b", ["日本語", "a", "。", "b"]),
    ({"do_lower_case": True}, "AB A", ["ab", "a"]),
    ({"subword_tokenizer_type": "character"}, "日本語、ｶﾞ㋿ab\u200b", ["日", "本", "語", "[UNK]", "ガ", "令", "和", "a", "b"]),
    ({"word_tokenizer_type": "basic", "subword_tokenizer_type": "character", "do_lower_case": True}, "AB", ["a", "b"]),
])
def test_without_mecab(tmp_path, config, text, expected):
    """BERT's own words, and their characters, need nothing. A tokenizer.json does not count, as in transformers."""
    folder = write(tmp_path / "ja", {**BASIC, **config})
    (folder / "tokenizer.json").write_text("{}")
    assert tokens(folder, text, {"HEADSCOPE_DICTIONARIES": "/nowhere"}) == expected


def test_the_class_is_named_by_the_config(tmp_path, library):
    folder = write(tmp_path / "ja", {"word_tokenizer_type": "mecab", "subword_tokenizer_type": "character"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "tokenizer_class": "BertJapaneseTokenizer"}))
    assert tokens(folder, "東京", library) == ["東", "京"]


@pytest.mark.parametrize("config, message", [
    ({"mecab_kwargs": {"mecab_option": "-d /etc"}}, "mecab_option is not supported, because a model must not name files of this machine"),
    ({"mecab_kwargs": {"mecab_dic": "../../etc"}}, "mecab_dic is '../../etc'; supported: ipadic, unidic_lite, unidic"),
    ({"mecab_kwargs": {"do_lower_case": True}}, "mecab_kwargs has 'do_lower_case'; supported: mecab_dic, normalize_text"),
    ({"mecab_kwargs": []}, "mecab_kwargs must be an object"),
    ({"mecab_kwargs": {"normalize_text": 1}}, "'normalize_text' must be true or false"),
    ({"mecab_kwargs": {"mecab_dic": "unidic"}}, "sys.dic is in EUC-JP: install one in UTF-8"),
    ({"mecab_kwargs": {"mecab_dic": "unidic_lite"}}, "it is broken"),
    ({"word_tokenizer_type": "jumanpp"}, "word_tokenizer_type 'jumanpp' is not supported; supported: basic, mecab. With --tokenizer DIR"),
    ({"word_tokenizer_type": "sudachi"}, "word_tokenizer_type 'sudachi' is not supported"),
    ({"subword_tokenizer_type": "sentencepiece"}, "subword_tokenizer_type 'sentencepiece' is not supported; supported: wordpiece, character"),
    ({"do_lower_case": True, "never_split": ["AB"]}, "never_split is not supported for this tokenizer_class"),
    ({"word_tokenizer_type": "basic", "never_split": ["AB"]}, "never_split is not supported"),
    ({"split_special_tokens": True}, "split_special_tokens is not supported"),
])
def test_keys_that_are_refused(tmp_path, library, config, message):
    done = run(write(tmp_path / "ja", {**MECAB, **config}), "a", library)
    assert done.returncode == 1 and message in done.stderr.decode(), done.stderr


def test_without_vocab(tmp_path):
    folder = write(tmp_path / "ja", BASIC)
    (folder / "vocab.txt").unlink()
    assert "BertJapaneseTokenizer needs vocab.txt; the folder has none" in run(folder).stderr.decode()


def test_mecab_or_its_dictionary_is_missing(tmp_path, library):
    """The refusal says what to install. Its other advice, a copy of vocab.txt and ids, works."""
    folder, own, hidden = write(tmp_path / "ja", MECAB), tmp_path / "own", tmp_path / "hidden"
    for path in (own, hidden):
        path.mkdir()
    shutil.copy(folder / "vocab.txt", own)
    (hidden / "libmecab.so.2").write_bytes(b"no library")
    no_library = run(folder, "a", {"LD_LIBRARY_PATH": str(hidden)}).stderr.decode()
    assert "needs MeCab (" in no_library and "apt-get install libmecab2 mecab-ipadic-utf8. Or copy vocab.txt" in no_library
    no_words = run(folder, "a", {**library, "HEADSCOPE_DICTIONARIES": str(hidden)}).stderr.decode()
    assert "MeCab's dictionary ipadic, which was not found. Install it with apt-get install mecab-ipadic-utf8, or run pip install ipadic" in no_words
    done = subprocess.run([HEADSCOPE, "analyze", "--model", folder, "--tokenizer", own, "--input-ids", "2,5,6,3", "--outputs", "summary"],
                          capture_output=True, env={**os.environ, "LD_LIBRARY_PATH": str(hidden)})
    assert json.loads(done.stdout)["tokens"] == ["[CLS]", "東", "京", "[SEP]"]


def test_an_error_of_mecab_is_an_answer(tmp_path, library):
    done = run(write(tmp_path / "ja", MECAB), "a\x07", library)
    assert done.returncode == 1 and b"out of memory" in done.stderr


@pytest.mark.parametrize("part", ["東京の日本語は。", "東京", "1", "\x00", "ﷺ"])
def test_long_texts_go_to_mecab_in_stretches(tmp_path, library, part):
    """At most 12 KiB at once, behind a sentence if there is one. Offsets go on."""
    folder = write(tmp_path / "ja", {**MECAB, "subword_tokenizer_type": "character", "do_word_tokenize": True})
    text = part * (150000 // len(part.encode())) + "語"
    answer = read(folder, text, library, "--max-tokens", "160")
    assert len(answer["tokens"]) == 160 and answer["truncated"]
    if part != "ﷺ":
        assert answer["offset_mapping"][1:-1] == [[i, i + 1] for i in range(158)]
    (folder / "tokenizer_config.json").write_text(json.dumps({**MECAB, "subword_tokenizer_type": "character", "truncation_side": "left"}))
    last = read(folder, text, library, "--max-tokens", "160")
    assert last["tokens"][-2] == "語" and last["offset_mapping"][-2] == [len(text) - 1, len(text)]


# ---- the library itself ----

def needs_mecab():
    try:
        ctypes.CDLL("libmecab.so.2")
    except OSError as missing:
        pytest.skip(f"apt-get install libmecab2 mecab-ipadic-utf8: {missing}")
    if not Path(MECAB_FOLDER, "sys.dic").exists():
        pytest.skip("apt-get install mecab-ipadic-utf8")


REAL = [*SPECIAL, "すもも", "も", "もも", "の", "うち", "東京", "特許", "許可", "##局", "局", "ガンダム", "2", "##0", "##2", "##6", "年", "😀", "は", "。", "日本語", "日本", "語", "株式会社"]


def test_words_of_the_library(tmp_path):
    needs_mecab()
    folder = write(tmp_path / "ja", MECAB, REAL)
    assert tokens(folder, "すもももももももものうち") == ["すもも", "も", "もも", "も", "もも", "の", "うち"]
    answer = read(folder, "東京特許許可局は\uff12\uff10\uff12\uff16年 \U0001f600\nの日本語[MASK]㍿。")
    assert answer["tokens"][1:-1] == ["東京", "特許", "許可", "局", "は", "2", "##0", "##2", "##6", "年", "😀", "の", "日本語", "[MASK]", "株式会社", "。"]
    assert answer["offset_mapping"][1:-1] == [[0, 2], [2, 4], [4, 6], [6, 7], [7, 8], [8, 9], [9, 10], [10, 11], [11, 12], [12, 13], [14, 15], [16, 17],
                                              [17, 20], [20, 26], [26, 27], [27, 28]]


def test_white_space_at_the_end(tmp_path):
    """MeCab looks for words behind it, up to a NUL: not in what a longer text has left there."""
    needs_mecab()
    found = tokens(write(tmp_path / "ja", MECAB, REAL), "東京特許許可局の日本語[MASK]すもも [MASK] [MASK]もも  ")
    assert found == ["東京", "特許", "許可", "局", "の", "日本語", "[MASK]", "すもも", "[MASK]", "[MASK]", "もも"]


@pytest.mark.parametrize("part", ["7", "a", "\x00", "\x1b[31m", "漢", "ア", "\U0001f600", "\u0301", "\ud7ff\U0010ffff", " ", "\n", "すもも。"])
def test_hostile_texts(tmp_path, part):
    needs_mecab()
    folder = write(tmp_path / "ja", {**MECAB, "truncation_side": "left"}, REAL)
    done = run(folder, part * (60000 // len(part.encode())))
    assert done.returncode == 0 and json.loads(done.stdout)["tokens"][0] == "[CLS]", done.stderr


def test_threads_share_a_dictionary(tmp_path, start_server):
    needs_mecab()
    server = start_server("--model", f"ja={write(tmp_path / 'ja', MECAB, REAL)}", "--workers", "2")

    def tokenized(text):
        return server.post("/tokenize", {"text": text}).json()["tokens"]
    texts = ["すもももももももものうち", "東京特許許可局", "2026年の日本語。"]
    expected = [tokenized(text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(tokenized, texts * 40)) == expected * 40
