// Figures of one head's maps, computed in the browser so that thresholds act at once. The formulas are those
// of the service (docs: methods), applied to the axis on screen.
import { maximumOf } from "./scale";

// The tokens along both sides of a map: the text's own, or words when pieces are merged, without the special
// tokens when they are hidden.
export interface Axis {
  n: number;
  labels: string[];
  groups: number[][]; // token positions that make each entry, ascending
  unknown: boolean[]; // not in the vocabulary
  keys: string[]; // equal for equal token values
  sentences: number[];
  special: boolean[];
  types: number[];
  offsets: [number, number][];
  causal: boolean; // entries attend to themselves and those before them only
  generated: boolean[]; // the model wrote it
  positions: number[]; // what distances are counted in: token positions, or entries for words
}

// The labels along a map: tokens, with their positions on request.
export const labelsOf = ({ labels, positions }: Axis, withPositions: boolean): readonly string[] =>
  withPositions ? labels.map((label, k) => `${label} ${positions[k]}`) : labels;

export interface Head {
  axis: Axis; // of the rows, n
  columns: Axis; // of attention, m: the same object, or of cross heads the tokens of the text
  attention: Float32Array; // [n][m]
  weighted: Float32Array | null; // [n][m], attention weighed by norms, if requested
  similarity: Float32Array; // [n][n], diagonal 0
  own: Float32Array | null; // [n], the similarity's diagonal |O_i|^2; known of plain similarities only
  normalized: Float32Array; // [n][n], diagonal 0
  maximum: number; // m; NaN without pairs, and if a part's is not known
  exact: boolean; // false: from the overview: attention in steps of 1/255, outputs of half precision
  part?: "pooled" | "window"; // of a long text's maps; its similarities are [n][m], too
}

// m: the largest element off the diagonal.
export function similarityMaximum(similarity: ArrayLike<number>, n: number): number {
  let top = -Infinity;
  for (let i = 0; i < n; i++)
    for (let j = 0; j < n; j++) if (i !== j && similarity[i * n + j]! > top) top = similarity[i * n + j]!;
  return top;
}

// N = S / m with diagonal 0; all 0 when m <= 0.
export function normalize(similarity: ArrayLike<number>, n: number, maximum: number): Float32Array {
  const out = new Float32Array(n * n);
  if (!(maximum > 0) || !Number.isFinite(maximum)) return out;
  for (let k = 0; k < out.length; k++) out[k] = similarity[k]! / maximum;
  for (let i = 0; i < n; i++) out[i * n + i] = 0;
  return out;
}

// A copy of a map with these values where an entry meets itself. A part of a map may have such cells anywhere.
export function withDiagonal(
  map: Float32Array,
  axis: Pick<Axis, "positions">,
  columns: Pick<Axis, "positions" | "n">,
  value: (row: number) => number,
): Float32Array {
  const values = map.slice();
  const at = new Map(columns.positions.map((position, j) => [position, j]));
  axis.positions.forEach((position, i) => {
    const j = at.get(position);
    if (j !== undefined) values[i * columns.n + j] = value(i);
  });
  return values;
}

// True for a cross head: its rows are of one text, its columns of another.
export const isRectangular = ({ axis, columns, part }: Pick<Head, "axis" | "columns" | "part">): boolean =>
  axis !== columns && !part;

// c: column sums divided by their maximum.
export function columnProfile(attention: ArrayLike<number>, columns: number): Float64Array {
  const sums = new Float64Array(columns);
  for (let k = 0; k < attention.length; k++) sums[k % columns]! += attention[k]!;
  const top = maximumOf(sums);
  if (top > 0) for (let j = 0; j < columns; j++) sums[j]! /= top;
  return sums;
}

// H: the tokens that gather attention.
export function highTokens(profile: ArrayLike<number>, threshold: number): number[] {
  return Array.from(profile).flatMap((c, j) => (c >= threshold ? [j] : []));
}

// The token axis cut by H, each token of H a run of its own. Half-open.
export function runsOf(high: readonly number[], n: number): [number, number][] {
  const runs: [number, number][] = [];
  let start = 0;
  for (const token of high) {
    if (token > start) runs.push([start, token]);
    runs.push([token, token + 1]);
    start = token + 1;
  }
  if (start < n) runs.push([start, n]);
  return runs;
}

// Means of S over each run x run cell, diagonal excluded, spread back over the cells (Fig. 5).
export function averagedRegions(
  similarity: ArrayLike<number>,
  n: number,
  runs: readonly [number, number][],
): Float32Array {
  const out = new Float32Array(n * n);
  for (const [a, b] of runs)
    for (const [c, d] of runs) {
      let sum = 0,
        count = 0;
      for (let i = a; i < b; i++)
        for (let j = c; j < d; j++) {
          if (i === j) continue;
          sum += similarity[i * n + j]!;
          count++;
        }
      const mean = count ? sum / count : 0;
      for (let i = a; i < b; i++) out.fill(mean, i * n + c, i * n + d);
    }
  return out;
}

export interface Segment {
  start: number;
  end: number;
  cohesion: number | null; // null: there are no such pairs
  contrast: number | null;
}

// The layer's text segments: a boundary follows each token of H (of the head-summed attention) that is not
// special and is not directly followed by another. meanNormalized is N averaged over the layer's heads.
export function segmentsOf(
  summedAttention: ArrayLike<number>,
  meanNormalized: ArrayLike<number>,
  axis: Axis,
  threshold: number,
): Segment[] {
  const high = new Set(highTokens(columnProfile(summedAttention, axis.n), threshold));
  const ends = Array.from({ length: axis.n }, (_, t) => t).filter(
    (t) => t === axis.n - 1 || (high.has(t) && !axis.special[t] && !high.has(t + 1)),
  );
  return ends.map((end, k) => {
    const start = k ? ends[k - 1]! + 1 : 0;
    return { start, end: end + 1, ...cohesion(meanNormalized, axis.n, start, end + 1) };
  });
}

function cohesion(
  normalized: ArrayLike<number>,
  n: number,
  start: number,
  end: number,
): Pick<Segment, "cohesion" | "contrast"> {
  let inside = 0,
    across = 0;
  for (let i = start; i < end; i++)
    for (let j = 0; j < n; j++) {
      if (j < start || j >= end) across += normalized[i * n + j]!;
      else if (i !== j) inside += normalized[i * n + j]!;
    }
  const size = end - start;
  const within = size * (size - 1),
    between = size * (n - size);
  return { cohesion: within ? inside / within : null, contrast: between ? across / between : null };
}
