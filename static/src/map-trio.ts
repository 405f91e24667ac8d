// Two maps of one kind and their difference on a diverging scale, under one cross-hair: cells correspond through the
// tokens that both sides have.
import type { App } from "./app";
import { labelsOf, type Head } from "./analysis";
import { align, difference, type Alignment } from "./align";
import { colourBar } from "./colourbar";
import { h, replace } from "./dom";
import { Heatmap, type Cell, type HeatmapContent } from "./heatmap";
import { entryOf } from "./lens";
import { format } from "./scale";
import { differenceShade, shadeOf, type Shade } from "./shade";
import { SIDES, type Side } from "./state";
import type { Plate } from "./surface";
import { Viewport } from "./viewport";

export interface Pair {
  first: Head;
  second: Head;
  shared: Alignment;
  delta: Float32Array; // [n][n] over the shared entries
}

// How a view calls its sides, and which is taken from which.
export interface Wording {
  labels: Record<Side, string>; // of the maps, for screen readers
  short: Record<Side, string>; // in the readout
  forward: boolean; // second - first; else first - second
}

export type Heading = Record<Side, { title: string; note: string }>;

export class MapTrio {
  readonly element: HTMLElement;
  pair: Pair | null = null;
  private readonly views: Record<Side, Viewport> = { first: new Viewport(), second: new Viewport(), both: new Viewport() };
  private readonly maps: Record<Side, Heatmap>;
  private readonly bars: Record<Side, HTMLElement> = { first: h("div"), second: h("div"), both: h("div") };
  private readonly titles: Record<Side, HTMLElement> = { first: h("h2"), second: h("h2"), both: h("h2") };
  private readonly notes: Record<Side, HTMLElement> = { first: note(), second: note(), both: note() };
  private readonly contents: Partial<Record<Side, HeatmapContent & Shade>> = {};
  private hovered: { side: Side; cell: Cell } | null = null;
  private shown = "";
  private linking = false;

  constructor(
    private readonly app: App,
    private readonly wording: Wording,
    private readonly values: (head: Head) => Float32Array, // of the map that is shown
  ) {
    this.maps = { first: this.heatmap("first"), second: this.heatmap("second"), both: this.heatmap("both") };
    const plate = (side: Side): HTMLElement =>
      h(
        "figure",
        { class: "plate" },
        h("figcaption", {}, h("div", {}, this.titles[side], this.notes[side]), this.bars[side]),
        this.maps[side].element,
      );
    this.element = h("div", { class: "plates three" }, SIDES.map(plate));
    for (const side of SIDES) this.views[side].watch(() => this.link(side));
  }

  // Maps of equal size move together.
  private link(from: Side): void {
    if (this.linking) return;
    this.linking = true;
    const { n, x, y, span } = this.views[from];
    for (const view of Object.values(this.views))
      if (view !== this.views[from] && view.n === n) view.show(x, y, span);
    this.linking = false;
    if (this.pair && this.element.isConnected) this.app.settle({ zoom: this.views.first.state });
  }

  // The head whose tokens a map's cells are counted in, and a cell's entry on that head's axis.
  private home(side: Side): Head {
    return side === "second" ? this.pair!.second : this.pair!.first;
  }
  private own(side: Side, t: number): number {
    return side === "both" ? this.pair!.shared.first[t]! : t;
  }

  private held(): { side: Side; cell: Cell } | null {
    const { pin, side } = this.app.state;
    if (!this.pair || pin.length !== 2) return null;
    const entries = pin.map((t) => entryOf(this.home(side).axis, t));
    const cell = side === "both" ? entries.map((t) => this.pair!.shared.first.indexOf(t)) : entries;
    return cell.every((t) => t >= 0) ? { side, cell: [cell[0]!, cell[1]!] } : null;
  }

  private heatmap(side: Side): Heatmap {
    const { app } = this;
    return new Heatmap(this.wording.labels[side], this.views[side], {
      hover: (cell) => {
        this.hovered = cell && { side, cell };
        this.hover(this.hovered, false);
      },
      pick: (cell) => {
        const { axis } = this.home(side);
        app.set({ side, pin: cell.map((t) => axis.groups[this.own(side, t)]![0]!) });
        this.hover({ side, cell }, true);
      },
    });
  }

  hide(): void {
    this.element.hidden = true;
    this.pair = null;
  }

  // head: made of what the two sides turned out to be.
  show(first: Head, second: Head, head: (pair: Pair) => Heading): void {
    const { app, values } = this;
    const { state, theme } = app;
    this.element.hidden = false;
    const key = [state.what, state.scale, state.map, state.positions, theme].join(" ");
    if (this.pair?.first === first && this.pair.second === second && this.shown === key) {
      for (const side of SIDES) this.views[side].follow(this.views[side].n, state.zoom);
      this.name(head(this.pair));
      return this.hover(this.hovered, false);
    }
    this.shown = key;
    // By their text: two models may number tokens differently.
    const shared = align(first.axis.labels, second.axis.labels);
    const delta = difference(values(first), first.axis.n, values(second), second.axis.n, shared);
    if (this.wording.forward) for (let k = 0; k < delta.length; k++) delta[k] = -delta[k]!;
    this.pair = { first, second, shared, delta };
    const both = [values(first), values(second)];
    this.side("first", first, both[0]!, both);
    this.side("second", second, both[1]!, both);
    this.difference(this.pair);
    this.name(head(this.pair));
    this.hover(null, false);
  }

