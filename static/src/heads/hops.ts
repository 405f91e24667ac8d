// A layer's fractions from what its heads hand on: attention times the norm of the vector handed on.
import type { LayerHops } from "./routes";

// Heads whose maps have the same columns, of U tokens. `norms`: one head's A[to][from] ‖f(x_from)‖, [T][U].
interface Side {
  norms: readonly Float32Array[];
  factor: (to: number, h: number) => number; // of a hop's fraction
}

const rowSum = (map: Float32Array, columns: number, row: number): number => {
  let sum = 0;
  for (let at = row * columns; at < (row + 1) * columns; at++) sum += map[at]!;
  return sum;
};

// Counts the columns of maps with T rows.
const columnsOf = (norms: readonly Float32Array[], T: number): number => (norms[0]?.length ?? 0) / T;

// Each state after the attention is the sum of the state before and of what the heads bring. A hop's fraction is its
// norm over the sum of all these norms; what a token keeps or brings itself is the fraction that stays.
// `states`: the norm of each token's state before the layer. `cross`: of the layer's cross heads, if it has any.
export function hopsByNorms(
  norms: readonly Float32Array[],
  states: Float32Array,
  cross: readonly Float32Array[] = [],
): LayerHops {
  const T = states.length;
  const brought = (maps: readonly Float32Array[], to: number): number =>
    maps.reduce((sum, map) => sum + rowSum(map, columnsOf(maps, T), to), 0);
  const all = states.map((own, to) => own + brought(norms, to) + brought(cross, to));
  const stay = states.map((own, to) => norms.reduce((sum, map) => sum + map[to * T + to]!, own) / all[to]!);
  const factor = (to: number): number => 1 / all[to]!;
  return strongestHeads({ norms, factor }, { norms: cross, factor }, stay);
}

// A hop's fraction is its part of what its head brings to the token, times the head's effect, 0..1. Staying costs
// nothing.
export function hopsByEffect(
  norms: readonly Float32Array[],
  T: number,
  effects: readonly number[],
  cross: readonly Float32Array[] = [],
  crossEffects: readonly number[] = [],
): LayerHops {
  const side = (maps: readonly Float32Array[], of: readonly number[]): Side => {
    const columns = columnsOf(maps, T);
    const sums = maps.map((map) => Float32Array.from({ length: T }, (_, to) => rowSum(map, columns, to) || 1));
    return { norms: maps, factor: (to, h) => (of[h] ?? 0) / sums[h]![to]! };
  };
  return strongestHeads(side(norms, effects), side(cross, crossEffects), new Float32Array(T).fill(1));
}

function strongestHeads(own: Side, cross: Side, stay: Float32Array): LayerHops {
  const T = stay.length;
  const stride = T + columnsOf(cross.norms, T);
  const share = new Float32Array(T * stride);
  const head = new Uint16Array(T * stride);
  const take = ({ norms, factor }: Side, first: number): void =>
    norms.forEach((map, h) => {
      const columns = map.length / T;
      const factors = Float32Array.from({ length: T }, (_, to) => factor(to, h));
      for (let to = 0, cell = 0; to < T; to++)
        for (let from = 0; from < columns; from++, cell++) {
          const [at, fraction] = [to * stride + first + from, map[cell]! * factors[to]!];
          if (first + from === to || fraction <= share[at]!) continue;
          share[at] = fraction;
          head[at] = h;
        }
    });
  take(own, 0);
  take(cross, T);
  return { stay, share, head };
}
