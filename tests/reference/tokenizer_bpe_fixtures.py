"""Records what HuggingFace's library makes of every code point and of many hard texts with byte-level BPE;
tests/unit/test_tokenizer_oracle.c replays it.

    python3 -m venv /tmp/oracle && /tmp/oracle/bin/pip install tokenizers==0.23.2
    CORPUS=../shared/corpus/wiki-1.jsonl.xz /tmp/oracle/bin/python tests/reference/tokenizer_bpe_fixtures.py

Writes tests/unit/tokenizer_bpe_oracle.xz. The tokenizers are trained here, small ones, on the corpus's first
texts, and put together as tokenizer.json files of every shape that is supported.

The file, in the terms of oracle_file.py:
    u32 n_tokenizers, then each: tokenizer.json (text), u32 n_cases, then each: the case, its encoding
"""
import json
import lzma
import os
import random

import oracle_file
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

CORPUS = os.environ.get("CORPUS", "../shared/corpus/wiki-1.jsonl.xz")
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
rng = random.Random(20251222)


def corpus():
    with lzma.open(CORPUS, "rt", encoding="utf-8") as lines:
        for _ in range(40):
            yield " ".join(json.loads(next(lines)))


def trained(pre_tokenizer, alphabet):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=700, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False))
    return json.loads(tokenizer.to_str())["model"]


BYTES = trained(pre_tokenizers.ByteLevel(add_prefix_space=False), pre_tokenizers.ByteLevel.alphabet())
LETTERS = trained(pre_tokenizers.BertPreTokenizer(), [])
for n, byte in enumerate(range(256)):
    LETTERS["vocab"][f"<0x{byte:02X}>"] = 700 + n


def added(content, id, **flags):
    return {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": False, **flags}


ROBERTA_ADDED = [added(text, i, special=True, lstrip=text == "<mask>") for i, text in enumerate(SPECIAL)]
# Tokens as people add them, and a few that overlap.
def more(first):
    return ROBERTA_ADDED + [
        added("covid", first, single_word=True, normalized=True), added("<left>", first + 1, lstrip=True),
        added("<right>", first + 2, rstrip=True), added("<both>", first + 3, lstrip=True, rstrip=True, normalized=True),
        added("   ", first + 4), added("  ", first + 5, normalized=True), added("|||EMAIL|||", first + 6, normalized=True),
        added("中国", first + 7, single_word=True), added("[USER]", first + 8, special=True, rstrip=True)]


def byte_level(**options):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True, **options}


def roberta(**options):
    return {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0], "trim_offsets": True,
            "add_prefix_space": False, **options}


def template(second_type):
    step = lambda kind, id, type_id: {kind: {"id": id, "type_id": type_id}}
    single = [step("SpecialToken", "<s>", 0), step("Sequence", "A", 0), step("SpecialToken", "</s>", 0)]
    return {"type": "TemplateProcessing", "single": single,
            "pair": single + [step("Sequence", "B", second_type), step("SpecialToken", "</s>", second_type)],
            "special_tokens": {t: {"id": t, "ids": [i], "tokens": [t]} for t, i in (("<s>", 0), ("</s>", 2))}}


def described(model, pre_tokenizer, post_processor, added_tokens, normalizer=None, **options):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added_tokens,
            "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": post_processor,
            "decoder": None, "model": {**model, **options}}


BERT = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": False, "strip_accents": None,
        "lowercase": True}
TOKENIZERS = [
    described(BYTES, byte_level(), roberta(), ROBERTA_ADDED),
    described(BYTES, byte_level(add_prefix_space=True), roberta(add_prefix_space=True), more(len(BYTES["vocab"]))),
    described(BYTES, byte_level(), template(1), more(len(BYTES["vocab"]))),
    described({**BYTES, "merges": [" ".join(m) for m in BYTES["merges"]]}, byte_level(use_regex=False),
              {"type": "Sequence", "processors": [byte_level(add_prefix_space=True), template(0)]}, more(len(BYTES["vocab"])),
              ignore_merges=True),
    described(BYTES, {"type": "Sequence", "pretokenizers": [{"type": "BertPreTokenizer"},
                                                            byte_level(add_prefix_space=True)]},
              roberta(add_prefix_space=False), more(len(BYTES["vocab"])), {"type": "Sequence", "normalizers": [BERT, BERT]}),
    described(LETTERS, {"type": "BertPreTokenizer"}, template(0), more(len(LETTERS["vocab"])), byte_fallback=True),
    described(LETTERS, {"type": "BertPreTokenizer"}, roberta(), more(len(LETTERS["vocab"])), BERT, unk_token="<unk>", fuse_unk=True),
    described(LETTERS, {"type": "BertPreTokenizer"}, roberta(), more(len(LETTERS["vocab"])), unk_token="<unk>"),
    described(LETTERS, None, roberta(trim_offsets=False), more(len(LETTERS["vocab"]))),
]

