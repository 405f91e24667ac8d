// state -> the requests whose answers it needs. Two states with equal requests share one answer.
import type { AnalyzeRequest, Model } from "../../../build/openapi";
import { measuredRequest, PLAIN, type Measures } from "./measures";
import { SUM } from "./selection";
import { isCross, languagesOf, stackOf, targetOf, writtenOf } from "./stacks";
import type { State } from "./state";

export type { AnalyzeRequest };

type Input = Pick<
  AnalyzeRequest,
  | "text"
  | "text_pair"
  | "prompt_name"
  | "model"
  | "stack"
  | "text_target"
  | "target_ids"
  | "max_new_tokens"
  | "source_language"
  | "target_language"
  | "max_tokens"
  | "window"
  | "split_special_tokens"
  | "special_tokens"
  | "center"
  | "interventions"
>;

// A state, and the interventions of its pass. `target_ids`: in place of the target that it has or lets the model write.
export type Requested = State & Pick<AnalyzeRequest, "interventions" | "target_ids">;

function inputOf(state: Requested): Input {
  const [stack, target, written] = [stackOf(state), targetOf(state), writtenOf(state)];
  return {
    text: state.text,
    ...(state.interventions ? { interventions: state.interventions } : {}),
    ...(state.pair ? { text_pair: state.pair } : {}),
    ...(state.model ? { model: state.model } : {}),
    ...(state.prompt ? { prompt_name: state.prompt.slice(1) } : {}),
    ...(stack === "encoder" ? {} : { stack }),
    ...(state.target_ids
      ? { target_ids: state.target_ids }
      : { ...(target ? { text_target: target } : {}), ...(written ? { max_new_tokens: written } : {}) }),
    ...languagesOf(state),
    ...(state.max ? { max_tokens: state.max } : {}),
    ...(state.window < 0 ? {} : { window: state.window }),
    ...(state.literal ? { split_special_tokens: true } : {}),
    ...(state.special ? {} : { special_tokens: "mask" as const }),
    ...(state.center ? { center: "text" as const } : {}),
  };
}

export const LONG = 512; // tokens: the maps of longer texts are pooled
const BLOCKS_MOST = 128; // rows and columns of a pooled map, about the pixels of a thumbnail

// A text has at most a token for each character.
const charactersOf = (state: State): number =>
  Math.max(state.text.length + state.pair.length, targetOf(state).length) + writtenOf(state);

// True if only the service can say whether a text is long: it has more characters than a short one has tokens.
export const mayBeLong = (state: State, limit = Infinity): boolean =>
  Math.min(charactersOf(state), state.max || Infinity, limit) > LONG;

// The tokens alone.
export const tokensRequest = (state: State): AnalyzeRequest => ({
  ...inputOf({ ...state, special: true, center: false }),
  layers: [0],
  heads: [0],
  outputs: [],
});

const pooledOutputs = (tokens: number): Pick<AnalyzeRequest, "outputs" | "pool"> => ({
  outputs: ["max_pooled_attentions", "max_pooled_similarities", "profiles", "summary"],
  pool: Math.ceil(tokens / BLOCKS_MOST),
});

// Outputs and figures of a text whose whole maps follow. Where these take long to come, coarse attention makes the first
// thumbnails. `max` 0 is at most BLOCKS_MOST. Blocks have all tokens, so a text without special ones waits for the maps.
function wholeOutputs(state: Requested, tokens: number): Pick<AnalyzeRequest, "outputs" | "pool"> {
  if (isCross(state)) return { outputs: ["head_outputs"] };
  const most = Math.min(charactersOf(state), state.max, tokens || LONG);
  return most > BLOCKS_MOST && state.special && !state.interventions
    ? { outputs: ["head_outputs", "summary", "max_pooled_attentions"], pool: Math.ceil(most / BLOCKS_MOST) }
    : { outputs: ["head_outputs", "summary"] };
}

// Every head's outputs, which give its similarities, and its figures: the first request of the overview. For a long text
// pooled maps and profiles take the place of what the page would make maps and profiles of. Cross heads have no figures.
export function overviewRequest(state: Requested, threshold: number, tokens = 0): AnalyzeRequest {
  const long = tokens > LONG;
  return {
    ...inputOf(state),
    layers: "all",
    heads: "all",
    ...(long ? pooledOutputs(tokens) : wholeOutputs(state, tokens)),
    dtype: "f2",
    threshold,
  };
}

