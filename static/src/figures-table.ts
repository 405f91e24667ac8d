// Every head's figures as a table: what the thumbnails say, for screen readers and for copying.
import type { Answer, Summary } from "./answer";
import type { App } from "./app";
import { h, replace } from "./dom";
import { FIGURES, valueOf, type Figure } from "./metrics";

const shown = new WeakMap<Element, Summary[][]>();

export function figuresTable(place: HTMLElement, app: App, answer: Answer, summary: Summary[][]): void {
  if (shown.get(place) === summary) return;
  shown.set(place, summary);
  const names = Object.keys(FIGURES) as Figure[];
  const row = (s: Summary, l: number, head: number): HTMLElement =>
    h(
      "tr",
      {},
      h(
        "th",
        { scope: "row" },
        h(
          "button",
          {
            type: "button",
            class: "link",
            onclick: () => app.set({ view: "head", layer: l, head, pin: [] }, true),
          },
          `L${l} H${head}`,
        ),
      ),
      names.map((name) => h("td", {}, FIGURES[name].write(valueOf(s, name)))),
    );
  replace(
    place,
    h("summary", {}, "All figures as a table"),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Figures of all heads" },
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "Head"),
            names.map((name) => h("th", { scope: "col", title: FIGURES[name].title }, FIGURES[name].name)),
          ),
        ),
        h(
          "tbody",
          {},
          answer.layers.map((_, l) => answer.heads.map((_, head) => row(summary[l]![head]!, l, head))),
        ),
      ),
    ),
  );
}
