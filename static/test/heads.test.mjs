// Figures over all heads, compared with plain loops.
import { Deriver } from "../src/heads/derived.ts";
import { tellingHead } from "../src/app/selection.ts";
import { haveCounterparts } from "../src/views/compare/changes.tsx";
import { isSought } from "../src/heads/figures.ts";
import { describeCell } from "../src/maps/readout.ts";
import { LONG, LONG_PAIRS_MOST, mayBeLong, overviewRequest, pairsRequest } from "../src/app/requests.ts";
import { countAbove, pairsFrom } from "../src/maps/pairs.ts";
import { countOf } from "../src/views/pairs/pairs.tsx";
import { blocksOf, windowAround, windowHead, withinPart } from "../src/views/head/parts.ts";
import { pinnedIn, pinOf, tokenAxisOf } from "../src/maps/axis.ts";
import { coarseMapsOf, extentOf, smallMapsOf } from "../src/heads/pooled.ts";
import { profilesOf } from "../src/heads/profiles.ts";
import { INITIAL } from "../src/app/state.ts";
import assert from "node:assert/strict";
import test from "node:test";
import { figuresAt, levelsOf, tokensOf } from "../src/heads/levels.ts";
import { kindsOf, labelOf, PATTERNS, profileOf, REACH, strengthOf } from "../src/heads/patterns.ts";
import { fromHalves, leaveOut, signedBytes, similarityOf } from "../src/heads/similarity.ts";
import { attentionBetween, rankHeads, similarityBetween, writeHalf } from "../src/heads/between.ts";
import { attentionChange, similarityChange } from "../src/heads/change.ts";
import { ARCS_MAX, attentionEnds, drawnEnds, LINE_LEAST, linesOf, pairEnds } from "../src/views/text/arcs.ts";
import { shadeOf, shadeOfBytes } from "../src/maps/shade.ts";
import { attentionRows, relationOf, rowsOf } from "../src/views/text/rows.ts";
import { orderRows } from "../src/views/overview/figures-table.tsx";
import { attentionInWords, similarityInWords } from "../src/views/overview/in-words.ts";

const close = (a, b, tolerance = 1e-6) => assert.ok(Math.abs(a - b) <= tolerance, `${a} is not near ${b}`);
let seed = 1;
const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;

test("halves of every kind", () => {
  assert.deepEqual(
    [...fromHalves(Uint16Array.of(0x3c00, 0xc000, 0x0000, 0x0001, 0x7bff, 0x3555))],
    [1, -2, 0, 2 ** -24, 65504, Math.fround(0.333251953125)],
  );
  assert.deepEqual([...fromHalves(Uint16Array.of(0x7c00, 0xfc00, 0x7e00))], [Infinity, -Infinity, NaN]);
});

test("similarities are those of the outputs, both signs kept", () => {
  const T = 5,
    d = 3;
  const O = Float32Array.from({ length: T * d }, () => random() - 0.5);
  const S = similarityOf(O, T);
  for (let i = 0; i < T; i++)
    for (let j = 0; j < T; j++) {
      let sum = 0;
      for (let k = 0; k < d; k++) sum += O[i * d + k] * O[j * d + k];
      close(S[i * T + j], i === j ? 0 : sum);
    }
  const bytes = signedBytes(S);
  const top = Math.max(...S.map(Math.abs));
  S.forEach((v, k) => close(bytes[k], (127 * v) / top, 0.5));
  assert.ok(bytes.some((b) => b < 0));
  leaveOut(S, T, [true, false, false, false, false]);
  assert.ok([0, 1, 2, 3, 4].every((t) => S[t] === 0 && S[t * T] === 0));
  assert.notEqual(S[1 * T + 2], 0);
  assert.equal(similarityOf(new Float32Array(0), 0).length, 0);
});

test("figures at every threshold are those of the pairs that reach it", () => {
  const T = 23;
  const ids = Array.from({ length: T }, () => Math.floor(random() * 6));
  const sentences = Array.from({ length: T }, (_, t) => Math.floor(t / 8));
  const S = new Float32Array(T * T);
  for (let i = 0; i < T; i++) for (let j = i + 1; j < T; j++) S[i * T + j] = S[j * T + i] = 3 * (random() - 0.3);
  const levels = levelsOf(S, T, tokensOf(ids, sentences));
  const m = Math.max(...S);
  for (const tau of [0.05, 0.3, 0.31, 0.77, 1]) {
    let count = 0,
      repeated = 0,
      within = 0,
      both = 0,
      distance = 0;
    const holds = new Map();
    for (let i = 0; i < T; i++)
      for (let j = i + 1; j < T; j++) {
        if (S[i * T + j] / m < tau) continue;
        count++;
        distance += j - i;
        repeated += ids[i] === ids[j];
        within += sentences[i] === sentences[j];
        both += ids[i] === ids[j] && sentences[i] === sentences[j];
        for (const id of new Set([ids[i], ids[j]])) holds.set(id, (holds.get(id) ?? 0) + 1);
      }
    const most = Math.max(...holds.values());
    const focal = ids.findIndex((id) => holds.get(id) === most);
    assert.deepEqual(figuresAt(levels, tau), {
      high_pairs: count,
      repeated_share: repeated / count,
      same_sentence_share: within / count,
      repeated_same_sentence_share: both / count,
      mean_distance: distance / count,
      focal_position: focal,
      focal_share: most / count,
    });
  }
  const none = figuresAt(levelsOf(new Float32Array(T * T), T, tokensOf(ids, sentences)), 0.3);
  assert.deepEqual([none.high_pairs, none.repeated_share, none.focal_position], [0, null, null]);
});

