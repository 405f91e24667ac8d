// Which head does what, over all texts of a run: where each head's attention goes on average, as a map of layers by
// heads and as a table that sorts, filters and searches.
import type { App } from "./app";
import type { Report, Run } from "./corpora";
import { lutOf } from "./colour";
import { disclosure, h, replace, select } from "./dom";
import { HeadMap, type HeadMapContent } from "./head-map";
import { FIGURES, isSoughtAs, ONLY_NAMES } from "./metrics";
import { isOfSentence, type Pattern } from "./patterns";
import { format, maximumOf, percent, ticksOf, wordsOf, type Tick } from "./scale";
import { ONLY, type Only } from "./state";

// As the report names its arrays [l][h]; shares of each query's attention, entropy in nats.
const ARRAYS = {
  previous: "profiles_previous",
  next: "profiles_next",
  self: "profiles_self",
  first: "profiles_first",
  separator: "profiles_separator",
  punctuation: "profiles_punctuation",
  repeated: "profiles_same_token",
  sentence: "profiles_same_sentence",
  broad: "profiles_entropy",
} as const satisfies Record<Pattern, string>;
const COLUMNS = Object.keys(ARRAYS) as Pattern[];
const NAMES: Record<Pattern, string> = {
  previous: "One back",
  next: "One ahead",
  self: "Itself",
  first: "First token",
  separator: "Separators",
  punctuation: "Punctuation",
  repeated: "Repeats",
  sentence: "Sentence",
  broad: "Entropy, nats",
};
const write = (column: Pattern, value: number): string => (column === "broad" ? format(value) : percent(value));

// The bar's ticks and words, in the unit of the cells.
export const scaleOf = (column: Pattern, top: number): { ticks: Tick[]; words: string } =>
  column === "broad"
    ? { ticks: ticksOf(top, "linear"), words: wordsOf("linear", 0, top) }
    : { ticks: [0, 0.5, 1].map((at) => ({ at, label: at ? percent(at * top) : "0\u00a0%" })), words: `linear, 0\u00a0% to ${percent(top)}` };

export interface Head {
  layer: number;
  head: number;
  pattern: Pattern | "";
  values: Record<Pattern, number>;
}

type Profiled = Report & Record<(typeof ARRAYS)[Pattern] | "profiles_label", number[][]> & { even_same_sentence_sum: number };
const isProfiled = (report: Report): report is Profiled => "profiles_same_sentence" in report;

// Clark et al.'s labels as the service counts them, with what a head looks at within each.
const OF_LABEL: readonly (readonly Pattern[])[] = [["previous", "next", "self"], ["first", "separator", "punctuation"], ["broad"]];
const REPEATED_LEAST = 0.5;

// None in a run of a version that did not count it.
export function headsOf(report: Report): Head[] {
  if (!isProfiled(report)) return [];
  const chance = report.even_same_sentence_sum / report.texts;
  const other = ({ repeated, sentence }: Head["values"]): Head["pattern"] =>
    repeated > REPEATED_LEAST ? "repeated" : isOfSentence(sentence, chance) ? "sentence" : "";
  return report.layers.flatMap((layer, l) =>
    report.profiles_label[l]!.map((label, head): Head => {
      const values = Object.fromEntries(COLUMNS.map((name) => [name, report[ARRAYS[name]][l]![head]!])) as Head["values"];
      const kinds = [...(OF_LABEL[label] ?? [])].sort((a, b) => values[b] - values[a]);
      return { layer, head, values, pattern: kinds[0] ?? other(values) };
    }),
  );
}

export function chooseHeads(heads: readonly Head[], only: Only, sought: string): Head[] {
  return heads.filter(
    ({ layer, head, pattern }) =>
      (only === "all" || only === (pattern || "none")) && (!sought.trim() || isSoughtAs(layer, head, pattern, sought)),
  );
}

// column: "head", "pattern" or a share; with "-" before it from the largest down.
export function sortHeads(heads: readonly Head[], column: string): Head[] {
  const sign = column.startsWith("-") ? -1 : 1;
  const name = column.replace("-", "");
  const difference = (a: Head, b: Head): number => {
    if (name === "pattern") return Number(!a.pattern) - Number(!b.pattern) || sign * a.pattern.localeCompare(b.pattern);
    return name === "head" ? 0 : sign * (a.values[name as Pattern] - b.values[name as Pattern]);
  };
  const placed = name === "head" ? sign : 1;
  return [...heads].sort((a, b) => difference(a, b) || placed * (a.layer - b.layer || a.head - b.head));
}

export class RunPatterns {
  readonly element: HTMLDetailsElement;
  private readonly map: HeadMap;
  private readonly table = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Patterns of all heads" });
  private readonly only;
  private readonly seek = h("input", { type: "search", placeholder: "7·5, layer 3, back …" });
  private readonly title = h("summary", {});
  private run: Run | null = null;
  private shownKey = "";

