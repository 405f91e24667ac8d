// Saves the heads as points: a picture and their coordinates.
import type { Answer } from "../../app/answer";
import type { App } from "../../app/app";
import { distancesRequest } from "../../app/requests";
import { patternOf, type Known } from "../../heads/figures";
import type { Exportable } from "../../saving/export";
import { madeOf } from "../../saving/provenance";
import type { Ink, Picture, Surface } from "../../saving/surface";
import type { DrawnPlane } from "./plane";

export function planeExport(app: App, overview: Answer, known: Known[][], drawn: DrawnPlane): Exportable {
  const { x, y } = drawn.placed.plane;
  const made = madeOf(app, overview, "map-of-heads", distancesRequest(app.state));
  const rows = (): (string | number)[][] => [
    ["layer", "head", "x", "y", "pattern"],
    ...drawn.points.map(({ l, h }, n) => {
      const head = known[l]?.[h];
      return [l, h, x[n] ?? NaN, y[n] ?? NaN, head ? patternOf(head) : ""];
    }),
  ];
  return { ...made, picture: picture(app, drawn, made.title), rows };
}

function picture({ state }: App, { points, shape, keys, about }: DrawnPlane, footer: string): Picture {
  const [left, top, side] = [20, 50, 760];
  const high = side / shape;
  const draw = (surface: Surface, ink: Ink): void => {
    surface.rect(0, 0, side + 200, high + 120, ink.page, null);
    const of = state.distance === "cka" ? "outputs (CKA)" : "attention (JS)";
    surface.text(`Heads by distance of ${of}`, left, 22, { size: 13, colour: ink.ink, bold: true });
    surface.text(about, left, 38, { size: 9, colour: ink.muted });
    surface.rect(left, top, side, high, null, ink.line);
    for (const point of points) {
      const [x, y] = [left + (side * point.left) / 100, top + (high * point.top) / 100];
      if (point.dot) surface.rect(x - 4, y - 4, 8, 8, point.ground, ink.line);
      else surface.rect(x - 14, y - 7, 28, 14, point.ground, ink.line);
      if (!point.dot) surface.text(`${point.l}·${point.h}`, x, y, { size: 9, colour: point.ink, anchor: "middle" });
    }
    keys.forEach(({ name, ground }, n) => {
      surface.rect(left + side + 16, top + n * 18, 12, 12, ground, ink.line);
      surface.text(name, left + side + 34, top + n * 18 + 6, { size: 10, colour: ink.ink });
    });
    surface.text(footer, left, top + high + 30, { size: 9, colour: ink.muted });
  };
  return { width: side + 200, height: high + 120, draw };
}
