// The heads the overview shows and their order: by filter, by search, by a figure or by nearness to one of them.
import type { Answer } from "../app/answer";
import type { App } from "../app/app";
import type { Entry } from "../app/cache";
import { distancesRequest } from "../app/requests";
import type { State } from "../app/state";
import { nearestOf } from "./distances";
import { difference } from "../ui/sortable";
import {
  clarityOf,
  isSought,
  likeOf,
  needsProfiles,
  patternOf,
  soughtPattern,
  soundValueOf,
  type Figure,
  type Known,
  type Label,
} from "./figures";

export interface Place {
  l: number;
  h: number;
}

// The distance of each head from the one that “like 7·5” names, by layer * heads + head.
export type Nearness = ReadonlyMap<number, number>;

// Returns null if no nearness is sought. `entry` is the answer it waits for.
export function nearnessOf(app: App, { layers, heads }: Answer): { nearness: Nearness; entry: Entry | null } | null {
  const named = likeOf(app.state.seek);
  if (!named) return null;
  const [l, head] = named;
  if (l >= layers.length || head >= heads.length) return { nearness: new Map(), entry: null };
  const place = l * heads.length + head;
  const entry = app.cache.want(distancesRequest(app.state));
  const near = entry.answer ? nearestOf(entry.answer, place) : [];
  const nearness = new Map([[place, 0], ...near.map((one): [number, number] => [one.place, one.distance])]);
  return { nearness, entry: entry.answer ? null : entry };
}

// True if the heads are not shown by layer and head.
export const isMixed = ({ sort, only, seek }: State): boolean =>
  sort !== "none" || only !== "all" || seek.trim() !== "";

// True if their maps decide how the heads are ordered or coloured.
export const needsMaps = ({ sort, tint }: State): boolean => [sort, tint].some((m) => m !== "none" && needsProfiles(m));

// The figure below each head, which gives it its colour.
export const figureOf = ({ tint, sort }: State): Figure | null =>
  tint !== "none" ? tint : sort !== "none" ? sort : null;

// The pattern that the filter or the search names.
export const wantedPattern = ({ only, seek }: State): Label | null =>
  only === "all" || only === "none" ? soughtPattern(seek) : only;

function chosenHeads<P extends Place>(
  all: readonly P[],
  known: Known[][],
  { only, seek }: State,
  near: Nearness | null,
): P[] {
  const wide = known[0]?.length ?? 0;
  return all.filter(({ l, h: k }) => {
    const head = known[l]?.[k];
    if (!head) return false;
    const sought = near ? near.has(l * wide + k) : !seek.trim() || isSought(l, k, patternOf(head), seek);
    return (only === "all" || ((patternOf(head) || "none") === only && head.sample)) && sought;
  });
}

export function orderedHeads<P extends Place>(
  all: readonly P[],
  known: Known[][],
  state: State,
  near: Nearness | null,
): P[] {
  const { sort, down, least } = state;
  const wide = known[0]?.length ?? 0;
  const chosen = chosenHeads(all, known, state, near);
  if (near) {
    const distance = ({ l, h }: P): number => near.get(l * wide + h) ?? Infinity;
    return chosen.sort((a, b) => distance(a) - distance(b));
  }
  if (sort === "none") {
    const label = wantedPattern(state);
    const clear = ({ l, h }: P): number => (label && known[l]?.[h] ? clarityOf(known[l][h], label) : 0);
    return chosen.sort((a, b) => clear(b) - clear(a));
  }
  // Heads without the figure, or with too few pairs for it, come last either way.
  const value = ({ l, h: k }: P): number => {
    const head = known[l]?.[k];
    const v = head ? soundValueOf(head, sort, least) : null;
    return v === null ? -Infinity : down ? v : -v;
  };
  return chosen.sort((a, b) => difference(value(b), value(a)) || a.l - b.l || a.h - b.h);
}
