"""Records what HuggingFace's tokenizers makes of every code point and of many hard texts with Unigram vocabularies;
tests/unit/test_tokenizer_oracle.c replays it.

    pip install tokenizers==0.23.2 sentencepiece==0.2.3
    python tests/reference/unigram_fixtures.py ../shared/corpus/paragraphs-20k.jsonl.xz

Trains a small vocabulary with sentencepiece, whose model carries the real table nmt_nfkc. Puts tokenizers in the shapes
of XLM-RoBERTa, CamemBERT, ALBERT and DeBERTa-v3 around it. Writes tests/unit/unigram_oracle.xz, in the
terms of oracle_file.py:
    u32 n_tokenizers, then each: text of its tokenizer.json
    u32 n_cases, then each case
    for each tokenizer and case: the encoding
"""

import base64
import io
import json
import lzma
import random
import struct
import sys

import oracle_file
import sentencepiece
from tokenizers import Tokenizer

random.seed(20251122)


def train(rule):
    """A small model of the first paragraphs of a corpus, as sentencepiece writes it."""
    lines = (line for line, _ in zip(lzma.open(sys.argv[1], "rt"), range(3000)))
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(json.loads(line)["text"] for line in lines),
        model_writer=out,
        vocab_size=600,
        model_type="unigram",
        normalization_rule_name=rule,
        num_threads=2,
        minloglevel=2,
    )
    return out.getvalue()


def varint(b, i):
    v = s = 0
    while True:
        c = b[i]
        i += 1
        v |= (c & 127) << s
        s += 7
        if c < 128:
            return v, i


def fields(b):
    i = 0
    while i < len(b):
        key, i = varint(b, i)
        wire = key & 7
        if wire == 0:
            v, i = varint(b, i)
        elif wire == 5:
            v = b[i : i + 4]
            i += 4
        elif wire == 1:
            v = b[i : i + 8]
            i += 8
        else:
            n, i = varint(b, i)
            v = b[i : i + n]
            i += n
        yield key >> 3, v


def model(name):
    pieces = []
    charsmap = b''
    for n, v in fields(train(name)):
        if n == 1:
            p = dict(fields(v))
            pieces.append([p[1].decode(), struct.unpack('<f', p[2])[0]])
        if n == 3:
            charsmap = dict(fields(v)).get(2, b'')
    return pieces, base64.b64encode(charsmap).decode()


precompiled = lambda m: {'type': 'Precompiled', 'precompiled_charsmap': m}


def template(cls, sep, ids, double, types):
    token = lambda n, t=0: {'SpecialToken': {'id': n, 'type_id': t}}
    text = lambda n, t=0: {'Sequence': {'id': n, 'type_id': t}}
    b = 1 if types else 0
    return {
        'type': 'TemplateProcessing',
        'single': [token(cls), text('A'), token(sep)],
        'pair': [token(cls), text('A'), token(sep)] + ([token(sep)] if double else []) + [text('B', b), token(sep, b)],
        'special_tokens': {n: {'id': n, 'ids': [i], 'tokens': [n]} for n, i in ids.items()},
    }


def tokenizer(normalizer, pre, vocab, unk, post, added, **more):
    return {
        'version': '1.0',
        'truncation': None,
        'padding': None,
        'added_tokens': [
            {
                'id': i,
                'content': c,
                'single_word': False,
                'lstrip': False,
                'rstrip': False,
                'normalized': False,
                'special': True,
            }
            for c, i in added.items()
        ],
        'normalizer': normalizer,
        'pre_tokenizer': pre,
        'post_processor': post,
        'decoder': None,
        'model': {'type': 'Unigram', 'unk_id': unk, 'vocab': vocab, **more},
    }


PIECES, CHARSMAP = model('nmt_nfkc')
META = {'type': 'Metaspace', 'replacement': '▁', 'prepend_scheme': 'always', 'split': True}
OLD = {'type': 'Metaspace', 'replacement': '▁', 'add_prefix_space': True}
after_whitespace = lambda m: {'type': 'Sequence', 'pretokenizers': [{'type': 'WhitespaceSplit'}, m]}
sequence = lambda *l: {'type': 'Sequence', 'normalizers': list(l)}
replace = lambda p, c: {'type': 'Replace', 'pattern': p, 'content': c}
extra = [
    ['中', -9.5],
    ['é', -8.0],
    ['中国', -10.0],
    ['▁the▁of', -12.0],
    ['한국', -9.0],
    ["''", -7.0],
    ['"', -6.0],
    ['fi', -5.0],
    ['aa', -5.0],
    ['aaaa', -10.0],
    ['a', -5.0],
]


