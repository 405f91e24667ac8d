// A number for every head as a map of layers by heads, with the strongest beside it as a list.
import { colourBar, type Bar } from "./colourbar";
import { cssOf, inkOn } from "./colour";
import { h, replace } from "./dom";
import { LISTED, rankHeads } from "./pair-heads";

export interface HeadMapContent {
  name: string; // of the numbers in a file
  values: readonly (readonly (number | null)[])[]; // [l][h]
  place(value: number): number; // 0..1 of the colour bar
  bar: Bar;
  write(value: number): string;
  caption: string;
}

export class HeadMap {
  readonly element = h("div", { class: "head-map" });
  content: HeadMapContent | null = null;
  private shown = "";

  constructor(private readonly open: (l: number, h: number) => void) {
    this.element.addEventListener("click", (e) => {
      const cell = e.target instanceof Element ? e.target.closest<HTMLElement>("[data-head]") : null;
      if (cell) this.open(Number(cell.dataset.layer), Number(cell.dataset.head));
    });
  }

  show(content: HeadMapContent): void {
    this.content = content;
    const key = JSON.stringify([content.values, content.caption, content.bar.words, content.bar.lut[200]]);
    if (key === this.shown) return;
    this.shown = key;
    replace(this.element, this.table(content), this.list(content));
  }

  private table({ values, place, bar, write, caption }: HeadMapContent): HTMLElement {
    const cell = (value: number | null, l: number, k: number): HTMLElement => {
      const written = value === null ? "–" : write(value);
      const td = h("td", { title: `Layer ${l}, head ${k}: ${written}`, "data-layer": l, "data-head": k }, h("span", {}, written));
      if (value !== null) td.style.background = cssOf(bar.lut, place(value));
      if (value !== null) td.style.color = inkOn(bar.lut, place(value));
      return td;
    };
    return h(
      "div",
      { class: "wide", tabindex: 0, role: "region", "aria-label": caption },
      colourBar(bar),
      h(
        "table",
        {},
        h("caption", {}, caption),
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Layer"), (values[0] ?? []).map((_, k) => h("th", { scope: "col" }, `H${k}`)))),
        h("tbody", {}, values.map((row, l) => h("tr", {}, h("th", { scope: "row" }, `L${l}`), row.map((value, k) => cell(value, l, k))))),
      ),
    );
  }

  private list({ values, write }: HeadMapContent): HTMLElement {
    const ranked = rankHeads(values).slice(0, LISTED);
    return h(
      "ol",
      { class: "ranked", "aria-label": "Heads, strongest first" },
      ranked.map(({ l, h: k, value }) =>
        h(
          "li",
          {},
          h("button", { type: "button", class: "link", "data-layer": l, "data-head": k }, `Layer ${l} head ${k}`),
          h("b", {}, write(value)),
        ),
      ),
    );
  }
}
