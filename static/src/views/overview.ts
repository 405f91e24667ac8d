// Layers x heads as thumbnails: every head of the text at a glance, sorted and coloured by a figure.
import type { App } from "../app";
import type { Answer } from "../answer";
import { cssOf, inkOn, lutOf } from "../colour";
import { colourBar, type Bar } from "../colourbar";
import { h, replace, segmented, select } from "../dom";
import type { Exportable } from "../export";
import { figuresTable } from "../figures-table";
import { nearestOf } from "../head-distances";
import { HeadPlane } from "../head-plane";
import {
  FIGURES,
  isSought,
  likeOf,
  needsProfiles,
  ONLY_NAMES,
  patternOf,
  placeIn,
  rangeOf,
  soughtPattern,
  soundValueOf,
  valueOf,
  writeFigure,
  type Figure,
  type Known,
} from "../metrics";
import { PATTERNS, REACH, type Pattern, type Profile } from "../patterns";
import { format, percent, type Tick } from "../scale";
import { METRICS, ONLY, type Metric, type Only, type Show } from "../state";
import { distancesRequest, savedRequest } from "../requests";
import { gridPicture, type Picture } from "../surface";
import { paint, pool } from "../thumbs";
import { statusOf } from "../status";

type Quantity = "attention" | "similarity";

interface Part {
  canvas: HTMLCanvasElement;
  key: string; // of what is painted
}
interface Thumb {
  l: number;
  h: number;
  button: HTMLButtonElement;
  parts: Record<Quantity, Part>;
  offsets: Part; // the strip of attention by offset
  figure: HTMLElement;
  written: string;
}

const ROOTS: Tick[] = [
  { at: 0, label: "0" },
  { at: 0.5, label: "¼" },
  { at: 1, label: "1" },
];
const SIGNED_ROOTS: Tick[] = [
  { at: 0, label: "−1" },
  { at: 0.25, label: "−¼" },
  { at: 0.5, label: "0" },
  { at: 0.75, label: "¼" },
  { at: 1, label: "1" },
];
const CHUNK_MS = 10; // drawing per frame, so that scrolling stays fluent
const URGENT_MS = 40; // while there are maps in sight that are blank
const FEW = 5; // heads a layer: layers then stand beside each other, and one header fits none of them
const NEAR = 3; // offsets in the strip, either way
const AT_ONCE = 12e6; // bytes of attention maps fetched before they are scrolled to

const METRIC_OPTIONS = (none: string): [string, string][] =>
  METRICS.map((m) => [m, m === "none" ? none : FIGURES[m].name]);

export class OverviewView {
  readonly element: HTMLElement;
  private readonly grid = h("div", { class: "grid", role: "grid", "aria-label": "Heads: layers by heads" });
  private readonly status = h("div", {});
  private readonly legend = h("div", { class: "legend" });
  private readonly table = h("details", { class: "alternative" }, h("summary", {}, "All figures as a table"));
  private readonly arrangement;
  private readonly plane: HeadPlane;
  private readonly show;
  private readonly sort;
  private readonly tint;
  private readonly only;
  private readonly seek = h("input", {
    type: "search",
    placeholder: "7·5, back, like 7·5 …",
    title: "By layer and head, by words of what the head looks at, or “like 7·5”: nearest to that head first",
  });
  private readonly strongest = h("button", { type: "button", onclick: () => this.sortByPattern() });
  private readonly none = h("div", { class: "notice", role: "status" }, h("p", {}, "No head is of this kind. Widen the filter or the search."), this.strongest);
  private readonly direction = h("button", { type: "button", onclick: () => this.app.set({ down: !this.app.state.down }) });
  private readonly least = h("input", {
    type: "number",
    min: 0,
    title: "Heads with fewer high pairs come last and stay uncoloured: a share of three pairs says little",
  });
  private thumbs: Thumb[] = [];
  private arranged = "";
  private painting = 0;
  private known: Answer | null = null;
  private like: ReadonlyMap<number, number> | null = null;
  private marked: Answer | null = null; // whose first thumbnails are told to the browser's clock