const encoding = {
  ids: [2, 7, 8, 7, 9, 3],
  tokens: ["[CLS]", "a", "b", "a", ".", "[SEP]"],
  types: [0, 0, 0, 0, 0, 0],
  special: [true, false, false, false, false, true],
  sentences: [0, 0, 0, 1, 1, 1],
};

test("a profile's shares are sums over what each query attends to", () => {
  const T = 6;
  const map = new Uint8Array(T * T); // rows of bytes that sum to 255
  for (let i = 0; i < T; i++) {
    const row = map.subarray(i * T, (i + 1) * T);
    for (let j = 0; j < T - 1; j++) row[j] = 1 + Math.floor(40 * Math.abs(random()));
    row[T - 1] = 255 - row.reduce((a, b) => a + b);
  }
  const A = Array.from(map, (v) => v / 255);
  const profile = profileOf(map, T, kindsOf(encoding));
  const share = (picks) => {
    let sum = 0;
    for (let i = 0; i < T; i++) for (let j = 0; j < T; j++) if (picks(i, j)) sum += A[i * T + j];
    return sum / T;
  };
  const { ids, special, sentences } = encoding;
  const plain = (i, j) => !special[i] && !special[j];
  close(profile.shares.previous, share((i, j) => j === i - 1));
  close(profile.shares.next, share((i, j) => j === i + 1));
  close(profile.shares.self, share((i, j) => j === i));
  close(profile.shares.nearby, share((i, j) => j !== i && Math.abs(i - j) <= 3));
  close(profile.shares.first, share((_, j) => j === 0));
  close(profile.shares.separator, share((_, j) => j === 5));
  close(profile.shares.punctuation, share((_, j) => j === 4));
  close(profile.shares.repeated, share((i, j) => i !== j && plain(i, j) && ids[i] === ids[j]));
  close(profile.shares.sentence, share((i, j) => plain(i, j) && sentences[i] === sentences[j]));
  close(profile.chance.repeated, 2 / 36);
  close(profile.chance.sentence, 8 / 36);
  let entropy = 0;
  for (const a of A) entropy -= a * Math.log(a);
  close(profile.evenness, entropy / (T * Math.log(T)));
  close(profile.offsets[REACH - 2], (share((i, j) => j === i - 2) * T) / (T - 2));
  assert.ok(Number.isNaN(profile.offsets[0]));
});

test("a causal head's profile counts only what its tokens can see", () => {
  const T = 400; // an even spread over the tokens so far rounds to 0 in later rows
  const causal = { ...kindsOf({ ...encoding, causal: true }), causal: true };
  assert.equal(causal.first, 0);
  const kinds = { first: 0, separator: Array(T).fill(false), punctuation: Array(T).fill(false), repeated: Array(T).fill(-1), sentence: Array(T).fill(0), causal: true };
  const map = Uint8Array.from({ length: T * T }, (_, k) => (k % T <= Math.floor(k / T) ? Math.round(255 / (Math.floor(k / T) + 1)) : 0));
  const even = profileOf(map, T, kinds);
  assert.ok(Math.abs(even.evenness - 1) < 0.01, `${even.evenness}`);
  assert.equal(even.shares.next, 0);
  assert.equal(labelOf(even), "broad");
  close(even.chance.sentence, 1);
  close(even.shares.sentence, 1, 1e-9);
});

test("what bytes lost by rounding is spread over the cells that lost it", () => {
  const T = 600; // 1/600 of 255 rounds to 0 everywhere
  const kinds = { first: -1, separator: Array(T).fill(false), punctuation: Array(T).fill(false), repeated: Array(T).fill(-1), sentence: Array(T).fill(0) };
  const even = profileOf(new Uint8Array(T * T), T, kinds);
  close(even.evenness, 1, 1e-9);
  close(even.shares.self, 1 / T, 1e-9);
  assert.equal(labelOf(even), "broad");
});

