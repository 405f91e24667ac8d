#!/usr/bin/env python3
"""Compares token ids and offsets of BertJapaneseTokenizer's folders with transformers.

    python3 -m venv DIR; DIR/bin/pip install numpy transformers fugashi ipadic unidic_lite
    HEADSCOPE=build/headscope DIR/bin/python tests/reference/japanese_check.py [--count N]

Each folder is one that transformers saved, of a small vocabulary. Each is asked about N texts at random beside the fixed
ones. Ends with 1 if ids differ, with 77 if a package or libmecab2 is not installed. tests/api/test_transformers.py runs it.
"""
import argparse
import ctypes
import json
import os
import random
import subprocess
import sys
import sysconfig
import tempfile
import unicodedata
from pathlib import Path

try:
    ctypes.CDLL("libmecab.so.2")
    import fugashi  # noqa: F401
    import ipadic
    import transformers
    import unidic_lite  # noqa: F401
except (ImportError, OSError) as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import family_bert

TEXTS = [
    "\u6771\u4eac\u7279\u8a31\u8a31\u53ef\u5c40\u306e\u65e5\u672c\u8a9e\u3092\u89e3\u6790\u3059\u308b\u3002", "\u3059\u3082\u3082\u3082\u3082\u3082\u3082\u3082\u3082\u306e\u3046\u3061",
    "\uff8a\uff9d\uff76\uff78\uff76\uff85\u3068\uff71\uff92\uff98\uff76\uff9e\u3001\uff76\uff9e\uff77\uff9e\uff78\uff9e\uff79\uff9e\uff7a\uff9e", "\uff12\uff10\uff12\uff16\u5e74\uff11\uff12\u6708\u306e\uff21\uff22\uff23\u3000Corp.\u306f\u221a2\u500d",
    "\U0001f600\u7d75\u6587\u5b57\U0001f468\u200d\U0001f469\u200d\U0001f467\u3068\U0001f1ef\U0001f1f5\U0001f923", "\u6539\u884c\n\u3068\t\u30bf\u30d6\u3000\u3000\u7a7a\u767d  \r\n\u7d42\u308f\u308a ", " \u3000", "\n.", "",
    "\U0002000b\u91ce\u5c4b\u3067\u9ad9\u6a4b\u3055\u3093\u3068\u9be1\u9be8\u9bf1\u3092\u98df\u3079\u305f\u3002\u845b\U000e0100\u57ce\u5e02\u3001\u8fbb\ufe00", "\u4ee4\u548c\u32ff\u337f\u3231\u2460\u3349\uff0f\u213b\u2121", "\u304b\u3099\u304d\u3099 e\u0301 \u1e9b\u0323 \ufb01 \u0130I H\u0331 \u039f\u0394\u03a3a",
    "[MASK]\u306f[SEP]\u3068 [CLS] \u3068[UNK]\u3002[mask]\uff3b\uff2d\uff21\uff33\uff2b\uff3d", "Don't STOP!! WE'LL go to \u6771\u4eac\u30bf\u30ef\u30fc (333m)...\u3002", "a\x1cb\x85c\u2028d\u00a0e\u200bf\ufefff\u00adg", "\x01\x02\u6f22\x7f\ufffd\ue000\U0010fffd",
    "\u6f22\x00\u5b57\x00", "x" * 120 + "\u306f" + "\u3042" * 120, "\u3042" * 2000 + "\u6f22" * 200 + "7" * 300, "\u30fc\u30fc\u30fc\u301c\u301c\uff5e\uff5e\u2014\u2026\u2026\u300c\u300d\u300e\u300f\u3010\u3011", "\ud55c\uad6d\uc5b4 \u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u0e44\u0e17\u0e22 \u0928\u092e\u0938\u094d\u0924\u0947",
]
POOL = ["\u6771\u4eac", "\u65e5\u672c\u8a9e", "\u306f", "\u3092", "\u306b", "\u98df\u3079\u308b", "\u8d70\u3063\u305f", "\uff76\uff9e", "\uff8a\uff9f", "\uff11", "\uff21", "a", "Tokyo", "3.14", "\u3002", "\u3001", "\u300c", "\u300d", " ", "  ", "\u3000", "\n", "\t",
        "\U0001f600", "\u304b\u3099", "\u30b3\u30f3\u30d4\u30e5\u30fc\u30bf", "\u30fc", "\u3005", "\U00020b9f\u308b", "[MASK]", "[SEP]", "\x00", "\x1c", "\u200b", "\ufb01", "\u337f", "\u00c9", "\u0130", "\u03a3a", "!", "?!", "http://x.jp/?q=\u3042", "\u2028", "\u00a0"]
