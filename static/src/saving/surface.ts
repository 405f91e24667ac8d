// One drawing of heatmap plates for paper: the same calls make a canvas (PNG) or SVG with vector labels.
import { svg } from "../ui/dom";
import { cssOf } from "../maps/colour";
import type { Bar } from "../maps/colour-bar";
import type { Cell, HeatmapContent } from "../maps/heatmap";
import type { Shade } from "../maps/shade";

export interface Plate extends Shade {
  marks?: Pick<HeatmapContent, "boundaries" | "mask" | "cells">;
  held?: Cell | null;
  title: string;
  n: number;
  labels: readonly string[];
  window: { x: number; y: number; span: number }; // cells in sight
}

// width: the text is fitted to it, whatever font the reader has.
interface Style {
  size: number;
  colour: string;
  bold?: boolean;
  anchor?: "start" | "middle" | "end";
  turned?: boolean;
  width?: number;
}

export interface Surface {
  image(pixels: HTMLCanvasElement, x: number, y: number, width: number, height: number): void;
  text(text: string, x: number, y: number, style: Style): void;
  rect(
    x: number,
    y: number,
    width: number,
    height: number,
    fill: string | null,
    stroke: string | null,
    opacity?: number,
  ): void;
  path(d: string, stroke: string, width: number, opacity: number): void;
}

// Anything that can be drawn for saving.
export interface Picture extends Layout {
  draw(surface: Surface, ink: Ink): void;
}

const FAMILY = "IBM Plex Sans, Plex Sans, Helvetica, Arial, sans-serif";

export class CanvasSurface implements Surface {
  readonly canvas = document.createElement("canvas");
  private readonly g: CanvasRenderingContext2D;
  constructor(width: number, height: number, scale: number) {
    this.canvas.width = width * scale;
    this.canvas.height = height * scale;
    this.g = this.canvas.getContext("2d")!;
    this.g.scale(scale, scale);
    this.g.imageSmoothingEnabled = false;
  }
  image(pixels: HTMLCanvasElement, x: number, y: number, width: number, height: number): void {
    this.g.drawImage(pixels, x, y, width, height);
  }
  text(text: string, x: number, y: number, { size, colour, bold, anchor = "start", turned, width }: Style): void {
    this.g.save();
    this.g.translate(x, y);
    if (turned) this.g.rotate(-Math.PI / 2);
    this.g.font = `${bold ? 600 : 400} ${size}px ${FAMILY}`;
    this.g.fillStyle = colour;
    this.g.textAlign = anchor === "middle" ? "center" : anchor;
    this.g.textBaseline = "middle";
    this.g.fillText(text, 0, 0, width);
    this.g.restore();
  }
  rect: Surface["rect"] = (x, y, width, height, fill, stroke, opacity = 1) => {
    this.g.globalAlpha = opacity;
    this.g.fillStyle = fill ?? "transparent";
    this.g.fillRect(x, y, width, height);
    this.g.strokeStyle = stroke ?? "transparent";
    this.g.strokeRect(x, y, width, height);
    this.g.globalAlpha = 1;
  };
  path(d: string, stroke: string, width: number, opacity: number): void {
    this.g.save();
    this.g.globalAlpha = opacity;
    this.g.strokeStyle = stroke;
    this.g.lineWidth = width;
    this.g.stroke(new Path2D(d));
    this.g.restore();
  }
}

export class SvgSurface implements Surface {
  readonly root: SVGSVGElement;
  constructor(width: number, height: number) {
    this.root = svg("svg", {
      xmlns: "http://www.w3.org/2000/svg",
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      "font-family": FAMILY,
    });
  }
  // Cells stay pixels, one each, enlarged without smoothing.
  image(pixels: HTMLCanvasElement, x: number, y: number, width: number, height: number): void {
    this.root.append(
      svg("image", {
        x,
        y,
        width,
        height,
        href: pixels.toDataURL("image/png"),
        preserveAspectRatio: "none",
        "image-rendering": "pixelated",
      }),
    );
  }
  text(text: string, x: number, y: number, { size, colour, bold, anchor = "start", turned, width }: Style): void {
    this.root.append(
      svg(
        "text",
        {
          x: 0,
          y: 0,
          transform: `translate(${x} ${y})${turned ? " rotate(-90)" : ""}`,
          "font-size": size,
          fill: colour,
          "font-weight": bold ? 600 : null,
          "text-anchor": anchor,
          "dominant-baseline": "central",
          textLength: width,
          lengthAdjust: width === undefined ? null : "spacingAndGlyphs",
        },
        text,
      ),
    );
  }
  rect: Surface["rect"] = (x, y, width, height, fill, stroke, opacity = 1) => {
    this.root.append(
      svg("rect", { x, y, width, height, fill: fill ?? "none", stroke, opacity: opacity < 1 ? opacity : null }),
    );
  };
  path(d: string, stroke: string, width: number, opacity: number): void {
    this.root.append(svg("path", { d, stroke, "stroke-width": width, opacity, fill: "none" }));
  }
}