test("labels: the strongest pattern over its threshold, none otherwise", () => {
  const shares = Object.fromEntries(PATTERNS.filter((p) => p !== "broad").map((p) => [p, 0]));
  const profile = (some, more = {}) => ({
    shares: { ...shares, ...some },
    evenness: 0.4,
    chance: { sentence: 0.3, repeated: 0.02, nearby: 0.06 },
    ...more,
  });
  assert.equal(labelOf(profile({ previous: 0.88 })), "previous");
  assert.equal(labelOf(profile({ next: 0.51, separator: 0.2 })), "next");
  assert.equal(labelOf(profile({ separator: 0.59 })), null);
  assert.equal(labelOf(profile({ separator: 0.61 })), "separator");
  assert.equal(labelOf(profile({ sentence: 0.7 })), "sentence");
  assert.equal(labelOf(profile({ sentence: 0.7 }, { chance: { sentence: 0.5, repeated: 0 } })), null);
  assert.equal(labelOf(profile({ repeated: 0.6, sentence: 0.9 })), "repeated");
  assert.equal(labelOf(profile({}, { evenness: 0.9 })), "broad");
  assert.equal(labelOf(profile({ nearby: 0.7, sentence: 0.8 })), "nearby");
  assert.equal(labelOf(profile({ nearby: 0.7 }, { chance: { sentence: 0, repeated: 0, nearby: 0.5 } })), null); // a short text
  assert.equal(strengthOf(profile({ next: 0.3 }), "next"), 0.3);
  assert.equal(strengthOf(profile({}), "broad"), 0.4);
});

test("the figures' table: few pairs come last in either direction", () => {
  const row = (head, high_pairs, repeated_share) => ({ l: 0, head, summary: { high_pairs, repeated_share } });
  const rows = [row(0, 3, 1), row(1, 50, 0.2), row(2, 40, 0.4), row(3, 0, null)];
  const order = (column, least) => orderRows(rows, column, least).map(({ head }) => head);
  assert.deepEqual(order("-repeated_share", 10), [2, 1, 0, 3]);
  assert.deepEqual(order("repeated_share", 10), [1, 2, 0, 3]);
  assert.deepEqual(order("-repeated_share", 1), [0, 2, 1, 3]);
  assert.deepEqual(order("-high_pairs", 10), [1, 2, 0, 3]);
  assert.deepEqual(order("-head", 10), [3, 2, 1, 0]);
});

test("attention from half precision is written with the digits that it has", () => {
  const halves = fromHalves(Uint16Array.of(0x0000, 0x0001, 0x0007, 0x0156, 0x3555)); // 4.05e-13 is the first
  assert.deepEqual([...halves].map(writeHalf), ["< 1e−7", "< 1e−7", "≈ 4e−7", "≈ 2e−5", "0.333"]);
});

test("the pointer says S 0 on the diagonal, as picture and table do, and names the output's own square", () => {
  const axis = { n: 2, labels: ["a", "b"], positions: [0, 1], keys: ["a", "b"], sentences: [0, 0] };
  const head = {
    axis, columns: axis, attention: [1, 0, 0.5, 0.5], weighted: null, similarity: [0, 2, 2, 0], normalized: [0, 1, 1, 0], own: [3, 4],
  };
  assert.match(describeCell(head, [1, 1]), / {3}S 0 \(diagonal\) {3}‖O‖² 4\.00$/);
  assert.match(describeCell({ ...head, own: null }, [1, 1]), / {3}S 0 \(diagonal\)$/);
  assert.match(describeCell(head, [1, 0]), / {3}S 2\.00 {3}N 1\.00 /);
});

test("what a head has between two words is over their pieces", () => {
  const A = Uint16Array.from([0, 0, 0x3800, 0x3c00, 0, 0, 0x3800, 0x3c00, 0, 0, 0, 0, 0x3400, 0, 0, 0]); // halves
  close(attentionBetween(A, 4, [0, 1], [2, 3]), 1.5);
  close(attentionBetween(A, 4, [3], [0]), 0.25);
  const O = Float32Array.from({ length: 12 }, () => random() - 0.5);
  const dot = (i, j) => [0, 1, 2].reduce((sum, k) => sum + O[i * 3 + k] * O[j * 3 + k], 0);
  close(similarityBetween(O, 4, [0, 1], [2]), (dot(0, 2) + dot(1, 2)) / 2);
  assert.deepEqual(
    rankHeads([
      [0.1, null],
      [0.4, -1],
    ]).map(({ l, h }) => [l, h]),
    [
      [1, 0],
      [0, 0],
      [1, 1],
    ],
  );
});

test("how far a head moved is the norm of the difference over the norm", () => {
  const [T, U, d, e] = [6, 5, 3, 2];
  const O = Float32Array.from({ length: T * d }, () => random() - 0.5);
  const P = Float32Array.from({ length: U * e }, () => random() - 0.5);
  const rows = [
    [0, 2, 3, 5],
    [0, 1, 3, 4],
  ];
  const S = similarityOf(O, T),
    R = similarityOf(P, U);
  const over = (f) => rows[0].reduce((sum, _, n) => rows[0].reduce((inner, _, m) => inner + f(n, m), sum), 0);
  const at = (map, size, list) => (n, m) => map[list[n] * size + list[m]];
  const [first, second] = [at(S, T, rows[0]), at(R, U, rows[1])];
  const expected = Math.sqrt(over((n, m) => (first(n, m) - second(n, m)) ** 2) / over((n, m) => first(n, m) ** 2));
  close(similarityChange(O, P, [T, U], rows), expected, 1e-5);
  close(similarityChange(O, O, [T, T], [rows[0], rows[0]]), 0, 1e-6);
  assert.equal(similarityChange(new Float32Array(6), O, [2, T], [[0], [0]]), null);
  const [A, B] = [T, U].map((n) => Float32Array.from({ length: n * n }, () => random()));
  const [p, q] = [at(A, T, rows[0]), at(B, U, rows[1])];
  close(
    attentionChange(A, B, [T, U], rows),
    Math.sqrt(over((n, m) => (p(n, m) - q(n, m)) ** 2) / over((n, m) => p(n, m) ** 2)),
  );
});

