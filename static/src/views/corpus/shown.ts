// The runs side by side, and the place, threshold and layer that all of their charts and the table show.
import type { App } from "../../app/app";
import type { Report, Run } from "./api";
import {
  commonThresholds,
  isOverRuns,
  placesOf,
  rowsOf,
  type By,
  type Place,
  type Row,
  type RunFigure,
} from "./figures";

export interface Side {
  run: Run;
  report: Report;
}

export const OVER_LEAST = 3; // runs

export const placeName = ({ layer, head }: Place): string =>
  head === null ? `layer ${layer}` : `layer ${layer} head ${head}`;

export interface Shown {
  sides: readonly Side[];
  by: By;
  layers: number[];
  layer: number;
  thresholds: number[];
  level: number;
  places: Place[];
  key: string;
}

export function shownOf({ state, theme }: App, sides: readonly Side[]): Shown {
  const reports = sides.map(({ report }) => report);
  const layers = [...new Set(reports.flatMap((r) => r.layers))].sort((a, b) => a - b);
  const layer = layers.includes(state.layer) ? state.layer : (layers.at(-1) ?? 0);
  const thresholds = commonThresholds(reports);
  const middle = thresholds[Math.floor(thresholds.length / 2)] ?? NaN;
  const level = thresholds.includes(state.level) ? state.level : middle;
  const by = isOverRuns(state.by) && sides.length < OVER_LEAST ? "layers" : state.by;
  const key = JSON.stringify([sides.map(({ run }) => run.id), by, layer, level, theme]);
  return { sides, by, layers, layer, thresholds, level, places: placesOf(reports, by, layer), key };
}

export const rowsIn = ({ sides, level }: Shown, name: RunFigure, places: readonly Place[]): Row[] =>
  rowsOf(
    sides.map(({ report }) => report),
    name,
    level,
    places,
  );