def without_repeats(v):
    s = set()
    return [x for x in v if not (x[0] in s or s.add(x[0]))]


xlm_roberta = without_repeats([['<s>', 0.0], ['<pad>', 0.0], ['</s>', 0.0], ['<unk>', 0.0]] + PIECES[3:] + extra)
mask_id = len(xlm_roberta)
xlm_roberta = xlm_roberta + [['<mask>', 0.0]]
camembert = [
    ['<s>NOTUSED', 0.0],
    ['<pad>', 0.0],
    ['</s>NOTUSED', 0.0],
    ['<unk>', 0.0],
    ['<unk>NOTUSED', -100.0],
    ['<s>', 0.0],
    ['</s>', 0.0],
] + without_repeats(PIECES[3:] + extra)
albert = without_repeats([['<pad>', 0.0], ['<unk>', 0.0], ['[CLS]', 0.0], ['[SEP]', 0.0], ['[MASK]', 0.0]] + PIECES[3:] + extra)
deberta = without_repeats([['[PAD]', 0.0], ['[CLS]', 0.0], ['[SEP]', 0.0], ['[UNK]', 0.0]] + PIECES[3:] + extra)
byte_fallback_vocab = without_repeats(
    [['<s>', 0.0], ['<pad>', 0.0], ['</s>', 0.0], ['<unk>', 0.0]]
    + [[f'<0x{b:02X}>', -20.0] for b in range(256)]
    + PIECES[3:]
)
roberta_template = template('<s>', '</s>', {'<s>': 0, '</s>': 2}, True, False)
bert_template = template('[CLS]', '[SEP]', {'[CLS]': 2, '[SEP]': 3}, False, True)
tokenizers = {
    'xlmr_new': tokenizer(
        sequence(precompiled(CHARSMAP), {'type': 'Strip', 'strip_left': False, 'strip_right': True}, replace({'Regex': ' {2,}'}, '▁')),
        META,
        xlm_roberta,
        3,
        roberta_template,
        {'<s>': 0, '<pad>': 1, '</s>': 2, '<unk>': 3, '<mask>': mask_id},
    ),
    'camembert': tokenizer(
        precompiled(CHARSMAP),
        after_whitespace(OLD),
        camembert,
        3,
        template('<s>', '</s>', {'<s>': 5, '</s>': 6}, True, False),
        {'<s>': 5, '<pad>': 1, '</s>': 6, '<unk>': 3},
    ),
    'albert': tokenizer(
        sequence(
            replace({'String': '``'}, '"'),
            replace({'String': "''"}, '"'),
            {'type': 'NFKD'},
            {'type': 'StripAccents'},
            {'type': 'Lowercase'},
            precompiled(CHARSMAP),
            replace({'Regex': ' {2,}'}, ' '),
        ),
        after_whitespace(META),
        albert,
        1,
        bert_template,
        {'<pad>': 0, '<unk>': 1, '[CLS]': 2, '[SEP]': 3, '[MASK]': 4},
    ),
    'deberta': tokenizer(
        sequence({'type': 'Strip', 'strip_left': True, 'strip_right': True}, precompiled(CHARSMAP), replace({'Regex': ' {2,}'}, ' ')),
        META,
        deberta,
        3,
        template('[CLS]', '[SEP]', {'[CLS]': 1, '[SEP]': 2}, False, True),
        {'[PAD]': 0, '[CLS]': 1, '[SEP]': 2, '[UNK]': 3},
    ),
    'bytes': tokenizer(
        precompiled(CHARSMAP),
        {'type': 'Metaspace', 'replacement': '▁', 'prepend_scheme': 'never', 'split': True},
        byte_fallback_vocab,
        3,
        roberta_template,
        {'<s>': 0, '<pad>': 1, '</s>': 2, '<unk>': 3},
        byte_fallback=True,
    ),
}
cases = []


