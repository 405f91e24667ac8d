// Models that write: which fields of the state reach requests, by what the model has, and maps between two texts.
import assert from "node:assert/strict";
import test from "node:test";
import { learnModels } from "../src/app/model-facts.ts";
import { inWords } from "../src/app/problems.ts";
import { headRequest, mayBeLong, overviewRequest, savedRequest, sourcePatchMapRequest, tokensRequest } from "../src/app/requests.ts";
import { keepsPin, notedIn, quotedTexts, rowTexts, shownTexts, stackOf, withinStack } from "../src/app/stacks.ts";
import { INITIAL, formatState, parseState } from "../src/app/state.ts";
import "../src/fields.ts";
import { headOf, pinnedIn, pinOf } from "../src/maps/axis.ts";
import { columnProfile } from "../src/maps/analysis.ts";
import { describeCell, describeTargets } from "../src/maps/readout.ts";
import { jointOf } from "../src/heads/joint.ts";
import { attentionEnds } from "../src/views/text/arcs.ts";
import { attentionRows, relationOf, rowsOf } from "../src/views/text/rows.ts";
import { paint, pool } from "../src/maps/thumbnail.ts";
import { bysOf, inputOf, pinOfStrongest, strongestOf } from "../src/views/corpus/examples.ts";

const shape = { num_layers: 2, num_heads: 2 };
const model = (name, more) => ({ name, stacks: {}, languages: [], causal: false, task: null, tokenizer: "WordPiece", ...shape, ...more });
learnModels([
  model("mini", { task: "fill-mask" }),
  model("t5", { stacks: { encoder: shape, decoder: { num_layers: 4, num_heads: 3 }, cross: shape } }),
  model("nllb", { stacks: { encoder: shape, decoder: shape, cross: shape }, languages: ["eng_Latn", "fra_Latn"] }),
  model("gpt", { causal: true, task: "text-generation" }),
]);
const state = (more) => ({ ...INITIAL, text: "One house.", ...more });
const sent = (more) => {
  const { stack, text_target, max_new_tokens } = tokensRequest(state(more));
  return [stack, text_target, max_new_tokens];
};

test("requests carry the stack, the target and the tokens to write, as far as the model has them", () => {
  const all = { stack: "cross", target: "Ein Haus.", write: 7 };
  assert.deepEqual(sent({ model: "t5", ...all }), ["cross", "Ein Haus.", undefined]);
  assert.deepEqual(sent({ model: "t5", ...all, target: "" }), ["cross", undefined, 7]);
  assert.deepEqual(sent({ model: "t5", ...all, stack: "encoder" }), [undefined, undefined, undefined]);
  assert.deepEqual(sent({ model: "mini", ...all }), [undefined, undefined, undefined]);
  assert.deepEqual(sent({ model: "gpt", ...all }), [undefined, undefined, 7]);
  assert.equal(stackOf({ model: "unknown", stack: "cross" }), "cross"); // the list may not be here yet
  assert.equal(headRequest(state({ model: "t5", ...all }), 0, 1).text_target, "Ein Haus.");
  const saved = (more) => savedRequest(state({ model: "t5", ...all, ...more }), "all", "all", ["attentions", "summary"]).outputs;
  assert.deepEqual([saved({}), saved({ stack: "decoder" })], [["attentions"], ["attentions", "summary"]]);
  assert.deepEqual(overviewRequest(state({ model: "t5", ...all }), 0.3).outputs, ["head_outputs"]);
  assert.equal(mayBeLong(state({ model: "t5", ...all, target: "a ".repeat(400), max: 600 })), true);
});

test("requests name the languages that the model has, and that of a target where there is one", () => {
  const named = (more) => {
    const { source_language, target_language } = headRequest(state({ lang: "fra_Latn", tlang: "eng_Latn", ...more }), 0, 1);
    return [source_language, target_language];
  };
  const cross = { model: "nllb", stack: "cross" };
  assert.deepEqual(named({ ...cross, target: "Ein Haus." }), ["fra_Latn", "eng_Latn"]);
  assert.deepEqual(named({ ...cross, write: 5 }), ["fra_Latn", "eng_Latn"]);
  assert.deepEqual(named(cross), ["fra_Latn", undefined]);
  assert.deepEqual(named({ ...cross, stack: "encoder", target: "Ein Haus." }), ["fra_Latn", undefined]);
  assert.deepEqual(named({ ...cross, lang: "", tlang: "ro_RO", write: 5 }), [undefined, undefined]);
  assert.deepEqual(named({ model: "t5", stack: "cross", target: "Ein Haus." }), [undefined, undefined]);
  const detail = "the target needs a language: send target_language, one of languages in GET /models";
  assert.equal(inWords({ detail, pointer: "/target_language" }), "Choose the language of the target.");
});