export interface Ink {
  ink: string;
  muted: string;
  page: string;
  line: string;
  accent: string;
}

export const EDGE = 20; // around a picture
const LABEL = 8,
  MARGIN = 74,
  HEAD = 40,
  GAP = 28,
  FOOT = 30,
  PLOT_LEAST = 480;

// Side of a plate's plot: every label in sight has room.
const plotOf = (plate: Plate): number => {
  const { x, span } = plate.window;
  const labelled = plate.labels.slice(Math.floor(x), Math.ceil(x + span)).filter(Boolean).length;
  return Math.max(PLOT_LEAST, labelled * (LABEL + 1));
};

interface Layout {
  width: number;
  height: number;
}
function layoutOf(plates: readonly Plate[]): Layout {
  const sides = plates.map((p) => plotOf(p) + MARGIN);
  return {
    width: EDGE * 2 + sides.reduce((a, b) => a + b, 0) + GAP * (plates.length - 1),
    height: EDGE * 2 + HEAD + Math.max(...sides) + FOOT,
  };
}

// above: what stands over the plates.
export function pictureOf(plates: readonly Plate[], footer: string, above?: Picture): Picture {
  const own = plates.length ? layoutOf(plates) : { width: 0, height: 2 * EDGE + FOOT };
  const down = above?.height ?? 0;
  const [width, height] = [Math.max(own.width, above?.width ?? 0), own.height + down];
  const draw = (surface: Surface, ink: Ink): void => {
    surface.rect(0, 0, width, height, ink.page, null);
    above?.draw(surface, ink);
    drawPlates(surface, plates, down, ink);
    drawFooter(surface, footer, height, ink);
  };
  return { width, height, draw };
}

function drawPlates(surface: Surface, plates: readonly Plate[], down: number, ink: Ink): void {
  let left = EDGE;
  for (const plate of plates) {
    drawPlate(surface, plate, left, EDGE + down, ink);
    left += plotOf(plate) + MARGIN + GAP;
  }
}

function drawFooter(surface: Surface, footer: string, height: number, ink: Ink): void {
  surface.text(footer, EDGE, height - EDGE, { size: 9, colour: ink.muted });
}

function drawPlate(surface: Surface, plate: Plate, left: number, top: number, ink: Ink): void {
  const plot = plotOf(plate);
  const { x, y, span } = plate.window;
  const [px, py] = [left + MARGIN, top + HEAD + MARGIN];
  const cell = plot / span;
  surface.text(plate.title, left, top + 8, { size: 13, colour: ink.ink, bold: true });
  drawBar(surface, plate, px + plot - 160, top + 2, ink);
  surface.image(cellsOf(plate), px, py, plot, plot);
  drawMarks(surface, plate, px, py, plot, ink);
  surface.rect(px, py, plot, plot, null, ink.line);
  for (let t = Math.ceil(y - 0.5); t < Math.min(plate.n, y + span - 0.49); t++)
    surface.text(plate.labels[t] ?? "", px - 4, py + (t + 0.5 - y) * cell, {
      size: LABEL,
      colour: ink.ink,
      anchor: "end",
    });
  for (let t = Math.ceil(x - 0.5); t < Math.min(plate.n, x + span - 0.49); t++)
    surface.text(plate.labels[t] ?? "", px + (t + 0.5 - x) * cell, py - 4, {
      size: LABEL,
      colour: ink.ink,
      turned: true,
    });
}