test("lines: attention worth one, from or to the chosen, each head with its share of the width", () => {
  const axis = { n: 3 };
  const A = Float32Array.of(0.9, 0.05, 0.05, 0.2, 0.3, 0.5, 0.6, 0.4, 0);
  const ends = (chosen, relation) => attentionEnds(attentionRows(axis, A), 2, new Set(chosen), relation).strongest.map(({ i, j }) => [i, j]);
  assert.deepEqual(ends([], "to"), [[2, 0], [1, 2], [2, 1], [1, 0]]);
  assert.deepEqual(ends([1], "to"), [[1, 2], [1, 0]]);
  assert.deepEqual(ends([1], "from"), [[2, 1]]);
  const many = (lane, count, value) => Array.from({ length: count }, (_, n) => ({ i: n, j: 0, value, lane }));
  const drawn = drawnEnds([many(0, 400, 0.9), many(1, 10, 0.2), many(2, 400, 0.5)]);
  const of = (lane) => drawn.filter((end) => end.lane === lane).length;
  assert.equal(drawn.length, ARCS_MAX);
  assert.equal(of(1), 10);
  assert.equal(of(2), ARCS_MAX / 3);
  assert.equal(drawnEnds([many(0, 3, 0.5)]).length, 3);
});

// The same array, and how many of its elements were read.
function counted(array) {
  const reads = { count: 0 };
  const get = (of, key) => {
    if (/^\d+$/.test(String(key))) reads.count++;
    return Reflect.get(of, key);
  };
  return [new Proxy(array, { get }), reads];
}

test("lines of a token read its rows and columns; those of all tokens read the map once", () => {
  const n = 40;
  const values = Float32Array.from({ length: n * n }, () => Math.round(10 * random()) / 20); // many are equal
  const [attention, reads] = counted(values);
  const all = [...values.keys()].map((k) => ({ i: Math.floor(k / n), j: k % n, value: values[k], lane: 1 }));
  const worth = all.filter(({ i, j, value }) => i !== j && value >= LINE_LEAST).sort((a, b) => b.value - a.value);
  for (const [chosen, relation, isExpected, most] of [
    [[3], "to", ({ i }) => i === 3, n],
    [[9, 3], "from", ({ j }) => j === 3 || j === 9, 2 * n],
    [[5], "either", ({ i, j }) => i === 5 || j === 5, 2 * n],
    [[], "to", () => true, n * n],
    [[], "from", () => true, 0],
  ]) {
    reads.count = 0;
    const { count, strongest } = attentionEnds(attentionRows({ n }, attention), 1, new Set(chosen), relation);
    const expected = worth.filter(isExpected);
    assert.ok(reads.count <= most, `${reads.count} reads, relation ${relation}`);
    assert.equal(count, expected.length);
    const ends = relation === "either" ? expected.map(({ i, j, ...end }) => ({ i: Math.min(i, j), j: Math.max(i, j), ...end })) : expected;
    assert.deepEqual(strongest, ends.slice(0, ARCS_MAX));
  }
});

test("pairs of chosen tokens are read from their rows, in the order of all pairs", () => {
  const n = 40;
  const values = new Float32Array(n * n);
  for (let i = 0; i < n; i++)
    for (let j = i + 1; j < n; j++) values[i * n + j] = values[j * n + i] = Math.round(20 * random()) / 10 - 1;
  const [normalized, reads] = counted(values);
  const whole = { axis: { n }, normalized: values };
  const every = [];
  for (let i = 0; i < n; i++) for (let j = i + 1; j < n; j++) every.push({ i, j, value: values[i * n + j], lane: 0 });
  for (const threshold of [0, 0.3])
    for (const chosen of [[], [7], [30, 7, 2]]) {
      const is = (t) => !chosen.length || chosen.includes(t);
      const expected = every
        .filter(({ i, j, value }) => value > 0 && value >= Math.fround(threshold) && (is(i) || is(j)))
        .sort((a, b) => b.value - a.value);
      reads.count = 0;
      const { count, strongest } = pairEnds(rowsOf(chosen.length ? { axis: { n }, normalized } : whole), threshold, new Set(chosen));
      assert.ok(reads.count <= n * chosen.length);
      assert.equal(count, expected.length);
      assert.deepEqual(strongest, expected.slice(0, ARCS_MAX));
    }
});

