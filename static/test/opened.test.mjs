// Files of other programs: what numpy and safetensors write is read, and whatever else the bytes are is refused in words.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { Uint8ArrayWriter, ZipWriter } from "@zip.js/zip.js/lib/zip-core-custom.js";
import { fromHalves, centre, similarityOf, toHalves } from "../src/heads/similarity.ts";
import { answerOf } from "../src/opened/file-answers.ts";
import { FileError, readFileArrays } from "../src/opened/file-arrays.ts";
import { headOf } from "../src/maps/axis.ts";
import { openedFile } from "../src/opened/opened-file.ts";
import { npzOf } from "../src/saving/npz.ts";

const folder = mkdtempSync(join(tmpdir(), "headscope-arrays-"));
execFileSync(process.env.PYTHON ?? "python3", ["e2e/arrays.py", folder], { stdio: "inherit" });
const bytesOf = (name) => new Uint8Array(readFileSync(join(folder, name)));
const opened = (name) => openedFile(name, new Blob([bytesOf(name)]));
const signal = new AbortController().signal;
const ask = (file, request) => answerOf(file, { text: file.text, ...request }, signal);

test("what numpy.savez writes is a text with maps, tokens, words and sentences", async () => {
  const file = await opened("other.npz");
  assert.deepEqual([file.layers, file.heads, file.width], [3, 4, 8]);
  const { tokens, special, words, sentences, ids, causal, offsets } = file.encoding;
  assert.deepEqual(tokens.slice(0, 3), ["[CLS]", "The", "cat"]);
  assert.equal(file.text, "The cat sat . The cat rans .");
  assert.deepEqual(special.map(Number), [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
  assert.deepEqual(words, [null, 0, 1, 2, 3, 4, 5, 6, 6, 7, null]);
  assert.deepEqual(sentences, [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]);
  assert.deepEqual(ids, [0, 1, 2, 3, 4, 1, 2, 7, 8, 4, 10]);
  assert.deepEqual(offsets[2], [4, 7]);
  assert.equal(causal, false);
});

test("packed half precision reads as the same maps, and a file without tokens or outputs says so", async () => {
  const [file, packed, nameless] = await Promise.all(["other.npz", "packed.npz", "nameless.npz"].map(opened));
  file.attention(2, 3).forEach((v, k) => assert.ok(Math.abs(v - packed.attention(2, 3)[k]) < 1e-3));
  assert.match(packed.notes[0], /No similarities/);
  assert.match(nameless.notes.join(), /No tokens/);
  assert.deepEqual(nameless.encoding.tokens, ["0", "1", "2", "3", "4"]);
  assert.equal(nameless.encoding.causal, true);
});

test("answers are the file's numbers: maps, O·O′, centred, summed, averaged, in bytes and halves", async () => {
  const file = await opened("other.npz");
  const T = file.encoding.ids.length;
  const exact = await ask(file, { layers: [1], heads: [2], outputs: ["attentions", "similarities", "head_outputs"] });
  assert.deepEqual(exact.attentions, file.attention(1, 2));
  assert.deepEqual(exact.similarities, similarityOf(file.outputs(1, 2), T));
  const O = file.outputs(1, 2);
  const mean = Array.from({ length: 8 }, (_, k) => O.reduce((sum, v, n) => sum + (n % 8 === k ? v / T : 0), 0));
  const own = (i, j) => mean.reduce((sum, m, k) => sum + (O[i * 8 + k] - m) * (O[j * 8 + k] - m), 0);
  const centred = await ask(file, { layers: [1], heads: [2], outputs: ["similarities"], center: "text" });
  for (const [i, j] of [
    [0, 1],
    [3, 9],
    [10, 2],
  ])
    assert.ok(Math.abs(centred.similarities[i * T + j] - own(i, j)) < 1e-4);
  const sum = await ask(file, { layers: [0], heads: "all", outputs: ["attentions"], reduce: "sum" });
  assert.ok(Math.abs(sum.attentions[5] - [0, 1, 2, 3].reduce((s, h) => s + file.attention(0, h)[5], 0)) < 1e-6);
  const bytes = await ask(file, { layers: [2], heads: "all", outputs: ["attentions"], dtype: "u1" });
  assert.equal(bytes.attentions[3 * T * T + 7], Math.round(255 * file.attention(2, 3)[7]));
  const halves = await ask(file, { layers: "all", heads: "all", outputs: ["head_outputs", "summary"], dtype: "f2" });
  const half = fromHalves(halves.headOutputs)[8 * T * 8 - 1];
  assert.ok(Math.abs(half - file.outputs(1, 3)[T * 8 - 1]) < 4e-3);
  const { attention_entropy, high_pairs, separator_attention } = halves.summary[1][2];
  const A = file.attention(1, 2);
  assert.ok(Math.abs(attention_entropy + A.reduce((s, v) => s + v * Math.log(v), 0) / T) < 1e-5);
  const columns = [0, 4, 9, 10];
  const share = A.reduce((s, v, k) => s + (columns.includes(k % T) ? v : 0), 0) / T;
  assert.ok(Math.abs(separator_attention - share) < 1e-5);
  const S = exact.similarities;
  const m = Math.max(...S.filter((_, k) => k % T !== Math.floor(k / T)));
  let high = 0;
  for (let i = 0; i < T; i++) for (let j = i + 1; j < T; j++) if (S[i * T + j] / m >= 0.3) high++;
  assert.equal(high_pairs, high);
});

test("arrays that are one a layer are the same maps", async () => {
  const [file, hooks, some, tuple, whole] = await Promise.all(
    ["other.npz", "hooks.npz", "hooks_some.npz", "tuple.npz", "whole.npz"].map(opened),
  );
  for (const other of [hooks, tuple, whole]) {
    assert.deepEqual([other.layers, other.heads], [3, 4]);
    assert.deepEqual(other.attention(2, 3), file.attention(2, 3));
    assert.ok(!other.notes.some((note) => note.startsWith("The file has layers")));
  }
  assert.deepEqual(hooks.encoding.tokens, file.encoding.tokens);
  assert.deepEqual(hooks.outputs(1, 2), file.outputs(1, 2));
  assert.deepEqual(some.attention(0, 1), file.attention(1, 1));
  assert.ok(some.notes.includes("The file has layers 1, 2. They are numbered from 0 here."));
});

test("a file of cross heads has the target's tokens as rows and the text's as columns", async () => {
  const file = await opened("cross.npz");
  assert.deepEqual([file.text, file.target], ["A green house.", "Ein Haus"]);
  assert.deepEqual([file.encoding.tokens, file.source.tokens.slice(0, 2)], [["<pad>", "␣Ein", "␣Haus", "</s>"], ["␣A", "␣green"]]);
  assert.deepEqual([file.encoding.causal, file.source.words], [false, [0, 1, 2, 2, 2, null]]);
  const outputs = ["attentions", "similarities", "head_outputs", "summary"];
  const answer = await ask(file, { stack: "cross", text_target: file.target, layers: [1], heads: [2], outputs });
  assert.equal(answer.source, file.source);
  assert.deepEqual([answer.attentions, answer.summary], [file.attention(1, 2), null]);
  assert.deepEqual([answer.attentions.length, answer.similarities.length], [4 * 6, 4 * 4]);
  const head = headOf(answer, { special: true, words: false });
  assert.equal(head.columns.labels[2], "␣ho");
  assert.equal(head.attention[2 * 6 + 3], file.attention(1, 2)[2 * 6 + 3]);
  const plain = await opened("cross_plain.npz");
  assert.match(plain.notes.join(" "), /Cross heads: rows are .*No tokens: the file has no “source_tokens”/);
  assert.deepEqual(plain.source.tokens, ["0", "1", "2", "3", "4", "5"]);
});

test("what needs the model is refused by name", async () => {
  const file = await opened("other.npz");
  for (const [request, words] of [
    [{ outputs: ["weighted_norms"] }, /weighted by norms needs the model/],
    [{ similarity_space: "residual" }, /residual space needs/],
    [{ interventions: [] }, /change of heads needs/],
    [{ text: "Another." }, /Another text needs/],
  ])
    await assert.rejects(ask(file, { layers: "all", outputs: [], ...request }), words);
});

test("files that cannot be shown say what is wrong and what to do", async () => {
  for (const [name, words] of [
    ["scores.npz", /attentions\[0, 0, 2, 3\] is -4.5\. .*after the softmax/],
    ["objects.npz", /“tokens” holds Python objects\. .*dtype=str/],
    ["short.npz", /“tokens” has 4 entries; the maps have 11 rows/],
    ["wide.npz", /are 4 × 6\. They must be square.*save stack=“cross” and source_tokens/],
    ["cross_short.npz", /“source_tokens” has 2 entries; the maps have 6 columns/],
    ["cross_long.npz", /are 1 × 513; at most 512/],
    ["batch.npz", /maps of 2 texts.*attentions\[:, 0\]/],
    ["hooks_uneven.npz", /“blocks.0.attn.hook_pattern” and “blocks.1.attn.hook_pattern” are of different types or shapes/],
    ["elsewhere.npz", /no array “attentions”\. It has “weights”/],
    ["cut.npz", /damaged: its directory/],
    ["words.npz", /neither \.npz nor \.safetensors/],
    ["single.npy", /numpy\.savez/],
  ])
    await assert.rejects(opened(name), (error) => error instanceof FileError && words.test(error.message), name);
});

test("safetensors: tokens in the metadata; damaged ones are refused", async () => {
  const data = new Float32Array(9).fill(1 / 3);
  const header = (extra, metadata = {}) =>
    JSON.stringify({
      __metadata__: { tokens: '["a","b","c"]', ...metadata },
      attentions: { dtype: "F32", shape: [1, 1, 3, 3], data_offsets: [0, 36], ...extra },
    });
  const fileOf = (json) => {
    const text = new TextEncoder().encode(json);
    const bytes = new Uint8Array(8 + text.length + 36);
    new DataView(bytes.buffer).setBigUint64(0, BigInt(text.length), true);
    bytes.set(text, 8);
    bytes.set(new Uint8Array(data.buffer), 8 + text.length);
    return new Blob([bytes]);
  };
  const file = await openedFile("one.safetensors", fileOf(header({})));
  assert.deepEqual(file.encoding.tokens, ["a", "b", "c"]);
  // Their columns are another text's, also if both have as many tokens.
  const cross = await openedFile("x", fileOf(header({}, { stack: "cross", source_tokens: '["d","e","f"]' })));
  assert.deepEqual([cross.encoding.tokens, cross.source.tokens], [["a", "b", "c"], ["d", "e", "f"]]);
  assert.equal((await openedFile("x", fileOf(header({}, { stack: "decoder" })))).source, null);
  for (const wrong of [
    { dtype: "BF16" },
    { shape: [1, 1, 3] },
    { shape: null },
    { data_offsets: [-4, 32] },
    { shape: [-1, -1, 3, 3] },
  ])
    await assert.rejects(openedFile("x", fileOf(header(wrong))), FileError);
});

// Bytes that differ at random from those of real files: refused in words, or read.
test("no bytes make the reader fail otherwise", async () => {
  let seed = 48;
  const random = (below) => (seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) % below;
  const files = ["other.npz", "packed.npz", "nameless.npz", "objects.npz"].map(bytesOf);
  let [read, refused] = [0, 0];
  for (let round = 0; round < 400; round++) {
    const bytes = files[round % files.length].slice();
    const near = bytes.length - random(Math.min(bytes.length, 900)) - 1; // the directory is at the end
    for (let n = random(4); n >= 0; n--) bytes[random(2) ? near : random(bytes.length)] = random(2) ? random(256) : 255;
    const cut = random(8) ? bytes : bytes.slice(0, random(bytes.length));
    try {
      await openedFile("x", new Blob([cut]));
      read++;
    } catch (error) {
      assert.ok(error instanceof FileError, `round ${round}: ${error?.stack}`);
      refused++;
    }
  }
  assert.ok(read > 0 && refused > 100, `${read} read, ${refused} refused`);
});

const DIRECTORY = 0x02014b50; // signature of an archive's entry in its directory
const directoryOf = (bytes) => Array.from(bytes).findIndex((_, at) => at < bytes.length - 4 && new DataView(bytes.buffer).getUint32(at, true) === DIRECTORY);

test("an entry that says it is larger than it is, or than is allowed, is refused before it takes memory", async () => {
  const bytes = new Uint8Array(await (await npzOf(new Map([["attentions", new Uint8Array(200)]]))).arrayBuffer());
  const view = new DataView(bytes.buffer);
  for (const size of [0x7fffffff, 0xfffffffe, 0xffffffff]) {
    view.setUint32(directoryOf(bytes) + 24, size, true);
    await assert.rejects(readFileArrays(new Blob([bytes])), FileError);
  }
});

test("an entry that unpacks to more than it says ends there; a wrong checksum is seen", async () => {
  const zeros = new ZipWriter(new Uint8ArrayWriter(), { useWebWorkers: false });
  await zeros.add("attentions.npy", new Blob([new Uint8Array(64 << 20)]).stream());
  const bomb = await zeros.close();
  assert.ok(bomb.length < 100_000);
  new DataView(bomb.buffer).setUint32(directoryOf(bomb) + 24, 1000, true);
  const before = process.memoryUsage().arrayBuffers;
  await assert.rejects(readFileArrays(new Blob([bomb])), /“attentions” cannot be unpacked/);
  assert.ok(process.memoryUsage().arrayBuffers - before < 16 << 20);
  const bytes = bytesOf("other.npz");
  bytes[Math.floor(bytes.length / 2)] ^= 1; // in the data of an array that is not packed
  await assert.rejects(readFileArrays(new Blob([bytes])), /cannot be unpacked/);
});

test("an archive larger than its bounds is refused", async () => {
  const many = new Map(Array.from({ length: 1001 }, (_, n) => [`a${n}`, new Uint8Array(1)]));
  await assert.rejects(readFileArrays(await npzOf(many)), /more than 1000 arrays/);
});

test("halves are rounded to the nearest", () => {
  const values = Float32Array.of(0, -0.1, 1, 65504, 1e6, 6e-8, 3e-5, 1 / 3, -2.5);
  const back = fromHalves(toHalves(values));
  values.forEach((v, k) => {
    if (Math.abs(v) > 65504) assert.equal(back[k], Infinity);
    else assert.ok(Math.abs(back[k] - v) <= Math.max(2 ** -25, Math.abs(v) * 2 ** -11), `${v}: ${back[k]}`);
  });
  assert.deepEqual([...centre(Float32Array.of(1, 10, 3, 30), 2)], [-1, -10, 1, 10]);
});
