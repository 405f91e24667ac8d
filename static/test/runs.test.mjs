import assert from "node:assert/strict";
import test from "node:test";
import { learnModels } from "../src/app/model-facts.ts";
import "../src/fields.ts";
import { isAllowed, linesOf, RUN_OPTIONS } from "../src/views/corpus/api.ts";
import { commonThresholds } from "../src/views/corpus/compare.tsx";
import { isDifference, isSoughtRow, orderOf } from "../src/views/corpus/pages.tsx";
import { patternNumbers, patternsOf, runHeads } from "../src/views/corpus/patterns.tsx";
import { duration, progressOf } from "../src/views/corpus/list.tsx";

test("runs: the file's beginning decides what a line is", () => {
  assert.equal(linesOf('\n{"text": "a"}\n', "x"), "application/x-ndjson");
  assert.equal(linesOf('"a"\n"b"', "x.txt"), "application/x-ndjson");
  assert.equal(linesOf("A text.\nAnother.", "x.json"), "text/plain");
  assert.equal(linesOf("1984\n", "x.txt"), "text/plain");
  assert.equal(linesOf('{"text": "cut', "x.jsonl"), "application/x-ndjson");
  assert.equal(linesOf("", "x.txt"), "text/plain");
  assert.equal(linesOf('[\n {"text": "a"}]', "x.json"), "application/json");
  assert.equal(linesOf("id,text", "x.csv"), "text/csv");
  assert.equal(linesOf("id\ttext", "x.tsv"), "text/tab-separated-values");
  assert.equal(linesOf("\x1f\x8b", "x.jsonl.gz"), "application/octet-stream");
});

test("runs: only the encoder's heads have options of labelled texts", () => {
  const refused = (stack) => RUN_OPTIONS.filter((option) => !isAllowed(option, stack));
  assert.deepEqual(["encoder", "decoder", "cross"].map(refused), [[], ["label_field", "effects_share"], ["label_field", "effects_share"]]);
});

test("runs: thresholds that all of them counted at", () => {
  const run = (...thresholds) => ({ provenance: { options: { thresholds } } });
  assert.deepEqual(commonThresholds({ runs: [run(0.1, 0.30000001), run(0.3)] }), [0.3]);
});

test("tables of the server: a column's order", () => {
  assert.deepEqual(orderOf(["12.3 %", "–", "1,204.5", "−2"], true), [2, 0, 3, 1]);
  assert.deepEqual(orderOf(["12.3 %", "–", "1,204.5", "−2"], false), [3, 0, 2, 1]);
  assert.deepEqual(orderOf(["+0.2 pp", "−0.7 pp", "0.0 pp"], true), [0, 2, 1]);
  assert.deepEqual(orderOf(["−0.2 pp", "−0.7 pp", "0.0 pp"], true, true), [1, 0, 2]); // differences by their size
  assert.ok(["First − second", "Last − first"].every(isDifference) && !isDifference("second"));
  assert.deepEqual(orderOf(["7·10", "7·9", "10·0"], false), [1, 0, 2]); // heads
  assert.deepEqual(orderOf(["special", "broad", "special"], true), [0, 2, 1]);
});

test("runs: rows of heads are found by place and by label, not by their numbers", () => {
  const [seven, seventy] = [["7·5", "position"], ["70·5", "broad"]]; // prettier-ignore
  for (const sought of ["7", "7·", "layer 7", "7·5", "L7 H5", "pos", ""]) assert.ok(isSoughtRow(seven, sought), sought);
  for (const sought of ["7", "7·", "7·5", "pos"]) assert.ok(!isSoughtRow(seventy, sought), sought);
  assert.ok(!isSoughtRow(["7·50", "position"], "7·5"));
});

test("runs: progress in words", () => {
  const run = { id: "1", state: "running", texts_done: 1204, texts_total: 20000 };
  assert.equal(
    progressOf({ ...run, texts_per_second: 310.2, eta_seconds: 61 }),
    "1,204 of 20,000 texts · 310 texts/s · 1 min left",
  );
  assert.equal(progressOf({ ...run, state: "done", texts_done: 1, model: "mini" }), "mini · 1 text");
  const shape = { num_layers: 2, num_heads: 2 };
  learnModels([{ name: "mini", stacks: {} }, { name: "t5", stacks: { encoder: shape, decoder: shape, cross: shape } }]);
  const named = (model, stack) => progressOf({ ...run, state: "done", texts_done: 2, model, stack });
  assert.deepEqual([named("t5", "encoder"), named("t5", "cross"), named("gone", "decoder"), named("mini", "encoder"), named("mini")],
    ["t5 · encoder heads · 2 texts", "t5 · cross heads · 2 texts", "gone · decoder heads · 2 texts", "mini · 2 texts", "mini · 2 texts"]);
  assert.deepEqual([0.2, 59, 3600].map(duration), ["1 s", "59 s", "1 h 0 min"]);
});

test("a run's heads: pattern by label", () => {
  const names = ["previous", "next", "self", "first", "separator", "punctuation", "same_token", "same_sentence", "entropy"];
  const arrays = Object.fromEntries(names.map((name, k) => [`profiles_${name}`, [[0.1 * k, 0.6, 0.2, 0.9 - 0.1 * k]]]));
  const heads = runHeads({ ...arrays, layers: [4], heads: 4, profiles_label: [[0, 1, 2, 3]] });
  assert.deepEqual(heads.map(({ layer, head, pattern }) => [layer, head, pattern]), [[4, 0, "self"], [4, 1, "first"], [4, 2, "broad"], [4, 3, ""]]);
  const patterns = (even_same_sentence_sum) =>
    runHeads({
      ...arrays, layers: [4], heads: 4, texts: 10, even_same_sentence_sum,
      profiles_label: [[0, 1, 2, 3]], profiles_same_sentence: [[0.7, 0.8, 0.9, 0.7]],
    });
  assert.deepEqual(patterns(4).map(({ pattern }) => pattern), ["self", "first", "broad", "sentence"]);
  assert.deepEqual(patterns(5).map(({ pattern }) => pattern), ["self", "first", "broad", ""]); // 1.5 times chance is more
  assert.deepEqual(runHeads({ layers: [0], heads: 1 }), []); // of a version without them
});

test("a run's cross heads have the patterns that need no places in one text", () => {
  const arrays = Object.fromEntries(["first", "separator", "punctuation", "entropy"].map((name, k) => [`profiles_${name}`, [[k, 0.5]]]));
  const report = { ...arrays, layers: [1], heads: 2, texts: 10 };
  assert.deepEqual(patternsOf(report), ["first", "separator", "punctuation", "broad"]);
  assert.deepEqual(runHeads(report).map(({ head, pattern }) => [head, pattern]), [[0, ""], [1, ""]]);
  const mapped = (runcolumn) => patternNumbers({ state: { runheads: true, runcolumn, map: "ink" }, theme: "light" }, report);
  assert.deepEqual([mapped("broad").name, mapped("broad").values], ["profiles_entropy", [[null, null], [3, 0.5]]]);
  assert.equal(mapped("previous").name, "profiles_first"); // chosen for another run
});
