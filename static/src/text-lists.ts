// Beside the text: what the chosen tokens have most to do with, and the layer's segments.
import type { Head, Segment } from "./analysis";
import { h, replace } from "./dom";
import { format } from "./scale";
import { RELATIONS, type Relation } from "./state";
import { ABOUT, relationOf } from "./text-relation";

const LISTED = 8;

export class TextLists {
  readonly element = h("div", { class: "lists" });

  constructor(
    private readonly choose: (t: number) => void,
    private readonly point: (t: number) => void, // -1: at none any more
  ) {}

  show(head: Head, chosen: readonly number[], segments: readonly Segment[]): void {
    replace(
      this.element,
      chosen.length ? RELATIONS.map((relation) => this.list(head, chosen, relation)) : noneChosen(),
      segments.length > 0 && segmentTable(head, segments),
    );
  }

  private list(head: Head, chosen: readonly number[], relation: Relation): HTMLElement {
    const values = relationOf(head, chosen, relation);
    const order = [...values.keys()].filter((t) => !chosen.includes(t)).sort((a, b) => values[b]! - values[a]!);
    const top = values[order[0] ?? 0] ?? 0;
    return h(
      "section",
      { class: `card ${ABOUT[relation].quantity}` },
      h("h2", {}, ABOUT[relation].title),
      h(
        "ol",
        {},
        order.slice(0, LISTED).map((t) => this.listed(head, t, values[t]!, top)),
      ),
    );
  }

  private listed(head: Head, t: number, value: number, top: number): HTMLElement {
    const bar = h("i", {});
    bar.style.width = `${top > 0 ? Math.max(0, (value / top) * 100) : 0}%`;
    return h(
      "li",
      {},
      h(
        "button",
        {
          type: "button",
          onclick: () => this.choose(t),
          onpointerenter: () => this.point(t),
          onpointerleave: () => this.point(-1),
        },
        h("span", {}, head.axis.labels[t]),
        h("small", {}, head.axis.positions[t]),
        h("b", {}, format(value)),
        bar,
      ),
    );
  }
}

const noneChosen = (): HTMLElement =>
  h(
    "section",
    { class: "card" },
    h("h2", {}, "No token chosen"),
    h(
      "p",
      { class: "muted" },
      "Click a token; Shift or Ctrl adds another. Then here stands what it attends to, what attends to it and what it is similar to. With two, all heads are ranked by what ties them.",
    ),
  );

function segmentTable(head: Head, segments: readonly Segment[]): HTMLElement {
  const words = (s: Segment): string => {
    const labels = head.axis.labels.slice(s.start, s.end);
    return labels.length > 6 ? `${labels.slice(0, 3).join(" ")} … ${labels.slice(-2).join(" ")}` : labels.join(" ");
  };
  const number = (value: number): HTMLElement => h("td", { class: "number" }, format(value));
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Segments of the layer"),
    h(
      "table",
      { class: "segments" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col" }, "Tokens"),
          h("th", { scope: "col", class: "number" }, "Cohesion"),
          h("th", { scope: "col", class: "number" }, "To the rest"),
        ),
      ),
      h(
        "tbody",
        {},
        segments.map((s) => h("tr", {}, h("td", {}, words(s)), number(s.cohesion), number(s.contrast))),
      ),
    ),
  );
}
