// state -> the requests whose answers it needs. Two states with equal requests share one answer.
import type { AnalyzeRequest } from "../../build/openapi";
import { SUM, type State } from "./state";

export type { AnalyzeRequest };

type Input = Pick<
  AnalyzeRequest,
  "text" | "text_pair" | "model" | "max_tokens" | "split_special_tokens" | "special_tokens"
>;

function inputOf(state: State): Input {
  return {
    text: state.text,
    ...(state.pair ? { text_pair: state.pair } : {}),
    ...(state.model ? { model: state.model } : {}),
    max_tokens: state.max,
    ...(state.literal ? { split_special_tokens: true } : {}),
    ...(state.special ? {} : { special_tokens: "mask" as const }),
  };
}

// Every head's outputs, of which its similarities are made, with its figures: what the overview begins with.
export function overviewRequest(state: State, threshold: number): AnalyzeRequest {
  return {
    ...inputOf(state),
    layers: "all",
    heads: "all",
    outputs: ["head_outputs", "summary"],
    dtype: "f2",
    threshold,
  };
}

// Some layers' attention maps as bytes.
export function attentionRequest(state: State, layers: number[]): AnalyzeRequest {
  return { ...inputOf({ ...state, special: true }), layers, heads: "all", outputs: ["attentions"], dtype: "u1" };
}

// The figures alone, at the threshold of the moment.
export function summaryRequest(state: State): AnalyzeRequest {
  return { ...inputOf(state), layers: "all", heads: "all", outputs: ["summary"], threshold: state.tau };
}

// One head exactly, or the layer's heads summed.
export function headRequest(state: State, layer: number, head: number): AnalyzeRequest {
  const summed = head === SUM;
  return {
    ...inputOf(state),
    layers: [layer],
    heads: summed ? "all" : [head],
    outputs: summed ? ["attentions", "similarities"] : ["attentions", "similarities", "head_outputs"],
    ...(summed ? { reduce: "sum" as const } : {}),
    dtype: "f4",
  };
}

// The layer's heads averaged, N in place of S: what segments are made of.
export function layerRequest(state: State, layer: number): AnalyzeRequest {
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

// What is saved as arrays and copied as a request: floats as the service has them, negatives kept, and the figures at
// the thresholds of the moment.
export function savedRequest(
  state: State,
  layers: number[] | "all",
  head: number | "all",
  outputs: AnalyzeRequest["outputs"],
  half = false,
): AnalyzeRequest {
  const summed = head === SUM;
  return {
    ...inputOf(state),
    layers,
    heads: head === "all" || summed ? "all" : [head],
    outputs: summed ? outputs!.filter((name) => name !== "head_outputs") : outputs,
    ...(summed ? { reduce: "sum" as const } : {}),
    threshold: state.tau,
    attention_threshold: state.atau,
    max_pairs: PAIRS_MOST,
    dtype: half ? "f2" : "f4",
  };
}
const PAIRS_MOST = 1_000_000;

// The second side of a comparison, as a state of its own: what it does not replace it shares.
export function secondState(state: State): State {
  return {
    ...state,
    ...(state.against === "text" ? { text: state.text2, pair: state.pair2 } : {}),
    ...(state.against === "model" ? { model: state.model2 } : {}),
  };
}
