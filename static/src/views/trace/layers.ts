// The fractions of every layer, as the answers that they need arrive: one request a block of layers.
import type { Effect } from "../../../../build/openapi";
import type { Answer } from "../../app/answer";
import type { App } from "../../app/app";
import type { Entry } from "../../app/cache";
import { perObject } from "../../app/per-object";
import { normsRequest, statesRequest } from "../../app/requests";
import { hopsByEffect, hopsByNorms } from "../../heads/hops";
import type { LayerHops } from "../../heads/routes";
import { fromHalves } from "../../heads/similarity";
import { effectsOf, type Effects } from "../../passes/effects";
import type { Target } from "../../passes/target";
import { patchedEffects, type Patching } from "./patching";

const BLOCK_BYTES = 8e6; // of one request

export interface Layers {
  hops: readonly LayerHops[] | null; // null until all are here
  done: number; // layers
  waiting: Entry<unknown> | null;
  ofEffects: boolean; // what is waited for is an effect
}

const byNorms = perObject<Answer, Map<number, LayerHops>>(() => new Map()); // of one answer of norms, by layer
const byEffect = new WeakMap<object, LayerHops>(); // of one layer's effects

const floats = (values: Answer["hiddenStates"]): Float32Array =>
  values instanceof Uint16Array ? fromHalves(values) : (values ?? new Float32Array());

// The norm of each token's state before each layer, [L][T].
const statesOf = perObject(({ hiddenStates, layers, encoding }: Answer) =>
  normsOfRows(floats(hiddenStates), layers.length, encoding.ids.length),
);

// `all`: [1 + layers][T][H]; the last layer's states are left out.
function normsOfRows(all: Float32Array, layers: number, T: number): Float32Array[] {
  const width = all.length / ((layers + 1) * T);
  const norm = (row: number): number =>
    Math.sqrt(all.subarray(row * width, (row + 1) * width).reduce((sum, v) => sum + v * v, 0));
  return Array.from({ length: layers }, (_, l) => Float32Array.from({ length: T }, (_, t) => norm(l * T + t)));
}

// One layer's maps, one a head.
function mapsOf({ weightedNorms, heads, layers, encoding }: Answer, layer: number): Float32Array[] {
  const size = encoding.ids.length ** 2;
  const at = layers.indexOf(layer) * heads.length * size;
  return heads.map((_, h) => floats(weightedNorms?.subarray(at + h * size, at + (h + 1) * size) ?? null));
}

// Each layer's answer of norms; stops at the first that is not here yet.
function normsOf(app: App, { layers, heads, encoding }: Answer): { answers: Answer[]; waiting: Entry | null } {
  const block = Math.max(1, Math.floor(BLOCK_BYTES / (2 * heads.length * encoding.ids.length ** 2)));
  const answers: Answer[] = [];
  for (let from = 0; from < layers.length; from += block) {
    const part = layers.slice(from, from + block);
    const entry = app.cache.want(normsRequest(app.state, part));
    if (!entry.answer) return { answers, waiting: entry };
    for (let n = 0; n < part.length; n++) answers.push(entry.answer);
  }
  return { answers, waiting: null };
}

function normHops(answer: Answer, layer: number, state: Float32Array): LayerHops {
  const known = byNorms(answer);
  const hops = known.get(layer) ?? hopsByNorms(mapsOf(answer, layer), state);
  known.set(layer, hops);
  return hops;
}

// `at`: the position whose prediction is traced, null if the model predicts none; `target`: of its own head; `patching`:
// null if heads are not patched.
export function layersOf(
  app: App,
  overview: Answer,
  at: number | null,
  target: Target | null,
  patching: Patching | null,
): Layers {
  const norms = normsOf(app, overview);
  if (norms.waiting) return { hops: null, done: norms.answers.length, waiting: norms.waiting, ofEffects: false };
  if (patching)
    return layersByEffect(
      overview,
      norms.answers,
      patchedEffects(app, overview, patching),
      ({ recovered }) => recovered,
    );
  if (app.state.weight === "norms") return layersByNorms(app, overview, norms.answers);
  return layersByEffect(
    overview,
    norms.answers,
    effectsOf(app, overview, at, target),
    ({ target_change, prediction_kl, hidden_change }) => (target ? target_change : prediction_kl) ?? hidden_change,
  );
}

function layersByNorms(app: App, { layers }: Answer, answers: readonly Answer[]): Layers {
  const entry = app.cache.want(statesRequest(app.state));
  const before = entry.answer && statesOf(entry.answer);
  const hops = before && answers.map((answer, l) => normHops(answer, layers[l] ?? l, before[l] ?? new Float32Array()));
  return { hops, done: answers.length, waiting: hops ? null : entry, ofEffects: false };
}

function layersByEffect(
  { layers, encoding }: Answer,
  answers: readonly Answer[],
  { rows, next }: Effects,
  valueOf: (effect: Effect) => number | null | undefined,
): Layers {
  const sizeOf = (effect: Effect): number => Math.abs(valueOf(effect) ?? 0);
  const here = rows.filter((row) => row !== null);
  if (next) return { hops: null, done: here.length, waiting: next, ofEffects: true };
  const most = Math.max(...here.flat().map(sizeOf)) || 1;
  const hops = here.map((row, l) => {
    const [answer] = answers.slice(l);
    const maps = answer ? mapsOf(answer, layers[l] ?? l) : [];
    const known = byEffect.get(row) ?? hopsByEffect(maps, encoding.ids.length, row.map((one) => sizeOf(one) / most)); // prettier-ignore
    byEffect.set(row, known);
    return known;
  });
  return { hops, done: here.length, waiting: null, ofEffects: true };
}
