// Attributions: each token's contribution to the number that is followed, by a gradient, on the axis on screen.
import type { AnalyzeAnswer, FollowedTarget } from "../../../build/openapi";
import type { Answer } from "../app/answer";
import type { App } from "../app/app";
import type { Entry } from "../app/cache";
import { attributionRequest, predictionRequest, type AnalyzeRequest, type AttributionMethod } from "../app/requests";
import { isRectangular, type Axis, type Head } from "../maps/analysis";
import { format, sizeOf } from "../maps/scale";
import { taskOf } from "../ui/task-result";
import { followedOf } from "./followed";
import { atOf, mostOf } from "./outcome";
import type { Target } from "./target";

export const METHODS = ["gradient_x_input", "gradient", "integrated_gradients"] as const;

interface About {
  name: string;
  title: string;
  misses: string; // what it does not see
}

const SATURATED =
  "A gradient describes small changes only, so it misses tokens that matter where the model is saturated.";

export const METHOD_ABOUT: Record<AttributionMethod, About> = {
  gradient_x_input: {
    name: "Gradient × input",
    title: "The dot product of a token’s word vector with its gradient: the token’s contribution, to first order",
    misses: SATURATED,
  },
  gradient: {
    name: "Gradient",
    title:
      "The length of the gradient of a token’s word vector: how strongly a small change of it moves the result, up or down",
    misses: `${SATURATED} A length does not say whether a token raises or lowers the result.`,
  },
  integrated_gradients: {
    name: "Integrated gradients",
    title: "Gradients summed along the line from a baseline without the words to the text",
    misses:
      "The values compare the text with this baseline, which has none of its words: another baseline gives others.",
  },
};

export interface Attribution {
  key: object; // the answer, the same as long as nothing changes
  method: AttributionMethod;
  target: Target["request"] | null; // null: the service's own
  values: Float64Array; // of each entry
  top: number; // the largest in size; 0: none is more than rounding
  words: string; // the number followed, and its value
  gaps: string; // of integrated gradients: what their sum lacks; "" of others
}

export interface Attributing {
  attribution: Attribution | null;
  waiting: Entry<unknown> | null; // what is not here, or failed
}

const ROUNDING = 1e-5; // of the number followed: smaller attributions are none

// `axes`: of a head on screen. Those of cross heads have the text's tokens before the target's. Null: not requested.
export function attributingOf(app: App, answer: Answer, axes: Pick<Head, "axis" | "columns">): Attributing | null {
  const { state } = app;
  const { attribution: method } = state;
  if (method === "none") return null;
  const task = taskOf(app);
  const most = task ? 0 : mostOf(app);
  const predicted = most ? app.jsonCache.want(predictionRequest(state, atOf(app, answer), most)) : null;
  const unknown = [task, predicted].find((entry) => entry && !entry.answer);
  if (unknown) return { attribution: null, waiting: unknown };
  const target = followedOf(app, answer, task?.answer ?? null, predicted?.answer?.predictions);
  const entry = app.jsonCache.want(attributionRequest(state, method, target?.request));
  const values = entry.answer && valuesOf(entry.answer, axes, method);
  if (!values) return { attribution: null, waiting: entry };
  const followed = entry.answer?.target;
  const value = followed?.value ?? null;
  const size = sizeOf(values);
  return {
    waiting: null,
    attribution: {
      key: entry.answer ?? {},
      method,
      target: target?.request ?? null,
      values,
      top: size > ROUNDING * Math.max(1, Math.abs(value ?? 0)) ? size : 0,
      words: `${target?.words ?? "the result"} (${format(value)})`,
      gaps: followed ? gapsIn(followed) : "",
    },
  };
}

function valuesOf(
  { token_attributions = [], source_token_attributions = [] }: AnalyzeAnswer,
  axes: Pick<Head, "axis" | "columns">,
  method: AttributionMethod,
): Float64Array {
  const own = merged(token_attributions, axes.axis, method);
  return Float64Array.from(
    isRectangular(axes) ? [...merged(source_token_attributions, axes.columns, method), ...own] : own,
  );
}

// A merged word has the sum over its tokens; of lengths, that of the gradient of all of them.
const merged = (values: readonly (number | null)[], { groups }: Axis, method: AttributionMethod): number[] =>
  groups.map((group) => {
    const each = group.map((t) => values[t] ?? 0);
    return method === "gradient" ? Math.hypot(...each) : each.reduce((sum, v) => sum + v, 0);
  });

// How near the attributions come to the change that they should sum to; for cross heads that of both texts.
function gapsIn({
  value,
  baseline,
  completeness_gap,
  source_baseline,
  source_completeness_gap,
}: FollowedTarget): string {
  const gap = (of: string, from: number | null | undefined, missing: number | null | undefined): string =>
    typeof from === "number" && value !== null
      ? `${of}rom the baseline (${format(from)}) the number changes by ${format(value - from)}; completeness gap ${format(missing)}.`
      : "";
  const own = gap("F", baseline, completeness_gap);
  return [own, gap("By the tokens of the text, f", source_baseline, source_completeness_gap)].filter(Boolean).join(" ");
}

// The request of saved arrays, with the attributions on screen.
export const withAttribution = (request: AnalyzeRequest, { method, target }: Attribution): AnalyzeRequest => ({
  ...request,
  outputs: [...(request.outputs ?? []), "token_attributions"],
  attribution: method,
  ...(target ? { target } : {}),
});