// The overlay, the lines between sentences and the held cell, as far as they are in sight.
function drawMarks(surface: Surface, plate: Plate, px: number, py: number, plot: number, ink: Ink): void {
  const { marks = {}, held } = plate;
  const { x, y, span } = plate.window;
  const cell = plot / span;
  const [left, top] = [(t: number) => px + (t - x) * cell, (t: number) => py + (t - y) * cell];
  const part = (from: number, to: number, low: number): [number, number] => [
    Math.max(low, from),
    Math.min(low + plot, to),
  ];
  const box = (
    x0: number,
    x1: number,
    y0: number,
    y1: number,
    fill: string | null,
    stroke: string | null,
    opacity = 1,
  ): void => {
    const [a, b] = part(x0, x1, px);
    const [c, d] = part(y0, y1, py);
    if (b > a && d > c) surface.rect(a, c, b - a, d - c, fill, stroke, opacity);
  };
  const masked = [...(marks.mask ?? [])].sort((a, b) => a - b);
  for (const t of masked) {
    box(left(t), left(t + 1), py, py + plot, ink.accent, null, 0.3);
    // The row between the columns: where they cross is not drawn twice.
    [-1, ...masked].forEach((from, k) =>
      box(left(from + 1), k < masked.length ? left(masked[k]!) : px + plot, top(t), top(t + 1), ink.accent, null, 0.3),
    );
  }
  for (const t of marks.boundaries ?? []) {
    if (t > x && t < x + span) surface.path(`M${left(t)} ${py}V${py + plot}`, ink.muted, 1, 0.55);
    if (t > y && t < y + span) surface.path(`M${px} ${top(t)}H${px + plot}`, ink.muted, 1, 0.55);
  }
  for (const [i, j] of marks.cells ?? []) box(left(j), left(j + 1), top(i), top(i + 1), null, ink.ink);
  if (!held) return;
  const [i, j] = held;
  box(left(j), left(j + 1), py, py + plot, null, ink.ink, 0.4);
  box(px, px + plot, top(i), top(i + 1), null, ink.ink, 0.4);
  box(left(j) - 1, left(j + 1) + 1, top(i) - 1, top(i + 1) + 1, null, ink.accent);
}

// A colour bar, 160 wide and 30 high; its words end where it ends, or begin where it begins.
function drawBar(
  surface: Surface,
  { lut, ticks, words }: Omit<Bar, "label">,
  x: number,
  y: number,
  ink: Ink,
  right = true,
): void {
  for (let k = 0; k < 80; k++) surface.rect(x + 2 * k, y, 2.2, 8, cssOf(lut, k / 79), null);
  surface.text(words, right ? x + 160 : x, y + 27, { size: 9, colour: ink.muted, anchor: right ? "end" : "start" });
  for (const { at, label } of ticks)
    surface.text(label, x + 160 * at, y + 15, {
      size: 9,
      colour: ink.muted,
      anchor: at <= 0 ? "start" : at >= 1 ? "end" : "middle",
    });
}

// Bars in a row, with their labels: 48 high.
export function drawBars(surface: Surface, bars: readonly Bar[], x: number, y: number, ink: Ink): void {
  bars.forEach((bar, n) => {
    surface.text(bar.label, x + n * 250, y, { size: 10, colour: ink.ink });
    drawBar(surface, bar, x + n * 250, y + 9, ink, false);
  });
}

// The cells in sight, one pixel each; a cell cut by the window's edge is drawn whole pixels finer.
function cellsOf({ n, indices, lut, window: { x, y, span } }: Plate): HTMLCanvasElement {
  const whole = document.createElement("canvas");
  whole.width = whole.height = n;
  const image = new ImageData(n, n);
  const rgba = new Uint32Array(image.data.buffer);
  for (let k = 0; k < rgba.length; k++) rgba[k] = lut[indices[k]!]!;
  whole.getContext("2d")!.putImageData(image, 0, 0);
  if (span >= n) return whole;
  const fine = Number.isInteger(x) && Number.isInteger(y) && Number.isInteger(span) ? 1 : 16;
  const part = document.createElement("canvas");
  part.width = part.height = Math.round(span * fine);
  const g = part.getContext("2d")!;
  g.imageSmoothingEnabled = false;
  g.drawImage(whole, x, y, span, span, 0, 0, part.width, part.height);
  return part;
}

