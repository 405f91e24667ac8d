// Two runs side by side, two models or two domains: key figures as linked charts, and as a table with differences.
import type { App } from "./app";
import type { Report, Run } from "./corpora";
import { h, replace, segmented, select, type Select } from "./dom";
import type { Exportable } from "./export";
import { LineChart } from "./line-chart";
import {
  commonThresholds,
  placesOf,
  rankRows,
  rowsOf,
  RUN_FIGURES,
  type Place,
  type Rank,
  type Row,
} from "./run-figures";
import { withHeads } from "./picture-heads";
import { nameOfRun } from "./run-names";
import { RunPatterns } from "./run-patterns";
import { format, percent } from "./scale";
import { RUN_FIGURE_NAMES, type By, type RunFigure } from "./state";
import { chartsPicture, type Picture } from "./surface";

const SIDES = [
  { colour: "--similarity", dash: undefined, word: "First" },
  { colour: "--attention", dash: [6, 3], word: "Second" },
] as const;

const placeName = ({ layer, head }: Place): string =>
  head === null ? `layer ${layer}` : `layer ${layer} head ${head}`;

// With its sign; the difference of two shares is in percentage points.
function difference(value: number | null, write: (v: number | null) => string): string {
  if (value === null) return "–";
  const size = write(Math.abs(value)).replace("%", "pp");
  return value < 0 ? `−${size}` : value > 0 ? `+${size}` : size;
}

// What of a run is not as usual, and what it says of masked tokens.
function experimentOf(report: Report): string {
  const { interventions, similarity_space } = report.provenance.options;
  const { precision } = report.provenance.model;
  const { masked } = report;
  const parts = [
    precision !== "fp32" && precision,
    similarity_space === "residual" && "residual space",
    interventions?.length && `changed: ${JSON.stringify(interventions)}`,
    masked?.tokens &&
      `masked tokens found: ${percent(masked.accuracy)}, loss ${format(masked.loss)} (${masked.tokens.toLocaleString("en")})`,
  ].filter(Boolean);
  return parts.map((part) => ` · ${part}`).join("");
}

export interface Side {
  run: Run;
  report: Report;
}

interface Plot {
  chart: LineChart;
  figure: HTMLElement;
  title: HTMLButtonElement;
  at: HTMLElement;
}

export class RunCompare {
  readonly element: HTMLElement;
  private readonly plots: Record<RunFigure, Plot>;
  private readonly controls: { level: Select; by: ReturnType<typeof segmented<By>>; layer: Select };
  private readonly legend = h("div", { class: "run-legend" });
  private readonly note = h("p", { class: "muted" });
  private readonly table = h("div", { class: "run-table" });
  private readonly patterns: RunPatterns;
  private shown = "";
  private places: Place[] = [];
  private index = -1;
  private sides: Side[] = [];

  constructor(private readonly app: App) {
    this.patterns = new RunPatterns(app);
    this.controls = {
      level: select("Threshold", [], (level) => app.set({ level: Number(level) })),
      by: segmented<By>(
        "Show",
        [
          { value: "layers", label: "Layers" },
          { value: "heads", label: "Every head" },
          { value: "layer", label: "One layer’s heads" },
        ],
        (by) => app.set({ by }),
      ),
      layer: select("Layer", [], (layer) => app.set({ layer: Number(layer) })),
    };
    this.plots = Object.fromEntries(RUN_FIGURE_NAMES.map((name) => [name, this.plot(name)])) as Record<
      RunFigure,
      Plot
    >;
    this.element = h(
      "div",
      { class: "run-compare" },
      h(
        "div",
        { class: "toolbar" },
        this.controls.by.element,
        this.controls.layer.element,
        this.controls.level.element,
      ),
      this.legend,
      this.note,
      h(
        "div",
        { class: "plots" },
        RUN_FIGURE_NAMES.map((name) => this.plots[name].figure),
      ),
      this.patterns.element,
      this.table,
    );
  }

  private plot(name: RunFigure): Plot {
    const chart = new LineChart("runs", (index) => this.pointed(name, index));
    const title = h(
      "button",
      {
        type: "button",
        class: "plain",
        title: `${RUN_FIGURES[name].title}. Shows it in the table.`,
        onclick: () => this.app.set({ figure: name }),
      },
      RUN_FIGURES[name].name,
    );
    const at = h("span", { class: "at", "aria-hidden": "true" });
    chart.element.tabIndex = 0;
    chart.element.setAttribute("role", "group");
    chart.element.setAttribute("aria-label", `Chart of ${RUN_FIGURES[name].name}; arrows move through it`);
    chart.element.addEventListener("keydown", (e) => this.key(name, e));
    return {
      chart,
      title,
      at,
      figure: h("figure", { class: "plot" }, h("figcaption", {}, title, at), chart.element),
    };
  }

