// Lines over a text: which tokens they join, how strongly, and the way they take.
import { perObject } from "../../app/per-object";
import type { Axis, Head } from "../../maps/analysis";
import { countAbove, pairsOf } from "../../maps/pairs";

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

const endsOf = (all: readonly End[]): Ends => ({ count: all.length, strongest: all.slice(0, ARCS_MAX) });

// A map's attention worth a line: from the chosen tokens ("to"), to them ("from"), at either end, or between any two.
// Reads the rows and columns of the chosen tokens, and the whole map only without any: then once a map.
export function attentionEnds(
  axis: Axis,
  attention: Float32Array,
  lane: number,
  chosen: ReadonlySet<number>,
  relation: "to" | "from" | "either",
): Ends {
  const { count, strongest } = chosen.size
    ? endsAround(axis, attention, chosen, relation)
    : endsOfMap(attention)(axis, relation);
  return { count, strongest: strongest.map((end) => ({ ...end, lane })) };
}

const endsOfMap = perObject((attention: Float32Array) => {
  const made = new Map<boolean, Ends>(); // by the order of ends
  return (axis: Axis, relation: "to" | "from" | "either"): Ends => {
    const either = relation === "either";
    const known = made.get(either) ?? endsAround(axis, attention, new Set(), relation);
    made.set(either, known);
    return known;
  };
});

// In the order of the map where values are equal.
function endsAround(
  { n }: Axis,
  attention: Float32Array,
  chosen: ReadonlySet<number>,
  relation: "to" | "from" | "either",
): Ends {
  const either = relation === "either";
  const ends: End[] = [];
  const add = (i: number, j: number): void => {
    const value = attention[i * n + j]!;
    // Between two texts the upper one comes first.
    if (i !== j && value >= LINE_LEAST) ends.push({ ...(either && j < i ? { i: j, j: i } : { i, j }), value, lane: 0 });
  };
  const columns = relation === "to" ? [] : [...chosen].sort((a, b) => a - b);
  for (let i = 0; i < n; i++)
    if (!chosen.size || (relation !== "from" && chosen.has(i))) for (let j = 0; j < n; j++) add(i, j);
    else for (const j of columns) add(i, j);
  return endsOf(ends.sort(strongestFirst));
}

// Chooses the lines of several heads: each gets an equal part of ARCS_MAX, and the strongest lines get the rest.
export function drawnEnds(ends: readonly (readonly End[])[]): End[] {
  const part = Math.floor(ARCS_MAX / Math.max(1, ends.length));
  const rest = ends.flatMap((of) => of.slice(part)).sort(strongestFirst);
  const first = ends.flatMap((of) => of.slice(0, part));
  return [...first, ...rest.slice(0, ARCS_MAX - first.length)];
}

// Pairs at or above the threshold, of the chosen tokens if there are any. All pairs are sorted once a head; those of
// chosen tokens are read from their rows.
export function pairEnds(head: Head, threshold: number, chosen: ReadonlySet<number>): Ends {
  if (chosen.size) return pairsAround(head, threshold, chosen);
  const pairs = pairsOf(head);
  const count = countAbove(pairs, threshold);
  const strongest = Array.from({ length: Math.min(count, ARCS_MAX) }, (_, k) => ({
    i: pairs.i[k]!,
    j: pairs.j[k]!,
    value: pairs.normalized[k]!,
    lane: 0,
  }));
  return { count, strongest };
}

function pairsAround({ normalized, axis }: Head, threshold: number, chosen: ReadonlySet<number>): Ends {
  const { n } = axis;
  const tau = Math.fround(threshold); // as countAbove() has it
  const ends: End[] = [];
  for (const t of chosen)
    for (let u = 0; u < n; u++) {
      if (u === t || (u < t && chosen.has(u))) continue; // once for two chosen tokens
      const [i, j] = [Math.min(t, u), Math.max(t, u)];
      const value = normalized[i * n + j]!;
      if (value > 0 && value >= tau) ends.push({ i, j, value, lane: 0 });
    }
  return endsOf(ends.sort((a, b) => strongestFirst(a, b) || a.i - b.i || a.j - b.j));
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
