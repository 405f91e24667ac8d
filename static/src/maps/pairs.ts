// High-similarity pairs of one head. All pairs are sorted once, strongest first, so a threshold is a prefix.
import type { FoundPairs } from "../app/answer";
import { perObject } from "../app/per-object";
import type { Axis, Head } from "./analysis";

export interface Pairs {
  i: Uint16Array;
  j: Uint16Array;
  normalized: Float32Array; // falling
}

export const WISHES = ["any", "yes", "no"] as const;
type Wish = (typeof WISHES)[number];

interface PairFilter {
  find: string; // part of either token, or of "a b" both
  near: number;
  far: number; // 0: no bound
  same: Wish;
  within: Wish;
}

// Every pair i < j with N above 0, in the service's order: N descending, equal ones by i, then j.
export function sortPairs(normalized: Float32Array, n: number): Pairs {
  let count = 0;
  for (let i = 0; i < n; i++) for (let j = i + 1; j < n; j++) if (normalized[i * n + j]! > 0) count++;
  // One sortable number a pair: N's bits (positive floats order like integers), then the position.
  const order = new Float64Array(count);
  const bits = new Uint32Array(normalized.buffer, normalized.byteOffset, normalized.length);
  const cells = n * n;
  let at = 0;
  for (let i = 0; i < n; i++)
    for (let j = i + 1; j < n; j++) {
      const cell = i * n + j;
      if (normalized[cell]! > 0) order[at++] = (0x7f800000 - bits[cell]!) * cells + cell;
    }
  order.sort();
  const pairs = { i: new Uint16Array(count), j: new Uint16Array(count), normalized: new Float32Array(count) };
  for (let k = 0; k < count; k++) {
    const cell = order[k]! % cells;
    pairs.i[k] = Math.floor(cell / n);
    pairs.j[k] = cell % n;
    pairs.normalized[k] = normalized[cell]!;
  }
  return pairs;
}

// The pairs of a long text, which the service has sorted.
export const pairsFrom = perObject(({ i, j, normalized }: FoundPairs): Pairs => ({
  i: Uint16Array.from(i),
  j: Uint16Array.from(j),
  normalized,
}));

// Counts the pairs that reach the threshold: the length of the prefix. The threshold counts as float32, as it does
// in the service.
export function countAbove(pairs: Pairs, threshold: number): number {
  const tau = Math.fround(threshold);
  let low = 0,
    high = pairs.normalized.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (pairs.normalized[middle]! >= tau) low = middle + 1;
    else high = middle;
  }
  return low;
}

export const distanceOf = (pairs: Pairs, k: number, axis: Axis): number =>
  axis.positions[pairs.j[k]!]! - axis.positions[pairs.i[k]!]!;
export const sameToken = (pairs: Pairs, k: number, axis: Axis): boolean =>
  axis.keys[pairs.i[k]!] === axis.keys[pairs.j[k]!];
export const sameSentence = (pairs: Pairs, k: number, axis: Axis): boolean =>
  axis.sentences[pairs.i[k]!] === axis.sentences[pairs.j[k]!];

// Indices into pairs, within the first `count`, that pass.
export function filterPairs(pairs: Pairs, count: number, axis: Axis, filter: PairFilter): Uint32Array {
  const words = filter.find.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const labels = axis.labels.map((l) => l.toLowerCase());
  const agrees = (wish: Wish, is: boolean): boolean => wish === "any" || (wish === "yes") === is;
  const kept = new Uint32Array(count);
  let n = 0;
  for (let k = 0; k < count; k++) {
    const distance = distanceOf(pairs, k, axis);
    if (distance < filter.near || (filter.far > 0 && distance > filter.far)) continue;
    if (!agrees(filter.same, sameToken(pairs, k, axis))) continue;
    if (!agrees(filter.within, sameSentence(pairs, k, axis))) continue;
    const a = labels[pairs.i[k]!]!,
      b = labels[pairs.j[k]!]!;
    if (words.length && !words.every((w) => a.includes(w) || b.includes(w))) continue;
    kept[n++] = k;
  }
  return kept.subarray(0, n);
}

type PairColumn = "i" | "j" | "token_i" | "token_j" | "normalized" | "distance" | "same_token" | "same_sentence";

// Sorts by "-normalized", "distance", ...: a leading minus means falling. Ties keep the strongest first.
export function orderPairs(kept: Uint32Array, pairs: Pairs, axis: Axis, order: string): Uint32Array {
  const falling = order.startsWith("-");
  const column = order.replace(/^-/, "") as PairColumn;
  if (column === "normalized") return falling ? kept : kept.slice().reverse();
  const collator = new Intl.Collator(undefined, { numeric: true });
  const rank = Uint32Array.from(axis.labels.keys());
  [...axis.labels.keys()]
    .sort((a, b) => collator.compare(axis.labels[a]!, axis.labels[b]!))
    .forEach((label, at) => {
      rank[label] = at;
    });
  const value: Record<Exclude<PairColumn, "normalized">, (k: number) => number> = {
    i: (k) => pairs.i[k]!,
    j: (k) => pairs.j[k]!,
    token_i: (k) => rank[pairs.i[k]!]!,
    token_j: (k) => rank[pairs.j[k]!]!,
    distance: (k) => distanceOf(pairs, k, axis),
    same_token: (k) => Number(sameToken(pairs, k, axis)),
    same_sentence: (k) => Number(sameSentence(pairs, k, axis)),
  };
  const of = value[column] ?? value.i;
  const sign = falling ? -1 : 1;
  return kept.slice().sort((a, b) => sign * (of(a) - of(b)) || a - b);
}

interface PairFigures {
  count: number;
  repeated: number;
  sameSentence: number;
  meanDistance: number;
  focal: string | null; // the value most pairs contain; of equal ones the one that occurs first
  focalShare: number;
}

export function figuresOf(pairs: Pairs, kept: ArrayLike<number>, axis: Axis): PairFigures {
  const count = kept.length;
  let repeated = 0,
    within = 0,
    distance = 0;
  const contains = new Map<string, number>();
  for (let n = 0; n < count; n++) {
    const k = kept[n]!;
    const a = axis.keys[pairs.i[k]!]!,
      b = axis.keys[pairs.j[k]!]!;
    if (a === b) repeated++;
    else contains.set(b, (contains.get(b) ?? 0) + 1);
    contains.set(a, (contains.get(a) ?? 0) + 1);
    if (sameSentence(pairs, k, axis)) within++;
    distance += distanceOf(pairs, k, axis);
  }
  let focal: string | null = null,
    most = 0;
  for (const [t, key] of axis.keys.entries()) {
    const times = contains.get(key) ?? 0;
    if (times <= most) continue;
    most = times;
    focal = axis.labels[t]!;
  }
  return {
    count,
    repeated: repeated / count,
    sameSentence: within / count,
    meanDistance: distance / count,
    focal,
    focalShare: most / count,
  };
}

// Pairs a distance, 0..largest.
export function distanceHistogram(pairs: Pairs, kept: ArrayLike<number>, axis: Axis): Uint32Array {
  const last = axis.positions[axis.n - 1] ?? 0;
  const counts = new Uint32Array(last - (axis.positions[0] ?? 0) + 1);
  for (let n = 0; n < kept.length; n++) counts[distanceOf(pairs, kept[n]!, axis)]!++;
  return counts;
}

// A head's pairs, sorted once.
export const pairsOf = perObject(({ normalized, axis }: Head): Pairs => sortPairs(normalized, axis.n));
