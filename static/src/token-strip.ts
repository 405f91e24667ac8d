// The text in small, its tokens coloured by a number each; one of them can be chosen. One stop for the Tab key, arrows
// within.
import type { Axis } from "./analysis";
import { cssOf, inkOn, type Lut } from "./colour";
import { h, replace } from "./dom";
import { format } from "./scale";
import { flowOf, tokenAt, type Flow } from "./textflow";

export interface TokenTint {
  values: readonly number[]; // one an entry of the axis
  lut: Lut;
  top: number; // full colour
  label: string;
}

export class TokenStrip {
  readonly element: HTMLElement;
  private flow: { axis: Axis; flow: Flow } | null = null;
  private tint: TokenTint | null = null;

  constructor(
    label: string,
    private readonly choose: (entry: number) => void,
    private readonly tell: (text: string, aloud: boolean) => void,
  ) {
    this.element = h("div", { class: "token-strip", role: "listbox", "aria-label": label });
    this.element.addEventListener("click", (e) => this.pick(tokenAt(e.target)));
    this.element.addEventListener("keydown", (e) => this.key(e));
    this.element.addEventListener("pointerover", (e) => this.point(tokenAt(e.target), false));
    this.element.addEventListener("pointerleave", () => tell("", false));
    this.element.addEventListener("focusin", (e) => this.point(tokenAt(e.target), true));
  }

  show(axis: Axis, text: string, pair: string, chosen: readonly number[], tint: TokenTint | null): void {
    if (this.flow?.axis !== axis) this.lay(axis, text, pair);
    this.tint = tint;
    this.flow!.flow.tokens.forEach((token, t) => {
      const value = tint ? tint.values[t]! : 0;
      const share = tint && tint.top > 0 ? value / tint.top : 0;
      const strong = share > 0.02;
      token.style.background = strong ? cssOf(tint!.lut, share) : "";
      token.style.color = strong ? inkOn(tint!.lut, share) : "";
      token.classList.toggle("held", chosen.includes(t));
      token.setAttribute("aria-selected", String(chosen.includes(t)));
    });
  }

  private lay(axis: Axis, text: string, pair: string): void {
    const flow = flowOf(axis, text, pair);
    for (const p of flow.element.querySelectorAll("p")) p.setAttribute("role", "group");
    flow.tokens.forEach((token, t) => {
      token.setAttribute("role", "option");
      token.tabIndex = t ? -1 : 0;
    });
    this.flow = { axis, flow };
    replace(this.element, flow.element);
  }

  private pick(t: number): void {
    if (t >= 0) this.choose(t);
  }

  private point(t: number, aloud: boolean): void {
    const { flow, tint } = this;
    if (t < 0 || !flow) return this.tell("", false);
    const { labels, positions } = flow.axis;
    this.tell(`${labels[t]} ${positions[t]}${tint ? `   ${tint.label} ${format(tint.values[t])}` : ""}`, aloud);
  }

  private key(e: KeyboardEvent): void {
    const tokens = this.flow?.flow.tokens ?? [];
    const t = tokenAt(document.activeElement);
    if (t < 0) return;
    const goals: Record<string, number> = {
      ArrowRight: t + 1,
      ArrowDown: t + 1,
      ArrowLeft: t - 1,
      ArrowUp: t - 1,
      Home: 0,
      End: tokens.length - 1,
    };
    const next = tokens[goals[e.key] ?? -1];
    if (e.key === " " || e.key === "Enter") this.pick(t);
    else if (next) {
      tokens[t]!.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    } else return;
    e.preventDefault();
  }
}
