// The relations of chosen tokens in a text whose maps are too large for a page: a row or a column of the maps each.
import type { App } from "../../app/app";
import type { Answer } from "../../app/answer";
import type { Entry } from "../../app/cache";
import { windowRequest, type AnalyzeRequest, type Range } from "../../app/requests";
import type { Selection } from "../../app/selection";
import type { State } from "../../app/state";
import { ARCS_MAX, LINE_LEAST, type End } from "./arcs";
import type { Relation } from "./relation";

export const CHOSEN_MOST = 4; // each needs a pass

export type Values = Record<Relation, Float64Array | null>; // of each token; null: not known

// The row of a token tells what it attends to, its column what attends to it. Either has its similarities.
export function partRequest(
  state: State,
  { layer, head }: Selection,
  t: number,
  T: number,
  column: boolean,
): AnalyzeRequest {
  const [one, all]: [Range, Range] = [
    [t, t + 1],
    [0, T],
  ];
  const [rows, columns] = column ? [all, one] : [one, all];
  return windowRequest(state, layer, head, rows, columns);
}

// The answers about a chosen token that are here.
export interface Part {
  t: number;
  row: Answer | null;
  column: Answer | null;
}

export interface Row {
  t: number;
  values: Values;
}

// `maximum`: of the similarities off the diagonal.
export function rowOf({ t, row, column }: Part, maximum: number): Row {
  const plain = (map: Float32Array | null | undefined): Float64Array | null => (map ? Float64Array.from(map) : null);
  const similarity = (row ?? column)?.parts.similarity;
  const similar =
    similarity && maximum > 0 ? Float64Array.from(similarity, (s, u) => (u === t ? 0 : s / maximum)) : null;
  return { t, values: { to: plain(row?.parts.attention), from: plain(column?.parts.attention), similar } };
}

// The mean over the chosen tokens; null if that of one is not known.
export function meanOf(rows: readonly Row[], relation: Relation): Float64Array | null {
  const known = rows.flatMap(({ values }) => values[relation] ?? []);
  const [first] = known;
  if (!first || known.length < rows.length) return null;
  return first.map((_, u) => known.reduce((sum, values) => sum + (values[u] ?? 0), 0) / known.length);
}

// Asks for what the relation needs, one token after the other, and takes what is here of the rest.
export function partsOf(
  { state, cache }: App,
  selection: Selection,
  chosen: readonly number[],
  T: number,
): { parts: Part[]; waits: Entry | null } {
  const isColumn = state.relation === "from";
  let waits: Entry | null = null;
  const parts = chosen.map((t): Part => {
    const [row, column] = [false, true].map((side) => partRequest(state, selection, t, T, side));
    const needed = isColumn ? column : row;
    if (needed && !waits) {
      const entry = cache.want(needed);
      if (!entry.answer) waits = entry;
    }
    return { t, row: row ? cache.peek(row) : null, column: column ? cache.peek(column) : null };
  });
  return { parts, waits };
}

// The lines from each chosen token, the strongest first.
export function rowEnds(rows: readonly Row[], relation: Relation, least: number): End[] {
  const ends = rows.flatMap(({ t, values }) => {
    const own: End[] = [];
    values[relation]?.forEach((value, u) => {
      if (u !== t && value >= least)
        own.push(relation === "from" ? { i: u, j: t, value, lane: 0 } : { i: t, j: u, value, lane: 0 });
    });
    return own;
  });
  return ends.sort((a, b) => b.value - a.value);
}

export const leastOf = (relation: Relation, tau: number): number => (relation === "similar" ? tau : LINE_LEAST);

interface Sorted {
  i: ArrayLike<number>;
  j: ArrayLike<number>;
  normalized: ArrayLike<number>;
}

// The strongest of the first `count` pairs that have a token here.
export function pairsHere({ i, j, normalized }: Sorted, count: number, isHere: (t: number) => boolean): End[] {
  const ends: End[] = [];
  for (let k = 0; k < count && ends.length < ARCS_MAX; k++) {
    const [a = 0, b = 0, value = 0] = [i[k], j[k], normalized[k]];
    if (isHere(a) || isHere(b)) ends.push({ i: a, j: b, value, lane: 0 });
  }
  return ends;
}
