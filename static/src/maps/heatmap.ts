// A square map on canvas: labelled axes at every zoom, wheel and pinch zoom, pan, linked cross-hair,
// overlays. Two canvases: the map below, redrawn when data or viewport change; the cross-hair above, redrawn
// while the pointer moves.
import { perFrame } from "../app/frame";
import { FINENESS } from "../ui/fineness";
import { h } from "../ui/dom";
import { labelStep, type Viewport } from "./viewport";
import { imageOf, type Lut } from "./colour";

export interface HeatmapContent {
  n: number;
  labels: readonly string[];
  faint: readonly boolean[]; // labels to draw faintly: special tokens
  columns?: Pick<HeatmapContent, "labels" | "faint">; // if they are others than those of the rows
  indices: Uint8Array; // [n][n] colour indices
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

interface Palette {
  ink: string;
  muted: string;
  line: string;
  accent: string;
  page: string;
}

// The value furthest from the middle of the cells that fall on each pixel of the window.
export function strongest(
  indices: Uint8Array,
  n: number,
  { x, y, span }: { x: number; y: number; span: number },
  side: number,
  middle: number,
): Uint8Array {
  const out = new Uint8Array(side * side).fill(middle);
  const pixel = (t: number, from: number): number => Math.floor(((t + 0.5 - from) * side) / span);
  const [top, left] = [Math.floor(y), Math.floor(x)];
  const [bottom, right] = [Math.min(n, Math.ceil(y + span)), Math.min(n, Math.ceil(x + span))];
  const columns = Int32Array.from({ length: right - left }, (_, k) => pixel(left + k, x));
  for (let i = top; i < bottom; i++) {
    const row = pixel(i, y);
    if (row < 0 || row >= side) continue;
    for (let j = left; j < right; j++) {
      const column = columns[j - left]!;
      if (column < 0 || column >= side) continue;
      const at = row * side + column,
        value = indices[i * n + j]!;
      if (Math.abs(value - middle) > Math.abs(out[at]! - middle)) out[at] = value;
    }
  }
  return out;
}

function coloured(indices: Uint8Array, side: number, lut: Lut): OffscreenCanvas {
  const canvas = new OffscreenCanvas(side, side);
  canvas.getContext("2d")!.putImageData(imageOf(indices, side, lut), 0, 0);
  return canvas;
}

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
    const read = (name: string): string => style.getPropertyValue(name).trim();
    this.palette = {
      ink: read("--ink"),
      muted: read("--muted"),
      line: read("--line"),
      accent: read("--accent"),
      page: read("--page"),
    };
    this.draw();
  }

  private resize(): void {
    const size = Math.floor(this.square.clientWidth);
    if (!size) return;
    this.size = size;
    this.fineness = devicePixelRatio;
    this.margin = Math.round(Math.min(84, Math.max(48, size * 0.16)));
    for (const canvas of [this.base, this.overlay]) {
      canvas.width = canvas.height = Math.round(size * this.fineness);
      canvas.style.width = canvas.style.height = `${size}px`;
    }
    this.draw();
  }

  // Draws at once, for a picture that is saved.
  private refine(fineness: number): void {
    this.fineness = fineness;
    for (const canvas of [this.base, this.overlay]) canvas.width = canvas.height = Math.round(this.size * fineness);
    this.drawBase();
    this.drawOverlay();
  }

  private get plot(): number {
    return this.size - this.margin - PAD;
  }
  private get end(): number {
    return this.margin + this.plot;
  }
  private get cell(): number {
    return this.plot / this.viewport.span;
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
    g.save();
    g.beginPath();
    g.rect(this.margin, this.margin, this.plot, this.plot);
    g.clip();
    g.imageSmoothingEnabled = false;
    if (content.lower) this.clipLower(g, content.n);
    if (this.crowded) g.drawImage(this.pooled(content), this.margin, this.margin, this.plot, this.plot);
    else g.drawImage(this.image(content), x, y, span, span, this.margin, this.margin, this.plot, this.plot);
    this.drawMarks(g, content);
    g.restore();
    g.strokeStyle = this.palette.line;
    g.strokeRect(this.margin - 0.5, this.margin - 0.5, this.plot, this.plot);
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
    return this.cell * this.fineness < 1;
  }

  private image({ n, indices, lut }: HeatmapContent): OffscreenCanvas {
    return (this.pixels ??= coloured(indices, n, lut));
  }

  // Each pixel shows the cell furthest from 0, as thumbnails do: a thin line survives.
  private pooled({ n, indices, lut, middle }: HeatmapContent): OffscreenCanvas {
    const { x, y, span } = this.viewport;
    const side = Math.floor(this.plot * this.fineness);
    return coloured(strongest(indices, n, { x, y, span }, side, middle), side, lut);
  }

  private at(index: number, axis: "x" | "y"): number {
    return this.margin + (index - this.viewport[axis]) * this.cell;
  }

  private drawMarks(g: CanvasRenderingContext2D, content: HeatmapContent): void {
    const { end } = this;
    if (content.mask) {
      g.fillStyle = this.palette.accent;
      g.globalAlpha = 0.3;
      g.beginPath(); // one path: crossings are not filled twice
      for (const t of content.mask) {
        g.rect(this.at(t, "x"), this.margin, Math.max(1, this.cell), end);
        g.rect(this.margin, this.at(t, "y"), end, Math.max(1, this.cell));
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
        const x = Math.round(this.at(t, "x")) - 0.5,
          y = Math.round(this.at(t, "y")) - 0.5;
        g.moveTo(x, this.margin);
        g.lineTo(x, end);
        g.moveTo(this.margin, y);
        g.lineTo(end, y);
      }
      g.stroke();
      g.globalAlpha = 1;
    }
    if (content.cells) {
      g.strokeStyle = this.palette.ink;
      const side = Math.max(3, this.cell);
      const inset = (side - this.cell) / 2;
      g.beginPath();
      for (const [i, j] of content.cells) {
        const px = this.at(j, "x") - inset,
          py = this.at(i, "y") - inset;
        if (px > -side && py > -side && px < end && py < end) g.rect(px, py, side, side);
      }
      g.stroke();
    }
  }

  private drawLabels(g: CanvasRenderingContext2D, content: HeatmapContent): void {
    const step = labelStep(this.cell, LABEL);
    this.note.textContent =
      (step > 1 ? `One token in ${step} is named. ` : "") +
      (this.crowded ? "Each pixel shows the strongest of its cells." : "");
    const { x, y, span } = this.viewport;
    const each = (from: number, draw: (t: number) => void): void => {
      for (let t = Math.ceil(from / step) * step; t < Math.min(content.n, from + span); t += step)
        if (t + 0.5 >= from && t + 0.5 <= from + span) draw(t);
    };
    each(Math.floor(y), (t) => this.rowLabel(g, content, t, false));
    each(Math.floor(x), (t) => this.columnLabel(g, content, t, false));
  }

  private fit(g: CanvasRenderingContext2D, text: string): string {
    const width = this.margin - 8;
    if (g.measureText(text).width <= width) return text;
    let end = text.length - 1;
    while (end > 1 && g.measureText(`${text.slice(0, end)}…`).width > width) end--;
    return `${text.slice(0, end)}…`;
  }

  private rowLabel(g: CanvasRenderingContext2D, content: HeatmapContent, t: number, strong: boolean): void {
    this.drawLabel(g, content, t, strong, () => g.translate(this.margin - 5, this.at(t + 0.5, "y")), "right");
  }

  private columnLabel(g: CanvasRenderingContext2D, content: HeatmapContent, t: number, strong: boolean): void {
    this.drawLabel(
      g,
      content.columns ?? content,
      t,
      strong,
      () => {
        g.translate(this.at(t + 0.5, "x"), this.margin - 5);
        g.rotate(-Math.PI / 2);
      },
      "left",
    );
  }

  // A strong label replaces its neighbours, which would otherwise show beneath it.
  private drawLabel(
    g: CanvasRenderingContext2D,
    content: Pick<HeatmapContent, "labels" | "faint">,
    t: number,
    strong: boolean,
    place: () => void,
    align: "left" | "right",
  ): void {
    g.save();
    g.font = strong ? `600 ${FONT}` : FONT;
    g.textBaseline = "middle";
    g.textAlign = align;
    place();
    const text = this.fit(g, content.labels[t] ?? "");
    if (strong) {
      const width = g.measureText(text).width;
      this.clearLabels(g, t, align);
      g.fillStyle = this.palette.ink;
      g.fillRect(align === "left" ? -3 : -width - 3, -8, width + 6, 16);
    }
    g.fillStyle = strong ? this.palette.page : content.faint[t] ? this.palette.muted : this.palette.ink;
    g.fillText(text, 0, 0.5);
    g.restore();
  }

  // Clears the labels that a strong label of t would cover in part.
  private clearLabels(g: CanvasRenderingContext2D, t: number, align: "left" | "right"): void {
    const step = labelStep(this.cell, LABEL),
      reach = LABEL + 3,
      width = this.margin - 5;
    g.fillStyle = this.palette.page;
    for (let other = Math.ceil((t - reach / this.cell) / step) * step; (other - t) * this.cell <= reach; other += step)
      g.fillRect(align === "left" ? -2 : -width, (other - t) * this.cell - 7, width + 2, 14);
  }

  private drawOverlay(): void {
    if (!this.size) return;
    const g = this.begin(this.overlay);
    const content = this.content;
    if (!content) return;
    const inside = (c: Cell | null): c is Cell => c !== null && c[0] < content.n && c[1] < content.n;
    if (inside(this.picked)) this.crossHair(g, content, this.picked, 0.55);
    if (inside(this.hovered)) this.crossHair(g, content, this.hovered, 1);
  }

  private crossHair(g: CanvasRenderingContext2D, content: HeatmapContent, [row, column]: Cell, alpha: number): void {
    const x = this.at(column, "x"),
      y = this.at(row, "y"),
      side = this.cell;
    g.save();
    g.beginPath();
    g.rect(this.margin, this.margin, this.plot, this.plot);
    g.clip();
    g.globalAlpha = alpha;
    g.strokeStyle = this.palette.ink;
    g.lineWidth = 1;
    g.beginPath();
    const [left, right, top, bottom] = [x - 0.5, x + side + 0.5, y - 0.5, y + side + 0.5];
    for (const px of side > 6 ? [left, right] : [x + side / 2]) {
      g.moveTo(px, this.margin);
      g.lineTo(px, top - 2);
      g.moveTo(px, bottom + 2);
      g.lineTo(px, this.end);
    }
    for (const py of side > 6 ? [top, bottom] : [y + side / 2]) {
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
    const box = Math.max(side, 5),
      inset = (box - side) / 2;
    g.strokeRect(x - inset, y - inset, box, box);
    g.restore();
    if (y + side > this.margin && y < this.end) this.rowLabel(g, content, row, true);
    if (x + side > this.margin && x < this.end) this.columnLabel(g, content, column, true);
  }

  private cellAt(clientX: number, clientY: number): Cell | null {
    const box = this.overlay.getBoundingClientRect();
    const column = Math.floor(this.viewport.x + (clientX - box.left - this.margin) / this.cell);
    const row = Math.floor(this.viewport.y + (clientY - box.top - this.margin) / this.cell);
    const n = this.content?.n ?? 0;
    const inside = (at: number): boolean => at >= this.margin && at < this.end;
    return inside(clientX - box.left) && inside(clientY - box.top) && row >= 0 && column >= 0 && row < n && column < n
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
    const part = (v: number): number => Math.min(1, Math.max(0, v / this.plot));
    this.viewport.zoom(factor, part(clientX - box.left - this.margin), part(clientY - box.top - this.margin));
  }

  private key(e: KeyboardEvent): void {
    const n = this.content?.n ?? 0;
    if (!n || e.altKey || e.ctrlKey || e.metaKey) return;
    const steps: Record<string, Cell> = {
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
      PageUp: [-10, 0],
      PageDown: [10, 0],
      Home: [0, -n],
      End: [0, n],
    };
    const step = steps[e.key];
    if (step) {
      const [row, column] = this.picked ?? [0, 0];
      const far = e.shiftKey ? 10 : 1;
      const into = (v: number): number => Math.min(n - 1, Math.max(0, v));
      const cell: Cell = this.picked ? [into(row + step[0] * far), into(column + step[1] * far)] : [0, 0];
      this.picked = cell; // a second key may come before the next frame
      this.viewport.reveal(...cell);
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
    const into = (v: number): number => Math.min(1, Math.max(0, v));
    return [into((this.picked[1] + 0.5 - x) / span), into((this.picked[0] + 0.5 - y) / span)];
  }
}
