// Two maps of one kind and their difference under one cross-hair. Cells correspond through the tokens of both sides.
import type { App } from "../app/app";
import { align, difference, SIDES, type Alignment, type Side } from "./align";
import { labelsOf, type Axis, type Head } from "./analysis";
import { entryOf, tokensOf } from "./axis";
import { Heatmap, type Cell, type HeatmapContent } from "./heatmap";
import { format } from "./scale";
import { differenceShade, shadeOf, type Shade } from "./shade";
import { Viewport } from "./viewport";

// A view's names for its sides.
export interface Wording {
  labels: Record<Side, string>; // of the maps, for screen readers
  short: Record<Side, string>; // in the readout
  forward: boolean; // second - first; else first - second
}

export interface Pair {
  first: Head;
  second: Head;
  shared: Alignment;
  delta: Float32Array; // [n][n] over the shared entries
  contents: Record<Side, HeatmapContent & Shade>;
}

interface At {
  side: Side;
  cell: Cell;
}

const bySide = <T>(make: (side: Side) => T): Record<Side, T> => ({
  first: make("first"),
  second: make("second"),
  both: make("both"),
});

export class MapTrio {
  readonly maps: Record<Side, Heatmap>;
  private readonly views = bySide(() => new Viewport());
  private pair: Pair | null = null;
  private key = "";
  private drawn: Pair | null = null;
  private hovered: At | null = null;
  private linking = false;

  constructor(
    private readonly app: App,
    readonly wording: Wording,
    private readonly valuesOf: (head: Head) => Float32Array, // of the map that is shown
  ) {
    this.maps = bySide((side) => this.heatmap(side));
    for (const side of SIDES) this.views[side].watch(() => this.link(side));
  }

  // Maps of equal size move together.
  private link(from: Side): void {
    if (this.linking) return;
    this.linking = true;
    const { n, x, y, span } = this.views[from];
    for (const view of Object.values(this.views)) if (view !== this.views[from] && view.n === n) view.show(x, y, span);
    this.linking = false;
    if (this.drawn && this.maps.first.element.isConnected) this.app.commit({ zoom: this.views.first.state });
  }

  private heatmap(side: Side): Heatmap {
    return new Heatmap(this.wording.labels[side], this.views[side], {
      hover: (cell) => this.hover(cell && { side, cell }, false),
      pick: (cell) => {
        const { pair } = this;
        if (!pair) return;
        const entries = side === "both" ? cell.map((t) => pair.shared.first[t] ?? 0) : cell;
        this.app.set({ side, pin: tokensOf(axisOf(pair, side), entries) });
        this.hover({ side, cell }, true);
      },
    });
  }

  // The contents of the maps of two heads; made once as long as nothing changes.
  of(first: Head, second: Head): Pair {
    const { state, theme } = this.app;
    const key = [state.what, state.scale, state.map, state.positions, theme].join(" ");
    if (this.pair?.first !== first || this.pair.second !== second || this.key !== key) {
      this.key = key;
      this.pair = this.made(first, second);
    }
    return this.pair;
  }

  private made(first: Head, second: Head): Pair {
    const { state, theme } = this.app;
    const [a, b] = [this.valuesOf(first), this.valuesOf(second)];
    // By their text: two models may number tokens differently.
    const shared = align(first.axis.labels, second.axis.labels);
    const delta = difference(a, first.axis.n, b, second.axis.n, shared);
    if (this.wording.forward) delta.forEach((v, k) => (delta[k] = -v));
    // Both sides' colours mean the same.
    const side = ({ axis }: Head, values: Float32Array): HeatmapContent & Shade => ({
      ...shadeOf(values, axis.n, state.what, { ...state, theme }, [a, b]),
      n: axis.n,
      labels: labelsOf(axis, state.positions),
      faint: axis.special,
      lower: axis.causal && state.what === "attention",
    });
    const n = shared.first.length;
    const both = {
      ...differenceShade(delta, n, { ...state, theme }),
      n,
      labels: sharedLabels(first.axis, second.axis, shared, state.positions),
      faint: shared.first.map((t) => first.axis.special[t] ?? false),
      lower: first.axis.causal && second.axis.causal && state.what === "attention",
    };
    return { first, second, shared, delta, contents: { first: side(first, a), second: side(second, b), both } };
  }

