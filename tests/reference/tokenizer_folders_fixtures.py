"""Records what HuggingFace makes of folders without tokenizer.json, and of the four normal forms;
tests/unit/test_tokenizer_oracle.c replays it.

    python3 -m venv /tmp/oracle
    /tmp/oracle/bin/pip install transformers==5.24.0 tokenizers==0.23.3 sentencepiece==0.2.3 protobuf torch
    CORPUS=../shared/corpus/wiki-1.jsonl.xz /tmp/oracle/bin/python tests/reference/tokenizer_folders_fixtures.py

Trains small vocabularies on the corpus's first texts. Saves them as folders of every class of tokenizer, in the form
from before tokenizer.json. Records the conversions of transformers, with the parts of version 4 that version 5 lost
(`completed`). ESM's tokenizer is Python: its ids are compared with those of a pipeline that says the same, whose offsets
are taken.

Writes tests/unit/tokenizer_folders_oracle.xz, in the terms of oracle_file.py:
    u32 n_folders, then each: u32 n_files, then each: name (text), content (text); u32 n_cases, then each: the case,
        its encoding
"""
import base64
import io
import json
import lzma
import os
import random
import re
import tempfile

import oracle_file
import sentencepiece
import transformers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

CORPUS = os.environ.get("CORPUS", "../shared/corpus/wiki-1.jsonl.xz")
rng = random.Random(20261122)


def corpus(n):
    with lzma.open(CORPUS, "rt", encoding="utf-8") as lines:
        for _ in range(n):
            yield " ".join(json.loads(next(lines)))[:3000]


# ---- normal forms: bytes, so that ids tell what became of a character ----

PRINTABLE = [chr(c) for c in (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))]
FAIRSEQ = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
BYTES = {t: i for i, t in enumerate(FAIRSEQ + PRINTABLE + [chr(0x100 + i) for i in range(68)])}
LETTERS = [*([t, 0.0] for t in FAIRSEQ), ["▁", -3.0], ["▁▁", -4.0], *([c, -5.0] for c in "abcdefghijklmnopqrstuvwxyzABC中")]
BPE = {"type": "BPE", "vocab": BYTES, "merges": []}
UNIGRAM = {"type": "Unigram", "unk_id": 3, "byte_fallback": False, "vocab": LETTERS}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def template(cls, sep, ids):
    first, last = ({"SpecialToken": {"id": t, "type_id": 0}} for t in (cls, sep))
    text = lambda name: {"Sequence": {"id": name, "type_id": 0}}
    return {"type": "TemplateProcessing", "single": [first, text("A"), last],
            "pair": [first, text("A"), last, text("B"), last],
            "special_tokens": {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in (cls, sep)}}


def added(content, id, **flags):
    return {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": False, **flags}


def described(normalizer, pre_tokenizer=BYTE_LEVEL, model=BPE):
    tokens = [added(t, i, special=True, normalized=t == "<mask>") for i, t in enumerate(FAIRSEQ)]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens, "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer, "post_processor": template("<s>", "</s>", BYTES), "decoder": None,
            "model": model}


def sequence(*types):
    return {"type": "Sequence", "normalizers": [t if isinstance(t, dict) else {"type": t} for t in types]}


def metaspace(scheme):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": True}


SPACES = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
FORMS = [
    described({"type": "NFC"}), described({"type": "NFKC"}), described(sequence("Nmt", "NFKC", SPACES)),
    described({"type": "NFD"}), described(sequence("Lowercase", "NFC", "NFKC", "NFD", "NFC")),
    described(sequence("NFC"), metaspace("first"), UNIGRAM),
    described({"type": "Strip", "strip_left": True, "strip_right": True},
              {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace("first")]}, UNIGRAM),
]

# ---- folders ----


def sentencepiece_model(rule, **options):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=corpus(200), model_writer=out, vocab_size=500, model_type="unigram",
        normalization_rule_name=rule, num_threads=2, minloglevel=2, **options)
    return out.getvalue()


def with_piece(model, text, score):
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    proto.pieces.add(piece=text, score=score)
    return proto.SerializeToString()


