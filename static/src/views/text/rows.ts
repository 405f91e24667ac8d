// The relations of tokens: what each attends to, is attended by and is similar to. The maps of a long text are too large
// for a page, so a row or a column is fetched for each chosen token.
import { useMemo } from "preact/hooks";
import { partAt, type Answer } from "../../app/answer";
import type { App } from "../../app/app";
import type { Entry } from "../../app/cache";
import { perObject } from "../../app/per-object";
import { attentionPartRequest, pairsRequest, windowRequest, type AnalyzeRequest, type Range } from "../../app/requests";
import type { Selection } from "../../app/selection";
import type { State } from "../../app/state";
import { isOfTarget, TARGET } from "../../heads/joint";
import type { Axis, Head } from "../../maps/analysis";
import { tokenAxisOf } from "../../maps/axis";
import { pairsFrom, pairsOf, type Pairs } from "../../maps/pairs";
import type { Relation } from "./state";

export const RELATION_CHOICES = [
  { value: "similar", label: "Similar to" },
  { value: "to", label: "Attends to" },
  { value: "from", label: "Attended by" },
] as const;

export const ABOUT: Record<Relation, { title: string; quantity: "attention" | "similarity"; all: string }> = {
  to: { title: "Attends to", quantity: "attention", all: "Attention each token receives, on average. " },
  from: { title: "Attended by", quantity: "attention", all: "Each token’s attention, spread over all. " },
  similar: { title: "Similar to", quantity: "similarity", all: "Similarity of each token to all others, on average. " },
};

type Values = ArrayLike<number>;

// The relations in one head.
export interface Rows {
  axis: Axis;
  of(relation: Relation, t: number): Values | null; // of every token to token t; null: not here
  map(relation: Relation): Float32Array | null; // [n][n]; null: of a long text
  pairs(): Pairs | null; // falling; null: not here
}

// Reads maps that are here.
function rowsIn(axis: Axis, attention: Float32Array, head: Head | null): Rows {
  const { n } = axis;
  const map = (relation: Relation): Float32Array | null =>
    relation === "similar" ? (head?.normalized ?? null) : attention;
  return {
    axis,
    map,
    of(relation, t) {
      const values = map(relation);
      const [from, step] = relation === "from" ? [t, n] : [t * n, 1];
      if (!values) return null;
      const out = new Float32Array(n);
      for (let u = 0; u < n; u++) out[u] = values[from + u * step]!;
      return out;
    },
    pairs: () => head && pairsOf(head),
  };
}

export const rowsOf = perObject((head: Head): Rows => rowsIn(head.axis, head.attention, head));
export const attentionRows = (axis: Axis, attention: Float32Array): Rows => rowsIn(axis, attention, null);

const KEPT = 32; // relations of one head: at most 0.5 MB for 2,048 tokens
const byRows = perObject<Rows, Map<string, Float64Array | null>>(() => new Map());

// Each entry's relation to the chosen ones, on average; to all others if none is chosen. Null if that of one is not here.
// Cached for each head, because without chosen tokens it reads the whole map.
export function relationOf(rows: Rows, chosen: readonly number[], relation: Relation): Float64Array | null {
  const known = byRows(rows);
  const key = `${relation} ${chosen.join()}`;
  let values = known.get(key);
  if (values === undefined) {
    if (known.size >= KEPT) known.clear();
    known.set(key, (values = chosen.length ? meanOf(rows, chosen, relation) : meanOfAll(rows, relation)));
  }
  return values;
}

function meanOf(rows: Rows, chosen: readonly number[], relation: Relation): Float64Array | null {
  const out = new Float64Array(rows.axis.n);
  for (const t of chosen) {
    const values = rows.of(relation, t);
    if (!values) return null;
    for (let u = 0; u < out.length; u++) out[u]! += values[u]! / chosen.length;
  }
  return out;
}

function meanOfAll(rows: Rows, relation: Relation): Float64Array | null {
  const { axis } = rows;
  const { n } = axis;
  const map = rows.map(relation);
  if (!map) return null;
  // Only tokens of the target attend in a cross head, to those of the text.
  const cross = axis.types.includes(TARGET);
  const of = [...Array(n).keys()].filter((t) => !cross || isOfTarget(axis, t) === (relation === "to"));
  const out = new Float64Array(n);
  if (relation === "from") for (let u = 0; u < n; u++) for (const t of of) out[u]! += map[u * n + t]! / of.length;
  else for (const t of of) for (let u = 0; u < n; u++) out[u]! += map[t * n + u]! / of.length;
  return out;
}

export const CHOSEN_MOST = 4; // of a long text: each needs a pass

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

type Part = Pick<Answer, "parts">;

