// The number that effects and attributions follow: what the model's own head says of the text, or else its first prediction.
import type { Prediction } from "../../../build/openapi";
import type { Answer, JsonAnswer } from "../app/answer";
import type { App } from "../app/app";
import { placeOf } from "./outcome";
import { targetOf, targetOfPrediction, type Target } from "./target";

// `predictions`: at the chosen token or every [MASK]; of the first, the likeliest token is followed.
export function followedOf(
  { state }: App,
  answer: Answer,
  task: JsonAnswer | null,
  predictions: readonly Prediction[] = [],
): Target | null {
  const at = state.at < answer.encoding.ids.length ? state.at : -1;
  const [first] = predictions;
  return (
    targetOf(answer, task, at, state.watched) ??
    (first ? targetOfPrediction(first, placeOf(answer, first.position)) : null)
  );
}
