// The axis on screen and the maps upon it: special tokens hidden, word pieces merged, on demand.
import type { Answer, Encoding } from "../app/answer";
import type { State } from "../app/state";
import { normalize, similarityMaximum, type Axis, type Head } from "./analysis";
import { joined } from "../app/token-labels";
import { escapeBidi } from "../app/bidi";
import { perObject } from "../app/per-object";

export interface Lens {
  special: boolean;
  words: boolean;
}

// Word pieces lose their ## where they continue a merged word.
const label = (tokens: readonly string[]): string =>
  escapeBidi(joined(tokens.map((t, k) => (k ? t.replace(/^##/, "") : t))));

const UNKNOWN = /^(\[UNK\]|<unk>)$/i;

export function axisOf(encoding: Encoding, lens: Lens): Axis {
  const groups: number[][] = [];
  let word: number | null = null,
    type = -1;
  encoding.ids.forEach((_, t) => {
    if (!lens.special && encoding.special[t]) return;
    const w = encoding.words[t] ?? null;
    if (lens.words && w !== null && w === word && encoding.types[t] === type) groups.at(-1)!.push(t);
    else groups.push([t]);
    word = w;
    type = encoding.types[t]!;
  });
  const first = groups.map((g) => g[0]!);
  return {
    n: groups.length,
    groups,
    labels: groups.map((g) => label(g.map((t) => encoding.tokens[t]!))),
    unknown: groups.map((g) => g.some((t) => UNKNOWN.test(encoding.tokens[t]!))),
    keys: groups.map((g) => g.map((t) => encoding.ids[t]).join(" ")),
    sentences: first.map((t) => encoding.sentences[t]!),
    special: first.map((t) => encoding.special[t]!),
    types: first.map((t) => encoding.types[t]!),
    offsets: groups.map((g) => [encoding.offsets[g[0]!]![0], encoding.offsets[g.at(-1)!]![1]]),
    causal: encoding.causal,
    generated: groups.map((g) => g.some((t) => encoding.generated[t])),
    positions: lens.words ? first.map((_, k) => k) : first,
  };
}

// The axis of some of the entries.
export function entriesOf(axis: Axis, entries: readonly number[]): Axis {
  const of = <T>(all: readonly T[]): T[] => entries.map((t) => all[t]!);
  return {
    n: entries.length,
    groups: of(axis.groups),
    labels: of(axis.labels),
    unknown: of(axis.unknown),
    keys: of(axis.keys),
    sentences: of(axis.sentences),
    special: of(axis.special),
    types: of(axis.types),
    offsets: of(axis.offsets),
    causal: axis.causal,
    generated: of(axis.generated),
    positions: of(axis.positions),
  };
}

// An entry for every token.
export const tokenAxisOf = perObject((encoding: Encoding): Axis => axisOf(encoding, { special: true, words: false }));

type Merge = "attention" | "mean";

// A [T][U] map upon its axes. Attention to a word is the sum over its tokens, from a word their mean (Clark et al. 2019);
// similarities are means.
export function project(
  map: ArrayLike<number>,
  T: number,
  axis: Axis,
  merge: Merge,
  unit = 1,
  columns = axis,
): Float32Array {
  const U = T ? map.length / T : 0;
  const out = new Float32Array(axis.n * columns.n);
  if (axis.n === T && columns.n === U) {
    for (let k = 0; k < out.length; k++) out[k] = map[k]! * unit;
    return out;
  }
  axis.groups.forEach((from, i) => {
    columns.groups.forEach((to, j) => {
      let sum = 0;
      for (const r of from) for (const c of to) sum += map[r * U + c]!;
      out[i * columns.n + j] = (sum * unit) / (from.length * (merge === "mean" ? to.length : 1));
    });
  });
  return out;
}

function clearDiagonal(map: Float32Array, n: number): Float32Array {
  for (let i = 0; i < n; i++) map[i * n + i] = 0;
  return map;
}

// |O_i|^2 per token, mean over a word's tokens: the similarity's diagonal.
function ownSimilarity(outputs: Float32Array, T: number, axis: Axis): Float32Array {
  const width = outputs.length / T;
  const own = Float32Array.from({ length: T }, (_, t) => {
    let sum = 0;
    for (let k = t * width; k < (t + 1) * width; k++) sum += outputs[k]! ** 2;
    return sum;
  });
  return Float32Array.from(axis.groups, (g) => g.reduce((sum, t) => sum + own[t]!, 0) / g.length);
}

// One head from its maps; outputs: none where heads are summed.
export function headFrom(
  attention: ArrayLike<number>,
  unit: number,
  S: ArrayLike<number>,
  outputs: Float32Array | null,
  { encoding, source }: Pick<Answer, "encoding" | "source">,
  lens: Lens,
  weighted: ArrayLike<number> | null,
): Omit<Head, "exact"> {
  const axis = axisOf(encoding, lens);
  const columns = source ? axisOf(source, lens) : axis;
  const T = encoding.ids.length;
  const similarity = clearDiagonal(project(S, T, axis, "mean"), axis.n);
  // Special tokens alone are no text: they make no pairs.
  const maximum = axis.special.every(Boolean) ? NaN : similarityMaximum(similarity, axis.n);
  return {
    axis,
    columns,
    attention: project(attention, T, axis, "attention", unit, columns),
    weighted: weighted && project(weighted, T, axis, "attention", 1, columns),
    similarity,
    own: outputs ? ownSimilarity(outputs, T, axis) : null,
    normalized: normalize(similarity, axis.n, maximum),
    maximum,
  };
}

// The exact answer for one head (f4, one layer, one head or their sum).
export function headOf(answer: Answer, lens: Lens): Head {
  const outputs = answer.headOutputs as Float32Array | null;
  const { attentions, similarities } = answer;
  const weighted = answer.weightedNorms as Float32Array | null;
  return { ...headFrom(attentions!, 1, similarities!, outputs, answer, lens, weighted), exact: true };
}

// The token positions of entries; a merged word has that of its first token.
export const tokensOf = (axis: Axis, entries: readonly number[]): number[] =>
  entries.map((t) => axis.groups[t]?.[0] ?? 0);

// The head as far as its similarities show it: two entries of its rows.
export const amongRows = perObject((head: Head): Head => ({ ...head, columns: head.axis }));

// A cell of a head's attention as two token positions.
export const pinOf = (
  { axis, columns }: Pick<Head, "axis" | "columns">,
  [i, j]: readonly [number, number],
): number[] => [...tokensOf(axis, [i]), ...tokensOf(columns, [j])];

// The axis entry a token belongs to, or -1 where it is hidden.
export const entryOf = (axis: Axis, token: number): number => axis.groups.findIndex((g) => g.includes(token));

// The pinned cell, if the head has both of its tokens.
export function pinnedIn(
  { axis, columns }: Pick<Head, "axis" | "columns">,
  { pin }: Pick<State, "pin">,
): [number, number] | null {
  const [row = -1, column = -1] = pin.map((t, k) => entryOf(k ? columns : axis, t));
  return row >= 0 && column >= 0 ? [row, column] : null;
}