export interface Stroke {
  d: string;
  colour: string;
  width: number;
  opacity: number;
}

export interface Band {
  x: number;
  y: number;
  width: number;
  height: number;
  fill: string;
  text: string;
  ink: string;
}

// The parts around the text: colour bars above it, charts below.
interface Surroundings {
  strokes?: readonly Stroke[];
  bands?: readonly Band[];
  bars?: readonly Bar[];
  keys?: readonly Key[];
  charts?: readonly { title: string; canvas: HTMLCanvasElement }[];
}

// A legend entry: the name and colour of strokes.
export interface Key {
  name: string;
  colour: string;
}

const BARS = 56;

// The text as the page shows it: tokens with their colours, strokes behind them, bands below their lines.
export function textPicture(
  paper: HTMLElement,
  tokens: readonly HTMLElement[],
  { strokes = [], bands = [], bars = [], keys = [], charts = [] }: Surroundings,
  footer: string,
): Picture {
  const box = paper.getBoundingClientRect();
  const down = bars.length ? BARS : 0;
  const heights = charts.map(({ canvas }) => canvas.height / devicePixelRatio + HEAD);
  const below = Math.ceil(box.height) + 2 * EDGE + down;
  const [width, height] = [Math.ceil(box.width) + 2 * EDGE, below + heights.reduce((a, b) => a + b, 0) + FOOT];
  const origin = new DOMRect(box.left - EDGE, box.top - EDGE - down, box.width, box.height);
  const draw = (surface: Surface, ink: Ink): void => {
    surface.rect(0, 0, width, height, ink.page, null);
    drawBars(surface, bars, EDGE, EDGE, ink);
    keys.forEach(({ name, colour }, n) => {
      const [x, y] = [EDGE + bars.length * 250 + 72 * (n % 4), EDGE + 18 * Math.floor(n / 4)];
      surface.rect(x, y - 1.5, 18, 3, colour, null);
      surface.text(name, x + 24, y, { size: 10, colour: ink.ink });
    });
    for (const { d, colour, width: wide, opacity } of strokes)
      surface.path(moved(d, EDGE, EDGE + down), colour, wide, opacity);
    for (const token of tokens) drawGround(surface, token, origin, ink);
    for (const token of tokens) drawToken(surface, token, origin);
    for (const band of bands) {
      const [x, y] = [band.x + EDGE, band.y + EDGE + down];
      surface.rect(x, y, band.width, band.height, band.fill, null);
      surface.text(band.text, x + 4, y + band.height / 2, { size: 9, colour: band.ink });
    }
    charts.forEach(({ title, canvas }, n) => {
      const top = below + heights.slice(0, n).reduce((a, b) => a + b, 0);
      surface.text(title, EDGE, top + 12, { size: 13, colour: ink.ink, bold: true });
      const [w, h] = [canvas.width / devicePixelRatio, canvas.height / devicePixelRatio];
      surface.image(canvas, EDGE, top + HEAD - 10, w, h);
    });
    surface.text(footer, EDGE, height - EDGE, { size: 9, colour: ink.muted });
  };
  return { width, height, draw };
}

// A path of absolute coordinates, x and y in turns.
export const moved = (d: string, dx: number, dy: number): string => {
  let n = 0;
  return d.replace(/-?[\d.]+/g, (v) => String(Number(v) + (n++ % 2 ? dy : dx)));
};

function drawGround(surface: Surface, token: HTMLElement, box: DOMRect, ink: Ink): void {
  const { backgroundColor } = getComputedStyle(token);
  const clear = /, 0\)$/.test(backgroundColor);
  for (const r of token.getClientRects())
    surface.rect(
      r.left - box.left,
      r.top - box.top,
      r.width,
      r.height,
      clear ? ink.page : backgroundColor,
      token.classList.contains("held") ? ink.accent : null,
    );
}