  private key(name: RunFigure, e: KeyboardEvent): void {
    const last = this.places.length - 1;
    const to = { ArrowLeft: this.index - 1, ArrowRight: this.index + 1, Home: 0, End: last }[e.key];
    if (to === undefined || last < 0) return;
    e.preventDefault();
    this.plots[name].chart.point(Math.min(last, Math.max(0, to)));
    this.app.readout(this.describe(name, this.index), true);
  }

  // The cursor of one chart is that of all; the one under the pointer speaks.
  private pointed(name: RunFigure, index: number | null): void {
    this.index = index ?? -1;
    const { at, chart } = this.plots[name];
    const place = index === null ? undefined : this.places[index];
    at.textContent = place ? this.values(name, index!).join(" · ") : "";
    if (chart.element.matches(":hover")) this.app.readout(place ? this.describe(name, index!) : "");
  }

  private values(name: RunFigure, index: number): string[] {
    const row = this.rows(name, [this.places[index]!])[0]!;
    const { write } = RUN_FIGURES[name];
    return this.sides.length > 1 ? [write(row.first), write(row.second)] : [write(row.first)];
  }

  private describe(name: RunFigure, index: number): string {
    const place = this.places[index];
    if (!place) return "";
    const values = this.values(name, index).map((v, n) => `${nameOfRun(this.sides[n]!.run)} ${v}`);
    return [placeName(place), RUN_FIGURES[name].name, ...values].join("   ");
  }

  private rows(name: RunFigure, places: readonly Place[]): Row[] {
    const reports = this.sides.map(({ report }) => report);
    return rowsOf(reports, name, this.level(reports), places);
  }

  private level(reports: readonly Report[]): number {
    const common = commonThresholds(reports);
    const { level } = this.app.state;
    return common.includes(level) ? level : (common[Math.floor(common.length / 2)] ?? NaN);
  }

  update(sides: Side[]): void {
    const { app } = this;
    const { state } = app;
    const reports = sides.map(({ report }) => report);
    const layers = [...new Set(reports.flatMap((r) => r.layers))].sort((a, b) => a - b);
    const layer = layers.includes(state.layer) ? state.layer : layers.at(-1)!;
    const level = this.level(reports);
    const key = JSON.stringify([sides.map(({ run }) => run.id), state.by, layer, level, app.theme]);
    const table = `${key} ${state.figure} ${state.rank}`;
    this.controls.by.set(state.by);
    this.controls.layer.element.hidden = state.by !== "layer";
    this.patterns.update(sides[0]!.run, sides[0]!.report);
    if (table === this.shown) return;
    this.shown = table;
    this.sides = sides;
    this.places = placesOf(reports, state.by, layer);
    fill(this.controls.level, commonThresholds(reports), level);
    fill(this.controls.layer, layers, layer);
    this.tellLegend(reports);
    for (const name of RUN_FIGURE_NAMES) this.draw(name, reports, key);
    this.drawTable();
  }

  private draw(name: RunFigure, reports: readonly Report[], key: string): void {
    const { chart, figure, title, at } = this.plots[name];
    const { state } = this.app;
    const about = RUN_FIGURES[name];
    title.setAttribute("aria-pressed", String(state.figure === name));
    figure.hidden = state.by !== "layers" && about.head === null;
    at.textContent = "";
    const rows = this.rows(name, this.places);
    const lines = SIDES.slice(0, reports.length).map(({ colour, dash }, n) => ({
      values: rows.map((row) => (n ? row.second : row.first)),
      colour,
      dash: dash && [...dash],
      hollow: n > 0,
    }));
    const chances = reports.map(about.chance);
    const one = chances.every((v) => v === chances[0]);
    const faint = chances
      .slice(0, one ? 1 : 2)
      .flatMap((chance, n) =>
        chance === null
          ? []
          : [
              {
                values: rows.map(() => chance),
                colour: one ? "--muted" : SIDES[n]!.colour,
                dash: [2, 3],
                faint: true,
              },
            ],
      );
    chart.show({
      x: this.places.map(({ x }) => x),
      lines: [...faint, ...lines],
      xLabel: state.by === "layer" ? "Head" : "Layer",
      write: (v) => (about.share ? `${+(v * 100).toPrecision(3)} %` : String(+v.toPrecision(3))),
      dots: state.by === "heads",
      key: `${key} ${figure.hidden}`,
    });
  }

  private tellLegend(reports: readonly Report[]): void {
    replace(
      this.legend,
      this.sides.map(({ run, report }, n) => {
        const { model, options } = report.provenance;
        return h(
          "div",
          { class: `key ${n ? "second" : "first"}` },
          h("i", { "aria-hidden": "true" }),
          h("strong", {}, nameOfRun(run)),
          h(
            "span",
            { class: "muted" },
            `${model.name} · ${report.texts.toLocaleString("en")} texts · ${options.max_tokens} tokens${experimentOf(report)}`,
          ),
        );
      }),
      h("div", { class: "key chance" }, h("i", { "aria-hidden": "true" }), h("span", { class: "muted" }, "chance")),
    );
    const [a, b] = reports;
    const doubts =
      a && b
        ? [
            a.provenance.options.max_tokens !== b.provenance.options.max_tokens &&
              "They cut texts at different lengths, which moves distances and chance.",
            a.layers.length !== b.layers.length && "Layers stand beside each other by number, not by depth.",
          ].filter(Boolean)
        : ["A second finished run is drawn beside this one: another model, or another kind of text."];
    this.note.textContent = doubts.join(" ");
    this.note.hidden = doubts.length === 0;
  }

