// The heads and the tokens that changed most, strongest first.
import type { Axis } from "./analysis";
import { h, replace } from "./dom";
import type { Tint } from "./head-switches";
import type { Edit } from "./interventions";
import { format } from "./scale";

const RANKED = 8;

export interface RankEvents {
  open(layer: number, head: number): void;
  toggle(layer: number, head: number): void;
  choose(entry: number): void;
}

export class Ranks {
  private readonly heads = h("section", { class: "card" });
  private readonly tokens = h("section", { class: "card" });
  readonly element = h("div", { class: "ranks" }, this.heads, this.tokens);

  constructor(private readonly events: RankEvents) {}

  // By size, whatever the sign.
  showHeads(tint: Tint | null, title: string, edits: readonly Edit[]): void {
    this.heads.hidden = !tint;
    if (!tint) return replace(this.heads);
    const ranked = tint.values
      .flatMap((row, l) => row.flatMap((value, k) => (value ? [{ l, k, value, size: Math.abs(value) }] : [])))
      .sort((p, q) => q.size - p.size || p.l - q.l || p.k - q.k)
      .slice(0, RANKED);
    const off = (l: number, k: number): boolean => edits.some(({ layer, head }) => layer === l && head === k);
    replace(
      this.heads,
      h("h2", {}, `Heads by ${tint.bar.label.toLowerCase()}`),
      h("p", { class: "muted" }, title),
      ranked.length
        ? h(
            "ol",
            {},
            ranked.map(({ l, k, value, size }) =>
              h(
                "li",
                {},
                barred(`Layer ${l} head ${k}`, format(value), size / ranked[0]!.size, () => this.events.open(l, k)),
                h(
                  "button",
                  { type: "button", class: "flip", "aria-pressed": String(off(l, k)), "aria-label": `change layer ${l} head ${k}`, title: "Change the head", onclick: () => this.events.toggle(l, k) },
                  h("span", { "aria-hidden": "true" }, off(l, k) ? "↺" : "×"),
                ),
              ),
            ),
          )
        : h("p", {}, "None. What is changed in the last layer changes no map but its own."),
    );
  }

  // values: one an entry of the axis.
  showTokens(axis: Axis, values: readonly number[] | null, layer: number): void {
    this.tokens.hidden = !values;
    if (!values) return replace(this.tokens);
    const order = [...values.keys()].sort((a, b) => values[b]! - values[a]!).filter((t) => values[t]! > 0);
    const top = values[order[0] ?? 0]!;
    replace(
      this.tokens,
      h("h2", {}, "Tokens that changed most"),
      h("p", { class: "muted" }, `‖Δh‖ / ‖h‖ of the token’s state after layer ${layer}.`),
      h(
        "ol",
        {},
        order.slice(0, RANKED).map((t) => h("li", {}, barred(`${axis.labels[t]} ${axis.positions[t]}`, format(values[t]), values[t]! / top, () => this.events.choose(t)))),
      ),
    );
  }
}

// A name to press, its value and how it stands to the largest.
function barred(name: string, value: string, share: number, act: () => void): HTMLElement {
  const bar = h("i", {});
  bar.style.width = `${100 * share}%`;
  return h("button", { type: "button", class: "barred", onclick: act }, h("span", {}, name), h("b", {}, value), bar);
}
