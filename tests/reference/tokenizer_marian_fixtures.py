"""Records what transformers' MarianTokenizer makes of every code point and of many hard texts;
tests/unit/test_tokenizer_oracle.c replays it.

    python3 -m venv /tmp/oracle
    /tmp/oracle/bin/pip install transformers==5.24.0 sentencepiece==0.2.3 torch
    CORPUS=../shared/corpus/wiki-1.jsonl.xz /tmp/oracle/bin/python tests/reference/tokenizer_marian_fixtures.py

Trains small SentencePiece models on the corpus's first texts. vocab.json lacks some of their pieces, as published ones do, and has
tokens that no model has. The tokenizer is in Python and has no offsets, so ids alone are recorded.

Writes tests/unit/tokenizer_marian_oracle.xz, in the terms of oracle_file.py:
    u32 n_tokenizers, then each: vocab.json (text), source.spm (text), u32 n_cases, then each: text, u32 n_ids, ids (u32)
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

CORPUS = os.environ.get("CORPUS", "../shared/corpus/wiki-1.jsonl.xz")
rng = random.Random(20261126)


def corpus(first, n):
    with lzma.open(CORPUS, "rt", encoding="utf-8") as lines:
        for number in range(first + n):
            text = " ".join(json.loads(next(lines)))[:3000]
            if number >= first:
                yield text


def trained(rule, first):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=corpus(first, 200), model_writer=out, vocab_size=500, model_type="unigram",
        normalization_rule_name=rule, num_threads=2, minloglevel=2, bos_id=-1, eos_id=0, unk_id=1)
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


def section(rule):
    source, target = trained(rule, 0), trained(rule, 500)
    ids = {"</s>": 0, "<unk>": 1}
    for piece in [*pieces(source), *pieces(target), "中", "ßß", ">>fra<<", ">>deu<<", "<pad>"]:
        if piece[0] in "<>" or rng.random() < 0.95:
            ids.setdefault(piece, len(ids))
    with tempfile.TemporaryDirectory() as folder:
        for name, content in (("source.spm", source), ("target.spm", target), ("vocab.json", json.dumps(ids).encode())):
            with open(os.path.join(folder, name), "wb") as out:
                out.write(content)
        tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    cases = [oracle_file.put_text(text) + put_ids(tokenizer(text)["input_ids"]) for text in texts()]
    return oracle_file.put_text(json.dumps(ids)) + oracle_file.put_text(source) + oracle_file.put_list(cases)


oracle_file.write("tests/unit/tokenizer_marian_oracle.xz", oracle_file.put_list([section("nmt_nfkc"), section("identity")]))
