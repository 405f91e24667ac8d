// Draws routes: tokens across, layers upwards, each hop a curve that is as wide as its routes are strong. The
// tokens of a text that cross heads attend to stand left of those of the target.
import type { Hop, Route } from "../../heads/routes";
import { svg } from "../../app/dom";
import { levelName } from "../../ui/levels";

const SIDE = 84, // beside the columns, for the layers' names
  TOP = 64,
  FOOT = 56,
  NAMES = 22, // below it, for the names of both texts
  BETWEEN = 36, // both texts
  ROW = 30, // 12 layers fit a window of 1280 × 800
  LOW = 6, // the row of a folded layer
  APART = 18, // folded layers side by side, at least: so that the names above and below them are apart
  END = 24, // behind the last column
  COLUMN_LEAST = 30, // below it the picture is drawn smaller
  COLUMN_MOST = 68,
  WIDEST = 9, // pixels of the strongest hop
  NAMED = 14; // hops that are all named; of more, those of the chosen route

export interface Drawing {
  tokens: readonly number[]; // the columns
  hops: readonly Hop[]; // in the order of their paths
  root: SVGSVGElement;
}

interface Drawn {
  hop: Hop;
  strength: number; // of all routes through it
  chosen: boolean;
  off: boolean;
}

const keyOf = ({ layer, head, from, to }: Hop): string => `${layer} ${head} ${from} ${to}`;

// The layers in which the strongest route and the chosen one stay at their tokens.
export const idleLayers = (routes: readonly Route[], chosen: number, layers: number): ReadonlySet<number> => {
  const moved = [routes[0], routes[chosen]].flatMap((route) => route?.hops ?? []).map(({ layer }) => layer);
  return new Set(Array.from({ length: layers }, (_, layer) => layer).filter((layer) => !moved.includes(layer)));
};

// The runs of folded layers, each its lowest and its highest.
function runsOf(layers: number, folded: ReadonlySet<number>): [number, number][] {
  const ends = (step: 1 | -1): number[] =>
    Array.from({ length: layers }, (_, layer) => layer).filter((l) => folded.has(l) && !folded.has(l + step));
  const tops = ends(1);
  return ends(-1).map((low, n) => [low, tops[n] ?? low]);
}

function drawnHops(routes: readonly Route[], chosen: number, isOff: (hop: Hop) => boolean): Drawn[] {
  const drawn = new Map<string, Drawn>();
  routes.forEach(({ hops, strength }, n) => {
    for (const hop of hops) {
      const known = drawn.get(keyOf(hop)) ?? { hop, strength: 0, chosen: false, off: isOff(hop) };
      known.strength += strength;
      known.chosen ||= n === chosen;
      drawn.set(keyOf(hop), known);
    }
  });
  return [...drawn.values()].sort((a, b) => Number(a.chosen) - Number(b.chosen)); // the chosen ones on top
}

