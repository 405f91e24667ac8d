// The files of a head: the cells of its maps that are in sight, and the request for its arrays.
import type { Answer } from "../../app/answer";
import type { App } from "../../app/app";
import { measuredRequest } from "../../app/measures";
import { savedRequest, savedWindowRequest, type AnalyzeRequest } from "../../app/requests";
import { nameOf, SUM, type Selection } from "../../app/selection";
import type { HeadNumbers } from "../../heads/head-map";
import { isRectangular, type Head } from "../../maps/analysis";
import type { Viewport } from "../../maps/viewport";
import type { Exportable } from "../../saving/export";
import { figureRequest, madeOf } from "../../saving/provenance";

// Rows and columns of attention in the window, row by row.
function cellsIn({ axis, columns }: Head, { x, y, span, n }: Viewport): [number, number][] {
  const visible = (count: number, from: number): number[] => {
    const unit = Math.max(n, 1) / count; // the sides of a cell
    return Array.from({ length: count }, (_, t) => t).filter((t) => (t + 1) * unit > from && t * unit < from + span);
  };
  const across = visible(columns.n, x);
  return visible(axis.n, y).flatMap((i) => across.map((j): [number, number] => [i, j]));
}

// `heads`: the numbers of all heads that are shown beside the maps. The arrays of a long text have its pooled maps, too.
export function headExport(
  app: App,
  viewport: Viewport,
  head: Head,
  answer: Answer,
  selection: Selection,
  heads: HeadNumbers | null,
): Exportable {
  const { state } = app;
  const { axis, columns, weighted, part } = head;
  const cross = isRectangular(head);
  const { attention, similarity, normalized } = head;
  const named = { attention, ...(weighted && { weighted_norms: weighted }), ...(!cross && { similarity, normalized }) };
  const maps = Object.entries(named);
  const sides = cross ? ["target", "source"] : ["i", "j"];
  const rows = (): (string | number)[][] => [
    [...sides, ...sides.map((side) => `token_${side}`), ...maps.map(([name]) => name)],
    ...cellsIn(head, viewport).map(([i, j]) => [
      ...[axis.positions[i] ?? i, columns.positions[j] ?? j],
      ...[axis.labels[i] ?? "", columns.labels[j] ?? ""],
      ...maps.map(([, map]) => map[i * columns.n + j] ?? NaN),
    ]),
  ];
  const request = requestOf(app, head, answer, selection);
  const made = madeOf(app, answer, `head-${nameOf(selection)}${part ? "-window" : ""}`, request);
  const drawn = selection.head !== SUM && !weighted && !part; // the server draws no other maps
  const figure =
    drawn &&
    figureRequest(request, {
      kind: "head",
      show: cross ? "attention" : "both",
      merge_words: state.words,
      colour_scale: state.scale === "root" ? "square_root" : state.scale,
    });
  return { ...made, rows, heads, figure };
}

function requestOf({ state }: App, of: Head, { encoding }: Answer, { layer, head }: Selection): AnalyzeRequest {
  const [rows, columns] = [of.axis.groups.flat(), of.columns.groups.flat()];
  if (of.part) return savedWindowRequest(state, layer, head, encoding.ids.length, rows, columns);
  const outputs: AnalyzeRequest["outputs"] = ["attentions", "similarities", "head_outputs", "summary"];
  return measuredRequest(savedRequest(state, [layer], head, outputs), state);
}
