"""Records what HuggingFace's library makes of hard texts with the tokenizers of causal language models;
tests/unit/test_tokenizer_oracle.c replays it.

    CORPUS=../shared/corpus/wiki-1.jsonl.xz python tests/reference/tokenizer_causal_fixtures.py

Writes tests/unit/tokenizer_causal_oracle.xz with tokenizers 0.23.3, in the format of tokenizer_bpe_fixtures.py. The
pipelines are those of GPT-2, Pythia, Llama 3, EuroBERT, Qwen, Llama 2, SmolLM, tiktoken, Tekken, DeepSeek, Falcon and BLOOM.
Their small vocabularies are trained here. Every behaviour of Split and Punctuation is among them. No pair is truncated, because
releases differ there.
"""
import json
import lzma
import os
import random

import oracle_file
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

CORPUS = os.environ.get("CORPUS", "../shared/corpus/wiki-1.jsonl.xz")
rng = random.Random(20261123)


def corpus():
    with lzma.open(CORPUS, "rt", encoding="utf-8") as lines:
        for _ in range(40):
            yield " ".join(json.loads(next(lines)))


def trained(special, alphabet, pre_tokenizer, **options):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=800, special_tokens=special, initial_alphabet=alphabet, show_progress=False, **options))
    return json.loads(tokenizer.to_str())["model"]


BYTE_NAMES = [f"<0x{byte:02X}>" for byte in range(256)]
BYTES = trained(["<|endoftext|>", "<|bos|>", "<|eos|>"], sorted(pre_tokenizers.ByteLevel.alphabet()),
                pre_tokenizers.ByteLevel(add_prefix_space=False))
LETTERS = trained(["<unk>", "<s>", "</s>", *BYTE_NAMES], [],
                  pre_tokenizers.Metaspace(prepend_scheme="always"), limit_alphabet=70)
ENDED = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
ENDED.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
ENDED.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=800, special_tokens=["<s>", "</s>", "<unk>"],
                                                        end_of_word_suffix="</w>", show_progress=False))
ENDED = json.loads(ENDED.to_str())["model"]
N = len(BYTES["vocab"])


def added(content, id, **flags):
    return {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": False, **flags}


SPECIAL = [added(text, i, special=True) for i, text in enumerate(["<|endoftext|>", "<|bos|>", "<|eos|>"])]
SPACES = [added(" " * (24 - n), N + n, normalized=True) for n in range(23)]
THINK = [added("<think>", N), added("</think>", N + 1)]
LLAMA2 = [added(text, i, special=True) for i, text in enumerate(["<unk>", "<s>", "</s>"])]


def byte_level(**options):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True, **options}


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def template(first, last=None):
    special = lambda name, type_id: {"SpecialToken": {"id": name, "type_id": type_id}}
    text = lambda name, type_id: {"Sequence": {"id": name, "type_id": type_id}}
    form = lambda name, type_id: [special(first[0], type_id), text(name, type_id),
                                  *([special(last[0], type_id)] if last else [])]
    return {"type": "TemplateProcessing", "single": form("A", 0), "pair": form("A", 0) + form("B", 1),
            "special_tokens": {t: {"id": t, "ids": [i], "tokens": [t]} for t, i in (first, last or first)}}


def posts(*parts):
    return {"type": "Sequence", "processors": list(parts)}


def described(model, normalizer, pre_tokenizer, post_processor, added_tokens, **options):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added_tokens,
            "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": post_processor,
            "decoder": None, "model": {**model, **options}}


