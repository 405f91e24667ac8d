// Every head's figures as a table: what the thumbnails say, for screen readers and for copying. Each column sorts.
import type { Answer } from "./answer";
import type { App } from "./app";
import { h, replace } from "./dom";
import { FIGURES, patternOf, soundValueOf, writeFigure, type Figure, type Known } from "./metrics";

const NAMES = Object.keys(FIGURES) as Figure[];
const shown = new WeakMap<Element, { summary: Known[][]; column: string; least: number }>();

interface Row {
  l: number;
  head: number;
  summary: Known;
}

export function figuresTable(place: HTMLElement, app: App, answer: Answer, summary: Known[][]): void {
  const { column, least } = app.state;
  const last = shown.get(place);
  if (last?.summary === summary && last.column === column && last.least === least) return;
  shown.set(place, { summary, column, least });
  const rows = answer.layers.flatMap((_, l) =>
    answer.heads.map((_, head): Row => ({ l, head, summary: summary[l]![head]! })),
  );
  const focused = place.contains(document.activeElement) ? document.activeElement!.id : "";
  replace(
    place,
    h("summary", {}, "All figures as a table"),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Figures of all heads" },
      h(
        "table",
        { class: "sortable" },
        h("caption", {}, `Shares are of high pairs, their number beside; of fewer than ${least} they are sorted last.`),
        h("thead", {}, h("tr", {}, columnHead(app, "head", "Head", "By layer and head"), columnHead(app, "pattern", "Pattern", "Where most of its attention goes, by name"), NAMES.map((name) => columnHead(app, name, FIGURES[name].name, FIGURES[name].title)))),
        h("tbody", {}, orderRows(rows, column, least).map((row) => bodyRow(app, row, least))),
      ),
    ),
  );
  if (focused) document.getElementById(focused)?.focus();
}

// Numbers begin with the largest; what has no sound value comes last either way.
export function orderRows(rows: readonly Row[], column: string, least: number): Row[] {
  const name = NAMES.find((n) => n === column.replace(/^-/, ""));
  const sign = column.startsWith("-") ? -1 : 1;
  if (column.endsWith("pattern"))
    return [...rows].sort((a, b) => {
      const [p, q] = [patternOf(a.summary), patternOf(b.summary)];
      return Number(!p) - Number(!q) || sign * p.localeCompare(q) || a.l - b.l || a.head - b.head;
    });
  if (!name) return sign > 0 ? [...rows] : [...rows].reverse();
  const value = (row: Row): number => {
    const v = soundValueOf(row.summary, name, least);
    return v === null ? Infinity : sign * v;
  };
  const difference = (a: number, b: number): number => (a === b ? 0 : a - b);
  return [...rows].sort((a, b) => difference(value(a), value(b)) || a.l - b.l || a.head - b.head);
}

function columnHead(app: App, column: Figure | "head" | "pattern", name: string, title: string): HTMLElement {
  const sorted = app.state.column === column ? "ascending" : app.state.column === `-${column}` ? "descending" : undefined;
  const words = column === "head" || column === "pattern";
  const first = words ? column : `-${column}`;
  const other = words ? `-${column}` : column;
  const sort = (): void => app.set({ column: app.state.column === first ? other : first });
  return h(
    "th",
    { scope: "col", title, "aria-sort": sorted },
    h("button", { type: "button", id: `figures-${column}`, onclick: sort }, name),
  );
}

function bodyRow(app: App, { l, head, summary }: Row, least: number): HTMLElement {
  const open = (): void => app.set({ view: "head", layer: l, head, pin: [] }, true);
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, h("button", { type: "button", class: "link", onclick: open }, `L${l} H${head}`)),
    h("td", {}, patternOf(summary) || "–"),
    NAMES.map((name) =>
      h("td", { class: soundValueOf(summary, name, least) === null ? "muted" : "" }, writeFigure(summary, name)),
    ),
  );
}
