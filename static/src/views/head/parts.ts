// The parts of the maps of a text that is too long for whole ones: all cells in blocks, and a window of cells.
import { useMemo } from "preact/hooks";
import type { Answer } from "../../app/answer";
import type { App } from "../../app/app";
import type { Entry } from "../../app/cache";
import { perObject } from "../../app/per-object";
import { pooledHeadRequest, poolOf, windowRequest, type Range } from "../../app/requests";
import type { Selection } from "../../app/selection";
import { hasSimilarities } from "../../app/sources";
import type { State } from "../../app/state";
import { withDiagonal, type Axis, type Head } from "../../maps/analysis";
import { axisOf, entriesOf, project, tokenAxisOf, type Lens } from "../../maps/axis";

const SIDE = 128; // tokens along a window

// The state as far as the maps can follow it. Only whole maps have column sums and other measures than the plain ones, and
// the blocks of pooled maps have no diagonal and no sentences. Without similarities there are no regions of them.
export function withinPart(state: State, part: Head["part"]): State {
  const { overlay } = state;
  const kept = part ? part === "window" && overlay === "pairs" : hasSimilarities(state) || overlay === "mask";
  const known = kept || overlay === "none" ? state : { ...state, overlay: "none" as const };
  if (!part) return known;
  const plain = { ...known, weigh: false, space: "head" } as const;
  return part === "window" ? plain : { ...plain, diag: "paper", lines: false, positions: false };
}

// The window of whole tiles that a token is in.
function tileOf(t: number, T: number): Range {
  const from = Math.max(0, Math.min(Math.floor(t / SIDE) * SIDE, T - SIDE));
  return [from, Math.min(T, from + SIDE)];
}

// The window around the pinned cell: its rows and columns.
export function windowAround(pin: readonly number[], T: number): [rows: Range, columns: Range] {
  const [i = 0, j = 0] = pin.every((t) => t < T) ? pin : [];
  return [tileOf(i, T), tileOf(j, T)];
}

// The axis of blocks of tokens, each named by its first.
export function blocksOf(axis: Axis, width: number): Axis {
  const starts = axis.labels.flatMap((_, t) => (t % width ? [] : [t]));
  const groups = starts.map((from) => axis.groups.slice(from, from + width).flat());
  return { ...entriesOf(axis, starts), groups, labels: starts.map((t) => `${axis.labels[t]} ${t}`) };
}

// `maximum`: of the similarities; NaN if it is not known.
const partOf = (part: Pick<Head, "part" | "axis" | "columns" | "attention" | "similarity" | "maximum">): Head => ({
  ...part,
  normalized: part.similarity.map((s) => (part.maximum <= 0 ? 0 : s / part.maximum)),
  weighted: null,
  own: null,
  exact: true,
});

const pooledHead = perObject(({ pooled, encoding }: Answer): Head => {
  const axis = blocksOf(tokenAxisOf(encoding), poolOf(encoding.ids.length));
  const { attention, similarity } = pooled as { attention: Float32Array; similarity: Float32Array };
  return partOf({ part: "pooled", axis, columns: axis, attention, similarity, maximum: NaN });
});

// The entries whose tokens are all in a range: a word that the window cuts is left out. `local`: with their places in it.
function within(axis: Axis, [from, to]: Range): { shown: Axis; local: Axis } {
  const entries = axis.groups.flatMap((group, k) => (group.every((t) => from <= t && t < to) ? [k] : []));
  const shown = entriesOf(axis, entries);
  return { shown, local: { ...shown, groups: shown.groups.map((group) => group.map((t) => t - from)) } };
}

export function windowHead(
  { encoding, parts: { attention, similarity } }: Pick<Answer, "encoding" | "parts">,
  [rows, columns]: readonly [Range, Range],
  lens: Lens,
  maximum: number,
): Head | null {
  if (!attention || !similarity) return null;
  const whole = axisOf(encoding, lens);
  const [down, across] = [within(whole, rows), within(whole, columns)];
  const projected = (map: Float32Array, merge: "attention" | "mean"): Float32Array =>
    project(map, rows[1] - rows[0], down.local, merge, 1, across.local);
  return partOf({
    part: "window",
    axis: down.shown,
    columns: across.shown,
    attention: projected(attention, "attention"),
    similarity: withDiagonal(projected(similarity, "mean"), down.shown, across.shown, () => 0),
    maximum: lens.words ? NaN : maximum, // that of words is not known
  });
}

interface Parts {
  entries: readonly Entry[];
  pooled: Head | null;
  window: Head | null;
  answer: Answer | null; // of the window
}

// Asks for the parts of a long text's head. `overview`: null of any other text.
export function useParts({ state, cache }: App, overview: Answer | null, { layer, head }: Selection): Parts {
  const T = overview?.encoding.ids.length ?? 0;
  const around = windowAround(state.pin, T);
  const whole = overview && cache.want(pooledHeadRequest(state, layer, head, T));
  const near = overview && cache.want(windowRequest(state, layer, head, ...around));
  const maximum = overview?.summary?.[layer]?.[head]?.max_similarity ?? NaN;
  const answer = near?.answer ?? null;
  const window = useMemo(
    () => answer && windowHead(answer, around, state, maximum),
    [answer, state.special, state.words, maximum],
  );
  const pooled = whole?.answer?.pooled ? pooledHead(whole.answer) : null;
  return { entries: [whole, near].filter((entry) => entry !== null), pooled, window, answer };
}
