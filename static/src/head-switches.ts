// Every head as a switch, layers down, heads across: a press changes the head in the pass; the colour says what came of
// it. One stop for the Tab key, arrows within.
import { cssOf, inkOn } from "./colour";
import type { Bar } from "./colourbar";
import { h, replace } from "./dom";
import { doesOf, signOf, type Edit } from "./interventions";
import { format } from "./scale";

export interface Tint {
  values: readonly (readonly (number | null)[])[]; // [l][h]
  place(value: number): number; // 0..1 of the colour bar
  bar: Bar;
}

export interface SwitchEvents {
  toggle(layer: number, head: number): void;
  toggleLayer(layer: number): void;
  show(layer: number, head: number): void; // the head's maps
}

export class HeadSwitches {
  readonly element = h("div", { class: "switches", role: "grid", "aria-label": "Heads to change, layers by heads" });
  private rows: HTMLButtonElement[][] = []; // the layer's own button first
  private focused: [number, number] = [0, 1];

  constructor(private readonly events: SwitchEvents) {
    this.element.addEventListener("keydown", (e) => this.key(e));
    this.element.addEventListener("focusin", (e) => this.follow(e.target));
  }

  private build(layers: number, heads: number): void {
    const cell = (role: string, ...children: (Node | string)[]): HTMLElement => h("div", { role }, ...children);
    this.rows = Array.from({ length: layers }, (_, l) => [
      h("button", { type: "button", tabindex: -1, "aria-label": `L${l}: all heads of layer ${l}`, title: `Change all heads of layer ${l}`, onclick: () => this.events.toggleLayer(l) }, `L${l}`),
      ...Array.from({ length: heads }, (_, k) =>
        h("button", { type: "button", tabindex: -1, onclick: (e: MouseEvent) => (e.shiftKey ? this.events.show(l, k) : this.events.toggle(l, k)) }),
      ),
    ]);
    this.element.style.setProperty("--heads", String(heads));
    replace(
      this.element,
      h(
        "div",
        { role: "row", class: "header" },
        cell("columnheader", h("span", { class: "hidden" }, "Layer")),
        Array.from({ length: heads }, (_, k) => cell("columnheader", `H${k}`)),
      ),
      this.rows.map((buttons) =>
        h("div", { role: "row" }, buttons.map((button, k) => cell(k ? "gridcell" : "rowheader", button))),
      ),
    );
    this.focused = [0, 1];
    this.rows[0]![1]!.tabIndex = 0;
  }

  show(layers: number, heads: number, edits: readonly Edit[], tint: Tint | null, chosen: { layer: number; head: number }): void {
    if (this.rows.length !== layers || this.rows[0]?.length !== heads + 1) this.build(layers, heads);
    const edited = new Map(edits.map((edit) => [`${edit.layer} ${edit.head}`, edit]));
    this.rows.forEach((buttons, l) =>
      buttons.slice(1).forEach((button, k) => {
        const edit = edited.get(`${l} ${k}`);
        const value = tint?.values[l]?.[k] ?? null;
        const seen = edit ? signOf(edit) : value === null ? "" : short(value);
        if (button.textContent !== seen) button.textContent = seen;
        button.setAttribute("aria-pressed", String(Boolean(edit)));
        button.classList.toggle("chosen", l === chosen.layer && k === chosen.head);
        const place = value === null ? null : tint!.place(value);
        button.style.background = place === null ? "" : cssOf(tint!.bar.lut, place);
        button.style.color = place === null ? "" : inkOn(tint!.bar.lut, place);
        const told = value === null ? "" : `, ${tint!.bar.label.toLowerCase()} ${format(value)}`;
        const name = `layer ${l}, head ${k}${edit ? `: ${doesOf(edit)}` : ""}${told}`;
        button.setAttribute("aria-label", seen ? `${seen}, ${name}` : `Layer${name.slice(5)}`);
        button.title = `Layer${name.slice(5)}`;
      }),
    );
  }

  private follow(target: EventTarget | null): void {
    const l = this.rows.findIndex((buttons) => buttons.includes(target as HTMLButtonElement));
    if (l < 0) return;
    const [was, column] = this.focused;
    this.rows[was]![column]!.tabIndex = -1;
    this.focused = [l, this.rows[l]!.indexOf(target as HTMLButtonElement)];
    (target as HTMLButtonElement).tabIndex = 0;
  }

  private key(e: KeyboardEvent): void {
    const [l, k] = this.focused;
    const wide = this.rows[0]!.length - 1;
    if (e.key === "Enter" && e.shiftKey && k) {
      e.preventDefault();
      return this.events.show(l, k - 1);
    }
    const goal: [number, number] | undefined = {
      ArrowLeft: [l, k - 1] as [number, number],
      ArrowRight: [l, k + 1] as [number, number],
      ArrowUp: [l - 1, k] as [number, number],
      ArrowDown: [l + 1, k] as [number, number],
      Home: [e.ctrlKey ? 0 : l, 1] as [number, number],
      End: [e.ctrlKey ? this.rows.length - 1 : l, wide] as [number, number],
    }[e.key];
    const next = goal && this.rows[goal[0]]?.[goal[1]];
    if (!next) return;
    e.preventDefault();
    next.focus();
  }
}

// What fits into a switch.
function short(value: number): string {
  const size = Math.abs(value);
  const sign = value < 0 ? "−" : "";
  if (size === 0) return "0";
  if (size < 0.005) return ""; // the colour says as much
  return sign + (size >= 9.95 ? size.toFixed(0) : size >= 0.995 ? size.toFixed(1) : size.toFixed(2).slice(1));
}
