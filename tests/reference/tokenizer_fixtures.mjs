// tokenizer_fixtures.mjs - what HuggingFace's fast BERT tokenizer makes of every code point and of many hard
// texts; tests/unit/test_tokenizer_oracle.c replays it.
//
//     npm install --prefix /tmp/oracle --ignore-scripts tokenizers@0.23.2
//     ORACLE=/tmp/oracle VOCABULARIES=../shared/vocab node tests/reference/tokenizer_fixtures.mjs
//
// Writes tests/unit/tokenizer_oracle.xz (needs xz). VOCABULARIES is a folder with bert-base-uncased,
// bert-base-cased, bert-base-chinese and bert-base-multilingual-cased, each with its vocab.txt. The same
// versions give the same bytes.
//
// The oracle is the Rust library itself, through HuggingFace's own Node binding. Its JavaScript port
// (@huggingface/transformers) gives no offsets and differs from it: it follows the Unicode version of its
// engine, where Rust's categories are those of Unicode 8.
//
// The file, all numbers little-endian, a text being its length in bytes (u32) and its bytes:
//     u32 n_vocabularies, then each: text with a token a line
//     u32 n_tokenizers, then each: u32 vocabulary, u8 x 4: clean_text, handle_chinese_chars, strip_accents,
//         lowercase, u32 n_added, then each: u32 id, u8 special, u8 normalized, text
//     u32 n_cases, then each: u32 max_tokens, u8 split_special_tokens, u8 has_pair, text, pair
//     for each tokenizer and each case: u32 n_tokens, u8 truncated, then n_tokens times: ids (u32), word ids
//         (u32, 0 for special tokens, else 1 more), starts (u32, minus the one before), lengths (u32),
//         type ids (u8), special tokens mask (u8)
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';

const require = createRequire(resolve(process.env.ORACLE ?? '.', 'node_modules/'));
const { Tokenizer } = require('tokenizers');

const folder = process.env.VOCABULARIES ?? '../shared/vocab';
const vocabularies = [
    'model/mini/vocab.txt',
    ...['uncased', 'cased', 'chinese', 'multilingual-cased'].map((name) => `${folder}/bert-base-${name}/vocab.txt`),
].map((path) => readFileSync(path, 'utf8'));

const special = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'].map((content) => (
    { content, special: true, normalized: false }));
// Added later, as people do who fine-tune. Some are in the vocabulary already. Special ones come last: the
// oracle for split_special_tokens is a tokenizer without them, and the ids of the others must stay.
const later = [
    { content: 'New York', special: false, normalized: true },
    { content: 'Öß', special: false, normalized: true },
    { content: '<e1>', special: false, normalized: true },
    { content: '</e1>', special: false, normalized: false },
    { content: 'covid', special: false, normalized: true },
    { content: 'the', special: false, normalized: true },
    { content: '中国', special: false, normalized: true },
    { content: '語', special: false, normalized: false },
    { content: 'ñ\u0323', special: false, normalized: true },
    { content: '[USER]', special: true, normalized: true },
    { content: '[ROLE]', special: true, normalized: false },
];

// vocabulary, clean_text, handle_chinese_chars, strip_accents, lowercase, added tokens
const tokenizers = [
    [0, 1, 1, 1, 1, special],
    [0, 1, 1, 0, 1, special],
    [0, 1, 1, 1, 0, special],
    [0, 0, 0, 1, 1, special],
    [0, 0, 0, 0, 0, special],
    [0, 1, 1, 1, 1, [...special, ...later]],
    [0, 0, 1, 0, 0, [...special, ...later]],
    [1, 1, 1, 1, 1, special],
    [2, 1, 1, 0, 0, special],
    [3, 1, 1, 1, 1, special],
    [4, 1, 1, 0, 0, special],
];

// ---- the oracle ----

const vocabs = vocabularies.map((text) => Object.fromEntries(text.split('\n').slice(0, -1).map((token, id) => [token, id])));

function withIds(vocab, added) {
    let next = Object.keys(vocab).length;
    return added.map((token) => ({ ...token, id: vocab[token.content] ?? next++ }));
}

function tokenizerJson([vocabulary, clean, chinese, strip, lower, added], keep) {
    const vocab = vocabs[vocabulary];
    const token = (id, type_id) => ({ SpecialToken: { id, type_id } });
    const text = (id, type_id) => ({ Sequence: { id, type_id } });
    return JSON.stringify({
        version: '1.0', truncation: null, padding: null,
        added_tokens: withIds(vocab, added).filter(keep)
            .map((token) => ({ ...token, single_word: false, lstrip: false, rstrip: false })),
        normalizer: { type: 'BertNormalizer', clean_text: !!clean, handle_chinese_chars: !!chinese,
            strip_accents: !!strip, lowercase: !!lower },
        pre_tokenizer: { type: 'BertPreTokenizer' },
        post_processor: {
            type: 'TemplateProcessing',
            single: [token('[CLS]', 0), text('A', 0), token('[SEP]', 0)],
            pair: [token('[CLS]', 0), text('A', 0), token('[SEP]', 0), text('B', 1), token('[SEP]', 1)],
            special_tokens: Object.fromEntries(['[CLS]', '[SEP]'].map((id) => (
                [id, { id, ids: [vocab[id]], tokens: [id] }]))),
        },
        decoder: null,
        model: { type: 'WordPiece', unk_token: '[UNK]', continuing_subword_prefix: '##',
            max_input_chars_per_word: 100, vocab },
    });
}

