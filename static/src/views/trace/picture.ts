// Draws routes: tokens across, layers upwards, each hop a curve that is as wide as its routes are strong. The same drawing
// is on screen and in saved files.
import type { Ink, Surface } from "../../saving/surface";
import type { Hop, Route } from "../../heads/routes";

const SIDE = 84, // beside the columns, for the layers' names
  TOP = 64,
  FOOT = 56,
  ROW = 42,
  COLUMNS = 620, // all of them together, as far as each keeps the least
  COLUMN_LEAST = 44,
  COLUMN_MOST = 68,
  WIDEST = 9, // pixels of the strongest hop
  NAMED = 14; // hops that are all named; of more, those of the chosen route

export interface Drawing {
  tokens: readonly number[]; // the columns
  hops: readonly Hop[]; // in the order of their paths
  width: number;
  height: number;
  draw: (surface: Surface, ink: Ink) => void;
}

interface Drawn {
  hop: Hop;
  strength: number; // of all routes through it
  chosen: boolean;
  off: boolean;
}

const keyOf = ({ layer, head, from, to }: Hop): string => `${layer} ${head} ${from} ${to}`;

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

// `words`: of the result at the target. `labels`: of all tokens.
export function drawingOf(
  routes: readonly Route[],
  { layers, target, labels, words }: { layers: number; target: number; labels: readonly string[]; words: string },
  chosen: number,
  isOff: (hop: Hop) => boolean,
): Drawing {
  const drawn = drawnHops(routes, chosen, isOff);
  const tokens = [...new Set([target, ...drawn.flatMap(({ hop }) => [hop.from, hop.to])])].sort((a, b) => a - b);
  const column = Math.max(COLUMN_LEAST, Math.min(COLUMN_MOST, COLUMNS / tokens.length));
  const x = (t: number): number => SIDE + (tokens.indexOf(t) + 0.5) * column;
  const y = (level: number): number => TOP + (layers - level) * ROW; // level 0: the embeddings
  const width = SIDE + tokens.length * column + 24;
  const height = TOP + layers * ROW + FOOT;
  const most = Math.max(...drawn.map(({ strength }) => strength), Number.MIN_VALUE);
  const draw = (surface: Surface, ink: Ink): void => {
    for (const { hop, strength, chosen, off } of drawn) {
      const [x0, x1, y0, y1] = [x(hop.from), x(hop.to), y(hop.layer), y(hop.layer + 1)];
      const middle = (y0 + y1) / 2;
      const curve = `M${x0} ${y0}C${x0} ${middle} ${x1} ${middle} ${x1} ${y1}`;
      const wide = Math.max(1.5, (WIDEST * strength) / most);
      surface.path(curve, off ? ink.muted : ink.accent, wide, off ? 0.3 : chosen ? 1 : 0.5);
    }
    drawFrame(surface, ink, { layers, width, column, x, y }, tokens, labels);
    surface.rect(x(target) - 5, y(layers) - 5, 10, 10, ink.accent, null);
    const right = x(target) > width / 2;
    surface.text(words, x(target) + (right ? 6 : -6), y(layers) - 22, {
      size: 14,
      colour: ink.ink,
      bold: true,
      anchor: right ? "end" : "start",
    });
    for (const { hop, chosen } of drawn) if (chosen || drawn.length <= NAMED) drawName(surface, ink, hop, x, y, chosen);
  };
  return { tokens, hops: drawn.map(({ hop }) => hop), width, height, draw };
}

type Place = (value: number) => number;

function drawName(surface: Surface, ink: Ink, { layer, head, from, to }: Hop, x: Place, y: Place, bold: boolean): void {
  // On the curve, a quarter of its height above its start, where curves to one token have not met yet.
  const along = 0.75;
  const bend = along * along * (3 - 2 * along);
  const [left, top] = [x(to) + (x(from) - x(to)) * bend, y(layer + 1) + (y(layer) - y(layer + 1)) * along];
  surface.rect(left - 14, top - 7, 28, 14, ink.page, null, 0.85);
  surface.text(`${layer}·${head}`, left, top, { size: 10, colour: ink.ink, anchor: "middle", bold });
}

function drawFrame(
  surface: Surface,
  ink: Ink,
  { layers, width, column, x, y }: { layers: number; width: number; column: number; x: Place; y: Place },
  tokens: readonly number[],
  labels: readonly string[],
): void {
  for (let level = 0; level <= layers; level++) {
    surface.path(`M${SIDE} ${y(level)}H${width - 24}`, ink.line, 1, 0.7);
    const name = level ? `layer ${level - 1}` : "embeddings";
    surface.text(name, SIDE - 8, y(level), { size: 10, colour: ink.muted, anchor: "end" });
  }
  for (const t of tokens) {
    surface.path(`M${x(t)} ${y(0)}V${y(layers)}`, ink.line, 1.5, 1);
    surface.rect(x(t) - 2.5, y(0) - 2.5, 5, 5, ink.muted, null);
    surface.text(short(labels[t] ?? "", column), x(t), y(0) + 20, {
      size: column < COLUMN_MOST ? 11 : 13,
      colour: ink.ink,
      anchor: "middle",
    });
    surface.text(String(t), x(t), y(0) + 38, { size: 10, colour: ink.muted, anchor: "middle" });
  }
}

// As much of a token as its column has space for.
const short = (label: string, column: number): string => {
  const [letters, most] = [[...label], Math.floor(column / 7.5)];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : label;
};