BEFORE = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
AFTER = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3_WORDS, QWEN_WORDS = {"Regex": BEFORE + r"\p{N}{1,3}" + AFTER}, {"Regex": BEFORE + r"\p{N}" + AFTER}
GPT2_WORDS = {"Regex": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"}
# As tiktoken spells them: r50k and cl100k since 0.8, then cl100k before, with the numbers of nanochat, GPT-4 and Ling.
TIKTOKEN_WORDS = [
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    *(rf"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{{L}}\p{{N}}]?+\p{{L}}+|{numbers}| ?[^\s\p{{L}}\p{{N}}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
      for numbers in (r"\p{N}{1,2}", r"\p{N}{1,3}", r"\p{N}"))]
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def cased(ending, numbers):
    prefix, after = r"[^\r\n\p{L}\p{N}]?", r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    return {"Regex": f"{prefix}{UPPER}*{LOWER}+{ending}|{prefix}{UPPER}+{LOWER}*{ending}|{numbers}{after}"}


O200K_WORDS, TEKKEN_WORDS = cased("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", r"\p{N}{1,3}"), cased("", r"\p{N}")
DEEPSEEK_WORDS = {"Regex": "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
                           " ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"}
DEEPSEEK = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"]
CODER = ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"]
STOPS = ".,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c"
BLOOM_WORDS = {"Regex": rf" ?[^(\s|[{STOPS}])]+"}
BEHAVIORS = ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")
PLAIN = byte_level(use_regex=False)
NFC = {"type": "NFC"}
MARKED = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
                                              {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
BOS, EOS = ("<|bos|>", 1), ("<|eos|>", 2)
FALLBACK = {"byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>"}
TOKENIZERS = [
    described(BYTES, None, byte_level(), byte_level(add_prefix_space=True, trim_offsets=False), SPECIAL),
    described(BYTES, NFC, byte_level(), byte_level(), SPECIAL + SPACES),
    described(BYTES, None, sequence(split(LLAMA3_WORDS), PLAIN), posts(byte_level(add_prefix_space=True), template(BOS)),
              SPECIAL, ignore_merges=True),
    described(BYTES, None, sequence(split(LLAMA3_WORDS), PLAIN), template(BOS, EOS), SPECIAL, ignore_merges=True),
    described({**BYTES, "merges": [" ".join(m) for m in BYTES["merges"]]}, NFC, sequence(split(QWEN_WORDS), PLAIN),
              byte_level(trim_offsets=False), SPECIAL + THINK),
    described(LETTERS, MARKED, None, template(("<s>", 1)), LLAMA2, **FALLBACK),
    described(BYTES, None, sequence({"type": "Digits", "individual_digits": True}, byte_level()), None, SPECIAL),
    described(LETTERS, None, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False},
              template(("<s>", 1)), LLAMA2, **FALLBACK),
    described(BYTES, None, sequence({"type": "Digits", "individual_digits": False}, PLAIN), None, SPECIAL),
    described(BYTES, None, sequence(split(GPT2_WORDS, "Removed", True), PLAIN), None, SPECIAL),
    described(LETTERS, MARKED["normalizers"][1], split({"String": " "}, "MergedWithPrevious"), template(("<s>", 1)), LLAMA2,
              **FALLBACK),
    *(described(BYTES, None, sequence(split({"String": text}, behavior, invert), PLAIN), None, SPECIAL)
      for text in (" ", "th") for behavior in BEHAVIORS for invert in (False, True)),
    described(BYTES, None, sequence(split(O200K_WORDS), PLAIN), template(BOS), SPECIAL, ignore_merges=True),
    described(BYTES, None, sequence(*(split({"Regex": text}) for text in DEEPSEEK), split(DEEPSEEK_WORDS), PLAIN), template(BOS),
              SPECIAL),
    described(BYTES, None, sequence({"type": "Whitespace"}, PLAIN), None, SPECIAL),
    described(BYTES, None, sequence(split(TEKKEN_WORDS, "Removed", True), PLAIN), template(BOS), SPECIAL, ignore_merges=True),
    described(BYTES, None, sequence(*(split({"Regex": text}) for text in CODER), {"type": "Digits", "individual_digits": True}, PLAIN),
              template(BOS), SPECIAL),
    described(BYTES, None, sequence({"type": "Punctuation", "behavior": "Contiguous"}, byte_level(),
                                    {"type": "Digits", "individual_digits": False}, split({"Regex": "[0-9][0-9][0-9]"})), None, SPECIAL),
    described(BYTES, None, sequence({"type": "Punctuation"}, PLAIN), None, SPECIAL),
    *(described(BYTES, None, sequence({"type": "Punctuation", "behavior": behavior}, PLAIN), None, SPECIAL) for behavior in BEHAVIORS),
    described(BYTES, None, sequence(split(DEEPSEEK_WORDS, "Removed"), PLAIN), None, SPECIAL),
    *(described(BYTES, None, sequence(split({"Regex": text}, "Removed"), PLAIN), None, SPECIAL)
      for text in ("[0-9]", r"\p{N}", r"\p{N}+", *CODER)),
    described(ENDED, None, {"type": "BertPreTokenizer"}, None, []),
    described({**ENDED, "ignore_merges": True, "fuse_unk": True}, None, {"type": "Whitespace"}, None, []),
    *(described(BYTES, None, sequence(split({"Regex": words}), PLAIN), None, SPECIAL) for words in TIKTOKEN_WORDS),
    described(BYTES, None, sequence(split(BLOOM_WORDS), PLAIN), None, SPECIAL),
]

# ---- the cases: (text, pair or None, max_tokens) ----

POINTS = [chr(c) for c in range(0x20000) if not 0xD800 <= c < 0xE000] + [chr(c) for c in range(0x20000, 0x110000, 997)]
EVERY_POINT = (2, 6, 31, 32, 33, len(TOKENIZERS) - 1)  # the tokenizers that see them all


def blocks():
    for i in range(0, len(POINTS), 512):
        yield " ".join(f"a{c}1" for c in POINTS[i:i + 512]), None, 100000


POOLS = [
    list("abcdefgABCDEFG"), "the of and Paris London theory the then tht hth don't won't I'm we've you'll they'd X'S 'tis".split(),
    [" ", " ", "  ", "   ", "\t", "\n", "\n\n", " \n", "\n ", "\r\n", "\r", "\x0b", "\x0c", "\x85", "\xa0", "\u1680", "\u2003",
     "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\u180e", "\u200b", "\u001c", "\ufeff"],
    ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'RE", "'Ll", "'\u017f", "'K", "'", "''", "\u2019s"],
    list("0123456789²½Ⅷ٣𝟘①") + ["12", "1234", "2026"],
    list(".,!?-_()[]{}#$%^~`|<>+=«»“”…—·¿、。「」§¶€©°") + ["!\n", "...\r\n\n"],
    ["😀", "👩‍👩‍👧‍👦", "🇫🇷", "❤️", "👍🏽", "\u200d", "\ufe0f", "🫠"], list("éÉïÏñçåÅøłđßẞǆǅĲŉǖṩệốḯΣσς"),
    list("\u0301\u0300\u0308\u0327\u0323\u0338\u20d7\u0344"), list("中国語漢字野口かナ한국어नमस्तेשלוםمرحباไทย"),
    ["<|endoftext|>", "<|bos|>", "<s>", "</s>", "<unk>", "<think>", "</think>", "<|eos", "  <s>  "],
    ["Ġ", "Ċ", "Ã©", "<0x41>", "▁", "▁a", " ▁ ", "▁▁"], list("\x00\x01\x7f\xad\u2060\ufffd\ue000\U000f0001\U000e0001\u0378\uffff"),
]


def text():
    pools = rng.sample(POOLS, rng.randint(1, 4))
    return "".join(rng.choice(rng.choice(pools)) for _ in range(rng.randint(0, 40)))


def hard():
    yield "", None, 100000
    yield "", "", 100000
    for _ in range(220):
        yield text(), None, 100000 if rng.random() < 0.7 else rng.randint(2, 30)
    for _ in range(40):
        yield text(), text(), 100000
    for n in (1, 2, 3, 49, 200):
        for letter in ("a", "é", "😀", " ", "1", "\n", "the ", " th", "12 "):
            yield letter * n, None, 100000


def by_case():
    """Words whose letters have a case, or none, or marks; slashes; contractions."""
    pool = ["a", "b", "A", "B", "\u01c5", "\u02b0", "\u4e2d", "\u0301", "\u0903", "é", "É", "ß", "1", "12", " ", "\n", "/", "!", "-",
            "'s", "'S", "'\u017f", "'Ll", "'re", "'", "$", "+", "\u20ac", "\u30fc", "\u3042", "\u0800", "\uac00", "\x00"]
    for _ in range(150):
        yield "".join(rng.choice(pool) for _ in range(rng.randint(1, 30))), None, 100000


def by_stops():
    """Words between the characters that BLOOM's expression names."""
    pool = ["a", "b c", "é", "中", "1", " ", "  ", "\n", "\u3000", "\xa0", "[", "]", "(", ")", "|", ";", "'s", *STOPS]
    for _ in range(150):
        yield "".join(rng.choice(pool) for _ in range(rng.randint(1, 30))), None, 100000


# ---- the file ----

def section(index, file):
    source = json.dumps(file, ensure_ascii=False)
    tokenizer = Tokenizer.from_str(source)
    cases = (list(hard()) if index < 38 or index > 50 else []) + (list(blocks()) if index in EVERY_POINT else [])
    cases += list(by_case()) if index > 30 else []
    cases += list(by_stops()) if index + 1 == len(TOKENIZERS) else []
    chunks = []
    for text, pair, n_max in cases:
        tokenizer.enable_truncation(n_max)
        chunks.append(oracle_file.put_case(n_max, text, pair) + oracle_file.put_encoding(tokenizer.encode(text, pair)))
    return oracle_file.put_text(source) + oracle_file.put_list(chunks)


oracle_file.write("tests/unit/tokenizer_causal_oracle.xz",
                  oracle_file.put_list([section(i, file) for i, file in enumerate(TOKENIZERS)]), preset=6)
