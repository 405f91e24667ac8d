// The effect of switching off each head alone, requested one layer at a time. Rows are shown as soon as they are here,
// and the rest can be cancelled.
import type { Effect } from "../../../build/openapi";
import type { Answer, JsonAnswer } from "../app/answer";
import type { App } from "../app/app";
import type { Entry } from "../app/cache";
import { effectsRequest, type AnalyzeRequest, type Requested } from "../app/requests";
import { LayersProgress } from "../ui/status";
import type { Target } from "./target";
import type { EffectRows } from "./tones";

export interface Effects {
  rows: EffectRows;
  next: Entry<JsonAnswer> | null; // of the layer under way; null: all are here
}

// `at` is the position whose prediction is watched, as in a prediction's request; null if the checkpoint predicts none.
export function effectsOf(
  app: App,
  answer: Answer,
  at: number | null,
  target: Target | null,
  requested: Requested = app.state,
): Effects {
  return rowsOf(app, answer, (layer) => effectsRequest(requested, layer, at, target?.request));
}

// One request a layer.
export function rowsOf(app: App, { layers }: Answer, requestOf: (layer: number) => AnalyzeRequest): Effects {
  const rows: (readonly Effect[] | null)[] = layers.map(() => null);
  for (const [l, layer] of layers.entries()) {
    const entry = app.jsonCache.want(requestOf(layer));
    if (!entry.answer) return { rows, next: entry };
    rows[l] = entry.answer.effects?.[0] ?? [];
  }
  return { rows, next: null };
}

export const EffectsProgress = ({ of: { rows, next } }: { of: Effects }) => (
  <LayersProgress
    words="Heads switched off one by one"
    done={rows.filter(Boolean).length}
    of={rows.length}
    next={next}
  />
);