// The answers about a chosen token that are here.
export interface Fetched {
  t: number;
  row: Part | null;
  column: Part | null;
}

// `maximum`: of the similarities off the diagonal.
export function fetchedRows(axis: Axis, parts: readonly Fetched[], maximum: number, pairs: Answer["pairs"]): Rows {
  return {
    axis,
    map: () => null,
    of(relation, t) {
      const part = parts.find((one) => one.t === t);
      if (relation === "to") return part?.row?.parts.attention ?? null;
      if (relation === "from") return part?.column?.parts.attention ?? null;
      const similarity = (part?.row ?? part?.column)?.parts.similarity;
      return similarity && maximum > 0 ? Float64Array.from(similarity, (s, u) => (u === t ? 0 : s / maximum)) : null;
    },
    pairs: () => pairs && pairsFrom(pairs),
  };
}

// Asks for what the relation needs, one token after the other, and takes what is here of the rest. Pairs are drawn while
// no token is chosen. `overview`: of a long text; null: of none.
export function useFetched(
  { state, cache }: App,
  overview: Answer | null,
  selection: Selection,
  chosen: readonly number[],
): { rows: Rows | null; waiting: Entry | null } {
  const { arcs, relation } = state;
  const { layer, head } = selection;
  const T = overview?.encoding.ids.length ?? 0;
  const listed = overview && relation === "similar" && !chosen.length && arcs;
  const pairs = listed ? cache.want(pairsRequest(state, layer, head)) : null;
  let waiting: Entry | null = pairs?.answer ? null : pairs;
  const parts: Fetched[] = [];
  for (const t of overview ? chosen : []) {
    const row = partRequest(state, selection, t, T, false);
    const column = partRequest(state, selection, t, T, true);
    const entry = waiting ? null : cache.want(relation === "from" ? column : row);
    if (entry && !entry.answer) waiting = entry;
    parts.push({ t, row: cache.peek(row), column: cache.peek(column) });
  }
  const found = pairs?.answer?.pairs ?? null;
  const maximum = overview?.summary?.[layer]?.[head]?.max_similarity ?? NaN;
  const answers = Array.from({ length: 2 * CHOSEN_MOST }, (_, k) => parts[k >> 1]?.[k % 2 ? "row" : "column"]);
  const rows = useMemo(
    () => overview && fetchedRows(tokenAxisOf(overview.encoding), parts, maximum, found),
    [overview, String(chosen), maximum, found, ...answers],
  );
  return { rows, waiting };
}

// Fetches the rows of other heads of a long text: one pass for each chosen token and layer, one after the other. A head has
// null until all of its rows are here.
export function rowsOfOthers(
  app: App,
  axis: Axis,
  others: readonly Selection[],
  chosen: readonly number[],
): (Rows | null)[] {
  const { state, cache } = app;
  const T = app.overview().answer?.encoding.ids.length ?? 0;
  const column = state.relation === "from";
  const known = new Map<string, Answer>();
  let waits = false;
  for (const layer of new Set(others.map((one) => one.layer)))
    for (const t of chosen.slice(-CHOSEN_MOST)) {
      const group = axis.groups[t] ?? [];
      const own: Range = [Math.min(...group), Math.max(...group) + 1]; // a word's tokens adjoin
      const request = attentionPartRequest(state, column ? [0, T] : own, column ? own : [0, T], [layer]);
      const answer = waits ? cache.peek(request) : cache.want(request).answer;
      if (answer) known.set(`${layer} ${t}`, answer);
      else waits = true;
    }
  return others.map(({ layer, head }) => {
    const values = new Map<number, Float64Array>();
    for (const t of chosen.slice(-CHOSEN_MOST)) {
      const answer = known.get(`${layer} ${t}`);
      if (!answer) return null;
      values.set(t, partOver(axis, answer, head, column));
    }
    const of = (relation: Relation, t: number): Values | null =>
      relation === state.relation ? (values.get(t) ?? null) : null;
    return { axis, map: () => null, of, pairs: () => null };
  });
}

// Brings a head's fetched rows of an entry, or its columns, onto the axis. Attention is summed over the tokens of an entry
// that are attended to, and averaged over those that attend.
function partOver(axis: Axis, answer: Answer, head: number, column: boolean): Float64Array {
  const part = partAt(answer.parts.attention!, answer, 0, head);
  const T = answer.encoding.ids.length;
  const wide = part.length / T; // tokens of the entry
  return Float64Array.from(axis.groups, (group) => {
    let sum = 0;
    for (const u of group) for (let k = 0; k < wide; k++) sum += part[column ? u * wide + k : k * T + u]!;
    return sum / (column ? group.length : wide);
  });
}