test("bytes have the colours of their numbers", () => {
  const colours = { map: "ink", theme: "light" };
  for (const [bytes, quantity, unit] of [
    [Uint8Array.from({ length: 256 }, (_, k) => k), "attention", 255],
    [Uint8Array.of(0, 3, 9, 0), "attention", 255],
    [Int8Array.from({ length: 254 }, (_, k) => k - 126), "similarity", 127],
    [Int8Array.of(0, 5, 127, 127), "similarity", 127],
    [Int8Array.of(0, 0, 0, 0), "similarity", 127],
  ]) {
    const shade = shadeOf(Float32Array.from(bytes, (v) => v / unit), 2, quantity, { ...colours, scale: "root" });
    assert.deepEqual(shadeOfBytes(bytes, quantity, colours), shade);
  }
});

test("heads of two models have counterparts if layers and heads are as many", () => {
  const shape = (layers, heads) => ({ layers: Array(layers).fill(0), heads: Array(heads).fill(0) });
  assert.equal(haveCounterparts(shape(12, 12), shape(12, 12)), true);
  assert.equal(haveCounterparts(shape(12, 12), shape(6, 12)), false);
  assert.equal(haveCounterparts(shape(12, 12), shape(12, 8)), false);
});

test("the most telling head has the largest d′ of those with enough high pairs", () => {
  const head = (snr_dprime, high_pairs) => ({ snr_dprime, high_pairs });
  assert.deepEqual(tellingHead([[head(9, 3), head(1, 50)], [head(2, 50), head(null, 99)]]), { layer: 1, head: 0 });
  assert.deepEqual(tellingHead([[head(1, 3), head(9, 3)]]), { layer: 0, head: 1 }); // all have few
  assert.equal(tellingHead([[head(null, 3)]]), null);
});

test("the cache counts the maps that are derived from an answer", () => {
  const posted = [];
  globalThis.Worker = class {
    postMessage(order) {
      posted.push(order);
    }
  };
  const deriver = new Deriver(() => {});
  const encoding = { ids: [1, 2], sentences: [0, 0], special: [false, false] };
  const overview = { encoding, layers: [0], heads: [0], headOutputs: new Uint16Array(4), profiles: {}, bytes: 100 };
  deriver.similarities(overview, true, [0], true);
  deriver.worker.onmessage({ data: { kind: "similarity", key: posted[0].key, heads: [new Int8Array(4)], small: [] } });
  assert.equal(overview.bytes, 104);
});

test("the worker is given one head's outputs and map, and its head comes back", () => {
  const posted = [];
  globalThis.Worker = class {
    postMessage(order) {
      posted.push(order);
    }
  };
  const deriver = new Deriver(() => {});
  const encoding = { ids: [1, 2], sentences: [0, 0], special: [false, false] };
  const headOutputs = Uint16Array.from({ length: 2 * 3 * 2 * 4 }, (_, k) => k); // 2 layers, 3 heads, 2 tokens, 4 wide
  const overview = { encoding, source: null, centred: true, layers: [0, 1], heads: [0, 1, 2], headOutputs, profiles: {} };
  const maps = Uint8Array.of(0, 0, 0, 0, 1, 2, 3, 4);
  const made = [];
  const single = { attention: maps.subarray(4), lens: { special: true, words: false }, side: 8, tokens: [0, 1], columns: [0, 1] };
  deriver.head(overview, 1, 2, single, (one) => made.push(one));
  const [{ kind, key, attention, of }] = posted;
  assert.equal(kind, "head");
  assert.deepEqual([...of.headOutputs], [40, 41, 42, 43, 44, 45, 46, 47]);
  assert.equal(of.headOutputs.buffer.byteLength, 16); // no part of a larger array, which would go along
  assert.equal(attention.buffer.byteLength, 4);
  assert.deepEqual([...attention], [1, 2, 3, 4]);
  deriver.worker.onmessage({ data: { kind: "head", key, made: "it" } });
  deriver.worker.onmessage({ data: { kind: "head", key, made: "again" } });
  assert.deepEqual(made, ["it"]);
});

test("a search finds heads by place, by words of their pattern, and those without one as mixed", () => {
  assert.ok(isSought(7, 5, "previous", "7·5"));
  assert.ok(isSought(7, 5, "previous", "token before"));
  assert.ok(isSought(7, 5, "", "mixed"));
  assert.ok(isSought(7, 5, "", "Mixed layer"));
  assert.ok(!isSought(7, 5, "previous", "mixed"));
  assert.ok(!isSought(7, 5, "", "previous"));
});

test("a line of text is as wide as its tokens, in both directions", () => {
  const box = (left, right, bottom) => ({ left, right, top: bottom - 10, bottom });
  assert.deepEqual(linesOf([box(50, 60, 20), box(30, 50, 20), box(40, 60, 60)]), [box(30, 60, 20), box(40, 60, 60)]);
});

test("a long text's overview asks for pooled maps, and only characters make a text long", () => {
  const state = { ...INITIAL, text: "a ".repeat(LONG), max: 0 };
  assert.ok(mayBeLong(state));
  assert.ok(!mayBeLong({ ...state, max: LONG }));
  assert.ok(!mayBeLong(state, LONG)); // the model's limit
  assert.ok(!mayBeLong({ ...state, text: "a".repeat(LONG) }));
  assert.deepEqual(overviewRequest(state, 0.3, LONG), overviewRequest(state, 0.3));
  assert.equal(overviewRequest(state, 0.3, 8192).pool, 64);
  assert.equal(overviewRequest(state, 0.3, LONG + 1).pool, 5);
});

