import assert from "node:assert/strict";
import test from "node:test";
import { hopsByEffect, hopsByNorms } from "../src/heads/hops.ts";
import { strongestRoutes } from "../src/heads/routes.ts";

function random(seed) {
  let s = seed;
  return () => (s = (s * 48271) % 2147483647) / 2147483647;
}
const maps = (next, H, T, U = T) => Array.from({ length: H }, () => Float32Array.from({ length: T * U }, next));

// Every way down from the target, by trying all of them.
function everyRoute(layers, target) {
  const [T, stride] = [layers[0].stay.length, layers[0].share.length / layers[0].stay.length];
  const found = [];
  const down = (level, t, kept, hops) => {
    if (level === 0) return void (hops.length && kept > 0 && found.push({ strength: kept, hops }));
    const { stay, share, head } = layers[level - 1];
    if (t >= T) return down(level - 1, t, kept, hops);
    down(level - 1, t, kept * stay[t], hops);
    for (let from = 0; from < stride; from++)
      if (from !== t)
        down(level - 1, from, kept * share[t * stride + from], [{ layer: level - 1, head: head[t * stride + from], from, to: t }, ...hops]);
  };
  down(layers.length, target, 1, []);
  return found.sort((a, b) => b.strength - a.strength);
}

test("the strongest routes are those that trying all of them finds", () => {
  for (const [seed, T, L, U] of [[3, 4, 3, 0], [5, 5, 4, 0], [11, 3, 5, 0], [7, 3, 4, 2]]) {
    const next = random(seed);
    const layers = Array.from({ length: L }, () =>
      hopsByNorms(maps(next, 2, T), Float32Array.from({ length: T }, next), U ? maps(next, 3, T, U) : []));
    for (const count of [1, 7, 40]) {
      const routes = strongestRoutes(layers, 1, count);
      const all = everyRoute(layers, 1).slice(0, count);
      assert.equal(routes.length, count);
      routes.forEach(({ strength }, n) => assert.ok(Math.abs(strength - all[n].strength) < 1e-9));
      assert.deepEqual(routes[0].hops, all[0].hops);
    }
  }
});

test("what stays and what every head brings add up to the whole", () => {
  const [H, T] = [3, 6];
  const next = random(2);
  const norms = maps(next, H, T);
  const states = Float32Array.from({ length: T }, next);
  const { stay, share, head } = hopsByNorms(norms, states);
  for (let to = 0; to < T; to++) {
    const all = states[to] + norms.reduce((sum, map) => sum + map.subarray(to * T, (to + 1) * T).reduce((a, b) => a + b), 0);
    assert.ok(Math.abs(stay[to] - (states[to] + norms.reduce((sum, map) => sum + map[to * T + to], 0)) / all) < 1e-6);
    for (let from = 0; from < T; from++) {
      const each = norms.map((map) => map[to * T + from]);
      const best = from === to ? 0 : Math.max(...each);
      assert.ok(Math.abs(share[to * T + from] - best / all) < 1e-6);
      if (from !== to) assert.equal(each[head[to * T + from]], best);
    }
  }
});

test("a decoder's token takes from its own text and, by cross heads, from the other one", () => {
  const [T, U] = [3, 2];
  const next = random(4);
  const [norms, cross, states] = [maps(next, 2, T), maps(next, 3, T, U), Float32Array.from({ length: T }, next)];
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  const row = (map, n, to) => [...map.subarray(to * n, (to + 1) * n)];
  const { stay, share, head } = hopsByNorms(norms, states, cross);
  for (let to = 0; to < T; to++) {
    const all = states[to] + sum(norms.flatMap((map) => row(map, T, to))) + sum(cross.flatMap((map) => row(map, U, to)));
    assert.ok(Math.abs(stay[to] - (states[to] + sum(norms.map((map) => map[to * T + to]))) / all) < 1e-6);
    for (let from = 0; from < U; from++) {
      const each = cross.map((map) => map[to * U + from]);
      const at = to * (T + U) + T + from;
      assert.equal(each[head[at]], Math.max(...each));
      assert.ok(Math.abs(share[at] - Math.max(...each) / all) < 1e-6);
    }
  }
  const byEffect = hopsByEffect(norms, T, [0, 0], cross, [0, 1, 0.5]);
  for (const { hops, strength } of strongestRoutes([byEffect], 1, 9)) {
    assert.ok(hops[0].from >= T && hops[0].head > 0);
    const brought = row(cross[hops[0].head], U, 1);
    assert.ok(Math.abs(strength - ([0, 1, 0.5][hops[0].head] * brought[hops[0].from - T]) / sum(brought)) < 1e-6);
  }
});

test("by effect, a head that changes nothing is on no route", () => {
  const next = random(9);
  const layer = hopsByEffect(maps(next, 2, 4), 4, [0, 0.5]);
  const routes = strongestRoutes([layer], 2, 10);
  assert.equal(routes.length, 3); // one from each other token
  assert.ok(routes.every(({ hops, strength }) => hops[0].head === 1 && strength <= 0.5));
});

test("a token that hears from no other has no routes", () => {
  const [T] = [3];
  const causal = Float32Array.from([1, 0, 0, 1, 1, 0, 1, 1, 1]);
  const layer = hopsByNorms([causal], new Float32Array(T).fill(1));
  assert.deepEqual(strongestRoutes([layer, layer], 0, 5), []);
  assert.ok(strongestRoutes([layer, layer], 2, 5).length > 0);
});