// `words`: of the result at the target. `labels`: of all tokens. `space`: the width in CSS px that the columns may take.
// `T`: tokens of the layers; those from there on are of the text that the encoder reads. `folded`: layers drawn low.
export function drawingOf(
  routes: readonly Route[],
  of: {
    layers: number;
    folded: ReadonlySet<number>;
    target: number;
    T: number;
    labels: readonly string[];
    words: string;
    space: number;
  },
  chosen: number,
  isOff: (hop: Hop) => boolean,
): Drawing {
  const { layers, folded, target, T, labels, words, space } = of;
  const drawn = drawnHops(routes, chosen, isOff);
  const shown = [...new Set([target, ...drawn.flatMap(({ hop }) => [hop.from, hop.to])])].sort((a, b) => a - b);
  const [read, own] = [shown.filter((t) => t >= T), shown.filter((t) => t < T)];
  const tokens = [...read, ...own];
  const between = read.length ? BETWEEN : 0;
  const column = Math.max(COLUMN_LEAST, Math.min(COLUMN_MOST, (space - SIDE - END - between) / tokens.length));
  const x = (t: number): number => SIDE + (tokens.indexOf(t) + 0.5) * column + (t < T ? between : 0);
  const runs = runsOf(layers, folded);
  const rows = Array<number>(layers).fill(ROW);
  for (const [low, top] of runs) rows.fill(Math.max(LOW, APART / (top - low + 1)), low, top + 1);
  const y = (level: number): number => rows.slice(level).reduce((sum, row) => sum + row, TOP); // level 0: the embeddings
  const width = SIDE + tokens.length * column + between + END;
  const height = y(0) + FOOT + (read.length ? NAMES : 0);
  const most = Math.max(...drawn.map(({ strength }) => strength), Number.MIN_VALUE);
  const curves = drawn.map(({ hop, strength, chosen, off }) => {
    const [x0, x1, y0, y1] = [x(hop.from), x(hop.to), y(hop.layer), y(hop.layer + 1)];
    const middle = (y0 + y1) / 2;
    const wide = Math.max(1.5, (WIDEST * strength) / most);
    const d = `M${x0} ${y0}C${x0} ${middle} ${x1} ${middle} ${x1} ${y1}`;
    return svg("path", { d, class: off ? "off" : chosen ? "chosen" : null, "stroke-width": wide });
  });
  const right = x(target) > width / 2;
  const root = svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height },
    runs.map(([low, top]) =>
      svg("rect", { class: "folded", x: SIDE, y: y(top + 1), width: width - END - SIDE, height: y(low) - y(top + 1) }),
    ),
    curves,
    frame({ layers, folded, T, width, column, x, y }, tokens, labels),
    read.length ? [nameOfText("text", read, x, height), nameOfText("target", own, x, height)] : [],
    svg("rect", { class: "target", x: x(target) - 5, y: y(layers) - 5, width: 10, height: 10 }),
    text(words, x(target) + (right ? 6 : -6), y(layers) - 22, 14, right ? "end" : "start", "bold"),
    drawn
      .filter(({ hop, chosen }) => (chosen || drawn.length <= NAMED) && !folded.has(hop.layer))
      .map(({ hop, chosen }) => nameOf(hop, x, y, chosen)),
  );
  return { tokens, hops: drawn.map(({ hop }) => hop), root };
}

type Place = (value: number) => number;
type Anchor = "start" | "middle" | "end";

const text = (words: string, x: number, y: number, size: number, anchor: Anchor, kind: string | null = null) =>
  svg("text", { x, y: y + 0.36 * size, "font-size": size, "text-anchor": anchor, class: kind }, words);

// Below the middle of its tokens.
const nameOfText = (name: string, tokens: readonly number[], x: Place, height: number): SVGElement =>
  text(name, (x(tokens[0] ?? 0) + x(tokens.at(-1) ?? 0)) / 2, height - NAMES / 2, 12, "middle", "bold");

function nameOf({ layer, head, from, to }: Hop, x: Place, y: Place, chosen: boolean): SVGElement[] {
  // On the curve, a quarter of its height above its start, where curves to one token have not met yet.
  const along = 0.75;
  const bend = along * along * (3 - 2 * along);
  const [left, top] = [x(to) + (x(from) - x(to)) * bend, y(layer + 1) + (y(layer) - y(layer + 1)) * along];
  return [
    svg("rect", { class: "behind", x: left - 14, y: top - 7, width: 28, height: 14 }),
    text(`${layer}·${head}`, left, top, 10, "middle", chosen ? "bold" : null),
  ];
}

function frame(
  of: { layers: number; folded: ReadonlySet<number>; T: number; width: number; column: number; x: Place; y: Place },
  tokens: readonly number[],
  labels: readonly string[],
): SVGElement[] {
  const { layers, folded, T, width, column, x, y } = of;
  const levels = Array.from({ length: layers + 1 }, (_, level) => level)
    .filter((level) => !folded.has(level - 1) || !folded.has(level))
    .map((level) => [
      svg("path", { class: "level", d: `M${SIDE} ${y(level)}H${width - END}` }),
      text(levelName(level), SIDE - 8, y(level), 10, "end", "muted"),
    ]);
  const columns = tokens.map((t) => [
    svg("path", { class: "column", d: `M${x(t)} ${y(0)}V${y(layers)}` }),
    svg("rect", { x: x(t) - 2.5, y: y(0) - 2.5, width: 5, height: 5 }),
    text(short(labels[t] ?? "", column), x(t), y(0) + 20, column < COLUMN_MOST ? 11 : 13, "middle"),
    text(String(t < T ? t : t - T), x(t), y(0) + 38, 10, "middle", "muted"),
  ]);
  return [...levels, ...columns].flat();
}

// Returns as much of a token as its column has space for.
const short = (label: string, column: number): string => {
  const [letters, most] = [[...label], Math.floor(column / 7.5)];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : label;
};