MECAB = {"word_tokenizer_type": "mecab"}
FOLDERS = {
    "wordpiece": {**MECAB, "mecab_kwargs": {"mecab_dic": "ipadic"}, "do_lower_case": False},
    "wordpiece lower": {**MECAB, "mecab_kwargs": {"mecab_dic": "ipadic"}, "do_lower_case": True},
    "wordpiece raw": {**MECAB, "mecab_kwargs": {"mecab_dic": "ipadic", "normalize_text": False}},
    "wordpiece unidic": {**MECAB, "mecab_kwargs": {"mecab_dic": "unidic_lite"}},
    "character": {**MECAB, "mecab_kwargs": {"mecab_dic": "ipadic"}, "subword_tokenizer_type": "character"},
    "character lower raw": {**MECAB, "mecab_kwargs": {"mecab_dic": "ipadic", "normalize_text": False}, "subword_tokenizer_type": "character", "do_lower_case": True},
    "words": {**MECAB, "mecab_kwargs": {"mecab_dic": "ipadic"}, "do_subword_tokenize": False},
    "basic": {},
    "basic lower": {"do_lower_case": True},
    "basic character": {"subword_tokenizer_type": "character"},
    "basic character lower": {"subword_tokenizer_type": "character", "do_lower_case": True},
    "no words": {"do_word_tokenize": False},
    "no words character": {"do_word_tokenize": False, "subword_tokenizer_type": "character"},
    "nothing": {"do_word_tokenize": False, "do_subword_tokenize": False},
}


def vocabulary():
    """Characters as words and as pieces, and words of MeCab's."""
    tagger = fugashi.GenericTagger(f'-d "{ipadic.DICDIR}" -r "{ipadic.DICDIR}/mecabrc"')
    known = unicodedata.normalize("NFKC", "".join([*TEXTS, *POOL]))
    characters = sorted({c for c in known + known.lower() + "".join(TEXTS) if c.isprintable()})
    words = sorted({str(word) for text in TEXTS for word in tagger(unicodedata.normalize("NFKC", text)) if str(word).isprintable()})
    characters = [c for i, c in enumerate(characters) if i % 9]  # some are unknown
    listed = dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters, *words[::2], *("##" + c for c in characters)])
    return "".join(token + "\n" for token in listed), len(listed)


def program(folder, text, pair, dictionaries):
    done = subprocess.run([os.environ["HEADSCOPE"], "analyze", "--model", folder, "--max-tokens", "4000", "--outputs", "summary",
                           *(["--text-pair", pair] if pair is not None else []), "-"], input=text.encode(), capture_output=True,
                          env={**os.environ, "HEADSCOPE_DICTIONARIES": dictionaries})
    return json.loads(done.stdout) if done.returncode == 0 else {"input_ids": done.stderr.decode().strip()}


def wrong_offsets(tokenizer, text, answer):
    """The tokens whose stretch of the text is not what they say, without a pair."""
    def plain(word):
        return "".join(c for c in unicodedata.normalize("NFKD", word).lower() if unicodedata.category(c) not in ("Mn", "Cc", "Cf"))
    before = 0
    for token, (start, end) in list(zip(answer["tokens"], answer["offset_mapping"]))[1:-1]:
        if start < before or (token != "[UNK]" and plain(token.removeprefix("##")) != plain(text[start:end]) and plain(token.removeprefix("##")) not in plain(text[start:end])):
            yield token, start, end, text[start:end]
        before = start


def texts(count):
    rng = random.Random(66)
    yield from TEXTS
    for _ in range(count):
        yield "".join(rng.choice(POOL) for _ in range(rng.randint(1, 30)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--debian", action="store_true", help="the program's dictionaries are those of the system's packages")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    dictionaries = "" if options.debian else sysconfig.get_path("purelib")
    vocab, n_rows = vocabulary()
    n_wrong = n_texts = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name, config in FOLDERS.items():
            folder = Path(scratch) / name
            family_bert.write_random(folder, vocab=n_rows, positions=4096)
            for path in (*folder.glob("vocab*"), *folder.glob("tokenizer*")):
                path.unlink()
            (Path(scratch) / "vocab.txt").write_text(vocab)
            transformers.BertJapaneseTokenizer(Path(scratch) / "vocab.txt", **config).save_pretrained(folder)
            tokenizer = transformers.BertJapaneseTokenizer.from_pretrained(folder)
            for text, pair in [*((text, None) for text in texts(options.count)), (TEXTS[0], TEXTS[3])]:
                if "\0" in text and config.get("word_tokenizer_type") == "mecab":
                    continue  # fugashi drops what follows, up to the next special token
                if text.endswith("\n"):
                    text += "."  # the command line drops a line's end
                expected = tokenizer([text], [pair])["input_ids"][0] if pair is not None else tokenizer(text)["input_ids"]
                found = program(folder, text, pair, dictionaries)
                n_texts += 1
                if found["input_ids"] != expected:
                    n_wrong += 1
                    print(f"WRONG {name}: {text!r}: {found.get('tokens', found['input_ids'])} instead of {tokenizer.convert_ids_to_tokens(expected)}")
                elif pair is None and (bad := list(wrong_offsets(tokenizer, text, found))):
                    n_wrong += 1
                    print(f"WRONG offsets {name}: {text!r}: {bad}")
            print(name, flush=True)
    print(f"transformers {transformers.__version__}: {n_wrong} of {n_texts} texts are read differently")
    return int(n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