// Outputs that special tokens have a part in, hidden or not, and that are not of similarities.
const wholeRequest = (
  state: Requested,
  layers: AnalyzeRequest["layers"],
  heads: AnalyzeRequest["heads"],
  outputs: AnalyzeRequest["outputs"],
  more: Partial<AnalyzeRequest> = {},
): AnalyzeRequest => ({ ...inputOf({ ...state, special: true, center: false }), layers, heads, outputs, ...more });

// The profiles of all heads. A causal model's first token is none of the profile's kinds, so its column comes with them.
export const profilesRequest = (state: Requested, causal: boolean): AnalyzeRequest => {
  const outputs: AnalyzeRequest["outputs"] = causal ? ["profiles", "sliced_attentions"] : ["profiles"];
  return wholeRequest(state, "all", "all", outputs, causal ? { columns: [0, 1] } : {});
};

// Some layers' attention maps as bytes.
export const attentionRequest = (state: Requested, layers: number[]): AnalyzeRequest =>
  wholeRequest(state, layers, "all", ["attentions"], { dtype: "u1" });

// Some layers' attention maps with the digits that ranking by a single cell needs.
export const fineAttentionRequest = (state: Requested, layers: number[]): AnalyzeRequest =>
  wholeRequest(state, layers, "all", ["attentions"], { dtype: "f2" });

export type Range = readonly [from: number, to: number]; // the end excluded

const HEAD_BLOCKS_MOST = 512; // rows and columns of one head's pooled map

const ofHead = (state: Requested, layer: number, head: number): AnalyzeRequest => ({
  ...inputOf(state),
  layers: [layer],
  heads: head === SUM ? "all" : [head],
  ...(head === SUM ? { reduce: "sum" as const } : {}),
  dtype: "f4",
});

export const poolOf = (tokens: number): number => Math.ceil(tokens / HEAD_BLOCKS_MOST);

// One head of a text whose maps are too large for a page: its pooled maps, and a window of them.
export const pooledHeadRequest = (state: Requested, layer: number, head: number, tokens: number): AnalyzeRequest => ({
  ...ofHead(state, layer, head),
  outputs: ["max_pooled_attentions", "max_pooled_similarities"],
  pool: poolOf(tokens),
});
export const windowRequest = (
  state: Requested,
  layer: number,
  head: number,
  rows: Range,
  columns: Range,
): AnalyzeRequest => ({
  ...ofHead(state, layer, head),
  outputs: ["sliced_attentions", "sliced_similarities"],
  rows: [...rows],
  columns: [...columns],
});

export const LONG_PAIRS_MOST = 100_000;

// The strongest pairs of one head, whatever the threshold: each threshold then has the first of them.
export const pairsRequest = (state: Requested, layer: number, head: number): AnalyzeRequest => ({
  ...ofHead(state, layer, head),
  outputs: ["pairs"],
  threshold: 1e-6, // every pair above 0
  max_pairs: LONG_PAIRS_MOST,
});

// Both in one answer, to save them.
export const savedWindowRequest = (
  state: Requested,
  layer: number,
  head: number,
  tokens: number,
  rows: readonly number[],
  columns: readonly number[],
): AnalyzeRequest => {
  const ends = (each: readonly number[]): Range => [each[0] ?? 0, (each.at(-1) ?? 0) + 1];
  const pooled = pooledHeadRequest(state, layer, head, tokens);
  const part = windowRequest(state, layer, head, ends(rows), ends(columns));
  return { ...pooled, ...part, outputs: [...(pooled.outputs ?? []), ...(part.outputs ?? [])] };
};

// Some rows and columns of the maps of all heads, or of all of some layers, of a text whose whole maps are too large.
export const attentionPartRequest = (
  state: Requested,
  rows: Range,
  columns: Range,
  layers: AnalyzeRequest["layers"] = "all",
): AnalyzeRequest =>
  wholeRequest(state, layers, "all", ["sliced_attentions"], { rows: [...rows], columns: [...columns] });

export const similarityPartRequest = (state: Requested, rows: Range, columns: Range): AnalyzeRequest => ({
  ...inputOf(state),
  layers: "all",
  heads: "all",
  outputs: ["sliced_similarities"],
  rows: [...rows],
  columns: [...columns],
});

