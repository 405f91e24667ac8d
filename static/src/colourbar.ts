// A horizontal colour bar with its ticks.
import { cssOf, type Lut } from "./colour";
import { h } from "./dom";
import type { Tick } from "./scale";

export function colourBar(lut: Lut, label: string, ticks: readonly Tick[]): HTMLElement {
  const strip = h("div", { class: "strip" });
  const stops = Array.from({ length: 17 }, (_, n) => cssOf(lut, n / 16));
  strip.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  return h(
    "div",
    { class: "colour-bar", role: "img", "aria-label": `${label}: ${ticks.map((t) => t.label).join(" to ")}` },
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
  );
}
