// What every head has between two entries of the text: attention either way, from the maps' bytes, and similarity,
// from the heads' outputs, as a share of the head's largest.
import { partAt, type Answer } from "./answer";
import { fromHalves } from "./similarity";

export const TIES = ["to", "from", "similar"] as const;
export type Tie = (typeof TIES)[number];

type Group = readonly number[]; // the tokens of an entry: one, or a word's pieces

// Attention to a word is the sum over its pieces, from a word their mean.
export function attentionBetween(map: ArrayLike<number>, T: number, unit: number, from: Group, to: Group): number {
  let sum = 0;
  for (const i of from) for (const j of to) sum += map[i * T + j]!;
  return (sum * unit) / from.length;
}

// S of two entries: the mean over their pieces.
export function similarityBetween(outputs: ArrayLike<number>, T: number, a: Group, b: Group): number {
  const d = outputs.length / T;
  let sum = 0;
  for (const i of a) for (const j of b) for (let k = 0; k < d; k++) sum += outputs[i * d + k]! * outputs[j * d + k]!;
  return sum / (a.length * b.length);
}

// [l][h]; null where a layer's maps are not here yet or a head has no largest similarity.
export function tiesOf(
  overview: Answer,
  mapsOf: (l: number) => readonly Uint8Array[] | null,
  a: Group,
  b: Group,
  tie: Tie,
): (number | null)[][] {
  const T = overview.encoding.ids.length;
  return overview.layers.map((_, l) => {
    if (tie !== "similar") {
      const maps = mapsOf(l);
      const [from, to] = tie === "to" ? [a, b] : [b, a];
      return overview.heads.map((_, h) => (maps ? attentionBetween(maps[h]!, T, 1 / 255, from, to) : null));
    }
    return overview.heads.map((_, h) => {
      const most = overview.summary![l]![h]!.max_similarity;
      if (!most || most <= 0) return null;
      const outputs = fromHalves(partAt(overview.headOutputs as Uint16Array, overview, l, h));
      return similarityBetween(outputs, T, a, b) / most;
    });
  });
}

export const LISTED = 10; // of the ranked heads

export interface Ranked {
  l: number;
  h: number;
  value: number;
}

// Largest first.
export const rankHeads = (values: readonly (readonly (number | null)[])[]): Ranked[] =>
  values
    .flatMap((row, l) => row.flatMap((value, h) => (value === null ? [] : [{ l, h, value }])))
    .sort((p, q) => q.value - p.value || p.l - q.l || p.h - q.h);