  constructor(private readonly app: App) {
    this.plane = new HeadPlane(app, (l, head, aloud) => this.tell(l, head, aloud));
    this.arrangement = segmented<"0" | "1">(
      "Heads as",
      [
        { value: "0", label: "Grid" },
        { value: "1", label: "Points", title: "Those that do alike lie together" },
      ],
      (plane) => app.set({ plane: plane === "1" }, true),
    );
    this.show = segmented<Show>(
      "Show",
      [
        { value: "both", label: "Both", title: "Attention above, similarity below" },
        { value: "attention", label: "Attention" },
        { value: "similarity", label: "Similarity" },
      ],
      (show) => app.set({ show }),
    );
    this.sort = select("Sort by", METRIC_OPTIONS("layer and head"), (sort) => app.set({ sort: sort as Metric }));
    this.tint = select("Colour by", METRIC_OPTIONS("none"), (tint) => app.set({ tint: tint as Metric }));
    this.only = select(
      "Heads that look",
      ONLY.map((name) => [name, ONLY_NAMES[name]] as const),
      (only) => app.set({ only: only as Only }),
    );
    this.seek.addEventListener("input", () => app.set({ seek: this.seek.value }));
    this.least.addEventListener("input", () => {
      const least = this.least.valueAsNumber;
      if (Number.isInteger(least) && least >= 0) app.set({ least });
    });
    this.element = h(
      "section",
      { class: "view overview", "aria-label": "Overview" },
      h(
        "div",
        { class: "toolbar" },
        this.arrangement.element,
        this.show.element,
        this.sort.element,
        this.direction,
        this.tint.element,
        this.only.element,
        h("label", { class: "field seek" }, h("span", {}, "Find heads"), this.seek),
        h("label", { class: "field least" }, h("span", {}, "High pairs at least"), this.least),
        this.legend,
      ),
      this.status,
      this.none,
      this.plane.element,
      this.grid,
      this.table,
    );
    this.grid.addEventListener("keydown", (e) => this.key(e));
    this.grid.addEventListener("pointerleave", () => app.readout(""));
    this.table.addEventListener("toggle", () => app.draw());
    new ResizeObserver(() => app.draw()).observe(this.grid);
    addEventListener("scroll", () => this.element.isConnected && app.draw(), { passive: true });
  }

