// Layers x heads as thumbnails: every head of the text at a glance, sorted and coloured by a figure.
import type { App } from "../app";
import { mapAt, type Answer, type Summary } from "../answer";
import { cssOf, inkOn, lutOf, type Lut } from "../colour";
import { h, replace, segmented, select } from "../dom";
import type { Exportable } from "../export";
import { figuresTable } from "../figures-table";
import { FIGURES, placeIn, rangeOf, valueOf, type Figure } from "../metrics";
import type { Tick } from "../scale";
import { METRICS, type Metric, type Show } from "../state";
import { pictureOf, type Plate } from "../surface";
import { paint, pool } from "../thumbs";
import { colourBar } from "../colourbar";
import { statusOf } from "../status";

interface Thumb {
  l: number;
  h: number;
  button: HTMLButtonElement;
  canvas: HTMLCanvasElement;
  figure: HTMLElement;
}

const TICKS: Tick[] = [
  { at: 0, label: "0" },
  { at: 0.5, label: "¼" },
  { at: 1, label: "1" },
]; // square root
const CHUNK_MS = 10; // drawing per frame, so that scrolling stays fluent

const METRIC_OPTIONS = (none: string): [string, string][] =>
  METRICS.map((m) => [m, m === "none" ? none : FIGURES[m].name]);

export class OverviewView {
  readonly element: HTMLElement;
  private readonly grid = h("div", { class: "grid", role: "grid", "aria-label": "Heads: layers by heads" });
  private readonly status = h("div", {});
  private readonly legend = h("div", { class: "legend" });
  private readonly table = h("details", { class: "alternative" }, h("summary", {}, "All figures as a table"));
  private readonly show;
  private readonly sort;
  private readonly tint;
  private thumbs: Thumb[] = [];
  private drawn: { answer: Answer; key: string } | null = null;
  private arranged = "";
  private painting = 0;

  constructor(private readonly app: App) {
    this.show = segmented<Show>(
      "Show",
      [
        { value: "both", label: "Both", title: "Attention above the diagonal, similarity below" },
        { value: "attention", label: "Attention" },
        { value: "similarity", label: "Similarity" },
      ],
      (show) => app.set({ show }),
    );
    this.sort = select("Sort by", METRIC_OPTIONS("layer and head"), (sort) => app.set({ sort: sort as Metric }));
    this.tint = select("Colour by", METRIC_OPTIONS("none"), (tint) => app.set({ tint: tint as Metric }));
    this.element = h(
      "section",
      { class: "view overview", "aria-label": "Overview" },
      h("div", { class: "toolbar" }, this.show.element, this.sort.element, this.tint.element, this.legend),
      this.status,
      this.grid,
      this.table,
    );
    this.grid.addEventListener("keydown", (e) => this.key(e));
    this.grid.addEventListener("pointerleave", () => app.readout(""));
    this.table.addEventListener("toggle", () => app.draw());
    new ResizeObserver(() => app.draw()).observe(this.grid);
  }

  update(): void {
    const { app } = this;
    const { state } = app;
    this.show.set(state.show);
    this.sort.set(state.sort);
    this.tint.set(state.tint);
    const entry = app.overview();
    replace(this.status, statusOf(app, entry));
    this.grid.hidden = this.table.hidden = this.legend.hidden = !entry.answer;
    if (!entry.answer) return;
    const summary = app.figures(entry.answer);
    this.build(entry.answer);
    this.arrange(entry.answer, summary);
    this.fill(entry.answer);
    this.annotate(entry.answer, summary);
    if (this.table.open) figuresTable(this.table, app, entry.answer, summary);
  }

  // One button a head, made anew only when the model's shape changes.
  private build(answer: Answer): void {
    const count = answer.layers.length * answer.heads.length;
    if (this.thumbs.length === count && this.thumbs.at(-1)?.h === answer.heads.length - 1) return;
    this.arranged = "";
    this.thumbs = [];
    answer.layers.forEach((_, l) =>
      answer.heads.forEach((_, head) => {
        const canvas = h("canvas", { "aria-hidden": "true" });
        const figure = h("span", { class: "figure" });
        const button = h(
          "button",
          {
            class: "thumb",
            type: "button",
            tabindex: -1,
            onclick: () => this.app.set({ view: "head", layer: l, head, pin: [] }, true),
            onfocus: () => this.tell(l, head, true),
            onpointerenter: () => this.tell(l, head, false),
          },
          canvas,
          figure,
        );
        this.thumbs.push({ l, h: head, button, canvas, figure });
      }),
    );
    this.grid.style.setProperty("--heads", String(answer.heads.length));
  }

  private ordered(summary: Summary[][]): Thumb[] {
    const { sort } = this.app.state;
    if (sort === "none") return this.thumbs;
    const value = (t: Thumb): number => valueOf(summary[t.l]![t.h]!, sort) ?? -Infinity;
    return [...this.thumbs].sort((a, b) => value(b) - value(a) || a.l - b.l || a.h - b.h);
  }

