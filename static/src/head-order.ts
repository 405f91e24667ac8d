// Which heads the overview shows and in which order: by filter, by search, by a figure or by nearness to one of them.
import type { Answer } from "./answer";
import type { App } from "./app";
import type { Entry } from "./cache";
import { nearestOf } from "./head-distances";
import { isSought, likeOf, needsProfiles, patternOf, soughtPattern, soundValueOf, type Figure, type Known } from "./metrics";
import { PATTERNS, type Pattern } from "./patterns";
import { distancesRequest } from "./requests";
import type { State } from "./state";

export interface Place {
  l: number;
  h: number;
}

// How far each head is from the one that “like 7·5” names, by place: layer * heads + head.
export type Nearness = ReadonlyMap<number, number>;

// Null where nothing of the kind is sought. The entry is what it is made of, where it is not here yet.
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

// Whether the heads stand otherwise than by layer and head.
export const isMixed = ({ sort, only, seek }: State): boolean => sort !== "none" || only !== "all" || seek.trim() !== "";

// Whether they are chosen or coloured by what their maps show.
export const needsMaps = ({ sort, tint, only, seek }: State): boolean =>
  only !== "all" || seek !== "" || [sort, tint].some((m) => m !== "none" && needsProfiles(m));

// The figure that is written below each, and gives it its colour.
export const figureOf = ({ tint, sort }: State): Figure | null => (tint !== "none" ? tint : sort !== "none" ? sort : null);

// What is looked for by name or by words, which no head may be known for though some do it a little.
export const wantedPattern = ({ only, seek }: State): Pattern | null =>
  PATTERNS.find((pattern) => pattern === only) ?? soughtPattern(seek);

export function chosenHeads<P extends Place>(all: readonly P[], known: Known[][], { only, seek }: State, near: Nearness | null): P[] {
  const wide = known[0]?.length ?? 0;
  return all.filter(({ l, h: k }) => {
    const head = known[l]![k]!;
    const sought = near ? near.has(l * wide + k) : !seek.trim() || isSought(l, k, head, seek);
    return (only === "all" || ((patternOf(head) || "none") === only && head.profile)) && sought;
  });
}

export function orderedHeads<P extends Place>(all: readonly P[], known: Known[][], state: State, near: Nearness | null): P[] {
  const { sort, down, least } = state;
  const wide = known[0]?.length ?? 0;
  const chosen = chosenHeads(all, known, state, near);
  if (near) return chosen.sort((a, b) => near.get(a.l * wide + a.h)! - near.get(b.l * wide + b.h)!);
  if (sort === "none") return chosen;
  // Heads without the figure, or with too few pairs for it, come last either way.
  const value = ({ l, h: k }: P): number => {
    const v = soundValueOf(known[l]![k]!, sort, least);
    return v === null ? -Infinity : down ? v : -v;
  };
  const difference = (a: number, b: number): number => (a === b ? 0 : a - b);
  return chosen.sort((a, b) => difference(value(b), value(a)) || a.l - b.l || a.h - b.h);
}
