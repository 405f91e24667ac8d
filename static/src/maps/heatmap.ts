// A map on a square canvas: labelled axes at every zoom, wheel and pinch zoom, pan, linked cross-hair,
// overlays. Two canvases: the map below, redrawn when data or viewport change; the cross-hair above, redrawn
// while the pointer moves.
import { perFrame } from "../app/frame";
import { FINENESS, h } from "../app/dom";
import { labelStep, type Viewport } from "./viewport";
import { imageOf, type Lut } from "./colour";

export interface HeatmapContent {
  n: number; // rows
  m?: number; // columns, if they are not n
  unit?: readonly [high: number, wide: number]; // of a cell, in the viewport's; else 1 × 1
  labels: readonly string[];
  faint: readonly boolean[]; // labels to draw faintly: special tokens
  columns?: Pick<HeatmapContent, "labels" | "faint" | "boundaries">; // if they are others than those of the rows
  indices: Uint8Array; // [n][m] colour indices
  lut: Lut;
  middle: number; // the index of the value 0
  lower?: boolean; // nothing is above the diagonal: those cells are left blank
  boundaries?: readonly number[]; // lines before these cells
  mask?: ReadonlySet<number>; // rows and columns to mark
  cells?: Iterable<readonly [number, number]>; // cells to outline
}

export type Cell = readonly [row: number, column: number];

interface HeatmapEvents {
  hover(cell: Cell | null): string; // in words, for beside the pointer
  pick(cell: Cell): void;
}

const COLOURS = ["ink", "muted", "line", "accent", "page"] as const; // of the page
type Palette = Record<(typeof COLOURS)[number], string>;

type Direction = "x" | "y";

type Cells = Pick<HeatmapContent, "n" | "m" | "unit" | "indices" | "middle">;

// The value furthest from the middle of the cells that fall on each pixel of the window.
export function strongest(
  { indices, n, m = n, unit: [high, wide] = [1, 1], middle }: Cells,
  { x, y, span }: { x: number; y: number; span: number },
  side: number,
): Uint8Array {
  const out = new Uint8Array(side * side).fill(middle);
  const pixel = (middleOf: number, from: number): number => Math.floor(((middleOf - from) * side) / span);
  const [top, left] = [Math.floor(y / high), Math.floor(x / wide)];
  const [bottom, right] = [Math.min(n, Math.ceil((y + span) / high)), Math.min(m, Math.ceil((x + span) / wide))];
  const columns = Int32Array.from({ length: right - left }, (_, k) => pixel((left + k + 0.5) * wide, x));
  for (let i = top; i < bottom; i++) {
    const row = pixel((i + 0.5) * high, y);
    if (row < 0 || row >= side) continue;
    for (let j = left; j < right; j++) {
      const column = columns[j - left]!;
      if (column < 0 || column >= side) continue;
      const at = row * side + column,
        value = indices[i * m + j]!;
      if (Math.abs(value - middle) > Math.abs(out[at]! - middle)) out[at] = value;
    }
  }
  return out;
}

function coloured(indices: Uint8Array, width: number, lut: Lut): OffscreenCanvas {
  const image = imageOf(indices, width, lut);
  const canvas = new OffscreenCanvas(image.width, image.height);
  canvas.getContext("2d")!.putImageData(image, 0, 0);
  return canvas;
}

const fraction = (v: number): number => Math.min(1, Math.max(0, v));

const FONT = '11px "Plex Sans", system-ui, sans-serif';
const LABEL = 12; // px a label needs across its direction
const PAD = 6; // px right of and below the plot, for the last labels

export class Heatmap {
  readonly element: HTMLElement;
  private readonly square: HTMLElement;
  private readonly note = h("p", { class: "map-note muted" });
  private readonly base = h("canvas", {});
  private readonly tip = h("div", { class: "tip", "aria-hidden": "true" });
  readonly overlay: HTMLCanvasElement; // takes the keyboard
  private content: HeatmapContent | null = null;
  private pixels: OffscreenCanvas | null = null;
  private hovered: Cell | null = null;
  private picked: Cell | null = null;
  private size = 0; // of the square element, CSS px
  private margin = 0;
  private fineness = devicePixelRatio; // pixels in a CSS pixel
  private palette!: Palette;
  private readonly draw = perFrame(() => {
    this.drawBase();
    this.drawOverlay();
  });
  private readonly drawPointer = perFrame(() => this.drawOverlay());