async function encode(tokenizer, { max, text, pair }) {
    tokenizer.setTruncation(max); // longest first is the default
    const encoding = await tokenizer.encode(text, pair, { addSpecialTokens: true });
    return { encoding, truncated: encoding.getOverflowing().length > 0 };
}

// ---- the cases ----

// mulberry32: the same numbers everywhere.
let state = 20251221;
function random(n) {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % n;
}
const pick = (list) => list[random(list.length)];
const between = (low, high) => low + random(high - low + 1);
const times = (n, make) => Array.from({ length: n }, make).join('');

const cases = [];
const add = (text, pair = null, max = 100000, split = 0) => cases.push({ max, split, text, pair });

// Every code point of BMP and SMP, and a sample of what is beyond, alone and between letters.
const codePoints = [];
for (let c = 0; c < 0x110000; c += c < 0x20000 ? 1 : 37)
    if (c < 0xd800 || c > 0xdfff)
        codePoints.push(String.fromCodePoint(c));
for (let i = 0; i < codePoints.length; i += 256) {
    const block = codePoints.slice(i, i + 256);
    add(block.join(' '));
    add(block.map((c) => `a${c}b`).join(' '));
}
// Each character follows an accent and precedes another one. NFD may change their order.
const combining = codePoints.filter((c) => /\p{M}/u.test(c));
for (let i = 0; i < combining.length; i += 64)
    add(combining.slice(i, i + 64).map((c) => `x\u0301${c}\u0323\u302ey`).join(' '));