test("links hold the target and the stack, and views show what they can of it", () => {
  const linked = state({ model: "t5", stack: "cross", target: "Ein Haus.", write: 9 });
  const read = parseState(formatState(linked)).state;
  assert.deepEqual([read.stack, read.target, read.write], ["cross", "Ein Haus.", 9]);
  // A patch has the target of the first text, whoever wrote it.
  const { text_target, max_new_tokens, target_ids } = tokensRequest({ ...linked, target_ids: [3, 4] });
  assert.deepEqual([text_target, max_new_tokens, target_ids], [undefined, undefined, [3, 4]]);
  // States of the text are the encoder's; the target stays, and the second text has none.
  const patch = { from: { text: "One hut.", target_ids: [3, 4] }, target: { token: 5, position: 1 } };
  const sourced = sourcePatchMapRequest({ ...linked, model: "nllb", tlang: "fra_Latn" }, patch);
  assert.deepEqual([sourced.stack, sourced.text_target, sourced.target_ids, sourced.target_language], [undefined, undefined, [3, 4], "fra_Latn"]);
  assert.deepEqual([sourced.effects_of.from, sourced.target, sourced.outputs], [{ text: "One hut." }, patch.target, ["patch_map"]]);
  const titled = (more) => quotedTexts(tokensRequest({ ...linked, ...more }), 5);
  assert.deepEqual([titled({}), titled({ target: "" }), titled({ stack: "encoder" })],
    ["“One h…” → “Ein H…”", "“One h…” → written by the model", "“One h…”"]);
  const followed = withinStack({ ...linked, sort: "high_pairs", seek: "previous", relation: "similar" });
  assert.deepEqual([followed.sort, followed.seek, followed.relation], ["none", "", "to"]);
  const cell = (view) => withinStack({ ...linked, view, pin: [3, 5], kind: "identity", what: "attention" });
  const kept = (from, to, stack = "cross") => keepsPin({ ...linked, view: from, stack }, to);
  assert.deepEqual([kept("head", "head"), kept("pairs", "compare"), kept("head", "pairs"), kept("compare", "head"), kept("head", "pairs", "decoder")],
    [true, true, false, false, true]); // in Head the second token is of the text
  assert.deepEqual([cell("experiment").kind, cell("experiment").what], ["zero", "similarity"]);
  assert.deepEqual(shownTexts({ ...linked, pair: "b" }), ["One house.", "b", "Ein Haus."]);
  assert.deepEqual(rowTexts({ ...linked, pair: "b" }), ["Ein Haus."]);
  assert.deepEqual(shownTexts({ ...linked, stack: "decoder", target: "" }), [""]);
  assert.equal(notedIn(linked, "t5").model, "t5 (cross)");
  assert.match(inWords({ detail: "the decoder has no text to read: send text_target", pointer: "/text_target" }), /^The decoder .*Type the target/);
});

const encoding = (tokens, words) => ({
  ids: tokens.map((_, t) => t), tokens, words, types: tokens.map(() => 0), special: tokens.map((token) => token.startsWith("[")),
  offsets: tokens.map(() => [0, 0]), sentences: tokens.map(() => 0), causal: false, generated: [],
});
const answer = {
  encoding: encoding(["[PAD]", "Ein", "Haus"], [null, 0, 1]),
  source: encoding(["One", "ho", "##use", "."], [0, 1, 1, 2]),
  attentions: Float32Array.of(0.1, 0.2, 0.3, 0.4, 0.4, 0.3, 0.2, 0.1, 0.25, 0.25, 0.5, 0),
  similarities: Float32Array.of(9, 1, 2, 1, 9, 4, 2, 4, 9), headOutputs: null, weightedNorms: null,
};

test("a cross head has the target's tokens as rows and the text's as columns", () => {
  const head = headOf(answer, { special: true, words: false });
  assert.deepEqual([head.axis.labels, head.columns.labels], [["[PAD]", "Ein", "Haus"], ["One", "ho", "##use", "."]]);
  assert.equal(describeCell(head, [2, 2]), "target Haus 2 → text ##use 2   A 0.500");
  assert.equal(describeTargets(head, [1, 2]), "target Ein 1 and Haus 2   S 4.00   N 1.00");
  assert.deepEqual([...columnProfile([1, 0, 0.5, 1, 1, 0], 3)], [1, 0.5, 0.25]);
  const merged = headOf(answer, { special: false, words: true });
  assert.deepEqual([merged.axis.labels, merged.columns.labels], [["Ein", "Haus"], ["One", "house", "."]]);
  assert.deepEqual([...merged.attention].map((v) => +v.toFixed(3)), [0.4, 0.5, 0.1, 0.25, 0.75, 0]);
  assert.deepEqual(pinOf(merged, [1, 2]), [2, 3]);
  assert.deepEqual(pinnedIn(merged, { pin: [2, 3] }), [1, 2]);
  assert.equal(pinnedIn(merged, { pin: [0, 3] }), null); // a hidden row
});

