import assert from "node:assert/strict";
import test from "node:test";
import { align, difference } from "../src/maps/align.ts";
import {
  averagedRegions,
  columnProfile,
  highTokens,
  normalize,
  runsOf,
  segmentsOf,
  similarityMaximum,
} from "../src/maps/analysis.ts";
import { timingOf } from "../src/app/api.ts";
import { encodingOf, readAnswer } from "../src/app/answer.ts";
import { learnModels } from "../src/app/model-facts.ts";
import { joined, readable, readableAnswer } from "../src/app/token-labels.ts";
import { axisOf, entryOf, headOf, project } from "../src/maps/axis.ts";
import { ticksTo } from "../src/views/pairs/histogram.tsx";
import { countAbove, distanceHistogram, figuresOf, filterPairs, orderPairs, sortPairs } from "../src/maps/pairs.ts";
import { parseSafetensors } from "../src/app/safetensors.ts";

const close = (a, b, tolerance = 1e-6) => assert.ok(Math.abs(a - b) <= tolerance, `${a} is not near ${b}`);

// A safetensors file from plain arrays, written from the format's description.
function safetensors(tensors, metadata = {}) {
  const header = { __metadata__: metadata };
  const parts = [];
  let at = 0;
  for (const [name, { dtype, shape, data }] of Object.entries(tensors)) {
    const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    header[name] = { dtype, shape, data_offsets: [at, at + bytes.length] };
    at += bytes.length;
    parts.push(bytes);
  }
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  return new Uint8Array(Buffer.concat([length, json, ...parts]));
}

// Five tokens, "un ##able" one word, two sentences.
const longs = (shape, ...values) => ({ dtype: "I64", shape, data: BigInt64Array.from(values, BigInt) });
const metadata = { model: "mini", truncated: "false", tokens: '["[CLS]","un","##able","un","[SEP]"]' };
const tokens = {
  layers: longs([1], 0),
  heads: longs([1], 0),
  input_ids: longs([5], 2, 7, 8, 7, 3),
  token_type_ids: longs([5], 0, 0, 0, 0, 0),
  special_tokens_mask: longs([5], 1, 0, 0, 0, 1),
  offset_mapping: longs([5, 2], 0, 0, 0, 2, 2, 6, 7, 9, 0, 0),
  sentence_ids: longs([5], 0, 0, 0, 1, 1),
  word_ids: longs([5], -1, 0, 0, 1, -1),
};
const attention = Float32Array.from({ length: 25 }, (_, k) => ((k * 7) % 5) / 10);
const similarity = new Float32Array(25);
[
  [1, 2, 4],
  [1, 3, 8],
  [2, 3, 2],
  [0, 4, 6],
  [0, 1, -3],
].forEach(([i, j, v]) => {
  similarity[i * 5 + j] = similarity[j * 5 + i] = v;
});
const map = (data) => ({ dtype: "F32", shape: [1, 1, 5, 5], data });
const figure = (value) => ({ dtype: "F32", shape: [1, 1], data: Float32Array.of(value) });
const answer = readAnswer(
  safetensors(
    {
      ...tokens,
      summary_high_pairs: longs([1, 1], 3),
      attentions: map(attention),
      similarities: map(similarity),
      summary_max_similarity: figure(8),
      summary_mean_distance: figure(NaN),
      summary_focal_position: { dtype: "I32", shape: [1, 1], data: Int32Array.of(-1) },
    },
    metadata,
  ),
  {},
);
const seen = headOf(answer, { special: true, words: false });

test("safetensors: tensors come back whole, also from an odd address", () => {
  const bytes = safetensors({ a: { dtype: "F32", shape: [3], data: Float32Array.of(1, -2, 0.5) } }, { k: "v" });
  const odd = new Uint8Array(bytes.length + 1);
  odd.set(bytes, 1);
  for (const given of [bytes, odd.subarray(1)]) {
    const { tensors, metadata: kept } = parseSafetensors(given);
    assert.deepEqual([...tensors.get("a").data], [1, -2, 0.5]);
    assert.deepEqual(kept, { k: "v" });
  }
});