test("coarse attention comes with the figures of more than 128 tokens, unless special tokens are hidden", () => {
  const state = { ...INITIAL, text: "a ".repeat(LONG), max: LONG };
  const poolOf = (patch, tokens) => {
    const { outputs, pool } = overviewRequest({ ...state, ...patch }, 0.3, tokens);
    assert.equal(outputs.includes("max_pooled_attentions"), pool !== undefined);
    return pool;
  };
  assert.deepEqual([poolOf({}), poolOf({ text: "a".repeat(200) }), poolOf({ max: 8192 }, 250)], [4, 2, 2]);
  for (const patch of [{ max: 0 }, { text: "a" }, { special: false }, { interventions: [] }])
    assert.equal(poolOf(patch), undefined);
});

test("pairs of a long text are those that the service found, by the threshold", () => {
  const f4 = (...values) => Float32Array.from(values);
  const found = { i: Int32Array.of(0, 3), j: Int32Array.of(8000, 5), similarity: f4(4, 2), normalized: f4(1, 0.5) };
  const pairs = pairsFrom(found);
  assert.deepEqual([...pairs.j], [8000, 5]);
  assert.equal(countAbove(pairs, 0.6), 1);
  assert.equal(countOf(1, 2, 2, true), "1 of 2 high pairs");
  assert.equal(countOf(9, LONG_PAIRS_MOST, LONG_PAIRS_MOST, true), "9 of the 100,000 strongest pairs");
  assert.equal(pairsRequest({ ...INITIAL, text: "a" }, 1, 2).max_pairs, LONG_PAIRS_MOST);
});

// Two sentences of three tokens between special ones; tokens 4 and 5 are one word.
const EIGHT = {
  ids: [2, 10, 11, 12, 10, 14, 12, 3],
  tokens: ["[CLS]", "a", "b", ".", "a", "##d", ".", "[SEP]"],
  types: new Array(8).fill(0),
  special: [true, ...new Array(6).fill(false), true],
  offsets: [...Array(8).keys()].map((t) => [t, t + 1]),
  sentences: [0, 0, 0, 0, 1, 1, 1, 1],
  words: [null, 0, 1, 2, 3, 3, 4, null],
  causal: false,
  generated: [],
};

test("two tokens have a cell in pooled maps, and in the window that holds both", () => {
  const blocks = blocksOf(tokenAxisOf(EIGHT), 3);
  assert.deepEqual(blocks.labels, ["[CLS] 0", ". 3", ". 6"]);
  assert.deepEqual(blocks.groups.at(-1), [6, 7]);
  const pooled = { axis: blocks, columns: blocks, part: "pooled", attention: Float32Array.of(0, 0, 0, 0, 0, 0.5), similarity: new Float32Array(9) };
  assert.deepEqual(pinnedIn(pooled, { pin: [5, 7] }), [1, 2]);
  assert.deepEqual(pinOf(pooled, [1, 2]), [3, 6]);
  assert.equal(describeCell(pooled, [1, 2]), "3–5 → 6–7   A 0.500   S 0");
  assert.deepEqual(windowAround([2090, 300], 2100), [[1972, 2100], [256, 384]]);
  assert.deepEqual(windowAround([2100, 0], 2100), windowAround([], 2100));
});

