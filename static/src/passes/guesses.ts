// The likeliest tokens before and after a change, each with both probabilities.
import type { Prediction, PredictedToken } from "../../../build/openapi";
import { difference } from "../ui/sortable";

export const LISTED = 6; // likeliest tokens of each side

interface Guess {
  id: number;
  token: string;
  before: Place | null; // null: not among those answered
  after: Place | null;
}
export interface Place {
  rank: number; // from 1
  probability: number;
}

// The likeliest tokens of both sides, in their order after the change (or before, if nothing is changed).
export function guessesOf(before: Prediction, after: Prediction | null, listed = LISTED): Guess[] {
  const place = (top: readonly PredictedToken[] | undefined, id: number): Place | null => {
    const at = top?.findIndex((one) => one.id === id) ?? -1;
    return at < 0 ? null : { rank: at + 1, probability: top?.[at]?.probability ?? NaN };
  };
  const known = new Map<number, string>();
  for (const side of [after, before])
    for (const { id, token } of side?.top.slice(0, listed) ?? []) known.set(id, token);
  const guesses = [...known].map(([id, token]) => ({
    id,
    token,
    before: place(before.top, id),
    after: place(after?.top, id),
  }));
  const rank = (guess: Guess): number => (after ? guess.after : guess.before)?.rank ?? Infinity;
  return guesses.sort(
    (a, b) => difference(rank(a), rank(b)) || difference(a.before?.rank ?? Infinity, b.before?.rank ?? Infinity),
  );
}
