// What the model would say at a token if it stopped after each layer: the likeliest tokens, layer by layer.
import type { Prediction } from "../../build/openapi";
import { cssOf, inkOn, type Lut } from "./colour";
import { h } from "./dom";
import { format, percent } from "./scale";
import { visible } from "./visible";

const RANKS = ["1st", "2nd", "3rd", "4th", "5th"];
export const LENS_TOP = RANKS.length;
const LEAST = 3; // what narrow windows have room for
const rankClass = (n: number): string => (n < LEAST ? "" : "wide");

// side: "Before", "After"; none where nothing was changed.
export function lensTable({ token, position, layers = [], rank, top }: Prediction, side: string, lut: Lut): HTMLElement {
  const answered = top[0]?.id;
  const there = rank !== null;
  const name = `Lens at ${visible(token)} ${position}${side ? `, ${side.toLowerCase()}` : ""}`;
  const cell = (id: number, text: string, probability: number | null, n: number): HTMLElement => {
    const td = h("td", { class: `${id === answered ? "answered" : ""} ${rankClass(n)}`, title: `${visible(text)}: ${percent(probability)}` }, h("span", {}, visible(text)), h("small", {}, percent(probability)));
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
      h("caption", {}, name, h("span", { class: "narrow" }, ` (the first ${LEAST} of ${LENS_TOP}; the others in a wider window)`)),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col" }, "After"),
          RANKS.map((_, n) => h("th", { scope: "col", class: rankClass(n) }, RANKS[n])),
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
            reading.top.slice(0, LENS_TOP).map(({ id, token: text, probability }, k) => cell(id, text, probability, k)),
            there && h("td", { class: "number" }, reading.rank),
            h("td", { class: "number" }, format(reading.entropy)),
          ),
        ),
      ),
    ),
  );
}
