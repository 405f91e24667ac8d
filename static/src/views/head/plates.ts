// The two maps of a head under one cross-hair: what each shows, and the pinned cell.
import type { App } from "../../app/app";
import { attentionName, attentionOf, formulaOf } from "../../heads/measures";
import {
  averagedRegions,
  columnProfile,
  highTokens,
  isRectangular,
  labelsOf,
  runsOf,
  type Head,
} from "../../maps/analysis";
import { entryOf, pinnedIn, pinOf } from "../../maps/axis";
import type { Bar } from "../../maps/colour-bar";
import { Heatmap, type Cell, type HeatmapContent } from "../../maps/heatmap";
import { countAbove, pairsOf } from "../../maps/pairs";
import { describeCell, describeTargets } from "../../maps/readout";
import { shadeOf, type Shade } from "../../maps/shade";
import { Viewport } from "../../maps/viewport";
import { notedIn } from "../../app/stacks";
import type { State } from "../../app/state";
import { notesOn, storyOf } from "../../story/story";

export const QUANTITIES = ["attention", "similarity"] as const;
type Quantity = (typeof QUANTITIES)[number];

// Before the formula, whose rows and columns they name.
const CROSS_NOTES: Record<Quantity, string> = {
  attention: "rows: target, columns: text; ",
  similarity: "among the target’s tokens; ",
};

interface Shown extends HeatmapContent, Shade {
  title: string;
  note: string;
  bar: Bar;
}

export class Plates {
  readonly viewport = new Viewport();
  readonly maps: Record<Quantity, Heatmap>;
  private head: Head | null = null;
  private hovered: Cell | null = null;
  private over: Quantity = "attention";
  private made: { head: Head; key: string; contents: Record<Quantity, Shown> } | null = null;
  private drawn: Record<Quantity, Shown> | null = null;

  constructor(private readonly app: App) {
    this.maps = {
      attention: this.heatmap("Attention map", "attention"),
      similarity: this.heatmap("Context similarity map", "similarity"),
    };
    this.viewport.watch(() => {
      if (this.head && this.maps.attention.element.isConnected) app.commit({ zoom: this.viewport.state });
    });
  }

  private heatmap(name: string, quantity: Quantity): Heatmap {
    return new Heatmap(name, this.viewport, {
      hover: (cell) => this.hover(cell, quantity),
      pick: (cell) => {
        const { head } = this;
        if (!head) return;
        if (this.ofTargets(quantity)) {
          this.maps[quantity].point(null, cell); // nothing is pinned: the other map has other columns
          return this.app.announce(describeTargets(head, cell), true);
        }
        this.app.pin(pinOf(head, cell));
        this.app.announce(describeCell(head, cell), true);
      },
    });
  }

  // Similarities of a cross head are among the target's tokens, so its two maps have other columns.
  private ofTargets = (quantity: Quantity): boolean =>
    quantity === "similarity" && this.head !== null && isRectangular(this.head);

  private hover(cell: Cell | null, quantity: Quantity): string {
    [this.hovered, this.over] = [cell, quantity];
    const pinned = this.head && pinnedIn(this.head, this.app.state);
    for (const each of QUANTITIES) {
      const linked = this.ofTargets(each) === this.ofTargets(quantity);
      this.maps[each].point(linked ? cell : null, this.ofTargets(each) ? null : pinned);
    }
    const at = cell ?? pinned;
    const describe = cell && this.ofTargets(quantity) ? describeTargets : describeCell;
    const words = this.head && at ? describe(this.head, at) : "";
    this.app.announce(words);
    return words;
  }

  // Draws a head, if it or how it is shown has changed.
  update(head: Head | null): void {
    this.head = head;
    if (!head) return;
    this.viewport.follow(Math.max(head.axis.n, head.columns.n), this.app.state.zoom);
    const contents = this.of(head);
    if (this.drawn !== contents) {
      performance.mark("head-drawn");
      for (const quantity of QUANTITIES) this.maps[quantity].show(contents[quantity]);
      this.drawn = contents;
    }
    this.hover(this.hovered, this.over);
  }

  private key(): string {
    const { state, theme } = this.app;
    const { scale, overlay, diag, map, lines, tau, atau, positions } = state;
    const threshold = overlay === "pairs" ? tau : overlay === "none" ? 0 : atau;
    const noted = notedCells(this.app).join(";");
    return [scale, overlay, diag, map, lines, positions, threshold, theme, noted].join(" ");
  }

