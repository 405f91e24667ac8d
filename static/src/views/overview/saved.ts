// Saves the overview: the figures of its heads in the order on screen.
import type { Answer } from "../../app/answer";
import type { App } from "../../app/app";
import { savedLongRequest, savedRequest } from "../../app/requests";
import { FIGURE_NAMES, valueOf, type Known } from "../../heads/figures";
import type { Place } from "../../heads/order";
import type { Exportable } from "../../saving/export";
import { figureRequest, madeOf } from "../../saving/provenance";

const ANSWER_MOST = 200e6; // bytes; the service refuses answers not much larger

export function overviewExport(app: App, answer: Answer, known: Known[][], order: readonly Place[]): Exportable {
  const cross = answer.source !== null;
  const table = (): (string | number)[][] => [
    ["layer", "head", ...FIGURE_NAMES],
    ...order.map(({ l, h: k }) => [
      answer.layers[l] ?? l,
      answer.heads[k] ?? k,
      ...FIGURE_NAMES.map((f) => (known[l]?.[k] && valueOf(known[l][k], f)) ?? ""),
    ]),
  ];
  const rows = cross ? null : table; // the service counts no figures of cross heads
  const T = answer.encoding.ids.length;
  // The maps of a long text are saved as they are shown, and the server draws no figure of these.
  if (answer.pooled) return { ...madeOf(app, answer, "overview", savedLongRequest(app.state, T)), rows, figure: false };
  const numbers =
    (T * (answer.source ?? answer.encoding).ids.length + T ** 2) * answer.layers.length * answer.heads.length;
  const request = savedRequest(
    app.state,
    "all",
    "all",
    ["attentions", "similarities", "summary"],
    numbers * 4 > ANSWER_MOST,
  );
  const made = madeOf(app, answer, "overview", request);
  const { show, words } = app.state;
  return {
    ...made,
    rows,
    figure: figureRequest(request, {
      kind: "overview",
      show: cross && show === "both" ? "attention" : show,
      merge_words: words,
    }),
  };
}