function drawToken(surface: Surface, token: HTMLElement, box: DOMRect): void {
  const { paddingLeft, paddingRight, fontSize, color } = getComputedStyle(token);
  const r = token.getClientRects()[0];
  if (!r) return;
  const [left, right] = [parseFloat(paddingLeft), parseFloat(paddingRight)];
  surface.text(token.textContent ?? "", r.left - box.left + left, (r.top + r.bottom) / 2 - box.top, {
    size: parseFloat(fontSize),
    colour: color,
    width: Math.max(1, r.width - left - right),
  });
}

// Charts in two columns below the names of what they draw.
export function chartsPicture(
  charts: readonly { title: string; canvas: HTMLCanvasElement }[],
  keys: readonly { name: string; colour: string; dash: readonly number[] | undefined }[],
): Picture {
  const ratio = devicePixelRatio;
  const wide = Math.max(1, ...charts.map(({ canvas }) => canvas.width / ratio));
  const high = Math.max(1, ...charts.map(({ canvas }) => canvas.height / ratio)) + HEAD;
  const width = 2 * EDGE + 2 * wide + GAP;
  const head = HEAD + 16 * Math.max(0, Math.ceil(keys.length / 2) - 1); // two keys in a row
  const height = 2 * EDGE + head + Math.ceil(charts.length / 2) * high;
  const draw = (surface: Surface, ink: Ink): void => {
    surface.rect(0, 0, width, height, ink.page, null);
    keys.forEach(({ name, colour, dash }, n) => {
      const x = EDGE + ((n % 2) * (width - 2 * EDGE)) / 2;
      const y = EDGE + 6 + 16 * Math.floor(n / 2);
      const line = dash ? [0, 9, 18].map((k) => `M${x + k} ${y}h6`).join("") : `M${x} ${y}h24`;
      surface.path(line, colour, 3, 1);
      surface.text(name, x + 32, y, { size: 12, colour: ink.ink });
    });
    charts.forEach(({ title, canvas }, n) => {
      const [x, y] = [EDGE + (n % 2) * (wide + GAP), EDGE + head + Math.floor(n / 2) * high];
      surface.text(title, x, y + 8, { size: 12, colour: ink.ink, bold: true });
      surface.image(canvas, x, y + 20, canvas.width / ratio, canvas.height / ratio);
    });
  };
  return { width, height, draw };
}

interface GridCell {
  name: string;
  written: string; // its figure
  ground: string | null;
  ink: string | null;
  maps: readonly (HTMLCanvasElement | null)[]; // from above
  strip: HTMLCanvasElement | null; // below the first
}

const THUMB = 72,
  STRIP = 6,
  CAPTION = 14;

// Heads in rows, each with its name, its maps one above the other and its figure.
export function gridPicture(cells: readonly GridCell[], across: number, bars: readonly Bar[], footer: string): Picture {
  const maps = cells[0]?.maps.length ?? 1;
  const high = CAPTION + STRIP + maps * (THUMB + 2) + CAPTION + 6;
  const width = 2 * EDGE + Math.max(across * (THUMB + 6), 250 * bars.length);
  const height = 2 * EDGE + BARS + Math.ceil(cells.length / across) * high + FOOT;
  const draw = (surface: Surface, ink: Ink): void => {
    surface.rect(0, 0, width, height, ink.page, null);
    drawBars(surface, bars, EDGE, EDGE, ink);
    cells.forEach((cell, n) => {
      const [x, y] = [EDGE + (n % across) * (THUMB + 6), EDGE + BARS + Math.floor(n / across) * high];
      surface.text(cell.name, x, y + CAPTION / 2, { size: 9, colour: ink.muted });
      cell.maps.forEach((map, m) => {
        const top = y + CAPTION + m * (THUMB + STRIP + 2);
        if (map) surface.image(map, x, top, THUMB, THUMB);
        if (cell.strip && m === 0) surface.image(cell.strip, x, top + THUMB + 1, THUMB, STRIP);
        surface.rect(x, top, THUMB, THUMB, null, ink.line);
      });
      const below = y + high - CAPTION - 6;
      if (cell.ground) surface.rect(x, below, THUMB, CAPTION, cell.ground, null);
      surface.text(cell.written, x + 2, below + CAPTION / 2, { size: 9, colour: cell.ink ?? ink.ink });
    });
    surface.text(footer, EDGE, height - EDGE, { size: 9, colour: ink.muted });
  };
  return { width, height, draw };
}
