// Chooses a layer and one of its heads (or their sum), with the layer's heads as small pictures.
import type { Answer } from "./answer";
import type { App, Selection } from "./app";
import { lutOf } from "./colour";
import { h, replace } from "./dom";
import { patternOf } from "./metrics";
import { SUM } from "./state";
import { paint, pool } from "./thumbs";

type Quantity = "attention" | "similarity";

const SIDE = 34; // CSS px of one picture

export class HeadPicker {
  readonly element: HTMLElement;
  private readonly layers = h("select", { onchange: () => this.pick(Number(this.layers.value), this.chosen.head) });
  private readonly strip = h("div", { class: "strip-heads", role: "group", "aria-label": "Head" });
  private buttons: HTMLButtonElement[] = [];
  private chosen: Selection = { layer: 0, head: 0 };
  private painted = "";
  private answer: Answer | null = null;

  constructor(
    private readonly app: App,
    label: string,
    private readonly pick: (layer: number, head: number) => void,
    private readonly quantities: () => readonly Quantity[], // what the view shows, from above
  ) {
    this.element = h(
      "div",
      { class: "head-picker" },
      h("label", { class: "field" }, h("span", {}, label), this.layers),
      this.strip,
    );
    this.strip.addEventListener("keydown", (e) => this.key(e));
  }

  update(answer: Answer | null, chosen: Selection): void {
    this.chosen = chosen;
    if (!answer) return;
    const { theme, state } = this.app;
    const shape = `${answer.layers.length} ${answer.heads.length}`;
    if (this.layers.dataset.shape !== shape) {
      this.layers.dataset.shape = shape;
      replace(
        this.layers,
        answer.layers.map((layer) => h("option", { value: layer }, `Layer ${layer}`)),
      );
      this.buttons = [...answer.heads, SUM].map((head) =>
        h(
          "button",
          {
            type: "button",
            "aria-label": head === SUM ? undefined : `Head ${head}`,
            title: head === SUM ? "All heads of the layer summed (paper, Fig. 12)" : `Head ${head}`,
            onclick: () => this.pick(this.chosen.layer, head),
          },
          head === SUM ? h("span", { class: "sum", "aria-hidden": "true" }, "Σ") : h("canvas", { "aria-hidden": "true" }),
          h("small", {}, head === SUM ? "sum" : head),
        ),
      );
      replace(this.strip, this.buttons);
    }
    this.layers.value = String(chosen.layer);
    const heads = answer.heads.length;
    this.buttons.forEach((button, k) => {
      const on = k === (chosen.head === SUM ? heads : chosen.head);
      button.setAttribute("aria-pressed", String(on));
      button.tabIndex = on ? 0 : -1;
    });
    const quantities = this.quantities();
    const maps = quantities.map((quantity) => this.mapsOf(answer, chosen.layer, quantity));
    const made = maps.map((of) => of.filter(Boolean).length);
    const known = this.app.figures(answer)[chosen.layer] ?? [];
    answer.heads.forEach((head, k) => {
      const pattern = known[k] && patternOf(known[k]);
      this.buttons[k]!.title = pattern ? `Head ${head}: ${pattern}` : `Head ${head}`;
    });
    const key = [chosen.layer, theme, state.map, state.special, quantities, made].join(" ");
    if (this.answer === answer && this.painted === key) return;
    this.answer = answer;
    this.painted = key;
    answer.heads.forEach((_, head) => this.paint(answer, head, quantities, maps));
  }

  private mapsOf(answer: Answer, layer: number, quantity: Quantity): readonly (Uint8Array | Int8Array | undefined)[] {
    if (quantity === "attention") return this.app.attention(answer, layer) ?? [];
    const H = answer.heads.length;
    return this.app.derived(answer, [layer]).similarity.slice(layer * H, (layer + 1) * H);
  }

  // One below the other.
  private paint(
    answer: Answer,
    head: number,
    quantities: readonly Quantity[],
    maps: readonly (readonly (Uint8Array | Int8Array | undefined)[])[],
  ): void {
    const { state, theme } = this.app;
    const T = answer.encoding.ids.length;
    const seen = answer.encoding.special.flatMap((special, t) => (special && !state.special ? [] : [t]));
    const size = Math.min(seen.length, Math.round(SIDE * devicePixelRatio));
    const canvas = this.buttons[head]!.querySelector("canvas")!;
    canvas.width = size;
    canvas.height = size * quantities.length;
    canvas.style.height = `${SIDE * quantities.length}px`;
    quantities.forEach((quantity, n) => {
      const map = maps[n]![head];
      if (!map || !size) return;
      const lut = lutOf(state.map, quantity === "attention" ? "attention" : "signed", theme);
      canvas.getContext("2d")!.putImageData(paint(pool(map, T, size, seen), lut), 0, n * size);
    });
  }

  private key(e: KeyboardEvent): void {
    const step = e.key === "ArrowRight" ? 1 : e.key === "ArrowLeft" ? -1 : 0;
    const at = this.buttons.indexOf(document.activeElement as HTMLButtonElement);
    const next = this.buttons[at + step];
    if (!step || at < 0 || !next) return;
    e.preventDefault();
    next.focus();
    next.click();
  }
}