  private drawTable(): void {
    const { state } = this.app;
    const about = RUN_FIGURES[state.figure];
    const two = this.sides.length > 1;
    const places = about.head === null ? this.places.filter(({ head }) => head === null) : this.places;
    const rows = rankRows(this.rows(state.figure, places), state.rank);
    const figures = select(
      "Figure in the table",
      RUN_FIGURE_NAMES.map((name) => [name, RUN_FIGURES[name].name] as const),
      (figure) => this.app.set({ figure: figure as RunFigure }),
    );
    figures.set(state.figure);
    const focused = document.activeElement?.closest(".run-table") ? document.activeElement.id : "";
    figures.input.id = "run-figure";
    replace(
      this.table,
      figures.element,
      h(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": `${about.name} as a table` },
        h(
          "table",
          { class: "sortable" },
          h("caption", {}, about.title, "."),
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              this.columns(two).map(([rank, name]) => this.columnHead(rank, name)),
            ),
          ),
          h(
            "tbody",
            {},
            rows.map((row) =>
              h(
                "tr",
                {},
                h("th", { scope: "row" }, placeName(row.place)),
                h("td", { class: "number" }, about.write(row.first)),
                two && h("td", { class: "number" }, about.write(row.second)),
                two && h("td", { class: "number" }, difference(row.difference, about.write)),
              ),
            ),
          ),
        ),
      ),
    );
    if (focused) document.getElementById(focused)?.focus();
  }

  private columns(two: boolean): [Rank, string][] {
    const names = this.sides.map(({ run }) => nameOfRun(run));
    if (!two)
      return [
        ["place", "Place"],
        ["first", names[0]!],
      ];
    const [a, b] = names[0] === names[1] ? ["First", "Second"] : names;
    return [
      ["place", "Place"],
      ["first", a!],
      ["second", b!],
      ["difference", "First − second"],
    ];
  }

  // A second click turns the order round; numbers begin with the largest.
  private columnHead(column: Rank, name: string): HTMLElement {
    const { rank } = this.app.state;
    const sorted = rank === column ? "ascending" : rank === `-${column}` ? "descending" : undefined;
    const first = column === "place" ? column : `-${column}`;
    const other = column === "place" ? `-${column}` : column;
    return h(
      "th",
      { scope: "col", class: column === "place" ? "" : "number", "aria-sort": sorted },
      h(
        "button",
        {
          type: "button",
          id: `run-rank-${column}`,
          onclick: () => this.app.set({ rank: rank === first ? other : first }),
        },
        name,
      ),
    );
  }

  exportable(): Exportable | null {
    const { sides, app } = this;
    if (!sides.length) return null;
    const places = this.places;
    const level = this.level(sides.map(({ report }) => report));
    const rows = (): (string | number)[][] => [
      ["figure", "threshold", "layer", "head", "first", "second", "difference"],
      ...RUN_FIGURE_NAMES.flatMap((name) =>
        this.rows(name, places).map(({ place, first, second, difference }) => [
          name,
          level,
          place.layer,
          place.head ?? "",
          first ?? "",
          second ?? "",
          difference ?? "",
        ]),
      ),
    ];
    const names = sides.map(({ run }) => nameOfRun(run));
    const seen = {
      name: `headscope-runs-${names.join("-").replaceAll(/[^\w.-]+/g, "_")}`,
      title: `headscope · ${names.join(" and ")}`,
      provenance: { tool: "headscope", runs: sides.map(({ report }) => report.provenance), page: app.address() },
      picture: this.picture(names),
      rows,
    };
    return withHeads(seen, this.patterns.shown);
  }

  // The charts on screen, with who is who.
  private picture(names: readonly string[]): Picture {
    const shown = RUN_FIGURE_NAMES.flatMap((name) => {
      const { figure, chart } = this.plots[name];
      const canvas = chart.element.querySelector("canvas");
      return figure.hidden || !canvas ? [] : [{ title: RUN_FIGURES[name].name, canvas }];
    });
    const style = getComputedStyle(this.element);
    const keys = names.map((name, n) => ({ name, ...SIDES[n]!, colour: style.getPropertyValue(SIDES[n]!.colour).trim() }));
    return chartsPicture(shown, keys);
  }
}

function fill({ input }: Select, values: readonly number[], chosen: number): void {
  const options = values.map(String);
  if ([...input.options].map((o) => o.value).join() !== options.join())
    replace(
      input,
      options.map((value) => h("option", { value }, value)),
    );
  input.value = String(chosen);
}
