// A horizontal colour bar with its ticks, and in words what kind of scale it is and how far it reaches.
import { cssOf, type Lut } from "./colour";
import { h } from "./dom";
import type { Tick } from "./scale";

export interface Bar {
  label: string;
  lut: Lut;
  ticks: readonly Tick[];
  words: string;
}

export function colourBar({ label, lut, ticks, words }: Bar): HTMLElement {
  const strip = h("div", { class: "strip" });
  const stops = Array.from({ length: 33 }, (_, n) => cssOf(lut, n / 32));
  strip.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  return h(
    "div",
    { class: "colour-bar", role: "img", "aria-label": `${label}: ${words}` },
    h("span", { class: "name" }, label),
    h(
      "div",
      { class: "scale" },
      strip,
      h(
        "div",
        { class: "ticks" },
        ticks.map(({ at, label: text }) => {
          const tick = h("span", { class: at <= 0 ? "first" : at >= 1 ? "last" : "" }, text);
          tick.style.left = `${at * 100}%`;
          return tick;
        }),
      ),
    ),
    h("span", { class: "words" }, words),
  );
}
