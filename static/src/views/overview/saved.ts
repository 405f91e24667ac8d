// Saves the overview: the figures of its heads in the order on screen, or their places as points.
import type { Answer } from "../../app/answer";
import type { App } from "../../app/app";
import { distancesRequest, savedRequest } from "../../app/requests";
import type { Placed } from "../../heads/distances";
import { FIGURE_NAMES, patternOf, valueOf, type Known } from "../../heads/figures";
import type { Place } from "../../heads/order";
import type { Exportable } from "../../saving/export";
import { figureRequest, madeOf } from "../../saving/provenance";

const ANSWER_MOST = 200e6; // bytes; the service refuses answers not much larger

export function overviewExport(app: App, answer: Answer, known: Known[][], order: readonly Place[]): Exportable {
  const rows = (): (string | number)[][] => [
    ["layer", "head", ...FIGURE_NAMES],
    ...order.map(({ l, h: k }) => [
      answer.layers[l] ?? l,
      answer.heads[k] ?? k,
      ...FIGURE_NAMES.map((f) => (known[l]?.[k] && valueOf(known[l][k], f)) ?? ""),
    ]),
  ];
  const numbers = 2 * answer.encoding.ids.length ** 2 * answer.layers.length * answer.heads.length;
  const request = savedRequest(
    app.state,
    "all",
    "all",
    ["attentions", "similarities", "summary"],
    numbers * 4 > ANSWER_MOST,
  );
  const made = madeOf(app, answer, "overview", request);
  return { ...made, rows, figure: figureRequest(request, { kind: "overview", show: app.state.show }) };
}

export function planeExport(
  app: App,
  overview: Answer,
  known: Known[][],
  { heads, plane: { x, y } }: Placed,
): Exportable {
  const wide = overview.heads.length;
  const request = distancesRequest(app.state);
  const rows = (): (string | number)[][] => [
    ["layer", "head", "x", "y", "pattern"],
    ...heads.map((at, n) => {
      const [l, h] = [Math.floor(at / wide), at % wide];
      const head = known[l]?.[h];
      return [l, h, x[n] ?? NaN, y[n] ?? NaN, head ? patternOf(head) : ""];
    }),
  ];
  const made = madeOf(app, overview, "map-of-heads", request);
  return { ...made, rows, part: ".plane-body", figure: figureRequest(request, { kind: "distances" }) };
}
