import assert from "node:assert/strict";
import test from "node:test";
import { ckaOf, gramOf, meansOf, wordsOf } from "../src/heads/match.ts";

function random(seed) {
  let s = seed;
  return () => (s = (s * 48271) % 2147483647) / 2147483647 - 0.5;
}
const rows = (next, n, d) => Array.from({ length: n }, () => Float32Array.from({ length: d }, next));

test("CKA does not see rotation, scale and shift; independent outputs are near 0", () => {
  const next = random(5);
  const X = rows(next, 60, 4);
  const [c, s] = [Math.cos(0.7), Math.sin(0.7)];
  const turned = X.map(([a, b, ...rest]) => Float32Array.from([c * a - s * b, s * a + c * b, ...rest], (v) => 3 * v + 1));
  assert.ok(Math.abs(ckaOf(gramOf(X), gramOf(turned)) - 1) < 1e-4);
  assert.ok(Math.abs(ckaOf(gramOf(X), gramOf(rows(next, 60, 4)))) < 0.1);
  assert.ok(Number.isNaN(ckaOf(gramOf(X), gramOf(X.map(() => new Float32Array(4))))));
});

test("words are those between white space, whatever the tokenizer", () => {
  const text = "It's  an old\u{1F600} bridge";
  const encoding = {
    offsets: [[0, 0], [0, 2], [2, 4], [5, 8], [9, 13], [13, 16], [16, 20]],
    special: [true, false, false, false, false, false, false],
    types: [0, 0, 0, 0, 0, 0, 0],
  };
  assert.deepEqual(wordsOf(text, encoding), [[1, 2], [3], [4], [5, 6]]);
  const outputs = Float32Array.from({ length: 14 }, (_, k) => k);
  assert.deepEqual(meansOf(outputs, 7, [[1, 2]]).map((row) => [...row]), [[3, 4]]);
});