# ---- the cases: (text, pair or None, max_tokens, split_special_tokens) ----

POINTS = [chr(c) for c in range(0x20000) if not 0xD800 <= c < 0xE000] + [chr(c) for c in range(0x20000, 0x110000, 997)]


def blocks():
    for i in range(0, len(POINTS), 256):
        block = POINTS[i:i + 256]
        yield " ".join(block), None, 100000, 0
        yield " ".join(f"a{c}b" for c in block), None, 100000, 0


POOLS = [
    list("abcdefgABCDEFG"), "the of and Paris London theory don't won't I'm we've you'll they'd it's X'S 'tis".split(),
    [" ", " ", "  ", "   ", "\t", "\n", "\r\n", "\r", "\x0b", "\x0c", "\x85", "\xa0", "\u1680", "\u2003", "\u2028",
     "\u2029", "\u202f", "\u205f", "\u3000", "\u180e", "\u200b", "\u001c", "\ufeff"],
    ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'", "''", "\u2019s"], list("0123456789²½Ⅷ٣𝟘①"),
    list(".,!?-_()[]{}#$%^~`|<>+=«»“”…—·¿、。「」§¶€©°"), ["😀", "👩‍👩‍👧‍👦", "🇫🇷", "❤️", "👍🏽", "\u200d", "\ufe0f", "🫠"],
    list("éÉïÏñçåÅøłđßẞǆǅĲŉǖṩệốḯΣσς"), list("\u0301\u0300\u0308\u0327\u0323\u0338\u20d7\u0344"),
    list("中国語漢字野口かナ한국어नमस्तेשלוםمرحباไทย"),
    ["<mask>", " <mask>", "<mask> ", "\n<mask>\t", "<pad>", "<s>", "</s>", "<unk>", "<mask", "mask>", "<MASK>"],
    ["covid", "Covid", " covid ", "covids", "covid-19", "_covid", "<left>", " \xa0<left>", "<right>", "<right>   ",
     "<both>", "  <both>\n\n", "<right>    <left>", "   ", "  ", "|||EMAIL|||", "中国", "[USER]", "[USER]  \t"],
    ["Ġ", "Ġa", "Ċ", "Ã©", "<0x41>", "<0xE4>"], list("\x00\x01\x7f\xad\u2060\ufffd\ue000\U000f0001\U000e0001\u0378\uffff"),
]


def text():
    pools = rng.sample(POOLS, rng.randint(1, 4))
    return "".join(rng.choice(rng.choice(pools)) for _ in range(rng.randint(0, 40)))


def hard():
    for _ in range(260):
        yield text(), None, 100000 if rng.random() < 0.6 else rng.randint(2, 30), int(rng.random() < 0.1)
    for _ in range(120):
        yield text(), text(), rng.choice([100000, rng.randint(4, 40)]), int(rng.random() < 0.1)
    for n in (1, 2, 47, 48, 49, 200, 1000):
        for letter in ("a", "ab", "é", "😀", " ", "the "):
            yield letter * n, None, 100000, 0


# ---- the file ----

def section(index, file):
    source = json.dumps(file, ensure_ascii=False)
    whole, split = Tokenizer.from_str(source), Tokenizer.from_str(source)
    split.encode_special_tokens = True
    cases = list(hard()) + (list(blocks()) if index == 0 else [])
    chunks = []
    for text, pair, n_max, is_split in cases:
        tokenizer = split if is_split else whole
        tokenizer.enable_truncation(n_max)
        chunks.append(oracle_file.put_case(n_max, text, pair, is_split)
                      + oracle_file.put_encoding(tokenizer.encode(text, pair)))
    return oracle_file.put_text(source) + oracle_file.put_list(chunks)


oracle_file.write("tests/unit/tokenizer_bpe_oracle.xz",
                  oracle_file.put_list([section(i, file) for i, file in enumerate(TOKENIZERS)]))
