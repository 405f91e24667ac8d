// One drawing of heatmap plates for paper: the same calls make a canvas (PNG) or SVG with vector labels.
import { svg } from "./dom";
import { cssOf } from "./colour";
import type { Shade } from "./shade";

export interface Plate extends Shade {
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
  rect(x: number, y: number, width: number, height: number, fill: string | null, stroke: string | null): void;
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
  rect(x: number, y: number, width: number, height: number, fill: string | null, stroke: string | null): void {
    if (fill) ((this.g.fillStyle = fill), this.g.fillRect(x, y, width, height));
    if (stroke) ((this.g.strokeStyle = stroke), this.g.strokeRect(x, y, width, height));
  }
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
  rect(x: number, y: number, width: number, height: number, fill: string | null, stroke: string | null): void {
    this.root.append(svg("rect", { x, y, width, height, fill: fill ?? "none", stroke }));
  }
  path(d: string, stroke: string, width: number, opacity: number): void {
    this.root.append(svg("path", { d, stroke, "stroke-width": width, opacity, fill: "none" }));
  }
}

export interface Ink {
  ink: string;
  muted: string;
  page: string;
  line: string;
}

const LABEL = 8,
  MARGIN = 74,
  HEAD = 40,
  GAP = 28,
  FOOT = 30,
  EDGE = 20,
  PLOT_LEAST = 480;

// Side of a plate's plot: every label in sight has room.
const plotOf = (plate: Plate): number => {
  const { x, span } = plate.window;
  const labelled = plate.labels.slice(Math.floor(x), Math.ceil(x + span)).filter(Boolean).length;
  return Math.max(PLOT_LEAST, labelled * (LABEL + 1));
};

export interface Layout {
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

export const pictureOf = (plates: readonly Plate[], footer: string): Picture => ({
  ...layoutOf(plates),
  draw: (surface, ink) => drawPlates(surface, plates, footer, ink),
});

function drawPlates(surface: Surface, plates: readonly Plate[], footer: string, ink: Ink): void {
  const { width, height } = layoutOf(plates);
  surface.rect(0, 0, width, height, ink.page, null);
  let left = EDGE;
  for (const plate of plates) {
    drawPlate(surface, plate, left, EDGE, ink);
    left += plotOf(plate) + MARGIN + GAP;
  }
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

function drawBar(surface: Surface, plate: Plate, x: number, y: number, ink: Ink): void {
  for (let k = 0; k < 80; k++) surface.rect(x + 2 * k, y, 2.2, 8, cssOf(plate.lut, k / 79), null);
  surface.text(plate.words, x + 160, y + 27, { size: 9, colour: ink.muted, anchor: "end" });
  for (const { at, label } of plate.ticks)
    surface.text(label, x + 160 * at, y + 15, {
      size: 9,
      colour: ink.muted,
      anchor: at <= 0 ? "start" : at >= 1 ? "end" : "middle",
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

// The text as it stands on the page: tokens with their colours, and strokes behind them.
export function textPicture(
  paper: HTMLElement,
  tokens: readonly HTMLElement[],
  strokes: readonly Stroke[],
  footer: string,
): Picture {
  const box = paper.getBoundingClientRect();
  const [width, height] = [Math.ceil(box.width) + 2 * EDGE, Math.ceil(box.height) + 2 * EDGE + FOOT];
  const draw = (surface: Surface, ink: Ink): void => {
    surface.rect(0, 0, width, height, ink.page, null);
    for (const { d, colour, width: wide, opacity } of strokes) surface.path(d, colour, wide, opacity);
    for (const token of tokens) drawGround(surface, token, box, ink);
    for (const token of tokens) drawToken(surface, token, box);
    surface.text(footer, EDGE, height - EDGE, { size: 9, colour: ink.muted });
  };
  return { width, height, draw };
}

function drawGround(surface: Surface, token: HTMLElement, box: DOMRect, ink: Ink): void {
  const { backgroundColor } = getComputedStyle(token);
  const clear = /, 0\)$/.test(backgroundColor);
  for (const r of token.getClientRects())
    surface.rect(
      r.left - box.left + EDGE,
      r.top - box.top + EDGE,
      r.width,
      r.height,
      clear ? ink.page : backgroundColor,
      null,
    );
}

function drawToken(surface: Surface, token: HTMLElement, box: DOMRect): void {
  const { paddingLeft, paddingRight, fontSize, color } = getComputedStyle(token);
  const r = token.getClientRects()[0];
  if (!r) return;
  const [left, right] = [parseFloat(paddingLeft), parseFloat(paddingRight)];
  surface.text(token.textContent ?? "", r.left - box.left + EDGE + left, (r.top + r.bottom) / 2 - box.top + EDGE, {
    size: parseFloat(fontSize),
    colour: color,
    width: Math.max(1, r.width - left - right),
  });
}

export const PICTURE_EDGE = EDGE;
