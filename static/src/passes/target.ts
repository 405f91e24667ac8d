// The number that the effects of heads follow: what the model's own head says, as one value.
import type { AnalyzeRequest, Classes, Prediction } from "../../../build/openapi";
import type { Answer, JsonAnswer } from "../app/answer";
import { escapeBidi } from "../app/bidi";

export interface Target {
  request: NonNullable<AnalyzeRequest["target"]>;
  words: string;
  labels: readonly string[]; // that can be watched in its place
  hasClasses: boolean; // with probabilities: their divergence is known too
}

// `at`: the chosen token, -1 for none; `watched`: the chosen class, "" for the predicted one. Null if the model has no head whose result is one number.
export function targetOf({ encoding }: Answer, task: JsonAnswer | null, at: number, watched: string): Target | null {
  const { classes, answer, loss } = task ?? {};
  if (classes) return ofClasses(classes, encoding, at, watched);
  const [span] = answer?.best ?? [];
  if (span)
    return {
      request: { span: [span.start, span.end] },
      words: `the score of the answer “${escapeBidi(span.text ?? "")}”`,
      labels: [],
      hasClasses: false,
    };
  return loss ? { request: { loss: true }, words: "the loss of the text", labels: [], hasClasses: false } : null;
}

// The likeliest token of a prediction; `place`: where it is made.
export function targetOfPrediction({ position, top }: Prediction, place: string): Target | null {
  const [best] = top;
  if (!best) return null;
  const words = `the log-probability of “${escapeBidi(best.token)}” ${place.replace(/^A/, "a")}`;
  return { request: { log_probability: best.id, position }, words, labels: [], hasClasses: false };
}

function ofClasses(
  { task, labels, logits, probabilities, predicted }: Classes,
  { tokens, special }: Answer["encoding"],
  at: number,
  watched: string,
): Target {
  const hasClasses = probabilities !== null;
  const chosen = labels.indexOf(watched);
  if (task === "text-classification") {
    const index = chosen >= 0 ? chosen : largest(logits as number[]);
    const words = `the logit of “${escapeBidi(labels[index] ?? "")}”`;
    return { request: { class: index }, words, labels, hasClasses };
  }
  const names = predicted as string[];
  const named = names.findIndex((label, t) => !special[t] && label !== "O");
  const position = at >= 0 ? at : named >= 0 ? named : Math.max(0, special.indexOf(false));
  const index = chosen >= 0 ? chosen : labels.indexOf(names[position] ?? "");
  const words = `the logit of “${escapeBidi(labels[index] ?? "")}” at ${escapeBidi(tokens[position] ?? "")} ${position}`;
  return { request: { class: index, position }, words, labels, hasClasses };
}

const largest = (values: readonly number[]): number => values.indexOf(Math.max(...values));