test("a typical text of a run is analysed with its stack, source and target, and names tokens of both", () => {
  const head = headOf(answer, { special: true, words: false });
  const { positions, labels, value } = strongestOf(head, "first");
  assert.deepEqual([positions, labels, value], [[2, 2], ["Haus", "##use"], 0.5]);
  assert.deepEqual(pinOfStrongest(head, "first"), [2, 2]);
  // Similarities are among the target's tokens, and Head pins cells of attention.
  assert.deepEqual([strongestOf(head, "repeated_share").labels, pinOfStrongest(head, "repeated_share")], [["Ein", "Haus"], []]);
  const report = (options) => ({ provenance: { options: { max_tokens: 24, ...options } } });
  const example = { text: 0, file: "", line: 1, value: 1, body: "Ein Haus.", source: "One house." };
  const cross = report({ stack: "cross", target_language: "deu_Latn" });
  const { text, target, stack, tlang, max } = inputOf({ model: "t5" }, cross, example);
  assert.deepEqual([text, target, stack, tlang, max], ["One house.", "Ein Haus.", "cross", "deu_Latn", 24]);
  const { source, ...plain } = example;
  const own = inputOf({ model: "t5" }, report({}), plain);
  assert.deepEqual([own.text, own.target, own.stack, own.lang], ["Ein Haus.", "", "encoder", ""]);
  assert.equal(source, "One house.");
  const has = (options, chosen = "pattern") => bysOf(report(options), chosen).includes("previous");
  assert.deepEqual([has({ stack: "cross" }), has({ stack: "decoder" }), has({ stack: "cross" }, "previous")], [false, true, true]);
  const parses = (more, chosen = "pattern") => bysOf({ ...report({}), ...more }, chosen).includes("syntax_attention");
  assert.deepEqual([parses({}), parses({ syntax: {} }), parses({}, "syntax_attention")], [false, true, true]);
});

test("over both texts, tokens of the target attend to those of the text", () => {
  const head = headOf(answer, { special: true, words: false });
  const { axis, attention } = jointOf(head);
  assert.deepEqual(axis.labels, ["One", "ho", "##use", ".", "[PAD]", "Ein", "Haus"]);
  assert.deepEqual([axis.positions.slice(3), axis.groups[5]], [[3, 0, 1, 2], [5]]);
  assert.equal(attention[6 * 7 + 2], 0.5);
  assert.equal(attention.filter((v) => v > 0).length, 11);
  const rounded = (values) => [...values].map((v) => +v.toFixed(3));
  assert.deepEqual(rounded(relationOf(rowsOf(jointOf(head)), [6], "to")), [0.25, 0.25, 0.5, 0, 0, 0, 0]);
  assert.deepEqual(rounded(relationOf(rowsOf(jointOf(head)), [2], "from")), [0, 0, 0, 0, 0.3, 0.2, 0.5]);
  assert.deepEqual(rounded(relationOf(rowsOf(jointOf(head)), [], "to")).slice(2, 5), [0.333, 0.167, 0]);
  const ends = attentionEnds(attentionRows(axis, attention), 0, new Set([2]), "either");
  assert.deepEqual(ends.strongest.map(({ i, j }) => [i, j]), [[2, 6], [2, 4], [2, 5]]); // the upper end first
  assert.equal(jointOf(jointOf(head)).attention, attention);
});

test("a thumbnail of a cross head has blocks of both texts, and fills the square", () => {
  const map = Uint8Array.from({ length: 12 }, (_, k) => k);
  const small = pool(map, 2, 3, [0, 1], false, [0, 1, 2, 3, 4, 5]);
  assert.deepEqual([small.side, small.across, [...small.values]], [2, 3, [1, 3, 5, 7, 9, 11]]);
  const hidden = pool(map, 2, 8, [1], false, [0, 5]);
  assert.deepEqual([hidden.side, hidden.across, [...hidden.values]], [1, 2, [6, 11]]);
  globalThis.ImageData ??= class {
    constructor(width, height) {
      Object.assign(this, { width, height, data: new Uint8ClampedArray(4 * width * height) });
    }
  };
  const lut = Uint32Array.from({ length: 256 }, (_, k) => k);
  const image = new Uint32Array(paint(hidden, lut, 4).data.buffer);
  assert.equal(new Set(image.slice(0, 2)).size, 1);
  assert.notEqual(image[0], image[3]);
  assert.deepEqual([...image.slice(0, 4)], [...image.slice(12)]);
});
