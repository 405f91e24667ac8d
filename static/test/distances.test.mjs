import assert from "node:assert/strict";
import test from "node:test";
import { nearestOf } from "../src/heads/distances.ts";
import { likeOf } from "../src/heads/figures.ts";

test("a head without distances is no neighbour; like 7·5 names a head", () => {
  const distances = Float32Array.of(0, 1, NaN, 3, 1, 0, NaN, 2, NaN, NaN, NaN, NaN, 3, 2, NaN, 0);
  assert.deepEqual(nearestOf({ distances }, 3), [{ place: 1, distance: 2 }, { place: 0, distance: 3 }]);
  assert.deepEqual(["like 7·5", "like L7 H5", " LIKE 7.5", "like layer 7 head 5"].map(likeOf), [[7, 5], [7, 5], [7, 5], [7, 5]]);
  assert.deepEqual(["7·5", "like", "like 7", "likely 7·5"].map(likeOf), [null, null, null, null]);
});