  constructor(private readonly app: App) {
    this.map = new HeadMap((layer, head) => this.open(layer, head));
    this.only = select("Heads that look", ONLY.map((name) => [name, ONLY_NAMES[name]] as const), (only) =>
      app.set({ runonly: only as Only }),
    );
    this.seek.addEventListener("input", () => app.set({ runseek: this.seek.value }));
    const toolbar = h("div", { class: "toolbar" }, this.only.element, h("label", { class: "field seek" }, h("span", {}, "Find heads"), this.seek));
    this.element = disclosure(this.title, [toolbar, this.map.element, this.table], () =>
      app.set({ runheads: !app.state.runheads }),
    );
  }

  // What all heads do, while it is on screen.
  get shown(): HeadMapContent | null {
    return this.element.isConnected && !this.element.hidden && this.element.open ? this.map.content : null;
  }

  update(run: Run, report: Report): void {
    const { runheads, runonly, runseek, runcolumn, map } = this.app.state;
    const heads = headsOf(report);
    this.run = run;
    this.element.hidden = !heads.length;
    this.element.open = runheads;
    this.title.textContent = `Which head does what, over all texts of ${run.name}`;
    this.only.set(runonly);
    if (document.activeElement !== this.seek) this.seek.value = runseek;
    const key = JSON.stringify([run.id, runonly, runseek, runcolumn, map, this.app.theme]);
    if (!heads.length || !runheads || key === this.shownKey) return;
    this.shownKey = key;
    const chosen = sortHeads(chooseHeads(heads, runonly, runseek), runcolumn);
    const column = COLUMNS.find((name) => name === runcolumn.replace("-", "")) ?? "previous";
    this.map.show(this.content(report, chosen, column));
    this.fill(chosen);
  }

  private content(report: Report, chosen: readonly Head[], column: Pattern): HeadMapContent {
    const values = Array.from({ length: Math.max(...report.layers) + 1 }, () => new Array<number | null>(report.heads).fill(null));
    for (const head of chosen) values[head.layer]![head.head] = head.values[column];
    const top = maximumOf(Float32Array.from(chosen, (head) => head.values[column]));
    const label = FIGURES[column].name;
    const what = column === "broad" ? "Entropy of attention, nats" : label;
    return {
      name: ARRAYS[column],
      values,
      place: (v) => (top > 0 ? v / top : 0),
      bar: { lut: lutOf(this.app.state.map, "attention", this.app.theme), label: what, ...scaleOf(column, top) },
      write: (value) => write(column, value),
      caption: `${what}: mean over the texts of the run; layers down, heads across`,
    };
  }

  private fill(heads: readonly Head[]): void {
    const focused = this.table.contains(document.activeElement) ? document.activeElement!.id : "";
    replace(
      this.table,
      h(
        "table",
        { class: "sortable" },
        h("caption", {}, `${heads.length} heads. Shares of each query’s attention, mean over queries and texts.`),
        h("thead", {}, h("tr", {}, ["head", "pattern", ...COLUMNS].map((column) => this.columnHead(column)))),
        h("tbody", {}, heads.map((head) => this.row(head))),
      ),
    );
    if (focused) document.getElementById(focused)?.focus();
  }

  private columnHead(column: string): HTMLElement {
    const { runcolumn } = this.app.state;
    const words = column === "head" || column === "pattern";
    const [first, other] = words ? [column, `-${column}`] : [`-${column}`, column];
    const sorted = runcolumn === column ? "ascending" : runcolumn === `-${column}` ? "descending" : undefined;
    const sort = (): void => this.app.set({ runcolumn: runcolumn === first ? other : first });
    const name = words ? column[0]!.toUpperCase() + column.slice(1) : NAMES[column as Pattern];
    return h("th", { scope: "col", "aria-sort": sorted }, h("button", { type: "button", id: `run-head-${column}`, onclick: sort }, name));
  }

  private row({ layer, head, pattern, values }: Head): HTMLElement {
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, h("button", { type: "button", class: "link", onclick: () => this.open(layer, head) }, `L${layer} H${head}`)),
      h("td", {}, pattern || "–"),
      COLUMNS.map((column) => h("td", {}, write(column, values[column]))),
    );
  }

  // The head upon the text of the moment, in the run's model where the server has it.
  private open(layer: number, head: number): void {
    const { models, state } = this.app;
    const at = models.findIndex(({ name }) => name === this.run?.model);
    this.app.set({ view: "head", layer, head, pin: [], model: at < 0 ? state.model : at ? models[at]!.name : "" }, true);
  }
}
