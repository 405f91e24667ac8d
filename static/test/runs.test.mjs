import assert from "node:assert/strict";
import test from "node:test";
import { linesOf } from "../src/views/corpus/api.ts";
import { columnOfRun, commonThresholds, rankRows, rowsOf } from "../src/views/corpus/figures.ts";
import { chooseHeads, runHeads, sortHeads } from "../src/views/corpus/patterns.tsx";
import { duration, progressOf } from "../src/views/corpus/list.tsx";

// A comparison of runs, two heads a layer; figures that differ by run, layer and head.
const comparison = (layers, ...runs) => ({
  layers,
  runs: runs.map(() => ({ provenance: { options: { thresholds: [0.1, 0.30000001] } } })),
  layer_figures: { mean_distance: runs.map((run) => layers.map((_, l) => run[l])) },
  head_figures: { mean_distance: runs.map((run) => layers.map((_, l) => [run[l], run[l] === null ? null : run[l] + 0.5])) },
});

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

test("runs: two beside each other, ranked by difference, what one lacks last", () => {
  const both = comparison([0, 5, 11], [3, null, 4], [5, 6, 7]);
  assert.deepEqual(commonThresholds(both), [0.1, 0.3]);
  const other = { provenance: { options: { thresholds: [0.3] } } };
  assert.deepEqual(commonThresholds({ runs: [...both.runs, other] }), [0.3]);
  const rows = rowsOf(both, "mean_distance", "layers");
  assert.deepEqual(
    rows.map(({ layer, head, values, difference }) => [layer, head, ...values, difference]),
    [
      [0, null, 3, 5, -2],
      [5, null, null, 6, null],
      [11, null, 4, 7, -3],
    ],
  );
  const order = (rank) => rankRows(rows, rank).map(({ layer }) => layer);
  assert.deepEqual(order("-difference"), [11, 0, 5]);
  assert.deepEqual(order("difference"), [0, 11, 5]);
  assert.deepEqual(order("-place"), [11, 5, 0]);
  assert.deepEqual(order("second"), [0, 5, 11]);
});

test("runs: more than two, with the last minus the first; heads; a figure that only layers have", () => {
  const three = comparison([0, 11], [3, 4], [9, 10], [5, 6]);
  const rows = rowsOf(three, "mean_distance", "layers");
  assert.deepEqual(rows.map(({ values, difference }) => [...values, difference]), [[3, 9, 5, 2], [4, 10, 6, 2]]);
  const heads = rowsOf(three, "mean_distance", "heads");
  assert.deepEqual(heads.map(({ layer, head, values }) => [layer, head, ...values]), [
    [0, 0, 3, 9, 5],
    [0, 1, 3.5, 9.5, 5.5],
    [11, 0, 4, 10, 6],
    [11, 1, 4.5, 10.5, 6.5],
  ]);
  assert.deepEqual(rankRows(rows, "-run3").map(({ layer }) => layer), [11, 0]);
  assert.deepEqual([0, 1, 2].map(columnOfRun), ["first", "second", "run3"]);
  assert.deepEqual(rowsOf({ ...three, head_figures: {} }, "mean_distance", "heads"), []);
});

test("runs: progress in words", () => {
  const run = { id: "1", state: "running", texts_done: 1204, texts_total: 20000 };
  assert.equal(
    progressOf({ ...run, texts_per_second: 310.2, eta_seconds: 61 }),
    "1,204 of 20,000 texts · 310 texts/s · 1 min left",
  );
  assert.equal(progressOf({ ...run, state: "done", texts_done: 1, model: "mini" }), "mini · 1 text");
  assert.deepEqual([0.2, 59, 3600].map(duration), ["1 s", "59 s", "1 h 0 min"]);
});

test("a run's heads: pattern by label, chosen and sorted", () => {
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
  assert.deepEqual(chooseHeads(patterns(4), "sentence", "same sentence").map(({ head }) => head), [3]);
  assert.deepEqual(sortHeads(patterns(4), "-sentence").map(({ head }) => head), [2, 1, 0, 3]);
  assert.deepEqual(runHeads({ layers: [0], heads: 1 }), []); // of a version without them
  const of = (list) => list.map(({ head }) => head);
  assert.deepEqual(of(chooseHeads(heads, "none", "")), [3]);
  assert.deepEqual(of(chooseHeads(heads, "all", "first token")), [1]);
  assert.deepEqual(of(chooseHeads(heads, "all", "4·2")), [2]);
  assert.deepEqual(of(sortHeads(heads, "-previous")), [3, 1, 2, 0]);
  assert.deepEqual(of(sortHeads(heads, "-head")), [3, 2, 1, 0]);
  assert.deepEqual(of(sortHeads(heads, "pattern")), [2, 1, 0, 3]);
});
