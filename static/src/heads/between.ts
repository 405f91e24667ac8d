// Each head's attention between two entries of the text, from its maps, and their similarity, from the heads' outputs, as
// a fraction of the head's largest. Maps and outputs are half-precision: bytes would rank by steps of 1/255.
import type { Answer } from "../app/answer";
import { format } from "../maps/scale";
import { outputsAt } from "./outputs";
import { fromHalves } from "./similarity";

export const PAIR_RELATIONS = ["to", "from", "similar"] as const; // first to second, second to first, similarity
export type PairRelation = (typeof PAIR_RELATIONS)[number];

export type Group = readonly number[]; // the tokens of an entry: one, or those of a merged word

// Attention to a word is the sum over its tokens, from a word their mean.
export function attentionBetween(map: Uint16Array, T: number, from: Group, to: Group): number {
  const row = (i: number): Float32Array => fromHalves(Uint16Array.from(to, (j) => map[i * T + j] ?? 0));
  return from.reduce((sum, i) => sum + row(i).reduce((a, b) => a + b, 0), 0) / from.length;
}

// Attention from half precision, which has three digits from 2^-14 on, one digit from 1e-7 on, and none below.
export const writeHalf = (value: number): string =>
  value < 1e-7 ? "< 1e−7" : value < 2 ** -14 ? `≈ ${value.toExponential(0).replace("-", "−")}` : format(value);

// The attention that an even spread over all T tokens gives.
export const chanceOf = (T: number, to: Group): number => to.length / T;

// S of two entries: the mean over their tokens.
export function similarityBetween(outputs: ArrayLike<number>, T: number, a: Group, b: Group): number {
  const d = outputs.length / T;
  let sum = 0;
  for (const i of a) for (const j of b) for (let k = 0; k < d; k++) sum += outputs[i * d + k]! * outputs[j * d + k]!;
  return sum / (a.length * b.length);
}

// Returns one number a head, [l][h]; null if a layer's maps are not here yet or a head has no similarity above 0.
export function betweenTokens(
  overview: Answer,
  mapsOf: (l: number) => readonly Uint16Array[] | null,
  a: Group,
  b: Group,
  relation: PairRelation,
): (number | null)[][] {
  const T = overview.encoding.ids.length;
  return overview.layers.map((_, l) => {
    if (relation !== "similar") {
      const maps = mapsOf(l);
      const [from, to] = relation === "to" ? [a, b] : [b, a];
      return overview.heads.map((_, h) => (maps ? attentionBetween(maps[h]!, T, from, to) : null));
    }
    return overview.heads.map((_, h) => {
      const most = overview.summary![l]![h]!.max_similarity;
      if (!most || most <= 0) return null;
      return similarityBetween(outputsAt(overview, l, h), T, a, b) / most;
    });
  });
}

export const LISTED = 10; // of the ranked heads

interface Ranked {
  l: number;
  h: number;
  value: number;
}

// Largest first.
export const rankHeads = (values: readonly (readonly (number | null)[])[]): Ranked[] =>
  values
    .flatMap((row, l) => row.flatMap((value, h) => (value === null ? [] : [{ l, h, value }])))
    .sort((p, q) => q.value - p.value || p.l - q.l || p.h - q.h);
