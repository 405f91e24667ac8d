// Layers x heads as thumbnails: every head of the text at a glance, sorted and coloured by a figure.
import type { App, Shape } from "../app";
import type { Answer } from "../answer";
import { cssOf, inkOn, lutOf } from "../colour";
import { colourBar } from "../colourbar";
import { h, replace, segmented, select, write } from "../dom";
import type { Exportable } from "../export";
import { figuresTable } from "../figures-table";
import { chosenHeads, figureOf, isMixed, nearnessOf, needsMaps, orderedHeads, wantedPattern, type Nearness } from "../head-order";
import { HeadPlane } from "../head-plane";
import { FIGURES, ONLY_NAMES, patternOf, placeIn, rangeOf, soundValueOf, valueOf, writeFigure, type Figure, type Known } from "../metrics";
import { overviewBars } from "../overview-bars";
import { overviewExport } from "../overview-export";
import { format, percent } from "../scale";
import { METRICS, ONLY, type Metric, type Only, type Show } from "../state";
import { statusOf } from "../status";
import { Thumbnails, type Thumb } from "../thumbnails";

const FEW = 5; // heads a layer: layers then stand beside each other, and one header fits none of them

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
  private readonly thumbs: Thumbnails;
  private arranged = "";
  private known: Answer | null = null;
  private near: Nearness | null = null;

  constructor(private readonly app: App) {
    const tell = (l: number, head: number, aloud: boolean): void => this.tell(l, head, aloud);
    this.plane = new HeadPlane(app, tell);
    this.thumbs = new Thumbnails(app, tell);
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
    write(this.direction, state.down ? "↓ largest first" : "↑ smallest first");
    this.direction.hidden = state.plane || state.sort === "none";
    this.only.set(state.only);
    if (document.activeElement !== this.seek) this.seek.value = state.seek;
    if (document.activeElement !== this.least) this.least.value = String(state.least);
    const entry = app.overview();
    replace(this.status, statusOf(app, entry));
    this.table.hidden = this.legend.hidden = !entry.answer;
    this.grid.hidden = state.plane;
    this.grid.classList.toggle("early", !entry.answer);
    this.plane.element.hidden = !entry.answer || !state.plane;
    if (!entry.answer) {
      this.none.hidden = true;
      if (entry.status === "loading") this.await();
      else this.grid.hidden = true;
      return;
    }
    this.legend.hidden = state.plane;
    if (this.known !== entry.answer) performance.mark("overview-answered");
    this.known = entry.answer;
    const summary = app.figures(entry.answer);
    this.near = this.nearTo(entry.answer);
    this.build({ layers: entry.answer.layers.length, heads: entry.answer.heads.length });
    if (state.plane) this.place(entry.answer, summary);
    else this.arrange(entry.answer, summary);
    this.thumbs.fill(entry.answer, needsMaps(state) || (state.plane && this.plane.byPattern));
    this.annotate(entry.answer, summary);
    if (this.table.open) figuresTable(this.table, app, entry.answer, summary);
  }

  private build(shape: Shape): void {
    if (!this.thumbs.build(shape)) return;
    this.arranged = "";
    this.grid.style.setProperty("--heads", String(shape.heads));
  }

  // While the server computes, the grid is laid out, unseen: then it is known what will be in sight.
  private await(): void {
    const shape = this.app.shape(null, this.app.state.model);
    if (!shape || this.app.state.plane) return;
    this.build(shape);
    if (!isMixed(this.app.state)) this.lay(this.thumbs.all, shape, false);
  }

  private place(answer: Answer, summary: Known[][]): void {
    const chosen = new Set(chosenHeads(this.thumbs.all, summary, this.app.state, this.near).map((t) => `${t.l} ${t.h}`));
    this.tellNone(chosen.size === 0);
    this.plane.update(answer, summary, (l, head) => chosen.has(`${l} ${head}`));
  }

  private nearTo(answer: Answer): Nearness | null {
    const found = nearnessOf(this.app, answer);
    if (found?.entry) replace(this.status, statusOf(this.app, found.entry));
    return found && found.nearness;
  }

  private ordered(summary: Known[][]): Thumb[] {
    return orderedHeads(this.thumbs.all, summary, this.app.state, this.near);
  }

  // What no head is known for, some may do a little.
  private sortByPattern(): void {
    const pattern = wantedPattern(this.app.state);
    if (pattern) this.app.set({ only: "all", seek: "", sort: pattern, down: true, plane: false }, true);
  }

  private tellNone(none: boolean): void {
    this.none.hidden = !none;
    const pattern = none ? wantedPattern(this.app.state) : null;
    this.strongest.hidden = !pattern;
    if (pattern) this.strongest.textContent = `Show all, sorted by: ${FIGURES[pattern].name.toLowerCase()}`;
  }

  private arrange(answer: Answer, summary: Known[][]): void {
    const order = this.ordered(summary);
    this.tellNone(order.length === 0);
    this.lay(order, { layers: answer.layers.length, heads: answer.heads.length }, isMixed(this.app.state));
  }

  private lay(order: readonly Thumb[], { heads }: Shape, sorted: boolean): void {
    const key = `${sorted} ${order.map((t) => `${t.l}.${t.h}`).join(" ")}`;
    if (key === this.arranged) return;
    this.arranged = key;
    const focused = document.activeElement;
    const cell = (t: Thumb): HTMLElement => h("div", { role: "gridcell" }, t.button);
    const rows = Array.from({ length: Math.ceil(order.length / heads) }, (_, r) =>
      h(
        "div",
        { class: "row", role: "row" },
        h(
          "div",
          { class: "side", role: "rowheader" },
          sorted ? `${r * heads + 1}–${Math.min(order.length, (r + 1) * heads)}` : `L${r}`,
        ),
        order.slice(r * heads, (r + 1) * heads).map(cell),
      ),
    );
    const header = h(
      "div",
      { class: "row header", role: "row" },
      h("div", { class: "side", role: "columnheader" }, h("span", { class: "hidden" }, "Layer")),
      Array.from({ length: heads }, (_, head) => h("div", { role: "columnheader" }, sorted ? "" : `H${head}`)),
    );
    this.grid.classList.toggle("sorted", sorted);
    replace(this.grid, sorted || heads <= FEW ? null : header, rows);
    if (focused instanceof HTMLElement && this.grid.contains(focused)) focused.focus();
  }

  private annotate(answer: Answer, summary: Known[][]): void {
    const { state, theme } = this.app;
    const figure = this.figure;
    const sorted = isMixed(this.app.state);
    const range = figure ? rangeOf(summary, figure, state.least) : null;
    const lut = lutOf(state.map, "figure", theme);
    const chosen = this.app.selection(answer);
    this.grid.classList.toggle("annotated", figure !== null);
    const tabStop = this.grid.contains(document.activeElement) ? document.activeElement : null;
    for (const t of this.thumbs.all) {
      const head = summary[t.l]![t.h]!;
      const sound = figure ? soundValueOf(head, figure, state.least) : null;
      const distance = this.near?.get(t.l * answer.heads.length + t.h);
      const written = distance !== undefined ? `at ${format(distance)}` : figure ? writeFigure(head, figure) : "";
      const pattern = patternOf(head);
      this.caption(t, sorted ? `${t.l}·${t.h}` : "", written || pattern, sound !== null || !figure);
      const place = range && sound !== null ? placeIn(range, sound) : null;
      this.tone(t, place === null ? "" : cssOf(lut, place), place === null ? "" : inkOn(lut, place));
      const isChosen = t.l === chosen.layer && t.h === chosen.head;
      t.button.classList.toggle("chosen", isChosen);
      const stop = tabStop ? t.button === tabStop : isChosen;
      if (t.button.tabIndex !== (stop ? 0 : -1)) t.button.tabIndex = stop ? 0 : -1;
      const label =
        [sorted && `${t.l}·${t.h}`, written || pattern].filter(Boolean).join(" ") +
        (sorted || written || pattern ? ", layer" : "Layer") +
        ` ${t.l}, head ${t.h}` +
        (distance !== undefined ? ": distance" : figure ? `: ${FIGURES[figure].name}` : "");
      if (t.button.getAttribute("aria-label") !== label) t.button.setAttribute("aria-label", label);
    }
    if (!tabStop && !this.thumbs.all.some((t) => t.button.tabIndex === 0)) this.thumbs.all[0]!.button.tabIndex = 0;
    this.explain(range);
  }

  // Its words stand at the head of the button's name, as they are seen.
  private caption(t: Thumb, name: string, written: string, sound: boolean): void {
    const key = `${name} ${written} ${sound}`;
    if (t.written === key) return;
    t.written = key;
    replace(t.figure, name && h("b", {}, name), name && " ", written && h("span", { class: sound ? "" : "few" }, written));
  }

  private tone({ figure: { style } }: Thumb, background: string, ink: string): void {
    if (style.color === "" && ink === "") return;
    style.background = background;
    style.color = ink;
  }

  private get figure(): Figure | null {
    return this.near ? null : figureOf(this.app.state);
  }

  private explain(range: [number, number] | null): void {
    const { app, figure } = this;
    const { show, map } = app.state;
    const key = JSON.stringify([show, map, app.theme, figure, range]);
    if (this.legend.dataset.key === key) return;
    this.legend.dataset.key = key;
    replace(this.legend, overviewBars(app, figure, range).map(colourBar));
  }

  exportable(): Exportable | null {
    const { answer } = this.app.overview();
    if (!answer) return null;
    const summary = this.app.figures(answer);
    if (this.app.state.plane) return this.plane.exportable(answer, summary);
    return overviewExport(this.app, answer, summary, this.ordered(summary), this.near);
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
