// A layer's fractions from what its heads hand on: attention times the norm of the vector handed on.
import type { LayerHops } from "./routes";

// `norms`: one head's A[to][from] ‖f(x_from)‖. Calls `see` for each pair of different tokens, with the head.
function eachPair(
  norms: readonly Float32Array[],
  T: number,
  see: (at: number, h: number, value: number) => void,
): void {
  norms.forEach((map, h) => {
    for (let at = 0; at < T * T; at++) if (at % (T + 1)) see(at, h, map[at]!);
  });
}

const rowSum = (map: Float32Array, T: number, row: number): number => {
  let sum = 0;
  for (let at = row * T; at < (row + 1) * T; at++) sum += map[at]!;
  return sum;
};

// Each state after the attention is the sum of the state before and of what the heads bring. A hop's fraction is its
// norm over the sum of all these norms; what a token keeps or brings itself is the fraction that stays.
// `states`: the norm of each token's state before the layer.
export function hopsByNorms(norms: readonly Float32Array[], states: Float32Array): LayerHops {
  const T = states.length;
  const all = states.map((own, to) => norms.reduce((sum, map) => sum + rowSum(map, T, to), own));
  const stay = states.map((own, to) => norms.reduce((sum, map) => sum + map[to * T + to]!, own) / all[to]!);
  return strongestHeads(norms, T, stay, (to) => 1 / all[to]!);
}

// A hop's fraction is its part of what its head brings to the token, times the head's effect, 0..1. Staying costs
// nothing.
export function hopsByEffect(norms: readonly Float32Array[], T: number, effects: readonly number[]): LayerHops {
  const sums = norms.map((map) => Float32Array.from({ length: T }, (_, to) => rowSum(map, T, to) || 1));
  return strongestHeads(norms, T, new Float32Array(T).fill(1), (to, h) => (effects[h] ?? 0) / sums[h]![to]!);
}

function strongestHeads(
  norms: readonly Float32Array[],
  T: number,
  stay: Float32Array,
  factor: (to: number, h: number) => number,
): LayerHops {
  const share = new Float32Array(T * T);
  const head = new Uint16Array(T * T);
  const factors = norms.map((_, h) => Float32Array.from({ length: T }, (_, to) => factor(to, h)));
  eachPair(norms, T, (at, h, value) => {
    const fraction = value * factors[h]![Math.floor(at / T)]!;
    if (fraction <= share[at]!) return;
    share[at] = fraction;
    head[at] = h;
  });
  return { stay, share, head };
}
