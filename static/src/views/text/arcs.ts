// Lines over a text: which tokens they join, how strongly, and the way they take.
import { perObject } from "../../app/per-object";
import { countAbove } from "../../maps/pairs";
import type { Rows } from "./rows";

export const ARCS_MAX = 150; // strongest first; more would hide the text
export const LINE_LEAST = 0.1; // attention below it is not drawn as a line

export interface End {
  i: number;
  j: number;
  value: number; // 0..1
  lane: number; // of the head whose line it is
}

export interface Box {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

const strongestFirst = (a: End, b: End): number => b.value - a.value;

// Lines of one head that pass a bar.
export interface Ends {
  count: number;
  strongest: readonly End[]; // at most ARCS_MAX, falling
}

type Joins = "to" | "from" | "either"; // of chosen tokens; either: between two texts

// Attention worth a line: from the chosen tokens ("to"), to them ("from"), at either end, or between any two. Reads the
// rows and columns of the chosen tokens, and the whole map only without any: then once a map.
export function attentionEnds(rows: Rows, lane: number, chosen: ReadonlySet<number>, joins: Joins): Ends {
  const map = chosen.size ? null : rows.map("to");
  const all = map ? endsOfMap(map) : endsAround(rows, chosen, joins);
  return {
    count: all.length,
    strongest: all.slice(0, ARCS_MAX).map(({ i, j, value }) => {
      const turned = joins === "either" && j < i; // between two texts the upper one comes first
      return { ...(turned ? { i: j, j: i } : { i, j }), value, lane };
    }),
  };
}

// Strongest first, in the order of the map where values are equal.
function sorted(): { add: (i: number, j: number, value: number) => void; ends: () => End[] } {
  const ends: End[] = [];
  return {
    add: (i, j, value) => void (i !== j && value >= LINE_LEAST && ends.push({ i, j, value, lane: 0 })),
    ends: () => ends.sort((a, b) => strongestFirst(a, b) || a.i - b.i || a.j - b.j),
  };
}

const endsOfMap = perObject((map: Float32Array): readonly End[] => {
  const { add, ends } = sorted();
  const n = Math.sqrt(map.length);
  for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) add(i, j, map[i * n + j]!);
  return ends();
});

function endsAround(rows: Rows, chosen: ReadonlySet<number>, joins: Joins): readonly End[] {
  const { add, ends } = sorted();
  for (const t of chosen) {
    const [to, from] = [joins !== "from" && rows.of("to", t), joins !== "to" && rows.of("from", t)];
    for (let u = 0; u < rows.axis.n; u++) {
      if (to) add(t, u, to[u]!);
      if (from && !(to && chosen.has(u))) add(u, t, from[u]!); // once between two chosen tokens
    }
  }
  return ends();
}

// Chooses the lines of several heads: each gets an equal part of ARCS_MAX, and the strongest lines get the rest.
export function drawnEnds(ends: readonly (readonly End[])[]): End[] {
  const part = Math.floor(ARCS_MAX / Math.max(1, ends.length));
  const rest = ends.flatMap((of) => of.slice(part)).sort(strongestFirst);
  const first = ends.flatMap((of) => of.slice(0, part));
  return [...first, ...rest.slice(0, ARCS_MAX - first.length)];
}

// Pairs at or above the threshold, of the chosen tokens if there are any. All pairs are sorted once a head; those of
// chosen tokens are read from their rows. `isHere`: without chosen tokens, pairs that have such a token are drawn.
export function pairEnds(
  rows: Rows,
  threshold: number,
  chosen: ReadonlySet<number>,
  isHere: (t: number) => boolean = () => true,
): Ends {
  if (chosen.size) return pairsAround(rows, threshold, chosen);
  const pairs = rows.pairs();
  const count = pairs ? countAbove(pairs, threshold) : 0;
  const strongest: End[] = [];
  for (let k = 0; pairs && k < count && strongest.length < ARCS_MAX; k++) {
    const [i = 0, j = 0, value = 0] = [pairs.i[k], pairs.j[k], pairs.normalized[k]];
    if (isHere(i) || isHere(j)) strongest.push({ i, j, value, lane: 0 });
  }
  return { count, strongest };
}

function pairsAround(rows: Rows, threshold: number, chosen: ReadonlySet<number>): Ends {
  const tau = Math.fround(threshold); // as countAbove() has it
  const ends: End[] = [];
  for (const t of chosen) {
    const values = rows.of("similar", t);
    for (let u = 0; values && u < values.length; u++) {
      const value = values[u]!;
      if (u === t || (u < t && chosen.has(u))) continue; // once for two chosen tokens
      if (value > 0 && value >= tau) ends.push({ i: Math.min(t, u), j: Math.max(t, u), value, lane: 0 });
    }
  }
  ends.sort((a, b) => strongestFirst(a, b) || a.i - b.i || a.j - b.j);
  return { count: ends.length, strongest: ends.slice(0, ARCS_MAX) };
}

// The boxes of neighbouring tokens joined line by line.
export function linesOf(boxes: readonly Box[]): Box[] {
  const lines: Box[] = [];
  for (const box of boxes) {
    const line = lines.at(-1);
    if (line && Math.abs(line.bottom - box.bottom) < 8) {
      line.left = Math.min(line.left, box.left); // of a text from right to left
      line.right = Math.max(line.right, box.right);
      line.bottom = Math.max(line.bottom, box.bottom);
    } else lines.push({ ...box });
  }
  return lines;
}

const LANE = 2.5; // pixels between the lines that several heads draw from one token to another

// From top to top: a bow on one line, an S between two.
export function arcPath(a: Box, b: Box, lane: number): string {
  const aside = lane * LANE;
  const x1 = (a.left + a.right) / 2 + aside,
    x2 = (b.left + b.right) / 2 + aside;
  if (Math.abs(a.top - b.top) < 4) {
    const rise = Math.min(17, 5 + Math.abs(x2 - x1) * 0.06);
    return `M${x1} ${a.top} Q${(x1 + x2) / 2} ${a.top - rise * 1.9 - aside} ${x2} ${b.top}`;
  }
  const bend = Math.min(60, Math.abs(b.top - a.top) * 0.5);
  return `M${x1} ${a.bottom} C${x1} ${a.bottom + bend} ${x2} ${b.top - bend} ${x2} ${b.top}`;
}

// About where a token of a block without elements would be: `share` of the block is before it.
export function placeIn({ left, right, top, bottom }: Box, share: number, lineHeight: number): Box {
  const lines = Math.max(1, Math.round((bottom - top) / lineHeight));
  const line = Math.min(lines - 1, Math.floor(share * lines));
  const x = left + (right - left) * (share * lines - line);
  const y = top + ((bottom - top) * line) / lines;
  return { left: x, right: x, top: y, bottom: y + (bottom - top) / lines };
}