const pools = {
    words: vocabularies.flatMap((text) => text.split('\n')).filter((t) => /^(##)?\p{L}+$/u.test(t))
        .map((t) => t.replace('##', '')),
    ascii: Array.from({ length: 128 }, (_, c) => String.fromCharCode(c)),
    accents: [...'\u0301\u0300\u0308\u0327\u0323\u0338\u20d7\u0344\u0340'],
    accented: [...'éÉïÏñçåÅøłđßẞǆǅĲŉǖṩệốḯᾂᾲῷΐΰ'],
    kept: [...'\u302e\u302f\u{1d15e}\u{1d15f}\u{1d165}\u{1d16d}\u{1d16e}\u1df6\u1df9\u08d4\u08e2\u{1e944}\u0f77\u0f71\u0f80\u09cb\u0b48\u{11938}\u{16ff0}\u1a7f'],
    greek: [...'ΣσςΑΩάώἈᾼ\u037e\u0387\u1fef\u2126'],
    turkish: [...'İIıiĞğ'],
    cjk: [...'中国語漢字野口\u3400\uf900\ufa0e\u{20000}\u{2b820}\u{2b91f}\u{2b920}\u{2ceb0}\u{2f800}かナー々〆'],
    hangul: [...'한국어가힣\u1112\u1161\u11ab각'],
    indic: [...'नमस्तेक्षढ़তোਸ਼କୋகோ'],
    others: [...'שלוםمرحباไทยພາສາမြန်မာཀྲཨཱྀ'],
    emoji: ['😀', '👩‍👩‍👧‍👦', '🇫🇷', '❤️', '👍🏽', '\u200d', '\ufe0f', '🫠'],
    spaces: [' ', ' ', ' ', '  ', '\t', '\n', '\r\n', '\u00a0', '\u1680', '\u2003', '\u2028', '\u2029', '\u3000', '\u205f', '\u202f'],
    dropped: [...'\u0000\u0001\u007f\u0085\u00ad\u200b\u200e\u2060\ufeff\ufffd\ue000\ue123\u{f0001}\u180e\u000b\u000c\u{e0001}\u061c'],
    unassigned: [...'\u0378\uffff\ufdd0\u{1ffff}\u{e01f0}\u{10ffff}'],
    punctuation: [...'.,!?-_()[]{}#$%^~`|<>+=«»“”…—·¿、。「」§¶€©°\u166d\u{111c9}'],
    special: ['[CLS]', '[SEP]', '[MASK]', '[PAD]', '[UNK]', '[MASK', 'MASK]', '[mask]', '[[MASK]]', '[ MASK ]', '[MASK][MASK]', '##', '##ing'],
    added: ['New York', 'new  york', 'NEW YORK', 'newyork', 'öß', 'Öß', 'o\u0308ß', '<e1>', '<E1>', '</e1>', '</E1>', 'Covid', 'the', 'theory', '中国', '中 国', '語', '[user]', '[USER]', '[ROLE]', '[role]', 'ñ', 'ñ\u0323', 'n\u0323\u0303'],
    numbers: ['0', '42', '3.14', '²', '½', 'Ⅷ', '٣', '𝟘', '①'],
    young: [...'\u1c89\u1c90\ua7cb\ua7da\u{10d50}\u{16ea0}\u{1e900}\u{104b0}\u{16e40}\u2c2f'],
};
const poolNames = Object.keys(pools);

function anyCodePoint() {
    const c = random(4) ? random(0x3000) : random(0x110000);
    return String.fromCodePoint(c >= 0xd800 && c <= 0xdfff ? 0x20 : c);
}
const recipes = [
    () => times(between(1, 12), () => pick(pools.words) + pick(pools.spaces)),
    () => times(between(1, 40), () => pick(pools[pick(poolNames)])),
    () => times(between(1, 30), () => pick(pools[pick(poolNames)]) + (random(2) ? ' ' : '')),
    () => times(between(1, 30), anyCodePoint),
    () => times(between(1, 8), () => pick(pools.words) + times(random(6), () => pick(pools.accents.concat(pools.kept)))),
    () => times(between(1, 30), () => pick(pools.kept.concat(pools.accents, pools.accented, pools.dropped))),
    () => times(between(1, 20), () => pick(pools.cjk.concat(pools.accents, pools.kept, pools.words))),
    () => times(between(1, 10), () => pick(pools.special) + pick(['', '', ' ', 'x', '\u0301', '\u302e', '中'])),
    () => times(between(1, 15), () => pick(pools.added) + pick(['', ' ', '  ', 'x', '\u0301', '\u302e'])),
    () => times(between(97, 103), () => pick(['a', 'a', 'b', 'é'])) + pick(['', '\u0301', '\u200b', 'İ', ' c']),
    () => times(between(30, 35), () => pick(pools.hangul)),
    () => times(between(1, 200), () => pick(pools.accents.concat(['\u302e', '\u1df6', '\u0f71']))),
    () => pick(['', ' ', '\u200b', '\u0301', '\u0000 \u0000', '[MASK]', '\n\n', '\u302e', ' \u0301 ']),
];
for (let i = 0; i < 2400; i++)
    add(recipes[i % recipes.length](), null, random(3) ? 100000 : between(2, 40), random(8) === 0 ? 1 : 0);
for (let i = 0; i < 1200; i++)
    add(pick(recipes)(), pick(recipes)(), random(4) ? between(3, 40) : 100000, random(8) === 0 ? 1 : 0);
// Pairs of plain words of every length around the limit.
for (let first = 0; first <= 7; first++)
    for (let second = 0; second <= 7; second++)
        for (let max = 3; max <= 14; max++)
            add('a '.repeat(first), 'b '.repeat(second), max);

// ---- the file ----

const chunks = [];
function u32(...values) {
    const bytes = Buffer.alloc(4 * values.length);
    values.forEach((value, i) => bytes.writeUInt32LE(value >>> 0, 4 * i));
    chunks.push(bytes);
}
const u8 = (...values) => chunks.push(Buffer.from(values.map(Number)));
function putText(text) {
    const bytes = Buffer.from(text, 'utf8');
    u32(bytes.length);
    chunks.push(bytes);
}

u32(vocabularies.length);
vocabularies.forEach(putText);
u32(tokenizers.length);
for (const [vocabulary, clean, chinese, strip, lower, added] of tokenizers) {
    u32(vocabulary);
    u8(clean, chinese, strip, lower);
    u32(added.length);
    for (const { id, special, normalized, content } of withIds(vocabs[vocabulary], added)) {
        u32(id);
        u8(special, normalized);
        putText(content);
    }
}
u32(cases.length);
for (const { max, split, text, pair } of cases) {
    u32(max);
    u8(split, pair !== null);
    putText(text);
    putText(pair ?? '');
}
for (const options of tokenizers) {
    const plain = Tokenizer.fromString(tokenizerJson(options, () => true));
    const split = Tokenizer.fromString(tokenizerJson(options, (token) => !token.special));
    for (const one of cases) {
        const { encoding, truncated } = await encode(one.split ? split : plain, one);
        const offsets = encoding.getOffsets();
        u32(offsets.length);
        u8(truncated);
        u32(...encoding.getIds());
        u32(...encoding.getWordIds().map((word) => (word ?? -1) + 1));
        u32(...offsets.map(([start], i) => start - (i ? offsets[i - 1][0] : 0)));
        u32(...offsets.map(([start, end]) => end - start));
        u8(...encoding.getTypeIds());
        u8(...encoding.getSpecialTokensMask());
    }
    console.log(`${tokenizers.indexOf(options) + 1} of ${tokenizers.length}: ${cases.length} cases`);
}
const file = Buffer.concat(chunks);
const packed = execFileSync('xz', ['-9e', '--stdout'], { input: file, maxBuffer: 1 << 28 });
writeFileSync('tests/unit/tokenizer_oracle.xz', packed);
console.log(`${file.length} bytes, packed ${packed.length}`);
