// The fractions of every layer, as the answers that they need arrive: one request a block of layers. Routes of an
// encoder-decoder model lead through the decoder's heads and the cross heads together.
import type { Effect } from "../../../../build/openapi";
import type { Answer } from "../../app/answer";
import type { App } from "../../app/app";
import type { Entry } from "../../app/cache";
import { perObject } from "../../app/per-object";
import { normsRequest, statesRequest } from "../../app/requests";
import { stackOf } from "../../app/stacks";
import type { Stack, State } from "../../app/state";
import { hopsByEffect, hopsByNorms } from "../../heads/hops";
import type { LayerHops } from "../../heads/routes";
import { fromHalves } from "../../heads/similarity";
import { effectsOf, type Effects } from "../../passes/effects";
import type { Target } from "../../passes/target";
import { patchedEffects, type Patching } from "./patching";

const BLOCK_BYTES = 8e6; // of one request

export interface Layers {
  hops: readonly LayerHops[] | null; // null until all are here
  source: Answer["source"]; // the tokens that the cross heads of these hops attend to
  done: number; // layers
  of: number;
  waiting: Entry<unknown> | null;
  ofEffects: boolean; // what is waited for is an effect
}

// The norms of one stack's heads: each layer's answer, up to the first that is not here yet.
interface Norms {
  stack: Stack;
  answers: readonly Answer[];
  waiting: Entry | null;
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
function mapsOf({ weightedNorms, heads, layers }: Answer, layer: number): Float32Array[] {
  const size = (weightedNorms?.length ?? 0) / (layers.length * heads.length);
  const at = layers.indexOf(layer) * heads.length * size;
  return heads.map((_, h) => floats(weightedNorms?.subarray(at + h * size, at + (h + 1) * size) ?? null));
}

const within = (app: App, stack: Stack): State => ({ ...app.state, stack });

// The stacks that routes lead through.
const stacksOf = (app: App): Stack[] => (stackOf(app.state) === "encoder" ? ["encoder"] : ["decoder", "cross"]);

function normsOf(app: App, { layers, heads, encoding, source }: Answer, stack: Stack): Norms {
  const cells = encoding.ids.length * (stack === "cross" && source ? source : encoding).ids.length;
  const block = Math.max(1, Math.floor(BLOCK_BYTES / (2 * heads.length * cells)));
  const answers: Answer[] = [];
  for (let from = 0; from < layers.length; from += block) {
    const part = layers.slice(from, from + block);
    const entry = app.cache.want(normsRequest(within(app, stack), part));
    if (!entry.answer) return { stack, answers, waiting: entry };
    for (let n = 0; n < part.length; n++) answers.push(entry.answer);
  }
  return { stack, answers, waiting: null };
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
  const norms = stacksOf(app).map((stack) => normsOf(app, overview, stack));
  const ofStack = (effects: (stack: Stack) => Effects): Effects[] => norms.map(({ stack }) => effects(stack));
  const waits = norms.find(({ waiting }) => waiting);
  if (waits) return progressOf(norms, norms.flatMap(({ answers }) => answers).length, overview, waits.waiting, false);
  if (patching)
    return layersByEffect(
      overview,
      norms,
      ofStack((stack) => patchedEffects(app, within(app, stack), overview, patching)),
      ({ recovered }) => recovered,
    );
  if (app.state.weight === "norms") return layersByNorms(app, overview, norms);
  return layersByEffect(
    overview,
    norms,
    ofStack((stack) => effectsOf(app, overview, at, target, within(app, stack))),
    ({ target_change, prediction_kl, hidden_change }) => (target ? target_change : prediction_kl) ?? hidden_change,
  );
}

const progressOf = (
  norms: readonly Norms[],
  done: number,
  { layers }: Answer,
  waiting: Entry<unknown> | null,
  ofEffects: boolean,
): Layers => ({ hops: null, source: null, done, of: norms.length * layers.length, waiting, ofEffects });

// All that was waited for is here.
const layersWith = (norms: readonly Norms[], hops: readonly LayerHops[], ofEffects: boolean): Layers => {
  const of = norms.length * hops.length;
  return { hops, source: norms.at(-1)?.answers[0]?.source ?? null, done: of, of, waiting: null, ofEffects };
};

function layersByNorms(app: App, overview: Answer, norms: readonly Norms[]): Layers {
  const { layers } = overview;
  const [own, cross] = norms;
  const entry = app.cache.want(statesRequest(within(app, own?.stack ?? "encoder")));
  const before = entry.answer && statesOf(entry.answer);
  if (!before) return progressOf(norms, norms.length * layers.length, overview, entry, false);
  const hops = (own?.answers ?? []).map((answer, l) => {
    const layer = layers[l] ?? l;
    const known = byNorms(answer);
    const across = cross?.answers[l];
    const made =
      known.get(layer) ??
      hopsByNorms(mapsOf(answer, layer), before[l] ?? new Float32Array(), across ? mapsOf(across, layer) : []);
    known.set(layer, made);
    return made;
  });
  return layersWith(norms, hops, false);
}

// `effects`: of the heads of the same stacks.
function layersByEffect(
  overview: Answer,
  norms: readonly Norms[],
  effects: readonly Effects[],
  valueOf: (effect: Effect) => number | null | undefined,
): Layers {
  const sizeOf = (effect: Effect): number => Math.abs(valueOf(effect) ?? 0);
  const here = effects.map(({ rows }) => rows.filter((row) => row !== null));
  const next = effects.find((one) => one.next)?.next ?? null;
  if (next) return progressOf(norms, here.flat().length, overview, next, true);
  const most = Math.max(...here.flat(2).map(sizeOf)) || 1;
  const [own = [], cross = []] = here;
  const T = overview.encoding.ids.length;
  const hops = own.map((row, l) => {
    const maps = norms.map(({ answers: { [l]: answer } }) => (answer ? mapsOf(answer, overview.layers[l] ?? l) : []));
    const sizes = (of: readonly Effect[] = []): number[] => of.map((one) => sizeOf(one) / most);
    const known = byEffect.get(row) ?? hopsByEffect(maps[0] ?? [], T, sizes(row), maps[1], sizes(cross[l]));
    byEffect.set(row, known);
    return known;
  });
  return layersWith(norms, hops, true);
}
