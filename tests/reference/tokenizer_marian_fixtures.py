"""Records what transformers' MarianTokenizer and M2M100Tokenizer make of every code point and of many hard texts;
tests/unit/test_tokenizer_oracle.c replays it.

    python3 -m venv /tmp/oracle
    /tmp/oracle/bin/pip install transformers==5.24.0 sentencepiece==0.2.3 torch
    CORPUS=../shared/corpus/wiki-1.jsonl.xz /tmp/oracle/bin/python tests/reference/tokenizer_marian_fixtures.py

Trains small SentencePiece models on the corpus's first texts. vocab.json lacks some of their pieces, as published ones do, and has
tokens that no model has. The tokenizers are in Python and have no offsets, so ids alone are recorded. M2M100's models are a Unigram and
a BPE.

Writes tests/unit/tokenizer_marian_oracle.xz, in the terms of oracle_file.py:
    u32 n_tokenizers, then each: model_type (text), vocab.json (text), sentencepiece model (text), u32 n_cases, then each: text, u32 n_ids, ids (u32)
"""
import io
import json
import lzma
import os
import random
import struct
import tempfile

import oracle_file
import sentencepiece
import transformers
from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES

CORPUS = os.environ.get("CORPUS", "../shared/corpus/wiki-1.jsonl.xz")
rng = random.Random(20261126)


def corpus(first, n):
    with lzma.open(CORPUS, "rt", encoding="utf-8") as lines:
        for number in range(first + n):
            text = " ".join(json.loads(next(lines)))[:3000]
            if number >= first:
                yield text


def trained(rule, first, kind="unigram", **options):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=corpus(first, 200), model_writer=out, vocab_size=500, model_type=kind,
        normalization_rule_name=rule, num_threads=2, minloglevel=2, **options)
    return out.getvalue()


def pieces(model):
    reader = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [reader.id_to_piece(i) for i in range(reader.get_piece_size())]


POINTS = [chr(c) for c in range(0x20000) if not 0xD800 <= c < 0xE000] + [chr(c) for c in range(0x20000, 0x110000, 997)]
POOL = [
    *"the| of| |  |\t|\n|\r\n|\xa0|\u3000|\u2028|\u2581|\u2581\u2581|\x00|\x01|\x1e|\x7f|\x85|.|,|?!|...|'s|aaa|eee|ssss|\xb4|\xa8".split("|"),
    *"ﬁ|™|℻|①|½|Å|é|e\u0301|a\u0315\u0300\u05ae\u0301|\u0301|\u0323|\u0344|\u0345\u0301|Ḗ|ß|ßß|\u200d|\u200b|\ufeff|\xad".split("|"),
    *"中国|中|한국|각|\u1112\u1161\u11ab|가\u11a7|ｶﾞ|か\u3099|ﷺ|ำ|👩\u200d👩\u200d👧|🇫🇷|❤️|क़|\u0958|İ|Σ|ﬃ|A|xyz|1,|٣".split("|"),
    *"<s>|</s>|<unk>|<pad>| </s> |>>fra<<|>>xx<<|>>|<<|>>\u2581<<| >>deu<< |the war was |office|and".split("|"),
]


def mixed(n):
    return "".join(rng.choice(POOL) + rng.choice(["", "", "", " "]) for _ in range(n))


def texts():
    for _ in range(400):
        code = rng.choice([">>fra<<", ">>deu<< ", ">> a <<", "", " ", ">>\u2581<<"]) if rng.random() < 0.3 else ""
        yield code + mixed(rng.randint(0, 30))
    yield from ("", " ", "\u2581", "\u2581\u2581a", "\x01", "\x01abc", "a\u2581 \u2581", "  a  ", "\xb4a", ">>fra<<", ">><<", *corpus(300, 10))
    for i in range(0, len(POINTS), 256):
        yield "".join(f"a{c}b" for c in POINTS[i:i + 256])


def put_ids(ids):
    return struct.pack(f"<I{len(ids)}I", len(ids), *ids)


def listed(special, *models):
    """Ids of the special tokens, of most pieces, and of texts that no model has."""
    ids = {token: i for i, token in enumerate(special)}
    for piece in [*(piece for model in models for piece in pieces(model)), "中", "ßß", ">>fra<<", ">>deu<<", "<pad>"]:
        if piece[0] in "<>" or rng.random() < 0.95:
            ids.setdefault(piece, len(ids))
    return ids


def section(kind, ids, model, tokenizer_class, files, cases, **options):
    with tempfile.TemporaryDirectory() as folder:
        for name, content in {"vocab.json": json.dumps(ids).encode(), **files}.items():
            with open(os.path.join(folder, name), "wb") as out:
                out.write(content)
        tokenizer = tokenizer_class.from_pretrained(folder, **options)
    cases = [oracle_file.put_text(text) + put_ids(tokenizer(text)["input_ids"]) for text in cases]
    return b"".join(map(oracle_file.put_text, (kind, json.dumps(ids), model))) + oracle_file.put_list(cases)


def marian(rule):
    ends = {"bos_id": -1, "eos_id": 0, "unk_id": 1}
    source, target = trained(rule, 0, **ends), trained(rule, 500, **ends)
    return section("marian", listed(["</s>", "<unk>"], source, target), source, transformers.MarianTokenizer,
                   {"source.spm": source, "target.spm": target}, texts())


LANGUAGES = [f"__{code}__" for code in FAIRSEQ_LANGUAGE_CODES["m2m100"]]


def m2m100(rule, kind):
    model = trained(rule, 0, kind)
    more = ("__fr__", " __fr__ a__zu__b __xx__ _", ">>fra<< a", "<s>__en__</s>", *(mixed(9) + "__de__" + mixed(9) for _ in range(50)))
    return section("m2m_100", listed(["<s>", "<pad>", "</s>", "<unk>"], model), model, transformers.M2M100Tokenizer,
                   {"sentencepiece.bpe.model": model}, [*texts(), *more], additional_special_tokens=list(LANGUAGES))


oracle_file.write("tests/unit/tokenizer_marian_oracle.xz", oracle_file.put_list(
    [marian("nmt_nfkc"), marian("identity"), m2m100("nmt_nfkc", "bpe"), m2m100("identity", "bpe"), m2m100("nmt_nfkc", "unigram")]))
