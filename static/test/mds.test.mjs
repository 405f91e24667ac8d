import assert from "node:assert/strict";
import test from "node:test";
import { measured, nearestOf } from "../src/heads/distances.ts";
import { labelledOf, nextIn } from "../src/views/overview/plane.tsx";
import { planeOf } from "../src/heads/mds.ts";
import { likeOf } from "../src/heads/figures.ts";

// Distances of points, [n][n].
const distances = (points) => Float64Array.from(points.flatMap((p) => points.map((q) => Math.hypot(...p.map((v, k) => v - q[k])))));
function random(seed) {
  let s = seed;
  return () => (s = (s * 48271) % 2147483647) / 2147483647;
}

test("points of the plane are found again, up to turning", () => {
  for (const n of [3, 10, 60]) {
    const next = random(n);
    const points = Array.from({ length: n }, () => [3 * next(), next()]);
    const D = distances(points);
    const { x, y, stress } = planeOf(D, n);
    const found = distances(Array.from(x, (_, k) => [x[k], y[k]]));
    D.forEach((d, k) => assert.ok(Math.abs(d - found[k]) < 1e-6));
    assert.ok(stress < 1e-6);
  }
});

test("of many dimensions the two widest are kept, and the stress says what is lost", () => {
  const next = random(7);
  const points = Array.from({ length: 40 }, () => [10 * next(), 5 * next(), 0.5 * next(), 0.5 * next()]);
  const { x, y, stress } = planeOf(distances(points), 40);
  assert.ok(stress > 0 && stress < 0.1);
  const spread = (v) => v.reduce((sum, c) => sum + c * c, 0);
  assert.ok(spread(x) > spread(y));
  const simplex = Float64Array.from({ length: 25 }, (_, k) => (k % 6 ? 1 : 0));
  assert.ok(planeOf(simplex, 5).stress > 0.2); // five points all 1 apart do not fit the plane
  const none = planeOf(new Float64Array(9), 3);
  assert.deepEqual([...none.x, ...none.y, none.stress], [0, 0, 0, 0, 0, 0, 0]);
});

test("a distance that is none at all leaves its head out", () => {
  const distances = Float32Array.of(0, 1, NaN, 3, 1, 0, NaN, 2, NaN, NaN, NaN, NaN, 3, 2, NaN, 0);
  assert.deepEqual(measured(distances).heads, [0, 1, 3]);
  assert.deepEqual([...measured(distances).D], [0, 1, 3, 1, 0, 2, 3, 2, 0]);
  assert.deepEqual(nearestOf({ distances }, 3), [{ place: 1, distance: 2 }, { place: 0, distance: 3 }]);
});

test("arrows go to the next point in their direction; like 7·5 names a head", () => {
  const [a, b, c, d] = [{ left: 0, top: 0 }, { left: 10, top: 1 }, { left: 5, top: 20 }, { left: -3, top: 0 }];
  const points = [a, b, c, d];
  assert.equal(nextIn(points, a, [1, 0]), b);
  assert.equal(nextIn(points, a, [0, 1]), c);
  assert.equal(nextIn(points, a, [-1, 0]), d);
  assert.equal(nextIn(points, a, [0, -1]), null);
  assert.deepEqual(["like 7·5", "like L7 H5", " LIKE 7.5", "like layer 7 head 5"].map(likeOf), [[7, 5], [7, 5], [7, 5], [7, 5]]);
  assert.deepEqual(["7·5", "like", "like 7", "likely 7·5"].map(likeOf), [null, null, null, null]);
});

test("labels lie on no other point or label; the first in order always has its own", () => {
  const places = [{ x: 0, y: 0 }, { x: 20, y: 0 }, { x: 100, y: 0 }, { x: 124, y: 5 }, { x: 300, y: 0 }];
  assert.deepEqual([...labelledOf(places, [0, 1, 2, 3, 4])], [0, 2, 4]);
  assert.deepEqual([...labelledOf(places, [3, 1, 0, 2, 4])], [3, 4]);
});
