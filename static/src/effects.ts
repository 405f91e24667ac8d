// What switching off each head alone does, asked for a layer at a time: rows stand as soon as they are there, and what
// is left can be given up.
import type { Effect } from "../../build/openapi";
import type { Answer, JsonAnswer } from "./answer";
import type { App } from "./app";
import type { Entry } from "./cache";
import { h } from "./dom";
import { effectsRequest } from "./requests";
import { jsonStatusOf } from "./status";

export type EffectName = keyof Effect;

export interface Effects {
  rows: readonly (readonly Effect[] | null)[]; // [l][h]; null: not here yet
  next: Entry<JsonAnswer> | null; // the layer under way; null: all are here
}

// positions: those whose prediction is watched, as a prediction's request has them; null: the checkpoint predicts none.
export function effectsOf(app: App, { layers }: Answer, at: number | null): Effects {
  const rows: (readonly Effect[] | null)[] = layers.map(() => null);
  for (const [l, layer] of layers.entries()) {
    const entry = app.jsonCache.want(effectsRequest(app.state, layer, at));
    if (!entry.answer) return { rows, next: entry };
    rows[l] = entry.answer.effects![0]!;
  }
  return { rows, next: null };
}

// How far it has come, with the way to stop it or to go on.
export function progressOf(app: App, { rows, next }: Effects): HTMLElement | null {
  if (!next) return null;
  const done = rows.filter(Boolean).length;
  const words = `Heads switched off one by one: ${done} of ${rows.length} layers`;
  if (next.status === "failed") return jsonStatusOf(app, next);
  const stopped = next.status === "cancelled";
  return h(
    "div",
    { class: "effects-progress", role: "status" },
    h("progress", { max: rows.length, value: done, "aria-label": "Layers done" }),
    h("span", {}, stopped ? `${words}, then cancelled` : words),
    h(
      "button",
      { type: "button", onclick: () => (stopped ? app.jsonCache.retry(next) : app.jsonCache.cancel(next)) },
      stopped ? "Go on" : "Cancel",
    ),
  );
}