  update(): void {
    const { app } = this;
    const { state } = app;
    this.arrangement.set(state.plane ? "1" : "0");
    for (const { element } of [this.show, this.sort, this.tint]) element.hidden = state.plane;
    this.least.parentElement!.hidden = state.plane;
    this.show.set(state.show);
    this.grid.dataset.show = state.show;
    this.sort.set(state.sort);
    this.tint.set(state.tint);
    this.direction.textContent = state.down ? "↓ largest first" : "↑ smallest first";
    this.direction.hidden = state.plane || state.sort === "none";
    this.only.set(state.only);
    if (document.activeElement !== this.seek) this.seek.value = state.seek;
    if (document.activeElement !== this.least) this.least.value = String(state.least);
    const entry = app.overview();
    replace(this.status, statusOf(app, entry));
    this.table.hidden = !entry.answer;
    this.grid.hidden = this.legend.hidden = !entry.answer || state.plane;
    this.plane.element.hidden = !entry.answer || !state.plane;
    this.none.hidden = true;
    if (!entry.answer) return;
    if (this.known !== entry.answer) performance.mark("overview-answered");
    this.known = entry.answer;
    const summary = app.figures(entry.answer);
    this.like = this.nearTo(entry.answer);
    this.build(entry.answer);
    if (state.plane) this.place(entry.answer, summary);
    else this.arrange(entry.answer, summary);
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
        const part = (name: string): Part => ({ canvas: h("canvas", { class: name, "aria-hidden": "true" }), key: "" });
        const parts = { attention: part("map"), similarity: part("map") };
        const offsets = part("offsets");
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
          parts.attention.canvas,
          offsets.canvas,
          parts.similarity.canvas,
          figure,
        );
        this.thumbs.push({ l, h: head, button, parts, offsets, figure, written: "" });
      }),
    );
    this.grid.style.setProperty("--heads", String(answer.heads.length));
  }

  private place(answer: Answer, summary: Known[][]): void {
    const chosen = new Set(this.chosenHeads(summary).map((t) => `${t.l} ${t.h}`));
    this.tellNone(chosen.size === 0);
    this.plane.update(answer, summary, (l, head) => chosen.has(`${l} ${head}`));
  }

  // By place, how far each head is from the one that “like 7·5” names; null: nothing of the kind is sought.
  private nearTo(answer: Answer): ReadonlyMap<number, number> | null {
    const { app } = this;
    const named = likeOf(app.state.seek);
    if (!named) return null;
    const [l, head] = named;
    if (l >= answer.layers.length || head >= answer.heads.length) return new Map();
    const place = l * answer.heads.length + head;
    const entry = app.cache.want(distancesRequest(app.state));
    if (!entry.answer) replace(this.status, statusOf(app, entry));
    const near = entry.answer ? nearestOf(entry.answer, place) : [];
    return new Map([[place, 0], ...near.map((one): [number, number] => [one.place, one.distance])]);
  }

  private distanceOf({ l, h: k }: Thumb): number | undefined {
    return this.like?.get(l * this.known!.heads.length + k);
  }

  // What no head is known for, some may do a little.
  private get wantedPattern(): Pattern | null {
    const { only, seek } = this.app.state;
    return PATTERNS.find((pattern) => pattern === only) ?? soughtPattern(seek);
  }

  private sortByPattern(): void {
    const pattern = this.wantedPattern;
    if (pattern) this.app.set({ only: "all", seek: "", sort: pattern, down: true, plane: false }, true);
  }

  private tellNone(none: boolean): void {
    this.none.hidden = !none;
    const pattern = none ? this.wantedPattern : null;
    this.strongest.hidden = !pattern;
    if (pattern) this.strongest.textContent = `Show all, sorted by: ${FIGURES[pattern].name.toLowerCase()}`;
  }

  // Whether heads are chosen by what their maps show: all maps are then fetched.
  private get byPattern(): boolean {
    const { sort, tint, only, seek, plane } = this.app.state;
    if (plane && this.plane.byPattern) return true;
    return only !== "all" || seek !== "" || [sort, tint].some((m) => m !== "none" && needsProfiles(m));
  }

  private chosenHeads(summary: Known[][]): Thumb[] {
    const { only, seek } = this.app.state;
    return this.thumbs.filter((t) => {
      const { l, h: k } = t;
      const known = summary[l]![k]!;
      const pattern = patternOf(known) || "none";
      const sought = this.like ? this.distanceOf(t) !== undefined : !seek.trim() || isSought(l, k, known, seek);
      return (only === "all" || (pattern === only && known.profile)) && sought;
    });
  }

  private ordered(summary: Known[][]): Thumb[] {
    const { sort, down, least } = this.app.state;
    const chosen = this.chosenHeads(summary);
    if (this.like) return chosen.sort((a, b) => this.distanceOf(a)! - this.distanceOf(b)!);
    if (sort === "none") return chosen;
    // Heads without the figure, or with too few pairs for it, come last either way.
    const value = (t: Thumb): number => {
      const v = soundValueOf(summary[t.l]![t.h]!, sort, least);
      return v === null ? -Infinity : down ? v : -v;
    };
    const difference = (a: number, b: number): number => (a === b ? 0 : a - b);
    return chosen.sort((a, b) => difference(value(b), value(a)) || a.l - b.l || a.h - b.h);
  }

  // Whether the heads stand otherwise than by layer and head.
  private get mixed(): boolean {
    const { sort, only, seek } = this.app.state;
    return sort !== "none" || only !== "all" || seek.trim() !== "";
  }

  private arrange(answer: Answer, summary: Known[][]): void {
    const sorted = this.mixed;
    const order = this.ordered(summary);
    this.tellNone(order.length === 0);
    const key = `${sorted} ${order.map((t) => `${t.l}.${t.h}`).join(" ")}`;
    if (key === this.arranged) return;
    this.arranged = key;
    const focused = document.activeElement;
    const heads = answer.heads.length;
    const cell = (t: Thumb): HTMLElement => h("div", { role: "gridcell" }, t.button);
    const rows = Array.from({ length: Math.ceil(order.length / heads) }, (_, r) =>
      h(
        "div",
        { class: "row", role: "row" },
        h(
          "div",
          { class: "side", role: "rowheader" },
          sorted ? `${r * heads + 1}–${Math.min(order.length, (r + 1) * heads)}` : `L${answer.layers[r]}`,
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
    replace(this.grid, sorted || heads <= FEW ? null : header, rows);
    if (focused instanceof HTMLElement && this.grid.contains(focused)) focused.focus();
  }

  private inSight({ button }: Thumb): boolean {
    const { top, bottom } = button.getBoundingClientRect();
    return bottom > 0 && top < innerHeight;
  }

  // Fetches what is in sight, and the rest where it is little; draws what is there, a few milliseconds a frame.
  private fill(answer: Answer): void {
    const { app } = this;
    const { state, theme } = app;
    const width = this.thumbs.find(({ button }) => button.clientWidth)?.button.clientWidth;
    if (!width) {
      if (this.byPattern) for (const l of answer.layers.keys()) app.attention(answer, l);
      return;
    }
    const near = this.thumbs.filter((t) => t.button.isConnected && this.inSight(t));
    const layers = new Set(near.map(({ l }) => l));
    const derived = app.derived(answer, layers);
    const T = answer.encoding.ids.length;
    if (T * T * this.thumbs.length <= AT_ONCE || this.byPattern) for (const l of answer.layers.keys()) layers.add(l);
    const wanted = state.show !== "similarity" || this.byPattern;
    const maps = new Map([...layers].map((l) => [l, wanted ? app.attention(answer, l) : null]));
    const seen = this.seen(answer);
    const side = Math.round((width - 2) * devicePixelRatio);
    const look = [answerNumber(answer), state.map, theme, side, seen.length].join(" ");
    const jobs: (() => void)[] = [];
    for (const t of new Set([...near, ...this.thumbs])) {
      const at = t.l * answer.heads.length + t.h;
      const paintPart = (quantity: Quantity, map: Uint8Array | Int8Array | undefined): void => {
        if (!map || t.parts[quantity].key === look) return;
        jobs.push(() => this.paintMap(t.parts[quantity], look, map, T, side, seen, quantity));
      };
      if (state.show !== "similarity") paintPart("attention", maps.get(t.l)?.[t.h]);
      if (state.show !== "attention") paintPart("similarity", derived.similarity[at]);
      const profile = derived.profiles[at];
      if (profile && t.offsets.key !== look) jobs.push(() => this.paintOffsets(t, look, profile));
    }
    this.run(jobs, 3 * near.length, () => this.mark(answer, look, near));
  }

  // The tokens shown.
  private seen(answer: Answer): number[] {
    return answer.encoding.special.flatMap((special, t) => (special && !this.app.state.special ? [] : [t]));
  }

  private run(jobs: readonly (() => void)[], urgent: number, done: () => void): void {
    cancelAnimationFrame(this.painting);
    const step = (from: number): void => {
      const end = performance.now() + (from < urgent ? URGENT_MS : CHUNK_MS);
      let n = from;
      while (n < jobs.length && performance.now() < end) jobs[n++]!();
      if (n < jobs.length) this.painting = requestAnimationFrame(() => step(n));
      else done();
    };
    step(0);
  }

  private mark(answer: Answer, look: string, near: readonly Thumb[]): void {
    const { show } = this.app.state;
    const painted = (t: Thumb): boolean =>
      (show === "attention" || t.parts.similarity.key === look) &&
      (show === "similarity" || t.parts.attention.key === look);
    if (this.marked === answer || !near.length || !near.every(painted)) return;
    this.marked = answer;
    performance.mark("thumbnails-visible");
  }

  private paintMap(
    part: Part,
    look: string,
    map: Uint8Array | Int8Array,
    T: number,
    size: number,
    seen: readonly number[],
    quantity: Quantity,
  ): void {
    part.key = look;
    const { values, side } = pool(map, T, size, seen);
    part.canvas.width = part.canvas.height = side;
    const lut = lutOf(this.app.state.map, quantity === "attention" ? "attention" : "signed", this.app.theme);
    if (side) part.canvas.getContext("2d")!.putImageData(paint(values, side, lut), 0, 0);
  }

  // Attention to the neighbours before, the token itself and those after: one step beside the diagonal is too fine
  // for a thumbnail.
  private paintOffsets(t: Thumb, look: string, profile: Profile): void {
    t.offsets.key = look;
    const near = profile.offsets.slice(REACH - NEAR, REACH + NEAR + 1);
    const lut = lutOf(this.app.state.map, "attention", this.app.theme);
    const { canvas } = t.offsets;
    canvas.width = near.length;
    canvas.height = 1;
    const g = canvas.getContext("2d")!;
    near.forEach((share, k) => {
      g.fillStyle = cssOf(lut, Math.sqrt(share || 0));
      g.fillRect(k, 0, 1, 1);
    });
  }

  private annotate(answer: Answer, summary: Known[][]): void {
    const { state, theme } = this.app;
    const figure = this.figure;
    const sorted = this.mixed;
    const range = figure ? rangeOf(summary, figure, state.least) : null;
    const lut = lutOf(state.map, "figure", theme);
    const chosen = this.app.selection(answer);
    this.grid.classList.toggle("annotated", figure !== null);
    const tabStop = this.grid.contains(document.activeElement) ? document.activeElement : null;
    for (const t of this.thumbs) {
      const head = summary[t.l]![t.h]!;
      const sound = figure ? soundValueOf(head, figure, state.least) : null;
      const distance = this.distanceOf(t);
      const written = distance !== undefined ? `at ${format(distance)}` : figure ? writeFigure(head, figure) : "";
      const pattern = patternOf(head);
      this.caption(t, sorted ? `${t.l}·${t.h}` : "", written || pattern, sound !== null || !figure);
      const place = range && sound !== null ? placeIn(range, sound) : null;
      t.figure.style.background = place === null ? "" : cssOf(lut, place);
      t.figure.style.color = place === null ? "" : inkOn(lut, place);
      const isChosen = t.l === chosen.layer && t.h === chosen.head;
      t.button.classList.toggle("chosen", isChosen);
      t.button.tabIndex = tabStop ? (t.button === tabStop ? 0 : -1) : isChosen ? 0 : -1;
      t.button.setAttribute(
        "aria-label",
        [sorted && `${t.l}·${t.h}`, written || pattern].filter(Boolean).join(" ") +
          (sorted || written || pattern ? ", layer" : "Layer") +
          ` ${t.l}, head ${t.h}` +
          (distance !== undefined ? ": distance" : figure ? `: ${FIGURES[figure].name}` : ""),
      );
    }
    if (!tabStop && !this.thumbs.some((t) => t.button.tabIndex === 0)) this.thumbs[0]!.button.tabIndex = 0;
    this.explain(range);
  }

  // Its words stand at the head of the button's name, as they are seen.
  private caption(t: Thumb, name: string, written: string, sound: boolean): void {
    const key = `${name} ${written} ${sound}`;
    if (t.written === key) return;
    t.written = key;
    replace(t.figure, name && h("b", {}, name), name && " ", written && h("span", { class: sound ? "" : "few" }, written));
  }

  private get figure(): Figure | null {
    const { tint, sort } = this.app.state;
    if (this.like) return null;
    return tint !== "none" ? tint : sort !== "none" ? sort : null;
  }

  private explain(range: [number, number] | null): void {
    const { app, figure } = this;
    const { show, map } = app.state;
    const key = JSON.stringify([show, map, app.theme, figure, range]);
    if (this.legend.dataset.key === key) return;
    this.legend.dataset.key = key;
    replace(this.legend, this.bars(range).map(colourBar));
  }

  private bars(range: [number, number] | null): Bar[] {
    const { app, figure } = this;
    const { show, map } = app.state;
    const bars: Bar[] = [];
    if (show !== "similarity")
      bars.push({
        lut: lutOf(map, "attention", app.theme),
        label: "Attention",
        ticks: ROOTS,
        words: `square root, 0 to 1; strip: offsets −${NEAR} to +${NEAR}`,
      });
    if (show !== "attention")
      bars.push({
        lut: lutOf(map, "signed", app.theme),
        label: "Similarity",
        ticks: SIGNED_ROOTS,
        words: "square root, of each head’s largest |S|",
      });
    if (figure && range)
      bars.push({
        lut: lutOf(map, "figure", app.theme),
        label: FIGURES[figure].name,
        ticks: range.map((v, at) => ({ at, label: FIGURES[figure].write(v) })),
        words: "linear, least to largest",
      });
    return bars;
  }

  exportable(): Exportable | null {
    const entry = this.app.overview();
    const { answer } = entry;
    if (!answer) return null;
    const { state } = this.app;
    const summary = this.app.figures(answer);
    if (state.plane) return this.plane.exportable(answer, summary);
    const names = Object.keys(FIGURES) as Figure[];
    const order = this.ordered(summary);
    const rows = (): (string | number)[][] => [
      ["layer", "head", ...names],
      ...order.map(({ l, h: k }) => [
        answer.layers[l]!,
        answer.heads[k]!,
        ...names.map((f) => valueOf(summary[l]![k]!, f) ?? ""),
      ]),
    ];
    const numbers = 2 * answer.encoding.ids.length ** 2 * this.thumbs.length;
    const outputs = ["attentions", "similarities", "summary"] as const;
    const request = savedRequest(state, "all", "all", [...outputs], numbers * 4 > ANSWER_MOST);
    const made = this.app.exported(answer, "overview", request);
    return { ...made, rows, picture: this.picture(answer, summary, order, made.title) };
  }

  // The thumbnails in the order on screen, with their figures and the bars that explain them.
  private picture(answer: Answer, summary: Known[][], order: readonly Thumb[], footer: string): Picture {
    const { state, theme } = this.app;
    const { figure } = this;
    const range = figure ? rangeOf(summary, figure, state.least) : null;
    const lut = lutOf(state.map, "figure", theme);
    const quantities = state.show === "both" ? (["attention", "similarity"] as const) : [state.show];
    const cells = order.map((t) => {
      const head = summary[t.l]![t.h]!;
      const sound = figure && soundValueOf(head, figure, state.least);
      const place = range && sound !== null ? placeIn(range, sound) : null;
      return {
        name: `${t.l}·${t.h}`,
        written: this.like ? `at ${format(this.distanceOf(t))}` : figure ? writeFigure(head, figure) : patternOf(head),
        ground: place === null ? null : cssOf(lut, place),
        ink: place === null ? null : inkOn(lut, place),
        maps: quantities.map((quantity) => this.savedMap(answer, t, quantity)),
        strip: state.show !== "similarity" && t.offsets.key ? t.offsets.canvas : null,
      };
    });
    return gridPicture(cells, answer.heads.length, this.bars(range), footer);
  }

  private savedMap(answer: Answer, { l, h: head }: Thumb, quantity: Quantity): HTMLCanvasElement | null {
    const { app } = this;
    const { state, theme } = app;
    const at = l * answer.heads.length + head;
    const signed = quantity === "similarity";
    const map = signed ? app.derived(answer).similarity[at] : app.attention(answer, l)?.[head];
    const { values, side } = map ? pool(map, answer.encoding.ids.length, SAVED, this.seen(answer)) : { values: null, side: 0 };
    if (!values || !side) return null;
    const canvas = h("canvas", { width: side, height: side });
    canvas.getContext("2d")!.putImageData(paint(values, side, lutOf(state.map, signed ? "signed" : "attention", theme)), 0, 0);
    return canvas;
  }

  private tell(l: number, head: number, aloud: boolean): void {
    const answer = this.app.overview().answer;
    if (!answer) return;
    const s = this.app.figures(answer)[l]![head]!;
    const parts = (
      ["high_pairs", "repeated_share", "same_sentence_share", "mean_distance", "separator_attention"] as const
    ).map((f) => `${FIGURES[f].short} ${FIGURES[f].write(valueOf(s, f))}`);
    if (s.profile) {
      const { previous, self, next } = s.profile.shares;
      parts.unshift(`looks back ${percent(previous)}   at itself ${percent(self)}   ahead ${percent(next)}`);
    }
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

const SAVED = 128; // pixels of a map in the saved picture, at most
const ANSWER_MOST = 200e6; // bytes; the service refuses answers not much larger

const numbers = new WeakMap<Answer, number>();
let answers = 0;
function answerNumber(answer: Answer): number {
  if (!numbers.has(answer)) numbers.set(answer, answers++);
  return numbers.get(answer)!;
}
