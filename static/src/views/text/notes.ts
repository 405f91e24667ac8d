// The result of the model's own head for each token: a label, a part of the answer, or the token that it expects next.
import type { Classes, Prediction, SpanAnswer } from "../../../../build/openapi";
import type { JsonAnswer } from "../../app/answer";
import { escapeBidi } from "../../app/bidi";
import type { Axis } from "../../maps/analysis";
import { percent } from "../../maps/scale";

export interface Note {
  text: string; // under the token; "": nothing
  title: string;
  answer: boolean; // part of the answer
}

const NONE: Note = { text: "", title: "", answer: false };
const OUTSIDE = /^O$/; // the label of tokens that are none of what a tagger looks for

// One an entry of the axis; null if the head says nothing of single tokens.
export function notesOf({ classes, answer, predictions, loss }: JsonAnswer, { groups }: Axis): Note[] | null {
  if (answer) return groups.map((group) => ofAnswer(answer, group));
  if (loss) return groups.map((group) => ofNext(predictions?.[group.at(-1) ?? -1]));
  if (classes?.task === "token-classification") return groups.map(([first = 0]) => ofLabel(classes, first));
  return null;
}

function ofAnswer({ best }: SpanAnswer, group: readonly number[]): Note {
  const [span] = best;
  const inside = span !== undefined && group.some((t) => t >= span.start && t <= span.end);
  const starts = inside && group.includes(span.start);
  return { text: starts ? "answer" : "", title: inside ? "Part of the answer" : "", answer: inside };
}

function ofNext(next: Prediction | undefined): Note {
  const [likeliest] = next?.top ?? [];
  if (!next || !likeliest) return NONE;
  const expected = next.top.map(({ token, probability }) => `${escapeBidi(token)} ${percent(probability)}`).join(", ");
  return { text: escapeBidi(likeliest.token), title: `Expected next: ${expected}`, answer: false };
}

function ofLabel({ labels, predicted, probabilities }: Classes, t: number): Note {
  const label = Array.isArray(predicted) ? (predicted[t] ?? "") : "";
  const row = probabilities?.[t];
  const probability = Array.isArray(row) ? row[labels.indexOf(label)] : null;
  if (OUTSIDE.test(label)) return NONE;
  return { text: escapeBidi(label), title: `${escapeBidi(label)} ${percent(probability)}`, answer: false };
}

// The loss of each entry, in nats: of a merged word the sum over its tokens. The first token has none.
export function lossesOf({ loss }: JsonAnswer, { groups }: Axis): Float64Array | null {
  if (!loss) return null;
  return Float64Array.from(groups, (group) => group.reduce((sum, t) => sum + (loss.tokens[t - 1] ?? 0), 0));
}