def add(t, p=None, m=100000):
    cases.append((m, t, p))


code_points = [chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF and (c < 0x20000 or c % 37 == 0)]
for i in range(0, len(code_points), 512):
    b = code_points[i : i + 512]
    add(' '.join(b))
    add(' '.join(f'a{c}b' for c in b))
    if b[0] < '\u3000':
        add(' '.join(f'º{c}' for c in b if len(c.encode()) < 4))
pools = [
    'the', ' of', ' ', '  ', '\t', '\n', '\r\n', '\u00a0', '\u3000', '\u2028', '▁', '▁▁', 'ﬁ', '™', '℻', '①', '½',
    'Å', 'é', 'e\u0301', 'a\u0315\u0300\u05ae\u0301', '\u0301', '\u0323', '\u0344', '\u0f77', '\u302e', '\u200d',
    '\u200b', '\ufeff', '\u00ad', '\x00', '\x01', '\x1e', '\x7f', '\u0085', '中国', '中', '한국', '각',
    '\u1112\u1161\u11ab', '가', 'ｶﾞ', 'ﾊﾟ', 'ﷺ', 'ำ', 'ທຳ', 'آ', 'ا\u0653', '👩‍👩‍👧', '🇫🇷', '👍🏽', '❤️', '©', '©\u200d®',
    '\u0600', '\u06ddA', 'नमस्ते', 'क्ष', 'क़', 'İ', 'ß', 'Σ', 'ς', 'Ǆ', 'ǆ', 'ﬃ', 'A', 'B', 'Z', 'a', 'aa', 'aaa',
    'aaaaa', 'xyz', '``', "''", '"', '<s>', '</s>', '<unk>', '<mask>', '[CLS]', '[MASK]', '<0x41>', '.', ',', '?!',
    '...', '12', '٣', '²', '\U0001d165', '\U0001d53e', '\U0002f800', '\ue000', '\uffff', '\U0010ffff', 'º\u0cf3',
    '™\u0301', 'º\u0301', 'ª\u05b0', 'µ\u0300', '\u0903', '\u0e33', '\u0eb3',
]
words = [p[0].replace('▁', '') for p in PIECES if len(p[0]) > 1]


def mixture(n):
    return ''.join(
        random.choice(pools if random.random() < 0.7 else words) + random.choice(['', '', '', ' ']) for _ in range(n)
    )


def any_characters(n):
    return ''.join(random.choice(code_points[:0x3000]) if random.random() < 0.7 else random.choice(code_points) for _ in range(n))


for _ in range(600):
    add(mixture(random.randint(1, 30)), None, 100000 if random.random() < 0.6 else random.randint(2, 30))
for _ in range(150):
    add(any_characters(random.randint(1, 40)))
for _ in range(300):
    add(
        mixture(random.randint(0, 10)),
        mixture(random.randint(0, 10)),
        random.randint(4, 30) if random.random() < 0.7 else 100000,
    )
for t in [
    '',
    ' ',
    '\x01',
    '\x01abc',
    '™\x1eg',
    '\x01\x01™x',
    '  a  ',
    '▁',
    'a' * 300,
    'aaaa bb ' * 200,
    '\u0301',
    ' \u0301',
    '\r\n',
    '\n\n',
    '\u0323\u0301' * 300,
    'x' + '\u0301\u0323' * 400,
    '中' * 300,
]:
    add(t)
    add(t, t, 9)


texts = [json.dumps(tokenizer, ensure_ascii=False) for tokenizer in tokenizers.values()]
encodings = []
for tokenizer in map(Tokenizer.from_str, texts):
    for tokens_max, text, pair in cases:
        tokenizer.enable_truncation(tokens_max)
        encodings.append(oracle_file.put_encoding(tokenizer.encode(text, pair)))
oracle_file.write("tests/unit/unigram_oracle.xz",
                  oracle_file.put_list(list(map(oracle_file.put_text, texts)))
                  + oracle_file.put_list([oracle_file.put_case(*case) for case in cases]) + b"".join(encodings))