  private arrange(answer: Answer, summary: Summary[][]): void {
    const sorted = this.app.state.sort !== "none";
    const order = this.ordered(summary);
    const key = `${sorted} ${order.map((t) => `${t.l}.${t.h}`).join(" ")}`;
    if (key === this.arranged) return;
    this.arranged = key;
    const focused = document.activeElement;
    const heads = answer.heads.length;
    const cell = (t: Thumb): HTMLElement => h("div", { role: "gridcell" }, t.button);
    const rows = answer.layers.map((layer, r) =>
      h(
        "div",
        { class: "row", role: "row" },
        h(
          "div",
          { class: "side", role: "rowheader" },
          sorted ? `${r * heads + 1}–${(r + 1) * heads}` : `L${layer}`,
        ),
        order.slice(r * heads, (r + 1) * heads).map(cell),
      ),
    );
    const header = h(
      "div",
      { class: "row header", role: "row" },
      h("div", { class: "side", role: "columnheader" }, h("span", { class: "hidden" }, "Layer")),
      answer.heads.map((head) => h("div", { role: "columnheader" }, sorted ? "" : `H${head}`)),
    );
    this.grid.classList.toggle("sorted", sorted);
    replace(this.grid, sorted ? null : header, rows);
    if (focused instanceof HTMLElement && this.grid.contains(focused)) focused.focus();
  }

  // Draws the maps, those in sight first, a few milliseconds a frame.
  private fill(answer: Answer): void {
    const { state, theme } = this.app;
    const width = this.thumbs[0]!.canvas.clientWidth;
    if (!width) return;
    const side = Math.round(width * devicePixelRatio);
    const key = `${state.show} ${state.map} ${theme} ${side}`;
    if (this.drawn?.answer === answer && this.drawn.key === key) return;
    const fresh = this.drawn?.answer !== answer;
    this.drawn = { answer, key };
    cancelAnimationFrame(this.painting);
    const inSight = (t: Thumb): number => {
      const { top, bottom } = t.button.getBoundingClientRect();
      return bottom > 0 && top < innerHeight ? 0 : 1;
    };
    const queue = this.thumbs.map((thumb) => [inSight(thumb), thumb] as const).sort((a, b) => a[0] - b[0]);
    const visible = queue.filter(([out]) => !out).length;
    const step = (from: number): void => {
      const end = performance.now() + CHUNK_MS;
      let n = from;
      while (n < queue.length && performance.now() < end) this.paintThumb(answer, queue[n++]![1], side);
      if (fresh && from < visible && n >= visible) performance.mark("thumbnails-visible");
      if (n < queue.length) this.painting = requestAnimationFrame(() => step(n));
      else if (fresh) performance.mark("thumbnails-complete");
    };
    step(0);
  }

  private paintThumb(answer: Answer, { l, h: head, canvas }: Thumb, pixels: number): void {
    const { show, map } = this.app.state;
    const T = answer.encoding.ids.length;
    const image = (quantity: "attention" | "similarity"): ImageData => {
      const stack = (quantity === "attention" ? answer.attentions : answer.similarities) as Uint8Array;
      const { values, side } = pool(mapAt(stack, answer, l, head), T, pixels);
      return paint(values, side, lutOf(map, quantity, this.app.theme));
    };
    const picture = image(show === "attention" ? "attention" : "similarity");
    if (show === "both") {
      const above = new Uint32Array(image("attention").data.buffer);
      const out = new Uint32Array(picture.data.buffer);
      for (let i = 0; i < picture.width; i++)
        for (let j = i + 1; j < picture.width; j++) out[i * picture.width + j] = above[i * picture.width + j]!;
    }
    canvas.width = canvas.height = picture.width;
    canvas.getContext("2d")!.putImageData(picture, 0, 0);
  }

  private annotate(answer: Answer, summary: Summary[][]): void {
    const { state, theme } = this.app;
    const figure = this.figure;
    const sorted = state.sort !== "none";
    const range = figure ? rangeOf(summary, figure) : null;
    const lut = lutOf(state.map, "figure", theme);
    const chosen = this.app.selection(answer);
    this.grid.classList.toggle("annotated", figure !== null);
    const tabStop = this.grid.contains(document.activeElement) ? document.activeElement : null;
    for (const t of this.thumbs) {
      const value = figure ? valueOf(summary[t.l]![t.h]!, figure) : null;
      const name = `${t.l}·${t.h}`;
      const written = figure ? FIGURES[figure].write(value) : "";
      replace(t.figure, sorted ? h("b", {}, name) : null, figure ? h("span", {}, written) : null);
      t.figure.hidden = !sorted && !figure;
      const place = range ? placeIn(range, value) : 0;
      t.figure.style.background = figure ? cssOf(lut, place) : "";
      t.figure.style.color = figure ? inkOn(lut, place) : "";
      const isChosen = t.l === chosen.layer && t.h === chosen.head;
      t.button.classList.toggle("chosen", isChosen);
      t.button.tabIndex = tabStop ? (t.button === tabStop ? 0 : -1) : isChosen ? 0 : -1;
      t.button.setAttribute(
        "aria-label",
        `Layer ${t.l}, head ${t.h}` + (figure ? `, ${FIGURES[figure].name} ${written}` : ""),
      );
    }
    if (!tabStop && !this.thumbs.some((t) => t.button.tabIndex === 0)) this.thumbs[0]!.button.tabIndex = 0;
    this.explain(summary, range);
  }