  constructor(
    label: string,
    private readonly viewport: Viewport,
    private readonly events: HeatmapEvents,
  ) {
    this.overlay = h("canvas", {
      tabindex: 0,
      role: "application",
      "aria-label": label,
      "aria-roledescription": "heatmap",
    });
    this.square = h("div", { class: "heatmap" }, this.base, this.overlay, this.tip);
    this.element = h("div", {}, this.square, this.note);
    viewport.watch(this.draw);
    document.fonts.addEventListener("loadingdone", this.draw); // labels drawn before are another typeface's
    new ResizeObserver(() => this.resize()).observe(this.square);
    this.base.addEventListener(FINENESS, (e) => this.refine((e as CustomEvent<number>).detail));
    this.listen();
  }

  show(content: HeatmapContent | null): void {
    this.content = content;
    this.pixels = null;
    this.restyle();
  }

  // Cross-hair: the cell under the pointer (on this map or a linked one), and the pinned cell.
  point(hovered: Cell | null, picked: Cell | null): void {
    if (this.hovered === hovered && this.picked === picked) return;
    this.hovered = hovered;
    this.picked = picked;
    this.drawPointer();
  }

  // After a change of theme.
  restyle(): void {
    const style = getComputedStyle(this.element);
    const colours = COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]);
    this.palette = Object.fromEntries(colours) as Palette;
    this.draw();
  }

  private resize(): void {
    const size = Math.floor(this.square.clientWidth);
    if (!size) return;
    this.size = size;
    this.margin = Math.round(Math.min(84, Math.max(48, size * 0.16)));
    for (const { style } of [this.base, this.overlay]) style.width = style.height = `${size}px`;
    this.sharpen(devicePixelRatio);
    this.draw();
  }

  private sharpen(fineness: number): void {
    this.fineness = fineness;
    for (const canvas of [this.base, this.overlay]) canvas.width = canvas.height = Math.round(this.size * fineness);
  }

  // Draws at once, for a picture that is saved.
  private refine(fineness: number): void {
    this.sharpen(fineness);
    this.drawBase();
    this.drawOverlay();
  }

  private get plot(): number {
    return this.size - this.margin - PAD;
  }
  private get end(): number {
    return this.margin + this.plot;
  }
  // The sides of a cell, in the viewport's units and in CSS pixels.
  private get unit(): Record<Direction, number> {
    const [y, x] = this.content?.unit ?? [1, 1];
    return { x, y };
  }
  private get cell(): Record<Direction, number> {
    const [{ x, y }, of] = [this.unit, this.plot / this.viewport.span];
    return { x: x * of, y: y * of };
  }

  private begin(canvas: HTMLCanvasElement): CanvasRenderingContext2D {
    const g = canvas.getContext("2d")!;
    g.setTransform(this.fineness, 0, 0, this.fineness, 0, 0);
    g.clearRect(0, 0, this.size, this.size);
    g.font = FONT;
    return g;
  }

  private drawBase(): void {
    const content = this.content;
    if (!this.size) return;
    const g = this.begin(this.base);
    if (!content || !content.n) return;
    const { x, y, span } = this.viewport;
    const { unit } = this;
    g.save();
    g.beginPath();
    g.rect(this.margin, this.margin, this.plot, this.plot);
    g.clip();
    g.imageSmoothingEnabled = false;
    if (content.lower) this.clipLower(g, content.n);
    if (this.crowded) g.drawImage(this.pooled(content), this.margin, this.margin, this.plot, this.plot);
    else {
      const part = [x / unit.x, y / unit.y, span / unit.x, span / unit.y] as const;
      g.drawImage(this.image(content), ...part, this.margin, this.margin, this.plot, this.plot);
    }
    this.drawMarks(g, content);
    g.restore();
    g.strokeStyle = this.palette.line;
    g.strokeRect(this.margin - 0.5, this.margin - 0.5, this.plot + 1, this.plot + 1); // around it: over no cell
    this.drawLabels(g, content);
  }

  // Leaves the cells on and below the diagonal: a staircase of the rows in sight.
  private clipLower(g: CanvasRenderingContext2D, n: number): void {
    const { y, span } = this.viewport;
    const [from, to] = [Math.floor(y), Math.min(n, Math.ceil(y + span))];
    g.beginPath();
    g.moveTo(this.at(0, "x"), this.at(from, "y"));
    for (let i = from; i < to; i++) for (const edge of [i, i + 1]) g.lineTo(this.at(i + 1, "x"), this.at(edge, "y"));
    g.lineTo(this.at(0, "x"), this.at(to, "y"));
    g.clip();
  }

  // Several cells share a device pixel.
  private get crowded(): boolean {
    return Math.min(this.cell.x, this.cell.y) * this.fineness < 1;
  }

  private image({ n, m = n, indices, lut }: HeatmapContent): OffscreenCanvas {
    return (this.pixels ??= coloured(indices, m, lut));
  }

  // Each pixel shows the cell furthest from 0, as thumbnails do: a thin line survives.
  private pooled(content: HeatmapContent): OffscreenCanvas {
    const side = Math.floor(this.plot * this.fineness);
    return coloured(strongest(content, this.viewport, side), side, content.lut);
  }

  private at(index: number, axis: Direction): number {
    return this.margin + index * this.cell[axis] - (this.viewport[axis] * this.plot) / this.viewport.span;
  }

  private drawMarks(g: CanvasRenderingContext2D, content: HeatmapContent): void {
    const { end } = this;
    if (content.mask) {
      g.fillStyle = this.palette.accent;
      g.globalAlpha = 0.3;
      g.beginPath(); // one path: crossings are not filled twice
      for (const t of content.mask) {
        g.rect(this.at(t, "x"), this.margin, Math.max(1, this.cell.x), end);
        g.rect(this.margin, this.at(t, "y"), end, Math.max(1, this.cell.y));
      }
      g.fill();
      g.globalAlpha = 1;
    }
    g.strokeStyle = this.palette.muted;
    g.lineWidth = 1;
    if (content.boundaries) {
      g.globalAlpha = 0.55;
      g.beginPath();
      for (const t of content.boundaries) {
        const y = Math.round(this.at(t, "y")) - 0.5;
        g.moveTo(this.margin, y);
        g.lineTo(end, y);
      }
      for (const t of content.columns?.boundaries ?? []) {
        const x = Math.round(this.at(t, "x")) - 0.5;
        g.moveTo(x, this.margin);
        g.lineTo(x, end);
      }
      g.stroke();
      g.globalAlpha = 1;
    }
    if (content.cells) {
      g.strokeStyle = this.palette.ink;
      const { cell } = this;
      const [wide, high] = [Math.max(3, cell.x), Math.max(3, cell.y)];
      g.beginPath();
      for (const [i, j] of content.cells) {
        const px = this.at(j, "x") - (wide - cell.x) / 2,
          py = this.at(i, "y") - (high - cell.y) / 2;
        if (px > -wide && py > -high && px < end && py < end) g.rect(px, py, wide, high);
      }
      g.stroke();
    }
  }

  private drawLabels(g: CanvasRenderingContext2D, content: HeatmapContent): void {
    const steps = { x: labelStep(this.cell.x, LABEL), y: labelStep(this.cell.y, LABEL) };
    const most = Math.max(steps.x, steps.y);
    this.note.textContent =
      (most > 1 ? `One token in ${most} is named. ` : "") +
      (this.crowded ? "Each pixel shows the strongest of its cells." : "");
    const { n, m } = this.count;
    const each = (axis: Direction, count: number): void => {
      const [unit, step] = [this.unit[axis], steps[axis]];
      const [from, span] = [Math.floor(this.viewport[axis] / unit), this.viewport.span / unit];
      for (let t = Math.ceil(from / step) * step; t < Math.min(count, from + span); t += step)
        if (t + 0.5 >= from && t + 0.5 <= from + span) this.drawLabel(g, content, axis, t, false);
    };
    each("y", n);
    each("x", m);
  }

  private fit(g: CanvasRenderingContext2D, text: string): string {
    const width = this.margin - 8;
    if (g.measureText(text).width <= width) return text;
    let end = text.length - 1;
    while (end > 1 && g.measureText(`${text.slice(0, end)}…`).width > width) end--;
    return `${text.slice(0, end)}…`;
  }

  // Rows have their labels along y, columns along x. A strong label replaces its neighbours, which would otherwise show
  // beneath it.
  private drawLabel(
    g: CanvasRenderingContext2D,
    content: HeatmapContent,
    axis: Direction,
    t: number,
    strong: boolean,
  ): void {
    const { labels, faint } = (axis === "x" && content.columns) || content;
    g.save();
    g.font = strong ? `600 ${FONT}` : FONT;
    g.textBaseline = "middle";
    g.textAlign = axis === "x" ? "left" : "right";
    if (axis === "x") {
      g.translate(this.at(t + 0.5, "x"), this.margin - 5);
      g.rotate(-Math.PI / 2);
    } else g.translate(this.margin - 5, this.at(t + 0.5, "y"));
    const text = this.fit(g, labels[t] ?? "");
    if (strong) {
      const width = g.measureText(text).width;
      this.clearLabels(g, axis, t);
      g.fillStyle = this.palette.ink;
      g.fillRect(axis === "x" ? -3 : -width - 3, -8, width + 6, 16);
    }
    g.fillStyle = strong ? this.palette.page : faint[t] ? this.palette.muted : this.palette.ink;
    g.fillText(text, 0, 0.5);
    g.restore();
  }

  // Clears the labels that a strong label of t would cover in part.
  private clearLabels(g: CanvasRenderingContext2D, axis: Direction, t: number): void {
    const cell = this.cell[axis],
      step = labelStep(cell, LABEL),
      reach = LABEL + 3,
      width = this.margin - 5;
    g.fillStyle = this.palette.page;
    for (let other = Math.ceil((t - reach / cell) / step) * step; (other - t) * cell <= reach; other += step)
      g.fillRect(axis === "x" ? -2 : -width, (other - t) * cell - 7, width + 2, 14);
  }

  private drawOverlay(): void {
    if (!this.size) return;
    const g = this.begin(this.overlay);
    const content = this.content;
    if (!content) return;
    const { n, m } = this.count;
    const inside = (cell: Cell | null): cell is Cell => cell !== null && cell[0] < n && cell[1] < m;
    if (inside(this.picked)) this.crossHair(g, content, this.picked, 0.55);
    if (inside(this.hovered)) this.crossHair(g, content, this.hovered, 1);
  }

  private crossHair(g: CanvasRenderingContext2D, content: HeatmapContent, [row, column]: Cell, alpha: number): void {
    const x = this.at(column, "x"),
      y = this.at(row, "y"),
      { x: wide, y: high } = this.cell;
    g.save();
    g.beginPath();
    g.rect(this.margin, this.margin, this.plot, this.plot);
    g.clip();
    g.globalAlpha = alpha;
    g.strokeStyle = this.palette.ink;
    g.lineWidth = 1;
    g.beginPath();
    const [left, right, top, bottom] = [x - 0.5, x + wide + 0.5, y - 0.5, y + high + 0.5];
    for (const px of wide > 6 ? [left, right] : [x + wide / 2]) {
      g.moveTo(px, this.margin);
      g.lineTo(px, top - 2);
      g.moveTo(px, bottom + 2);
      g.lineTo(px, this.end);
    }
    for (const py of high > 6 ? [top, bottom] : [y + high / 2]) {
      g.moveTo(this.margin, py);
      g.lineTo(left - 2, py);
      g.moveTo(right + 2, py);
      g.lineTo(this.end, py);
    }
    g.globalAlpha = alpha * 0.6;
    g.stroke();
    g.globalAlpha = alpha;
    g.strokeStyle = this.palette.accent;
    g.lineWidth = 2;
    const [boxWide, boxHigh] = [Math.max(wide, 5), Math.max(high, 5)];
    g.strokeRect(x - (boxWide - wide) / 2, y - (boxHigh - high) / 2, boxWide, boxHigh);
    g.restore();
    if (y + high > this.margin && y < this.end) this.drawLabel(g, content, "y", row, true);
    if (x + wide > this.margin && x < this.end) this.drawLabel(g, content, "x", column, true);
  }

  // Rows and columns.
  private get count(): { n: number; m: number } {
    const { n, m = n } = this.content ?? { n: 0 };
    return { n, m };
  }

  private cellAt(clientX: number, clientY: number): Cell | null {
    const box = this.overlay.getBoundingClientRect();
    const column = Math.floor((clientX - box.left - this.at(0, "x")) / this.cell.x);
    const row = Math.floor((clientY - box.top - this.at(0, "y")) / this.cell.y);
    const { n, m } = this.count;
    const inside = (at: number): boolean => at >= this.margin && at < this.end;
    return inside(clientX - box.left) && inside(clientY - box.top) && row >= 0 && column >= 0 && row < n && column < m
      ? [row, column]
      : null;
  }

  private hover({ clientX, clientY }: PointerEvent): void {
    const cell = this.cellAt(clientX, clientY);
    const words = this.events.hover(cell);
    this.tip.textContent = cell ? words.split(/ {3,}/).join("\n") : "";
    const box = this.square.getBoundingClientRect();
    const [x, y] = [clientX - box.left, clientY - box.top];
    this.tip.style.translate = `${x}px ${y}px`;
    // Towards the middle, so that it stays within the map.
    this.tip.style.transform = `translate(${x > box.width / 2 ? "calc(-100% - 12px)" : "16px"}, ${y > box.height / 2 ? "calc(-100% - 12px)" : "16px"})`;
  }

  private listen(): void {
    const fingers = new Map<number, PointerEvent>();
    let travelled = 0,
      spread = 0;
    const target = this.overlay;
    const spreadOf = (): number => {
      const [a, b] = [...fingers.values()];
      return a && b ? Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY) : 0;
    };
    target.addEventListener("pointerdown", (e) => {
      fingers.set(e.pointerId, e);
      travelled = 0;
      spread = spreadOf();
      if (e.pointerType === "mouse" || fingers.size > 1) target.setPointerCapture(e.pointerId);
    });
    target.addEventListener("pointermove", (e) => {
      const last = fingers.get(e.pointerId);
      this.hover(e);
      if (!last) return;
      fingers.set(e.pointerId, e);
      const dx = e.clientX - last.clientX,
        dy = e.clientY - last.clientY;
      travelled += Math.abs(dx) + Math.abs(dy);
      if (fingers.size === 2) {
        const now = spreadOf();
        if (spread) this.zoomAt(now / spread, e.clientX, e.clientY);
        spread = now;
      } else if (this.viewport.zoomed) this.viewport.pan(dx / this.plot, dy / this.plot);
    });
    const lift = (e: PointerEvent): void => {
      const cell = this.cellAt(e.clientX, e.clientY);
      if (fingers.delete(e.pointerId) && e.type === "pointerup" && travelled < 4 && cell) this.events.pick(cell);
      spread = spreadOf();
    };
    target.addEventListener("pointerup", lift);
    target.addEventListener("pointercancel", lift);
    target.addEventListener("pointerleave", () => {
      this.events.hover(null);
      this.tip.textContent = "";
    });
    target.addEventListener("dblclick", (e) => this.zoomAt(2, e.clientX, e.clientY));
    // A bare wheel zooms once the map has been clicked or tabbed to; before, it scrolls the page.
    target.addEventListener(
      "wheel",
      (e) => {
        if (!(e.ctrlKey || e.metaKey || document.activeElement === target)) return;
        e.preventDefault();
        this.zoomAt(2 ** (-e.deltaY / (e.ctrlKey ? 80 : 240)), e.clientX, e.clientY);
      },
      { passive: false },
    );
    target.addEventListener("keydown", (e) => this.key(e));
    this.viewport.watch(() => {
      target.style.touchAction = this.viewport.zoomed ? "none" : "pan-y";
    });
  }

  private zoomAt(factor: number, clientX: number, clientY: number): void {
    const box = this.overlay.getBoundingClientRect();
    const part = (v: number): number => fraction((v - this.margin) / this.plot);
    this.viewport.zoom(factor, part(clientX - box.left), part(clientY - box.top));
  }

  private key(e: KeyboardEvent): void {
    const { n, m } = this.count;
    if (!n || e.altKey || e.ctrlKey || e.metaKey) return;
    const steps: Record<string, Cell> = {
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
      PageUp: [-10, 0],
      PageDown: [10, 0],
      Home: [0, -m],
      End: [0, m],
    };
    const step = steps[e.key];
    if (step) {
      const [row, column] = this.picked ?? [0, 0];
      const far = e.shiftKey ? 10 : 1;
      const into = (v: number, count: number): number => Math.min(count - 1, Math.max(0, v));
      const cell: Cell = this.picked ? [into(row + step[0] * far, n), into(column + step[1] * far, m)] : [0, 0];
      this.picked = cell; // a second key may come before the next frame
      this.viewport.reveal(...cell, [this.unit.y, this.unit.x]);
      this.events.pick(cell);
    } else if (e.key === "+" || e.key === "=") this.viewport.zoom(1.5, ...this.focus());
    else if (e.key === "-") this.viewport.zoom(1 / 1.5, ...this.focus());
    else if (e.key === "0") this.viewport.reset();
    else return;
    e.preventDefault();
    e.stopPropagation();
  }

  // The pinned cell as a point of the plot, so that the keyboard zooms towards it.
  private focus(): [number, number] {
    if (!this.picked) return [0.5, 0.5];
    const { x, y, span } = this.viewport;
    const { unit } = this;
    const [row, column] = this.picked;
    return [fraction(((column + 0.5) * unit.x - x) / span), fraction(((row + 0.5) * unit.y - y) / span)];
  }
}