test("words begin at spaces where a tokenizer numbers a text as one word", () => {
  const { words } = encodingOf({
    model: "toy",
    input_ids: [1, 5, 6, 7, 8],
    tokens: ["<s>", "▁the", "▁wa", "r", "▁the"],
    token_type_ids: [0, 0, 0, 0, 0],
    special_tokens_mask: [1, 0, 0, 0, 0],
    word_ids: [null, 0, 0, 0, 0],
  });
  assert.equal(words[0], null);
  assert.deepEqual(
    words.slice(1).map((word, t) => word === words[t]),
    [false, false, true, false],
  );
});

test("an answer's tokens and figures", () => {
  const { encoding, summary, attentions } = answer;
  assert.deepEqual(encoding.words, [null, 0, 0, 1, null]);
  assert.deepEqual(encoding.offsets[2], [2, 6]);
  assert.deepEqual(encoding.special, [true, false, false, false, true]);
  assert.deepEqual(
    [
      summary[0][0].max_similarity,
      summary[0][0].high_pairs,
      summary[0][0].mean_distance,
      summary[0][0].focal_position,
    ],
    [8, 3, null, null],
  );
  assert.equal(attentions.length, 25);
  assert.throws(() => readAnswer(safetensors({ input_ids: longs([1], 1) }, metadata), {}), /lacks/);
});

test("safetensors: broken answers are refused", () => {
  const bytes = safetensors({ a: { dtype: "F32", shape: [3], data: Float32Array.of(1, 2, 3) } });
  assert.throws(() => parseSafetensors(bytes.subarray(0, 4)), /header/);
  assert.throws(() => parseSafetensors(bytes.subarray(0, 20)), /header/);
  assert.throws(() => parseSafetensors(bytes.subarray(0, bytes.length - 1)), /does not fit/);
  assert.throws(
    () => parseSafetensors(safetensors({ a: { dtype: "Q4", shape: [1], data: Uint8Array.of(1) } })),
    /Q4/,
  );
});

test("the header Server-Timing becomes milliseconds", () => {
  assert.deepEqual(timingOf('queue;dur=0.1, forward;desc="x";dur=41.2'), { queue: 0.1, forward: 41.2 });
  assert.deepEqual(timingOf(""), {});
});

test("the maximum leaves the diagonal out; N is S / m with diagonal 0", () => {
  const s = Float32Array.of(9, 2, 1, 2, 9, 4, 1, 4, 9);
  assert.equal(similarityMaximum(s, 3), 4);
  assert.deepEqual([...normalize(s, 3, 4)], [0, 0.5, 0.25, 0.5, 0, 1, 0.25, 1, 0]);
  assert.deepEqual([...normalize(s, 3, 0)], new Array(9).fill(0));
  assert.deepEqual([...normalize(Float32Array.of(5), 1, similarityMaximum(Float32Array.of(5), 1))], [0]);
});

test("columns, high tokens, runs and averaged regions", () => {
  const a = Float32Array.of(0, 1, 0, 0, 0, 1, 0, 0, 0.5, 0.5, 0, 0, 0, 1, 0, 0);
  const profile = columnProfile(a, 4);
  close(profile[1], 1);
  close(profile[0], 0.5 / 3.5, 1e-9);
  assert.deepEqual(highTokens(profile, 0.3), [1]);
  assert.deepEqual(runsOf([1], 4), [
    [0, 1],
    [1, 2],
    [2, 4],
  ]);
  assert.deepEqual(runsOf([0, 3], 4), [
    [0, 1],
    [1, 3],
    [3, 4],
  ]);
  const s = Float32Array.from({ length: 16 }, (_, k) => k);
  const means = averagedRegions(s, 4, [
    [0, 1],
    [1, 2],
    [2, 4],
  ]);
  assert.equal(means[0], 0); // nothing but diagonal
  assert.equal(means[2], 2.5); // row 0, columns 2 and 3
  assert.equal(means[2 * 4 + 3], (11 + 14) / 2); // diagonal excluded
});