// Attention times the norm of the vector handed on, for all heads of some layers.
export const normsRequest = (state: Requested, layers: number[]): AnalyzeRequest =>
  wholeRequest(state, layers, "all", ["weighted_norms"], { dtype: "f2" });

// Every token's state before each layer.
export const statesRequest = (state: Requested): AnalyzeRequest =>
  wholeRequest(state, "all", [0], ["hidden_states"], { dtype: "f2" });

// The figures alone, at the threshold of the moment.
export function summaryRequest(state: Requested): AnalyzeRequest {
  return { ...inputOf(state), layers: "all", heads: "all", outputs: ["summary"], threshold: state.tau };
}

// One head exactly, or the layer's heads summed.
export function headRequest(state: Requested, layer: number, head: number, measures: Measures = PLAIN): AnalyzeRequest {
  const summed = head === SUM;
  // Outputs give the diagonal of plain similarities.
  const maps: AnalyzeRequest["outputs"] = ["attentions", "similarities"];
  const request: AnalyzeRequest = {
    ...inputOf(state),
    layers: [layer],
    heads: summed ? "all" : [head],
    outputs: summed || state.center || measures.space !== "head" ? maps : [...maps, "head_outputs"],
    ...(summed ? { reduce: "sum" as const } : {}),
    dtype: "f4",
  };
  return measuredRequest(request, measures);
}

// The predictions at a token, or at every [MASK] (at < 0), `most` tokens deep; 0: it has no head for that. With
// what interventions changed, where there are any.
export function predictionRequest(state: Requested, at: number, most: number, lens = false): AnalyzeRequest {
  const all = state.interventions ? ("all" as const) : [0];
  const predictions = { positions: at < 0 ? ("masked" as const) : [at], top_k: most, lens };
  return wholeRequest(state, all, all, most ? ["predictions"] : [], most ? { predictions } : {});
}

// The predictions at some tokens after every layer.
export const lensRequest = (state: Requested, positions: number[], most: number): AnalyzeRequest =>
  wholeRequest(state, [0], [0], most ? ["predictions"] : [], { predictions: { positions, top_k: most, lens: true } });

const OF_TASK: Partial<Record<string, NonNullable<AnalyzeRequest["outputs"]>>> = {
  "text-classification": ["classes"],
  "token-classification": ["classes"],
  "question-answering": ["answer"],
  "text-generation": ["loss"],
};
const NEXT_TOP = 5; // next tokens at each position

// Asks the model's own head about the text; null if it has none that says something about every text.
export function taskRequest(state: Requested, { task, causal }: Pick<Model, "task" | "causal">): AnalyzeRequest | null {
  const outputs = OF_TASK[task ?? ""];
  if (!outputs) return null;
  const predictions = causal ? { predictions: { positions: "all" as const, top_k: NEXT_TOP } } : {};
  return wholeRequest(state, [0], [0], outputs, predictions);
}

// The sentence vector of a text.
export const vectorRequest = (state: Requested): AnalyzeRequest =>
  wholeRequest(state, [-1], [0], ["embedding"], { digits: 9 });

// The last state of every token, which the sentence vector is pooled from.
export const lastStatesRequest = (state: Requested): AnalyzeRequest =>
  wholeRequest(state, [-1], [0], ["hidden_states"]);

// Asks for the scores of heads on repeated random sequences. The text does not matter.
export const scoresRequest = ({ model }: State): AnalyzeRequest => ({
  text: "",
  ...(model ? { model } : {}),
  layers: "all",
  heads: "all",
  outputs: ["head_scores"],
});

// The effects of switching off each head of a layer, or one of them. Includes the effect on the prediction at a token or
// every [MASK] (null: the model predicts nothing), and on the result of its task head.
export function effectsRequest(
  state: Requested,
  layer: number,
  at: number | null,
  target: AnalyzeRequest["target"],
  heads: AnalyzeRequest["heads"] = "all",
): AnalyzeRequest {
  return wholeRequest(state, [layer], heads, ["effects"], {
    ...(at === null ? {} : { predictions: { positions: at < 0 ? "masked" : [at], top_k: 1 } }),
    ...(target ? { target } : {}),
  });
}

// The first-order estimates of the same effects on the target, of all heads from one gradient.
export const estimatesRequest = (state: Requested, target: NonNullable<AnalyzeRequest["target"]>): AnalyzeRequest =>
  wholeRequest(state, "all", "all", ["effects"], { effects_of: { kind: "zero", estimate: "gradient" }, target });

