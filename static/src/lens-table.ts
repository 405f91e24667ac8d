// What the model would say at a token if it stopped after each layer: the likeliest tokens, layer by layer.
import type { Prediction } from "../../build/openapi";
import { cssOf, inkOn, type Lut } from "./colour";
import { h } from "./dom";
import { format, percent } from "./scale";
import { visible } from "./visible";

export const LENS_TOP = 5;

// side: "Before", "After"; none where nothing was changed.
export function lensTable({ token, position, layers = [], rank, top }: Prediction, side: string, lut: Lut): HTMLElement {
  const answered = top[0]?.id;
  const there = rank !== null;
  const name = `Lens at ${visible(token)} ${position}${side ? `, ${side.toLowerCase()}` : ""}`;
  const cell = (id: number, text: string, probability: number | null): HTMLElement => {
    const td = h("td", { class: id === answered ? "answered" : "", title: `${visible(text)}: ${percent(probability)}` }, h("span", {}, visible(text)), h("small", {}, percent(probability)));
    const place = Math.sqrt(probability ?? 0);
    td.style.background = cssOf(lut, place);
    td.style.color = inkOn(lut, place);
    return td;
  };
  return h(
    "div",
    { class: "lens-table", tabindex: 0, role: "region", "aria-label": name },
    h(
      "table",
      {},
      h("caption", {}, name),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col" }, "After"),
          Array.from({ length: LENS_TOP }, (_, n) => h("th", { scope: "col" }, n ? `${n + 1}.` : "1st")),
          there && h("th", { scope: "col", class: "number", title: "Of the token that is there" }, "Its rank"),
          h("th", { scope: "col", class: "number", title: "In nats" }, "Entropy"),
        ),
      ),
      h(
        "tbody",
        {},
        layers.map((reading, n) =>
          h(
            "tr",
            {},
            h("th", { scope: "row" }, n ? `layer ${n - 1}` : "embeddings"),
            reading.top.slice(0, LENS_TOP).map(({ id, token: text, probability }) => cell(id, text, probability)),
            there && h("td", { class: "number" }, reading.rank),
            h("td", { class: "number" }, format(reading.entropy)),
          ),
        ),
      ),
    ),
  );
}