test("segments end after high tokens that are not special, the last at the text's end", () => {
  const axis = { n: 5, special: [true, false, false, false, true] };
  const a = new Float32Array(25);
  for (let i = 0; i < 5; i++) ((a[i * 5] = 0.5), (a[i * 5 + 2] = 0.5));
  const n = new Float32Array(25).fill(1);
  const segments = segmentsOf(a, n, axis, 0.3);
  assert.deepEqual(
    segments.map(({ start, end }) => [start, end]),
    [
      [0, 3],
      [3, 5],
    ],
  );
  close(segments[0].cohesion, 1);
  close(segments[0].contrast, 1);
  const [whole] = segmentsOf(new Float32Array(1), new Float32Array(1), { n: 1, special: [true] }, 0.3);
  assert.deepEqual(whole, { start: 0, end: 1, cohesion: null, contrast: null });
});

test("a lens hides special tokens and merges word pieces", () => {
  const axis = axisOf(answer.encoding, { special: false, words: true });
  assert.deepEqual(axis.labels, ["unable", "un"]);
  assert.deepEqual(axis.groups, [[1, 2], [3]]);
  assert.deepEqual(axis.offsets, [
    [0, 6],
    [7, 9],
  ]);
  assert.equal(entryOf(axis, 2), 0);
  assert.equal(entryOf(axis, 0), -1);
  const merged = project(attention, 5, axis, "attention");
  close(merged[1], (attention[1 * 5 + 3] + attention[2 * 5 + 3]) / 2); // from a word: mean
  close(merged[2], attention[3 * 5 + 1] + attention[3 * 5 + 2]); // to a word: sum
  close(project(similarity, 5, axis, "mean")[1], (8 + 2) / 2);
});

test("a merged map of a row-stochastic map stays row-stochastic", () => {
  const a = Float32Array.from({ length: 25 }, (_, k) => (k % 5 === 2 ? 0.6 : 0.1));
  const axis = axisOf(answer.encoding, { special: true, words: true });
  const merged = project(a, 5, axis, "attention");
  for (let i = 0; i < axis.n; i++)
    close(
      merged.subarray(i * axis.n, (i + 1) * axis.n).reduce((x, y) => x + y),
      1,
    );
});

test("pairs: strongest first, ties by position, thresholds are prefixes", () => {
  assert.equal(seen.maximum, 8);
  const pairs = sortPairs(seen.normalized, 5);
  assert.deepEqual(
    [...pairs.i].map((i, k) => [i, pairs.j[k]]),
    [
      [1, 3],
      [0, 4],
      [1, 2],
      [2, 3],
    ],
  );
  assert.deepEqual(
    [0.1, 0.25, 0.3, 0.5, 0.76, 1].map((tau) => countAbove(pairs, tau)),
    [4, 4, 3, 3, 1, 1],
  );
  const tied = sortPairs(new Float32Array(9).fill(0.5), 3);
  assert.deepEqual(
    [...tied.i].map((i, k) => [i, tied.j[k]]),
    [
      [0, 1],
      [0, 2],
      [1, 2],
    ],
  );
});

test("pairs: many random values sort as a plain sort does", () => {
  const n = 60;
  const values = new Float32Array(n * n);
  let seed = 1;
  for (let k = 0; k < values.length; k++) values[k] = (seed = (seed * 48271) % 2147483647) / 2147483647 - 0.2;
  const expected = [];
  for (let i = 0; i < n; i++)
    for (let j = i + 1; j < n; j++) if (values[i * n + j] > 0) expected.push([values[i * n + j], i, j]);
  expected.sort((a, b) => b[0] - a[0] || a[1] - b[1] || a[2] - b[2]);
  const pairs = sortPairs(values, n);
  assert.deepEqual(
    [...pairs.normalized].map((v, k) => [v, pairs.i[k], pairs.j[k]]),
    expected,
  );
});