test("a window has the values of its cells, by the tokens of its rows and columns", () => {
  const cells = (value) => Float32Array.from({ length: 12 }, (_, k) => value(2 + Math.floor(k / 4), 4 + (k % 4)));
  const parts = { attention: cells((i, j) => i / 10 + j / 100), similarity: cells((i, j) => (i === j ? 0 : i * j)) };
  const window = (lens, m = 50) => windowHead({ encoding: EIGHT, parts }, [[2, 5], [4, 8]], lens, m);
  const all = window({ special: true, words: false });
  assert.equal(describeCell(all, [0, 0]), "b 2 → a 4   A 0.240   S 8.00   N 0.160   distance 2   other sentence");
  assert.equal(describeCell(all, [2, 0]), "a 4 → a 4   A 0.440   S 0 (diagonal)");
  assert.match(describeCell(all, [2, 1]), /^a 4 → ##d 5 {3}A 0\.450 {3}S 20\.0 {3}N 0\.400 {3}distance 1 {3}same sentence$/);
  assert.deepEqual(pinnedIn(all, { pin: [3, 7] }), [1, 3]);
  assert.equal(pinnedIn(all, { pin: [5, 7] }), null);
  // Special tokens are hidden, and words merged, as in whole maps: here the window cuts the word of 4 and 5 in its rows.
  const words = window({ special: false, words: true });
  assert.deepEqual([words.axis.labels, words.columns.labels], [["b", "."], ["ad", "."]]);
  assert.equal(describeCell(words, [0, 0]), "b 1 → ad 3   A 0.490   S 9.00   N –   distance 2   other sentence");
  // No similarity is positive, or the largest is not known.
  assert.equal(window({ special: true, words: false }, -1).normalized[0], 0);
  assert.ok(window({ special: true, words: false }, NaN).normalized.every(Number.isNaN));
});

test("what needs whole maps is not shown of a part", () => {
  const state = { ...INITIAL, overlay: "regions", weigh: true, space: "residual", diag: "off", lines: true };
  assert.equal(withinPart(state, undefined), state);
  const { overlay, weigh, space, diag, lines } = withinPart(state, "window");
  assert.deepEqual([overlay, weigh, space, diag, lines], ["none", false, "head", "off", true]);
  assert.equal(withinPart({ ...state, overlay: "pairs" }, "window").overlay, "pairs");
  const pooled = withinPart({ ...state, overlay: "pairs" }, "pooled");
  assert.deepEqual([pooled.overlay, pooled.diag, pooled.lines], ["none", "paper", false]);
});

test("pooled maps become the bytes of whole ones, by layer and head, and profiles those of the service", () => {
  const [one, half, minus] = [0x3c00, 0x3800, 0xb800];
  const overview = {
    layers: [0],
    heads: [0, 1],
    encoding: { ids: [1, 2, 3, 4], tokens: ["[CLS]", "a", "b", "c"], special: [true, false, false, false], sentences: [0, 0, 0, 0] },
    profiles: { previous: [0.5, 0.25], entropy: [Math.log(4), 0], offsets: [...Array(34).keys()] },
    parts: { attention: null },
    pooled: {
      side: 2,
      attention: Uint16Array.of(0, one, half, 0, one, one, 0, 0),
      similarity: Uint16Array.of(0, half, half, minus, 0, one, one, 0),
    },
  };
  const small = smallMapsOf(overview);
  assert.deepEqual(small.attention(0).map((map) => [...map]), [[0, 255, 128, 0], [255, 255, 0, 0]]); // prettier-ignore
  assert.deepEqual(small.similarity(0).map((map) => [...map]), [[0, 127, 127, -127], [0, 127, 127, 0]]); // prettier-ignore
  assert.deepEqual(extentOf(overview, false), { T: 2, tokens: [0, 1], columns: [0, 1] });
  const [first, second] = profilesOf(overview);
  assert.deepEqual([first.shares.previous, second.shares.previous], [0.5, 0.25]);
  assert.deepEqual([first.evenness, second.evenness, second.offsets[0]], [1, 0, 17]);
  assert.equal(smallMapsOf({ pooled: null }), null);
  const { pooled: coarse, ...before } = overview;
  assert.deepEqual(coarseMapsOf({ ...before, coarse }).attention(0), small.attention(0));
  assert.equal(coarseMapsOf({ ...before, coarse: null }), null);
  assert.deepEqual(profilesOf({ profiles: {}, layers: [0], heads: [0], encoding: { ids: [] } }), []);
});

for (const causal of [false, true])
  test(`a profile of the service's figures is that of the map${causal ? ", of a causal model" : ""}`, () => {
    const T = 12;
    const special = Array.from({ length: T }, (_, t) => !causal && (t === 0 || t === T - 1));
    const encoding = {
      ids: [1, 5, 6, 5, 2, 7, 6, 5, 8, 2, 9, 3],
      tokens: [..."cabab.bad.xs"],
      special,
      sentences: [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2],
      causal,
    };
    // Bytes of a row that sum to 255 are its attention exactly.
    const map = new Uint8Array(T * T);
    for (let i = 0; i < T; i++) {
      const end = causal ? i + 1 : T;
      const step = Math.floor(255 / end);
      for (let j = 0; j < end; j++) map[i * T + j] = step;
      map[i * T + ((i * 7) % end)] += 255 - step * end;
    }
    const at = (i, j) => map[i * T + j] / 255;
    const cells = Array.from({ length: T * T }, (_, k) => [Math.floor(k / T), k % T]);
    const shareOf = (is) => cells.filter(([i, j]) => is(i, j)).reduce((sum, [i, j]) => sum + at(i, j), 0) / T;
    const of = {
      self: shareOf((i, j) => i === j),
      previous: shareOf((i, j) => j === i - 1),
      next: shareOf((i, j) => j === i + 1),
      first: shareOf((_, j) => special[j] && j === 0),
      separator: shareOf((_, j) => special[j] && j > 0),
      punctuation: shareOf((_, j) => encoding.tokens[j] === "."),
      same_token: shareOf((i, j) => i !== j && encoding.ids[i] === encoding.ids[j]),
      same_sentence: shareOf((i, j) => !special[i] && !special[j] && encoding.sentences[i] === encoding.sentences[j]),
      entropy: cells.reduce((sum, [i, j]) => sum - (at(i, j) && at(i, j) * Math.log(at(i, j))), 0) / T,
    };
    const offsets = Array.from({ length: 17 }, (_, k) => (shareOf((i, j) => j - i === k - 8) * T) / Math.max(1, T - Math.abs(k - 8)));
    const column = causal ? Float32Array.from({ length: T }, (_, i) => at(i, 0)) : null;
    const listed = Object.fromEntries(Object.entries({ ...of, offsets }).map(([name, v]) => [name, [v].flat()]));
    const answer = { layers: [0], heads: [0], encoding, profiles: listed, parts: { attention: column } };
    const [found] = profilesOf(answer);
    const expected = profileOf(map, T, kindsOf(encoding));
    for (const part of ["shares", "chance"])
      for (const [name, value] of Object.entries(expected[part])) assert.ok(Math.abs(found[part][name] - value) < 1e-6, `${name} ${found[part][name]} ${value}`);
    assert.ok(Math.abs(found.evenness - expected.evenness) < 1e-6);
    assert.ok(expected.shares.sentence > 0.1 && expected.shares.repeated > 0.01 && expected.shares.first > 0.05);
  });

test("relations are means over the chosen tokens, made once", () => {
  const n = 7;
  const [attention, normalized] = [0, 0].map(() => Float32Array.from({ length: n * n }, random));
  const head = { axis: { n, types: Array(n).fill(0) }, attention, normalized };
  for (const chosen of [[], [2], [0, 5, 6]])
    for (const [relation, cell] of [
      ["to", (t, u) => attention[t * n + u]],
      ["from", (t, u) => attention[u * n + t]],
      ["similar", (t, u) => normalized[t * n + u]],
    ]) {
      const of = chosen.length ? chosen : [...Array(n).keys()];
      const found = relationOf(rowsOf(head), chosen, relation);
      found.forEach((value, u) => close(value, of.reduce((sum, t) => sum + cell(t, u), 0) / of.length));
      assert.equal(relationOf(rowsOf(head), [...chosen], relation), found);
    }
  for (let t = 0; t < 40; t++) relationOf(rowsOf(head), [t % n, t], "to");
  assert.equal(relationOf(rowsOf(head), [2], "to").length, n);
});

// Ordinary tokens of two sentences between two special ones, for the card beside the grid.
function cardOf(within, between) {
  const labels = ["[CLS]", "a", "b", "c", "d", "[SEP]"];
  const n = labels.length;
  const sentences = [0, 0, 0, 1, 1, 1];
  const axis = { n, labels, sentences, special: labels.map((label) => label.startsWith("[")) };
  const similarity = Float32Array.from({ length: n * n }, (_, k) => {
    const [i, j] = [Math.floor(k / n), k % n];
    if (i === j || axis.special[i] || axis.special[j]) return 9; // special tokens count nowhere
    return sentences[i] === sentences[j] ? within : between;
  });
  const attention = new Float32Array(n * n);
  for (let i = 0; i < n; i++) attention[i * n + Math.max(0, i - 1)] = 1;
  return { axis, columns: axis, similarity, attention };
}

test("the sentences about a head's similarity follow the signs of its means", () => {
  assert.match(similarityInWords(cardOf(1, -1), true), /one sentence as alike \(orange\), .*different sentences as opposites \(violet\)/);
  assert.equal(similarityInWords(cardOf(1, -1), false).includes("("), false); // other colours on screen
  assert.match(similarityInWords(cardOf(1, 0), true), /^It treats tokens of one sentence as alike \(orange\)\.$/);
  assert.match(similarityInWords(cardOf(1, 1), true), /^It treats nearly all tokens as alike/);
  assert.match(similarityInWords(cardOf(-1, 1), true), /^The tokens that it treats as most alike are a and c\.$/);
  assert.match(similarityInWords(cardOf(-1, -1), true), /^It treats no two tokens as alike\.$/);
});

test("the sentence about a head's attention names its pattern with its share, or the strongest tokens", () => {
  const head = cardOf(1, 0);
  const shares = Object.fromEntries(PATTERNS.map((name) => [name, 0]));
  const chance = { sentence: 0.5, repeated: 0, nearby: 1 };
  const profile = (more) => ({ profile: { shares: { ...shares, ...more }, evenness: 0.2, chance, offsets: [] } });
  assert.match(attentionInWords(profile({ previous: 0.79 }), head), /^Each token looks at the one before it: 79\s%\sof its attention\.$/);
  assert.match(attentionInWords(profile({ first: 0.9 }), head), /^Tokens look at the first token: 90\s%\sof its attention \(\[CLS\] 33\s%, /);
  assert.match(attentionInWords(profile({}), head), /^Its attention goes to \[CLS\] 33\s%, a 17\s%, b 17\s%\.$/);
  assert.match(attentionInWords(undefined, head), /^Its attention goes to/); // cross heads have no profile
  const broad = { profile: { ...profile({}).profile, evenness: 0.99 } };
  assert.match(attentionInWords(broad, head), /^Attention is spread over nearly all tokens: /);
  const near = { profile: { ...profile({ nearby: 0.9 }).profile, chance: { ...chance, nearby: 0.2 } } };
  assert.match(attentionInWords(near, head), /^Each token looks at those around it: 90/);
  const causal = { ...head, axis: { ...head.axis, causal: true } };
  assert.match(attentionInWords(broad, causal), /^Attention is spread over nearly all earlier tokens: /);
  assert.match(attentionInWords(near, causal), /^Each token looks at those just before it: 90/);
});