  // Draws the maps, if they have changed.
  update(pair: Pair | null): void {
    if (pair)
      for (const side of SIDES) {
        this.views[side].follow(pair.contents[side].n, this.app.state.zoom);
        if (this.drawn !== pair) this.maps[side].show(pair.contents[side]);
      }
    if (this.drawn !== pair) this.hovered = null;
    this.drawn = pair;
    if (pair) this.hover(this.hovered, false);
  }

  private pinned(pair: Pair): At | null {
    const { pin, side } = this.app.state;
    const entries = pin.map((t) => entryOf(axisOf(pair, side), t));
    const [row = -1, column = -1] = side === "both" ? entries.map((t) => pair.shared.first.indexOf(t)) : entries;
    return row >= 0 && column >= 0 ? { side, cell: [row, column] } : null;
  }

  private hover(at: At | null, aloud: boolean): string {
    this.hovered = at;
    const { drawn: pair } = this;
    if (!pair) return "";
    const pinned = this.pinned(pair);
    for (const side of SIDES)
      this.maps[side].point(at && on(pair, side, at), pinned?.side === side ? pinned.cell : null);
    const words = this.describe(pair, at ?? pinned);
    this.app.announce(words, aloud);
    return words;
  }

  private describe(pair: Pair, at: At | null): string {
    const { first, second, shared, delta } = pair;
    const side = at?.side === "second" ? "second" : "first";
    const cell = at && on(pair, side, at);
    if (!at || !cell) return "";
    const { labels, positions } = axisOf(pair, side);
    const value = (head: Head, where: Cell | null): string =>
      where ? format(this.valuesOf(head)[where[0] * head.axis.n + where[1]]) : "–";
    const both = on(pair, "both", at);
    const { short } = this.wording;
    return [
      cell.map((t) => `${labels[t]} ${positions[t]}`).join(" → "),
      `${short.first} ${value(first, on(pair, "first", at))}`,
      `${short.second} ${value(second, on(pair, "second", at))}`,
      `${short.both} ${both ? format(delta[both[0] * shared.first.length + both[1]]) : "–"}`,
    ].join("   ");
  }

  // Both values and their difference, cell by cell.
  rows({ first, second, shared, delta }: Pair): (string | number)[][] {
    const { axis } = first;
    const n = shared.first.length;
    const { short } = this.wording;
    const at = (head: Head, entries: readonly number[], row: number, column: number): number =>
      this.valuesOf(head)[(entries[row] ?? 0) * head.axis.n + (entries[column] ?? 0)] ?? NaN;
    return [
      ["i", "j", "token_i", "token_j", short.first, short.second, short.both],
      ...Array.from(delta, (d, k) => {
        const [row, column] = [Math.floor(k / n), k % n];
        const entries = [row, column].map((t) => shared.first[t] ?? 0);
        return [
          ...entries.map((t) => axis.positions[t] ?? t),
          ...entries.map((t) => axis.labels[t] ?? ""),
          at(first, shared.first, row, column),
          at(second, shared.second, row, column),
          d,
        ];
      }),
    ];
  }
}

// The axis in whose entries a map's cells are counted.
const axisOf = ({ first, second }: Pair, side: Side): Axis => (side === "second" ? second : first).axis;

// The place of a cell on another map; null if that side lacks one of its tokens.
function on({ shared }: Pair, side: Side, { side: from, cell }: At): Cell | null {
  if (from === side) return cell;
  const common = cell.map((t) => (from === "both" ? t : shared[from].indexOf(t)));
  if (common.some((t) => t < 0)) return null;
  const [row = 0, column = 0] = side === "both" ? common : common.map((t) => shared[side][t] ?? 0);
  return [row, column];
}

// A changed word has both labels.
function sharedLabels(first: Axis, second: Axis, shared: Alignment, positions: boolean): string[] {
  const named = labelsOf(first, positions);
  return shared.first.map((t, k) => {
    const now = second.labels[shared.second[k] ?? 0] ?? "";
    return first.labels[t] === now ? (named[t] ?? "") : `${named[t]}→${now}`;
  });
}