def byte_pairs(special):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(corpus(60), trainers.BpeTrainer(
        vocab_size=700, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    model = json.loads(tokenizer.to_str())["model"]
    merges = "".join(" ".join(pair) + "\n" for pair in model["merges"])
    return {"vocab.json": json.dumps(model["vocab"]), "merges.txt": "#version: 0.2\n" + merges}


def words():
    found = sorted({word[:30] for text in corpus(60) for word in text.lower().split()})
    letters = sorted({c for word in found for c in word})
    return list(dict.fromkeys([*letters, *("##" + c for c in letters), *found[:1500], "ent", "##ent"]))


def lines(tokens):
    return "".join(token + "\n" for token in tokens)


MASK = {"content": "[MASK]", "lstrip": True, "rstrip": False, "normalized": False, "single_word": False}
PLAIN = sentencepiece_model("nmt_nfkc")
OF_USERS = sentencepiece_model("identity", user_defined_symbols="<ent>,▁▁")
ALBERT = with_piece(sentencepiece_model(
    "nmt_nfkc_cf", pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, user_defined_symbols="(,)",
    control_symbols="[CLS],[SEP],[MASK]"), "2,", -4.0)
DEBERTA = sentencepiece_model("nmt_nfkc", pad_id=0, unk_id=3, bos_id=1, eos_id=2, pad_piece="[PAD]",
                              unk_piece="[UNK]", bos_piece="[CLS]", eos_piece="[SEP]")
T5 = sentencepiece_model("nmt_nfkc", pad_id=0, eos_id=1, unk_id=2, bos_id=-1, user_defined_symbols="<ent>")
PAIRS = byte_pairs(FAIRSEQ)
FIRST_DEBERTA = byte_pairs(["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"])
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words()]
FOLDERS = [
    ("xlm-roberta", {"sentencepiece.bpe.model": PLAIN}, None),
    ("xlm-roberta", {"sentencepiece.bpe.model": OF_USERS, "added_tokens.json": {"[NEW]": 502}, "special_tokens_map.json": {
        "mask_token": {**MASK, "content": "<mask>"}, "bos_token": "<s>"}}, {"model_max_length": 10**30}),
    ("camembert", {"sentencepiece.bpe.model": PLAIN}, None),
    ("bert", {"sentencepiece.bpe.model": PLAIN}, {"tokenizer_class": "XLMRobertaTokenizer"}),
    ("albert", {"spiece.model": ALBERT}, None),
    ("albert", {"spiece.model": ALBERT}, {"do_lower_case": False, "keep_accents": True}),
    ("deberta-v2", {"spm.model": DEBERTA}, {"do_lower_case": False, "vocab_type": "spm"}),
    ("deberta-v2", {"spm.model": DEBERTA, "added_tokens.json": {"[MASK]": 500}, "special_tokens_map.json": {
        "bos_token": "[CLS]", "eos_token": "[SEP]", "mask_token": "[MASK]"}}, {"do_lower_case": True}),
    ("roberta", PAIRS, None),
    ("roberta", {**PAIRS, "added_tokens.json": {"<ent>": 700, "[NEW]": 701}}, {
        "add_prefix_space": True, "trim_offsets": False, "mask_token": {
            "__type": "AddedToken", **MASK, "content": "<mask>", "normalized": True}}),
    ("bert", {"vocab.txt": lines(BERT)}, None),
    ("bert", {"vocab.txt": lines(BERT), "added_tokens.json": {
        "<ent>": len(BERT), "[NEW]": len(BERT) + 1, "<Ent>": len(BERT) + 2}, "special_tokens_map.json": {
            "unk_token": "[UNK]", "additional_special_tokens": ["[NEW]", "[LAST]"], "mask_token": MASK}},
     {"do_lower_case": False}),
    ("bert", {"vocab.txt": lines(BERT[1:4] + BERT[5:])}, {"strip_accents": False, "tokenize_chinese_chars": False}),
    ("electra", {"vocab.txt": lines(BERT)}, {"do_lower_case": False, "strip_accents": True}),
    ("distilbert", {"vocab.txt": lines(BERT)}, None),
    ("mpnet", {"vocab.txt": lines(["<s>", "<pad>", "</s>", "<unk>", "[UNK]", *BERT[5:], "<mask>"])}, None),
    ("t5", {"spiece.model": T5}, None),
    ("mt5", {"spiece.model": T5}, {"tokenizer_class": "T5Tokenizer", "extra_ids": 2}),
    ("xlm-roberta", {"sentencepiece.bpe.model": PLAIN}, {"add_prefix_space": False}),
    ("deberta", FIRST_DEBERTA, {"do_lower_case": False, "vocab_type": "gpt2"}),
    ("deberta", {**FIRST_DEBERTA, "added_tokens.json": {"<ent>": 700, "[NEW]": 701}}, {"add_prefix_space": True}),
]
PROTEINS = "<cls> <pad> <eos> <unk> L A G V S E R T I D P K Q N F Y M H W C X B U Z O . - <null_1> <mask>".split()
ESM = ("esm", {"vocab.txt": "\n".join(PROTEINS), "special_tokens_map.json": {
    "cls_token": "<cls>", "eos_token": "<eos>", "mask_token": "<mask>", "pad_token": "<pad>", "unk_token": "<unk>"}},
    {"model_max_length": 10**30, "tokenizer_class": "EsmTokenizer"})


def files_of(folder):
    type, files, config = folder
    files = {**files, "config.json": {"model_type": type}, **({"tokenizer_config.json": config} if config else {})}
    return {name: text if isinstance(text, bytes) else (text if isinstance(text, str) else json.dumps(text)).encode()
            for name, text in files.items()}


def opened(folder):
    with tempfile.TemporaryDirectory() as path:
        for name, content in files_of(folder).items():
            with open(os.path.join(path, name), "wb") as out:
                out.write(content)
        return transformers.AutoTokenizer.from_pretrained(path)


def completed(folder):
    """The tokenizer of transformers 5.24, with what 4.57.1 had and it has not:

    - the table of characters of DeBERTa-v2
    - ALBERT's penalty of pieces like "1,"
    - the space that the masks of RoBERTa and DeBERTa take in
    - the types of MPNet's and DeBERTa's pairs, and the one separator of DeBERTa's"""
    type, files, config = folder
    file = json.loads(opened(folder).backend_tokenizer.to_str())
    if type == "deberta-v2":
        charsmap = sentencepiece_model_pb2.ModelProto.FromString(files["spm.model"]).normalizer_spec.precompiled_charsmap
        file["normalizer"] = sequence(*(["Lowercase"] if config["do_lower_case"] else []), {
            "type": "Strip", "strip_left": True, "strip_right": True}, {
                "type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}, SPACES)
    elif type == "albert":
        file["model"]["vocab"] = [[piece, score - 100 if re.search(r"\d,$", piece) else score] for piece, score in file["model"]["vocab"]]
    elif type == "roberta":
        next(token for token in file["added_tokens"] if token["content"] == "<mask>")["lstrip"] = True
    elif type in ("mpnet", "deberta"):
        ids = {token["content"]: token["id"] for token in file["added_tokens"]}
        cls, sep, n_between = ("<s>", "</s>", 2) if type == "mpnet" else ("[CLS]", "[SEP]", 1)
        file["post_processor"] = template(cls, sep, ids)
        file["post_processor"]["pair"] = [*file["post_processor"]["single"], *(
            {kind: {"id": name, "type_id": type}} for kind, name, type in (
                *[("SpecialToken", sep, 0)] * (n_between - 1), ("Sequence", "B", 1), ("SpecialToken", sep, 1)))]
    if type == "deberta":
        next(token for token in file["added_tokens"] if token["content"] == "[MASK]")["lstrip"] = True
    return Tokenizer.from_str(json.dumps(file))


def proteins():
    ids = {t: i for i, t in enumerate(PROTEINS)}
    file = described(sequence(*({"type": "Replace", "pattern": {"String": c}, "content": " "} for c in "\x1c\x1d\x1e\x1f")),
                     {"type": "WhitespaceSplit"}, {"type": "WordLevel", "vocab": ids, "unk_token": "<unk>"})
    file["added_tokens"] = [added(t, i) for t, i in ids.items()]
    file["post_processor"] = template("<cls>", "<eos>", ids)
    return Tokenizer.from_str(json.dumps(file))


# ---- the cases: (text, pair or None) ----

POINTS = [chr(c) for c in range(0x20000) if not 0xD800 <= c < 0xE000] + [chr(c) for c in range(0x20000, 0x110000, 997)]
POOL = [
    *"the| of| |  |\t|\n|\r\n|\xa0|\u3000|\u2028|\u2581|\u2581\u2581|\x00|\x01|\x1e|\x7f|\x85|.|,|?!|...|'s|don't".split("|"),
    *"ﬁ|™|℻|①|½|Å|é|e\u0301|a\u0315\u0300\u05ae\u0301|\u0301|\u0323|\u0344|\u0f77|\u302e|\u0345\u0301|Ḗ".split("|"),
    *"\u200d|\u200b|\ufeff|\xad|中国|中|한국|각|\u1112\u1161\u11ab|가\u11a7|가\u11a8|각\u11a8|\u1100\u1161".split("|"),
    *"\u1100\u1161\u0301\u11a8|\uac00\u0323\u11a8|ｶﾞ|か\u3099|ﷺ|ำ|ທຳ|ا\u0653|👩\u200d👩\u200d👧|🇫🇷|❤️|क़|\u0958".split("|"),
    *"İ|ß|Σ|ς|Ǆ|ﬃ|A|B|Z|a|aa|xyz|``|''|\"|12|1,|12,|٣|²|\U0001d165|\U0001d53e|\U0002f800|\ue000|\uffff".split("|"),
    *"\u1b05\u1b35|\u09c7\u09be|\u0dd9\u0dcf\u0dca|\U00011131\U00011127|\u1e9b\u0323|ǖ|u\u0304\u0308|u\u0308\u0304|\u212b|\u2126".split("|"),
    *"\u0f71\u0f72\u0f74|\u0f73|=\u0338|\u2adc|\u226e\u0323|<s>|</s>|<unk>|<mask>| <mask>|[CLS]|[MASK]| [MASK] |<ent>".split("|"),
    *"<Ent>|[NEW]|[LAST]|<cls>|<eos>|<null_1>|<null_|<0x41>|<s>NOTUSED|M|K|MKTAYIAKQR|LAGV|xL|-".split("|"),
]


def points():
    for i in range(0, len(POINTS), 256):
        block = POINTS[i:i + 256]
        yield " ".join(block), None
        yield " ".join(f"a{c}b" for c in block), None


def hard(n):
    mixed = lambda n: "".join(rng.choice(POOL) + rng.choice(["", "", "", " "]) for _ in range(n))
    for _ in range(n):
        yield mixed(rng.randint(0, 30)), mixed(rng.randint(0, 10)) if rng.random() < 0.2 else None
    for text in ("", " ", "\x01abc", "™\x1eg", "  a  ", " \u0301", "\u0323\u0301" * 100, "x" + "\u0301\u0323" * 100, "中" * 99):
        yield text, text


# ---- the file ----


def section(files, tokenizer, cases, slow=None):
    chunks = []
    for text, pair in cases:
        e = tokenizer.encode(text, pair)
        assert slow is None or slow(text, pair)["input_ids"] == e.ids, (text, pair)
        chunks.append(oracle_file.put_case(100000, text, pair) + oracle_file.put_encoding(e))
    names = [oracle_file.put_text(name) + oracle_file.put_text(content) for name, content in files.items()]
    return oracle_file.put_list(names) + oracle_file.put_list(chunks)


sections = []
for i, file in enumerate(FORMS):
    source = json.dumps(file, ensure_ascii=False)
    sections.append(section({"tokenizer.json": source}, Tokenizer.from_str(source), list(hard(300)) + (list(points()) if i < 3 else [])))
for folder in FOLDERS:
    sections.append(section(files_of(folder), completed(folder), list(hard(300))))
sections.append(section(files_of(ESM), proteins(), list(hard(300)), opened(ESM)))
oracle_file.write("tests/unit/tokenizer_folders_oracle.xz", oracle_file.put_list(sections))