  // Both sides' colours mean the same.
  private side(side: "first" | "second", head: Head, values: Float32Array, both: readonly Float32Array[]): void {
    const { state, theme } = this.app;
    const { axis } = head;
    this.views[side].follow(axis.n, state.zoom);
    const shade = shadeOf(values, axis.n, state.what, { ...state, theme }, both);
    this.fill(side, { ...shade, n: axis.n, labels: labelsOf(axis, state.positions), faint: axis.special });
  }

  private difference({ first, second, shared, delta }: Pair): void {
    const { state, theme } = this.app;
    const n = shared.first.length;
    this.views.both.follow(n, state.zoom);
    this.fill("both", {
      ...differenceShade(delta, n, { ...state, theme }),
      n,
      labels: shared.first.map((t, k) => {
        const [was, is] = [labelsOf(first.axis, state.positions)[t]!, second.axis.labels[shared.second[k]!]!];
        return first.axis.labels[t] === is ? was : `${was}→${is}`;
      }),
      faint: shared.first.map((t) => first.axis.special[t]!),
    });
  }

  private fill(side: Side, content: HeatmapContent & Shade): void {
    this.maps[side].show(content);
    this.contents[side] = content;
    replace(this.bars[side], colourBar({ ...content, label: this.wording.labels[side] }));
  }

  private name(heading: Heading): void {
    for (const side of SIDES) {
      this.titles[side].textContent = heading[side].title;
      this.notes[side].textContent = heading[side].note;
    }
  }

  // What is on screen, for saving.
  get drawn(): Plate[] {
    const held = this.held();
    return SIDES.flatMap((side) => {
      const shown = this.contents[side];
      if (!shown?.n) return [];
      const { x, y, span } = this.views[side];
      const title = this.titles[side].textContent!;
      return [{ ...shown, held: held?.side === side ? held.cell : null, title, window: { x, y, span } }];
    });
  }

  // Both values and their difference, cell by cell.
  rows(): (string | number)[][] {
    const { first, second, shared, delta } = this.pair!;
    const { axis } = first;
    const n = shared.first.length;
    const { short } = this.wording;
    return [
      ["i", "j", "token_i", "token_j", short.first, short.second, short.both],
      ...Array.from(delta, (d, k) => {
        const [row, column] = [Math.floor(k / n), k % n];
        const [i, j] = [shared.first[row]!, shared.first[column]!];
        return [
          axis.positions[i]!,
          axis.positions[j]!,
          axis.labels[i]!,
          axis.labels[j]!,
          this.values(first)[i * axis.n + j]!,
          this.values(second)[shared.second[row]! * second.axis.n + shared.second[column]!]!,
          d,
        ];
      }),
    ];
  }

  // Where a cell of one map lies on another; null where that side lacks one of its tokens.
  private on(side: Side, at: { side: Side; cell: Cell } | null): Cell | null {
    if (!at || at.side === side) return at && at.cell;
    const { shared } = this.pair!;
    const common = at.cell.map((t) => (at.side === "both" ? t : shared[at.side].indexOf(t)));
    if (common.some((t) => t < 0)) return null;
    const [row, column] = side === "both" ? common : common.map((t) => shared[side][t]!);
    return [row!, column!];
  }

  private hover(at: { side: Side; cell: Cell } | null, aloud: boolean): void {
    if (!this.pair) return;
    const held = this.held();
    for (const side of SIDES) this.maps[side].point(this.on(side, at), held?.side === side ? held.cell : null);
    this.app.readout(this.describe(at ?? held), aloud);
  }

  private describe(at: { side: Side; cell: Cell } | null): string {
    const { first, second, shared, delta } = this.pair!;
    const side = at?.side === "second" ? "second" : "first";
    const cell = this.on(side, at);
    if (!cell) return "";
    const { axis } = this.home(side);
    const value = (head: Head, where: Cell | null): string =>
      where ? format(this.values(head)[where[0] * head.axis.n + where[1]]) : "–";
    const both = this.on("both", at);
    const { short } = this.wording;
    return [
      `${axis.labels[cell[0]]} ${axis.positions[cell[0]]} → ${axis.labels[cell[1]]} ${axis.positions[cell[1]]}`,
      `${short.first} ${value(first, this.on("first", at))}`,
      `${short.second} ${value(second, this.on("second", at))}`,
      `${short.both} ${both ? format(delta[both[0] * shared.first.length + both[1]]) : "–"}`,
    ].join("   ");
  }
}

const note = (): HTMLElement => h("p", { class: "muted" });