  private get figure(): Figure | null {
    const { tint, sort } = this.app.state;
    return tint !== "none" ? tint : sort !== "none" ? sort : null;
  }

  private explain(_: Summary[][], range: [number, number] | null): void {
    const { app } = this;
    const { show, map } = app.state;
    const bar = (quantity: "attention" | "similarity", label: string): HTMLElement =>
      colourBar(lutOf(map, quantity, app.theme), label, TICKS);
    replace(
      this.legend,
      show !== "similarity" && bar("attention", show === "both" ? "Attention ◥" : "Attention"),
      show !== "attention" && bar("similarity", show === "both" ? "Similarity ◣" : "Similarity"),
      this.figure &&
        range &&
        colourBar(
          lutOf(map, "figure", app.theme),
          FIGURES[this.figure].name,
          range.map((v, at) => ({ at, label: FIGURES[this.figure!].write(v) })),
        ),
    );
  }

  exportable(): Exportable | null {
    const entry = this.app.overview();
    const { answer } = entry;
    if (!answer) return null;
    const { state, theme } = this.app;
    const summary = this.app.figures(answer);
    const names = Object.keys(FIGURES) as Figure[];
    const rows = (): (string | number)[][] => [
      ["layer", "head", ...names],
      ...answer.layers.flatMap((layer, l) =>
        answer.heads.map((head, k) => [layer, head, ...names.map((f) => valueOf(summary[l]![k]!, f) ?? "")]),
      ),
    ];
    const quantities = state.show === "both" ? (["attention", "similarity"] as const) : [state.show];
    const made = this.app.exported(entry, "overview");
    const plates = quantities.map((quantity) => gridPlate(answer, quantity, lutOf(state.map, quantity, theme)));
    return { ...made, rows, picture: pictureOf(plates, made.title) };
  }

  private tell(l: number, head: number, aloud: boolean): void {
    const answer = this.app.overview().answer;
    if (!answer) return;
    const s = this.app.figures(answer)[l]![head]!;
    const parts = (
      ["high_pairs", "repeated_share", "same_sentence_share", "mean_distance", "separator_attention"] as const
    ).map((f) => `${FIGURES[f].short} ${FIGURES[f].write(valueOf(s, f))}`);
    this.app.readout(`Layer ${l} · Head ${head}   ${parts.join("   ")}`, aloud);
  }

  private key(e: KeyboardEvent): void {
    const heads = [...this.grid.querySelectorAll<HTMLButtonElement>(".thumb")];
    const at = heads.indexOf(document.activeElement as HTMLButtonElement);
    const wide = this.app.overview().answer?.heads.length ?? 1;
    const rowStart = at - (at % wide);
    const targets: Record<string, number> = {
      ArrowLeft: at - 1,
      ArrowRight: at + 1,
      ArrowUp: at - wide,
      ArrowDown: at + wide,
      Home: e.ctrlKey ? 0 : rowStart,
      End: e.ctrlKey ? heads.length - 1 : rowStart + wide - 1,
    };
    const target = heads[targets[e.key] ?? -1];
    if (at < 0 || !target) return;
    e.preventDefault();
    heads[at]!.tabIndex = -1;
    target.tabIndex = 0;
    target.focus();
  }
}

const CELL = 64; // pixels of a head in the saved picture

// All heads as one picture, layers downwards, heads across.
function gridPlate(answer: Answer, quantity: "attention" | "similarity", lut: Lut): Plate {
  const T = answer.encoding.ids.length;
  const across = Math.max(answer.layers.length, answer.heads.length);
  const n = across * CELL;
  const indices = new Uint8Array(n * n);
  const stack = (quantity === "attention" ? answer.attentions : answer.similarities) as Uint8Array;
  answer.layers.forEach((_, l) =>
    answer.heads.forEach((_, head) => {
      const { values, side } = pool(mapAt(stack, answer, l, head), T, CELL - 4);
      for (let i = 0; i < CELL - 4; i++)
        for (let j = 0; j < CELL - 4; j++) {
          const value = values[Math.floor((i * side) / (CELL - 4)) * side + Math.floor((j * side) / (CELL - 4))]!;
          indices[(l * CELL + i) * n + head * CELL + j] = Math.round(255 * Math.sqrt(value / 255));
        }
    }),
  );
  const labels = Array.from({ length: n }, (_, t) => (t % CELL === CELL / 2 ? String(Math.floor(t / CELL)) : ""));
  return {
    title:
      quantity === "attention"
        ? "Attention: layers down, heads across"
        : "Context similarity: layers down, heads across",
    n,
    labels,
    indices,
    lut,
    ticks: TICKS,
    window: { x: 0, y: 0, span: n },
  };
}
