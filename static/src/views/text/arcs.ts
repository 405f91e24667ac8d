// Lines over a text: which tokens they join, how strongly, and the way they take.
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

// A map's attention worth a line: from the chosen tokens ("to"), to them ("from"), at either end, or between any two.
export function attentionEnds(
  axis: Axis,
  attention: Float32Array,
  lane: number,
  chosen: ReadonlySet<number>,
  relation: "to" | "from" | "either",
): End[] {
  const either = relation === "either";
  const isWanted = (i: number, j: number): boolean =>
    !chosen.size || (relation !== "from" && chosen.has(i)) || (relation !== "to" && chosen.has(j));
  const ends: End[] = [];
  for (let i = 0; i < axis.n; i++)
    for (let j = 0; j < axis.n; j++) {
      const value = attention[i * axis.n + j]!;
      // Between two texts the upper one comes first.
      if (i !== j && value >= LINE_LEAST && isWanted(i, j))
        ends.push({ ...(either && j < i ? { i: j, j: i } : { i, j }), value, lane });
    }
  return ends.sort(strongestFirst);
}

// Chooses the lines of several heads: each gets an equal part of ARCS_MAX, and the strongest lines get the rest.
export function drawnEnds(ends: readonly End[][]): End[] {
  const part = Math.floor(ARCS_MAX / Math.max(1, ends.length));
  const rest = ends.flatMap((of) => of.slice(part)).sort(strongestFirst);
  const first = ends.flatMap((of) => of.slice(0, part));
  return [...first, ...rest.slice(0, ARCS_MAX - first.length)];
}

export function pairEnds(head: Head, threshold: number, chosen: ReadonlySet<number>): End[] {
  const pairs = pairsOf(head);
  return Array.from({ length: countAbove(pairs, threshold) }, (_, k) => ({
    i: pairs.i[k]!,
    j: pairs.j[k]!,
    value: pairs.normalized[k]!,
    lane: 0,
  })).filter(({ i, j }) => !chosen.size || chosen.has(i) || chosen.has(j));
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