  // The contents of both maps; made once as long as nothing changes.
  of(head: Head): Record<Quantity, Shown> {
    const key = this.key();
    if (this.made?.head !== head || this.made.key !== key) {
      const contents = { attention: this.shown(head, "attention"), similarity: this.shown(head, "similarity") };
      this.made = { head, key, contents };
    }
    return this.made.contents;
  }

  private shown(head: Head, quantity: Quantity): Shown {
    const { state, theme } = this.app;
    const { axis } = head;
    const columns = quantity === "attention" ? head.columns : axis;
    const title = quantity === "attention" ? attentionName(state) : "Context similarity";
    const unknown = quantity === "similarity" && state.diag === "on" && !head.own ? "; its diagonal is not known" : "";
    const most = Math.max(axis.n, head.columns.n);
    const shade = shadeOf(valuesOf(head, quantity, state), axis.n, quantity, { ...state, theme });
    return {
      ...shade,
      n: axis.n,
      m: columns.n,
      unit: [most / axis.n, most / columns.n],
      labels: labelsOf(axis, state.positions),
      faint: axis.special,
      columns: { labels: labelsOf(columns, state.positions), faint: columns.special },
      lower: axis.causal && quantity === "attention",
      ...marksOf(head, quantity, state, notedCells(this.app)),
      title,
      note: (isRectangular(head) ? CROSS_NOTES[quantity] : "") + formulaOf[quantity](state) + unknown,
      bar: { ...shade, label: title },
    };
  }
}

// The cells with a note, as token positions.
function notedCells(app: App): Cell[] {
  const { state } = app;
  const of = { ...app.selection(app.overview().answer), ...notedIn(state, app.modelName()) };
  return notesOn(storyOf(app).story, of).flatMap(({ cell }) => (cell ? [cell.at] : []));
}

function marksOf(head: Head, quantity: Quantity, state: State, noted: readonly Cell[]): Partial<HeatmapContent> {
  const { overlay, lines, atau, tau } = state;
  const { axis } = head;
  const marks: Partial<HeatmapContent> = {};
  if (lines && !isRectangular(head))
    marks.boundaries = axis.sentences.flatMap((s, t) => (t && s !== axis.sentences[t - 1] ? [t] : []));
  if (overlay === "mask" || (overlay === "regions" && quantity === "attention"))
    marks.mask = new Set(highTokens(columnProfile(head.attention, axis.n), atau));
  const high = overlay === "pairs" && quantity === "similarity" ? highCells(head, tau) : [];
  const ofTargets = isRectangular(head) && quantity === "similarity";
  const known = (ofTargets ? [] : noted).map(([i, j]): Cell => [entryOf(axis, i), entryOf(head.columns, j)]);
  const cells = [...high, ...known.filter(([i, j]) => i >= 0 && j >= 0)];
  if (cells.length) marks.cells = cells;
  return marks;
}

// The cells of the high pairs, on both sides of the diagonal.
function highCells(head: Head, tau: number): [number, number][] {
  const { i, j, normalized } = pairsOf(head);
  return Array.from(
    { length: countAbove({ i, j, normalized }, tau) },
    (_, k) => [i[k] ?? 0, j[k] ?? 0] as const,
  ).flatMap(([a, b]): [number, number][] => [
    [a, b],
    [b, a],
  ]);
}

// The values of a map, with overlays that replace values and the choice of the diagonal applied.
function valuesOf(head: Head, quantity: Quantity, state: State): Float32Array {
  const { n } = head.axis;
  const { overlay, diag, atau } = state;
  if (quantity === "attention") {
    const shown = attentionOf(head, state);
    return diag === "off" ? withDiagonal(shown, n, () => 0) : shown;
  }
  const { similarity, own } = head;
  if (overlay === "regions")
    return averagedRegions(similarity, n, runsOf(highTokens(columnProfile(head.attention, n), atau), n));
  return diag === "on" && own ? withDiagonal(similarity, n, (i) => own[i] ?? 0) : similarity;
}

function withDiagonal(map: Float32Array, n: number, value: (i: number) => number): Float32Array {
  const values = map.slice();
  for (let i = 0; i < n; i++) values[i * n + i] = value(i);
  return values;
}
