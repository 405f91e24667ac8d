// Saves the overview: its thumbnails in the order on screen, with their figures and colour bars.
import type { Answer } from "../../app/answer";
import type { App } from "../../app/app";
import { cssOf, inkOn, lutOf } from "../../maps/colour";
import type { Exportable } from "../../saving/export";
import { figureOf, type Nearness, type Place } from "../../heads/order";
import {
  FIGURE_NAMES,
  patternName,
  placeIn,
  rangeOf,
  soundValueOf,
  valueOf,
  writeFigure,
  type Known,
} from "../../heads/figures";
import { overviewBars } from "./bars";
import { savedRequest } from "../../app/requests";
import { format } from "../../maps/scale";
import { gridPicture, type Picture } from "../../saving/surface";
import { madeOf } from "../../saving/provenance";
import { nearOffsets } from "./thumbnails";
import { paint, paintStrip, pool, visibleTokens } from "../../maps/thumbnail";

const SAVED = 128; // pixels of a map in the saved picture, at most
const ANSWER_MOST = 200e6; // bytes; the service refuses answers not much larger

export function overviewExport(
  app: App,
  answer: Answer,
  known: Known[][],
  order: readonly Place[],
  near: Nearness | null,
): Exportable {
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
  return { ...made, rows, picture: picture(app, answer, known, order, near, made.title) };
}

function picture(
  app: App,
  answer: Answer,
  known: Known[][],
  order: readonly Place[],
  near: Nearness | null,
  footer: string,
): Picture {
  const { state, theme } = app;
  const figure = near ? null : figureOf(state);
  const range = figure ? rangeOf(known, figure, state.least) : null;
  const lut = lutOf(state.map, "figure", theme);
  const quantities = state.show === "both" ? (["attention", "similarity"] as const) : [state.show];
  const cells = order.flatMap(({ l, h: k }) => {
    const head = known[l]?.[k];
    if (!head) return [];
    const sound = figure && soundValueOf(head, figure, state.least);
    const place = range && sound !== null ? placeIn(range, sound) : null;
    const distance = near?.get(l * answer.heads.length + k);
    return {
      name: `${l}·${k}`,
      written:
        distance !== undefined ? `at ${format(distance)}` : figure ? writeFigure(head, figure) : patternName(head),
      ground: place === null ? null : cssOf(lut, place),
      ink: place === null ? null : inkOn(lut, place),
      maps: quantities.map((quantity) => savedMap(app, answer, l, k, quantity)),
      strip:
        state.show !== "similarity" && head.profile
          ? drawn(paintStrip(nearOffsets(head.profile), lutOf(state.map, "attention", theme)))
          : null,
    };
  });
  return gridPicture(cells, answer.heads.length, overviewBars(app, figure, range), footer);
}

function drawn(image: ImageData): HTMLCanvasElement {
  const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
  canvas.getContext("2d")?.putImageData(image, 0, 0);
  return canvas;
}

function savedMap(
  app: App,
  answer: Answer,
  l: number,
  head: number,
  quantity: "attention" | "similarity",
): HTMLCanvasElement | null {
  const { state, theme } = app;
  const signed = quantity === "similarity";
  const map = signed
    ? app.derived(answer).similarity[l * answer.heads.length + head]
    : app.attention(answer, l)?.[head];
  if (!map) return null;
  const pooled = pool<Uint8Array | Int8Array>(
    map,
    answer.encoding.ids.length,
    SAVED,
    visibleTokens(answer, state.special),
  );
  return pooled.side ? drawn(paint(pooled, lutOf(state.map, signed ? "signed" : "attention", theme))) : null;
}