test("pairs: filters, orders, figures, distances", () => {
  const pairs = sortPairs(seen.normalized, 5);
  const any = { find: "", near: 1, far: 0, same: "any", within: "any" };
  const filter = (wish) => [...filterPairs(pairs, 4, seen.axis, { ...any, ...wish })];
  assert.deepEqual(filter({}), [0, 1, 2, 3]);
  assert.deepEqual(filter({ same: "yes" }), [0]);
  assert.deepEqual(filter({ within: "yes" }), [2]);
  assert.deepEqual(filter({ near: 2, far: 3 }), [0]);
  assert.deepEqual(filter({ find: "able" }), [2, 3]);
  assert.deepEqual(filter({ find: "UN able" }), [2, 3]);
  assert.deepEqual(filter({ find: "zzz" }), []);
  const kept = filterPairs(pairs, 4, seen.axis, any);
  assert.deepEqual([...orderPairs(kept, pairs, seen.axis, "distance")], [2, 3, 0, 1]);
  assert.deepEqual([...orderPairs(kept, pairs, seen.axis, "-distance")], [1, 0, 2, 3]);
  assert.deepEqual([...orderPairs(kept, pairs, seen.axis, "normalized")], [3, 2, 1, 0]);
  const figures = figuresOf(pairs, kept, seen.axis);
  close(figures.repeated, 0.25);
  close(figures.sameSentence, 0.25);
  close(figures.meanDistance, 2);
  assert.equal(figures.focal, "un"); // in three of four, the pair of two counting once
  close(figures.focalShare, 0.75);
  assert.deepEqual([...distanceHistogram(pairs, kept, seen.axis)], [0, 2, 1, 0, 1]);
});

test("ticks of counts are whole numbers, by ones, twos or fives, as many as fit", () => {
  assert.deepEqual(ticksTo(1, 4), [0, 1]);
  assert.deepEqual(ticksTo(7, 4), [0, 2, 4, 6]);
  assert.deepEqual(ticksTo(127, 8), [0, 20, 40, 60, 80, 100, 120]);
  assert.deepEqual(ticksTo(4100, 4), [0, 2000, 4000]);
  assert.deepEqual(ticksTo(0, 8), [0]);
  for (let top = 1; top < 3000; top++) assert.ok(ticksTo(top, 4).length <= 5 && ticksTo(top, 4).length > 1, `${top}`);
});

test("alignment finds what two texts share; differences stand on it", () => {
  const found = align(["a", "b", "c", "d"], ["a", "x", "c", "d", "e"]);
  assert.deepEqual(found, { first: [0, 1, 2, 3], second: [0, 1, 2, 3] }); // b was changed to x; e has no counterpart
  assert.deepEqual(align(["a", "b", "c"], ["a", "c"]), { first: [0, 2], second: [0, 1] });
  assert.deepEqual(align(["a", "b", "c", "d"], ["a", "x", "y", "c", "z"]), { first: [0, 2, 3], second: [0, 3, 4] });
  assert.deepEqual(align([], ["a"]), { first: [], second: [] });
  const d = difference(Float32Array.of(1, 2, 3, 4), 2, Float32Array.of(0, 1, 0, 1), 2, {
    first: [0, 1],
    second: [0, 1],
  });
  assert.deepEqual([...d], [1, 1, 3, 3]);
});

test("tokens are read as text, by their model's tokenizer", () => {
  learnModels([
    { name: "bytes", tokenizer: "byte-level BPE" },
    { name: "marks", tokenizer: "Unigram" },
    { name: "words", tokenizer: "WordPiece" },
  ]);
  const bytes = (token) => readable(token, "bytes");
  assert.equal(bytes("\u0120Paris"), "␣Paris");
  assert.equal(bytes("caf\u00c3\u00a9"), "café");
  assert.equal(bytes("\u010a"), "\u240a");
  assert.equal(bytes("\u00e2\u0122\u013b"), "’");
  assert.equal(bytes("\u00e2\u0122"), "⟨E2⟩⟨80⟩");
  assert.equal(bytes("<mask>"), "<mask>");
  assert.equal(bytes("中国"), "中国"); // an added token
  assert.equal(joined([bytes("\u00f0\u0141\u013a"), bytes("\u0122")]), "😀");
  assert.equal(readable("\u2581the\u2581end", "marks"), "␣the␣end");
  for (const token of ["\u0120", "##č", "\u2581", "Ã©"]) {
    assert.equal(readable(token, "words"), token);
    assert.equal(readable(token, "unknown"), token);
  }
  const answer = { tokens: ["\u0120a"], model: "\u0120", attentions: [[[[0.5]]]], predictions: [{ token: "\u0120b", top: [{ id: 3, token: "c" }] }] };
  assert.deepEqual(readableAnswer(answer, "bytes"), {
    ...answer, tokens: ["␣a"], predictions: [{ token: "␣b", top: [{ id: 3, token: "c" }] }],
  });
});
