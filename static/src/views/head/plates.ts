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
  withDiagonal,
  type Axis,
  type Head,
} from "../../maps/analysis";
import { entryOf, pinnedIn, pinOf } from "../../maps/axis";
import type { Bar } from "../../maps/colour-bar";
import { Heatmap, type Cell, type HeatmapContent } from "../../maps/heatmap";
import { describeCell, describeTargets } from "../../maps/readout";
import { shadeOf, type Shade } from "../../maps/shade";
import { Viewport } from "../../maps/viewport";
import { notedIn } from "../../app/stacks";
import type { State } from "../../app/state";
import { withinPart } from "./parts";
import { notesOn, storyOf } from "../../story/story";

export const QUANTITIES = ["attention", "similarity"] as const;
type Quantity = (typeof QUANTITIES)[number];

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

  // The address has the zoom of whole maps or of the window, not that of pooled maps.
  constructor(
    private readonly app: App,
    private readonly pooled = false,
  ) {
    const note = pooled ? ", pooled" : "";
    this.maps = {
      attention: this.heatmap(`Attention map${note}`, "attention"),
      similarity: this.heatmap(`Context similarity map${note}`, "similarity"),
    };
    this.viewport.watch(() => {
      if (!pooled && this.head && this.maps.attention.element.isConnected) app.commit({ zoom: this.viewport.state });
    });
  }

  private heatmap(name: string, quantity: Quantity): Heatmap {
    return new Heatmap(name, this.viewport, {
      hover: (cell) => this.hover(cell, quantity),
      pick: (cell) => {
        const { head } = this;
        if (!head) return;
        if (ofTargets(head, quantity)) {
          this.maps[quantity].point(null, cell); // nothing is pinned: the other map has other columns
          return this.app.announce(describeTargets(head, cell), true);
        }
        // A cell of pooled maps opens its window.
        this.app.set({ pin: pinOf(head, cell), ...(this.pooled && { zoom: [] }) });
        this.app.announce(describeCell(head, cell), true);
      },
    });
  }

  private hover(cell: Cell | null, quantity: Quantity): string {
    [this.hovered, this.over] = [cell, quantity];
    const { head } = this;
    const pinned = head && pinnedIn(head, this.app.state);
    for (const each of QUANTITIES) {
      const linked = ofTargets(head, each) === ofTargets(head, quantity);
      this.maps[each].point(linked ? cell : null, ofTargets(head, each) ? null : pinned);
    }
    const at = cell ?? pinned;
    const describe = cell && ofTargets(head, quantity) ? describeTargets : describeCell;
    const words = head && at ? describe(head, at) : "";
    this.app.announce(words);
    return words;
  }

  // Draws a head, if it or how it is shown has changed.
  update(head: Head | null): void {
    this.head = head;
    if (!head) return;
    const zoom = this.pooled ? this.viewport.state : this.app.state.zoom;
    this.viewport.follow(Math.max(head.axis.n, head.columns.n), zoom);
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
    const { theme } = this.app;
    const { axis, part } = head;
    const state = withinPart(this.app.state, part);
    const columns = ofTargets(head, quantity) ? axis : head.columns;
    const label = quantity === "attention" ? attentionName(state) : "Context similarity";
    const unknown = quantity === "similarity" && state.diag === "on" && !head.own ? "; its diagonal is not known" : "";
    const most = Math.max(axis.n, head.columns.n);
    const shade = shadeOf(valuesOf(head, quantity, state), axis.n, quantity, { ...state, theme });
    const along = (of: Axis) => ({
      labels: labelsOf(of, state.positions),
      faint: of.special,
      ...(state.lines && !isRectangular(head) && { boundaries: sentenceStarts(of) }),
    });
    return {
      ...shade,
      n: axis.n,
      m: columns.n,
      unit: [most / axis.n, most / columns.n],
      ...along(axis),
      columns: along(columns),
      lower: axis.causal && quantity === "attention" && axis.positions[0] === columns.positions[0],
      ...marksOf(head, quantity, state, notedCells(this.app)),
      title: part ? `${label}, ${part}` : label,
      note: placeOf(head, quantity) + formulaOf[quantity](state) + unknown,
      bar: { ...shade, label },
    };
  }
}

// Similarities of a cross head are among the target's tokens, so its two maps have other columns.
const ofTargets = (head: Head | null, quantity: Quantity): boolean =>
  quantity === "similarity" && head !== null && isRectangular(head);

// The entries that begin a sentence, but the first.
const sentenceStarts = ({ sentences }: Axis): number[] =>
  sentences.flatMap((s, t) => (t && s !== sentences[t - 1] ? [t] : []));

// Which rows and columns the maps have, before the formula.
function placeOf(head: Head, quantity: Quantity): string {
  const { axis, columns, part } = head;
  const span = ({ groups }: Axis): string => `${groups[0]?.[0]}–${groups.at(-1)?.at(-1)}`;
  const block = axis.groups[0]?.length ?? 0;
  if (part === "pooled") return `largest of ${block} × ${block} cells; `;
  if (part === "window") return `tokens ${span(axis)} by ${span(columns)}; `;
  return isRectangular(head) ? CROSS_NOTES[quantity] : "";
}

// The cells with a note, as token positions.
function notedCells(app: App): Cell[] {
  const { state } = app;
  const of = { ...app.selection(app.overview().answer), ...notedIn(state, app.modelName()) };
  return notesOn(storyOf(app).story, of).flatMap(({ cell }) => (cell ? [cell.at] : []));
}

function marksOf(head: Head, quantity: Quantity, state: State, noted: readonly Cell[]): Partial<HeatmapContent> {
  const { overlay, atau, tau } = state;
  const { axis, columns } = head;
  const marks: Partial<HeatmapContent> = {};
  if (overlay === "mask" || (overlay === "regions" && quantity === "attention"))
    marks.mask = new Set(highTokens(columnProfile(head.attention, axis.n), atau));
  const high = overlay === "pairs" && quantity === "similarity" ? highCells(head, tau) : [];
  const known = (ofTargets(head, quantity) ? [] : noted).map(([i, j]): Cell => [entryOf(axis, i), entryOf(columns, j)]);
  const cells = [...high, ...known.filter(([i, j]) => i >= 0 && j >= 0)];
  if (cells.length) marks.cells = cells;
  return marks;
}

// The cells of the high pairs, on both sides of the diagonal. The threshold counts as float32, as it does in the service.
function highCells({ normalized, columns }: Head, threshold: number): Cell[] {
  const [tau, high] = [Math.fround(threshold), [] as Cell[]];
  for (let k = 0; k < normalized.length; k++)
    if ((normalized[k] ?? 0) > 0 && (normalized[k] ?? 0) >= tau) high.push([Math.floor(k / columns.n), k % columns.n]);
  return high;
}

// The values of a map, with overlays that replace values and the choice of the diagonal applied.
function valuesOf(head: Head, quantity: Quantity, state: State): Float32Array {
  const { axis, columns } = head;
  const { n } = axis;
  const { overlay, diag, atau } = state;
  if (quantity === "attention") {
    const shown = attentionOf(head, state);
    return diag === "off" ? withDiagonal(shown, axis, columns, () => 0) : shown;
  }
  const { similarity, own } = head;
  if (overlay === "regions")
    return averagedRegions(similarity, n, runsOf(highTokens(columnProfile(head.attention, n), atau), n));
  return diag === "on" && own ? withDiagonal(similarity, axis, columns, (i) => own[i] ?? 0) : similarity;
}