export type AttributionMethod = NonNullable<AnalyzeRequest["attribution"]>;

// Asks for each token's contribution to the target; without one, to the number that the service follows for the text.
export const attributionRequest = (
  state: Requested,
  attribution: AttributionMethod,
  target: AnalyzeRequest["target"],
): AnalyzeRequest =>
  wholeRequest(state, [0], [0], ["token_attributions"], { attribution, ...(target ? { target } : {}) });

// The second text of a patch, and the number whose change is followed.
export interface Patch {
  from: { text: string } & Pick<AnalyzeRequest, "text_pair" | "target_ids">;
  target: NonNullable<AnalyzeRequest["target"]>;
}

const patchOf = ({ from, target }: Patch): Partial<AnalyzeRequest> => ({
  effects_of: { kind: "patch", from },
  target,
});

// Each head of some layers alone, its output taken from the second text.
export const patchedEffectsRequest = (state: Requested, layers: number[], patch: Patch): AnalyzeRequest =>
  wholeRequest(state, layers, "all", ["effects"], patchOf(patch));

// The state of each token after each layer alone, taken from the second text.
export const patchMapRequest = (state: Requested, patch: Patch): AnalyzeRequest =>
  wholeRequest(state, [0], "all", ["patch_map"], patchOf(patch));

// The same of each token of the text that a decoder reads, by the encoder's layers. `target_ids`: the decoder's target.
export const sourcePatchMapRequest = (state: Requested, { from, target }: Patch): AnalyzeRequest => {
  const { target_ids, ...source } = from;
  return patchMapRequest(
    { ...state, stack: "encoder", ...(target_ids ? { target_ids } : {}) },
    { from: source, target },
  );
};

// The distances between all heads, of their outputs.
export const distancesRequest = (state: Requested): AnalyzeRequest =>
  wholeRequest(state, "all", "all", ["head_distances"], { head_distance: "cka" });

// The layer's heads averaged, N in place of S: what segments are made of.
export function layerRequest(state: Requested, layer: number): AnalyzeRequest {
  return {
    ...inputOf(state),
    layers: [layer],
    heads: "all",
    outputs: ["attentions", "similarities"],
    normalize: "max",
    reduce: "mean",
    dtype: "f4",
  };
}

// The request of saved arrays, and the one that is copied: floats as the service has them, negatives kept, and the figures at
// the thresholds of the moment.
export function savedRequest(
  state: Requested,
  layers: number[] | "all",
  head: number | readonly number[] | "all",
  outputs: AnalyzeRequest["outputs"],
  half = false,
): AnalyzeRequest {
  const summed = head === SUM;
  const [hasOutputs, hasFigures] = [!summed, !isCross(state)];
  return {
    ...inputOf(state),
    layers,
    heads: head === "all" || summed ? "all" : typeof head === "number" ? [head] : [...head],
    outputs: outputs?.filter((name) => (name !== "head_outputs" || hasOutputs) && (name !== "summary" || hasFigures)),
    ...(summed ? { reduce: "sum" as const } : {}),
    threshold: state.tau,
    attention_threshold: state.atau,
    max_pairs: PAIRS_MOST,
    dtype: half ? "f2" : "f4",
  };
}
const PAIRS_MOST = 1_000_000;

// The same for all heads of a long text.
export const savedLongRequest = (state: Requested, tokens: number): AnalyzeRequest => ({
  ...savedRequest(state, "all", "all", []),
  ...pooledOutputs(tokens),
});

// The second side of a comparison, as a state of its own: what it does not replace it shares. `model2`: the second model.
export function secondState(state: State, model2: string): Requested {
  const { against, layer2, head2, prompt, prompt2 } = state;
  return {
    ...state,
    ...(against === "text" ? { text: state.text2, pair: state.pair2, prompt: prompt2 || prompt, window: -1 } : {}),
    ...(against === "model" ? { model: model2, prompt: "" } : {}),
    ...(against === "off" ? { interventions: [switchedOff(layer2, head2)] } : {}),
  };
}

const switchedOff = (layer: number, head: number): NonNullable<AnalyzeRequest["interventions"]>[number] => ({
  layers: [layer],
  heads: head === SUM ? "all" : [head],
  kind: "zero",
});
