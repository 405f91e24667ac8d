// Who ties these two: every head ranked by what it has between two chosen tokens, below the views that choose them.
import type { Axis } from "./analysis";
import type { App } from "./app";
import { lutOf, MIDDLE } from "./colour";
import { disclosure, h, segmented } from "./dom";
import { HeadMap, type HeadMapContent } from "./head-map";
import { tiesOf, type Tie } from "./pair-heads";
import { format, maximumOf, signedTicksOf, sizeOf, ticksOf, wordsOf } from "./scale";

export class Ties {
  readonly element: HTMLDetailsElement;
  private readonly title = h("summary", {}, "Who ties these two");
  private pair: readonly number[] = []; // as the address holds a cell
  private readonly map: HeadMap;
  private readonly tie;
  private readonly waiting = h("p", { class: "muted", role: "status" }, "Fetching the maps of all layers…");

  constructor(private readonly app: App) {
    this.map = new HeadMap((layer, head) => app.set({ view: "head", layer, head, pin: this.pair }, true));
    this.tie = segmented<Tie>(
      "By",
      [
        { value: "to", label: "First attends to second" },
        { value: "from", label: "Second attends to first" },
        { value: "similar", label: "Similarity" },
      ],
      (tie) => app.set({ tie }),
    );
    this.element = disclosure(this.title, [this.tie.element, this.waiting, this.map.element], () => app.set({ ties: !app.state.ties }));
  }

  // What all heads have between the two, while it is on screen.
  get shown(): HeadMapContent | null {
    return this.element.isConnected && !this.element.hidden && this.element.open ? this.map.content : null;
  }

  // The two entries of the axis; null: not two are chosen.
  update(axis: Axis, pair: readonly [number, number] | null): void {
    const { app } = this;
    const overview = app.overview().answer;
    this.element.hidden = !pair || !overview;
    if (!pair || !overview) return;
    const { ties, tie, map } = app.state;
    const [i, j] = pair;
    this.pair = pair.map((t) => axis.groups[t]![0]!);
    const name = (t: number): string => `“${axis.labels[t]}” ${axis.positions[t]}`;
    this.title.textContent = `Who ties ${name(i)} and ${name(j)}: all heads`;
    this.element.open = ties;
    this.tie.set(tie);
    if (!ties) return;
    const values = tiesOf(overview, (l) => app.attention(overview, l), axis.groups[i]!, axis.groups[j]!, tie);
    const flat = Float32Array.from(values.flat(), (v) => v ?? 0);
    this.waiting.hidden = tie === "similar" || values.every((row) => row[0] !== null);
    const signed = tie === "similar";
    const top = signed ? sizeOf(flat) : maximumOf(flat);
    const label = { to: `Attention of ${name(i)} to ${name(j)}`, from: `Attention of ${name(j)} to ${name(i)}`, similar: `Similarity${app.state.space === "residual" ? " in the head’s space" : ""}, as a share of each head’s largest` }[tie];
    this.map.show({
      name: { to: "attention_to", from: "attention_from", similar: "similarity_of_two" }[tie],
      values,
      place: (v) => (top > 0 ? (signed ? (MIDDLE + (v / top) * (255 - MIDDLE)) / 255 : v / top) : signed ? 0.5 : 0),
      bar: {
        lut: lutOf(map, signed ? "signed" : "attention", app.theme),
        label,
        ticks: signed ? signedTicksOf(top, "linear") : ticksOf(top, "linear"),
        words: wordsOf("linear", signed ? -top : 0, top),
      },
      write: signed ? format : writeByte,
      caption: `${label}: layers down, heads across${signed ? "" : `; in steps of 1/255, about ${format(1 / 255)}`}`,
    });
  }
}

// Attention known as a byte: no more digits than it has.
const writeByte = (value: number): string => (value === 0 ? "0" : value.toFixed(3));
