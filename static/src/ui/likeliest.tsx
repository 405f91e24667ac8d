// The likeliest tokens before and after a change, each with both probabilities, and a table of them with bars.
import type { Prediction, PredictedToken } from "../../../build/openapi";
import { escapeBidi } from "../app/bidi";
import { percent } from "../maps/scale";
import { BarTable } from "./bars";
import { difference } from "./sortable";

type Likeliest = Pick<Prediction, "top">;

export const LISTED = 6; // likeliest tokens of each side

interface Guess {
  id: number;
  token: string;
  before: Place | null; // null: not among those answered
  after: Place | null;
}
interface Place {
  rank: number; // from 1
  probability: number;
}

// The likeliest tokens of both sides, in their order after the change (or before, if nothing is changed).
export function guessesOf(before: Likeliest, after: Likeliest | null, listed = LISTED): Guess[] {
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

// `after`: null if nothing is changed. Small numbers are ranks.
export function LikeliestTokens(props: {
  caption: string;
  head?: string;
  before: Likeliest;
  after: Likeliest | null;
  listed?: number;
}) {
  const { before, after, listed } = props;
  const bar = (found: Place | null, side: Likeliest) => ({
    size: found?.probability ?? 0,
    written: found ? (
      <>
        {percent(found.probability)} <small>{found.rank}</small>
      </>
    ) : (
      below(side)
    ),
  });
  const rows = guessesOf(before, after, listed).map((guess) => ({
    key: guess.id,
    name: escapeBidi(guess.token),
    before: bar(guess.before, before),
    after: after && bar(guess.after, after),
  }));
  return <BarTable caption={props.caption} head={props.head ?? "Token"} what="Probability" rows={rows} />;
}

// A token outside the answer's list is less probable than the last one in it.
function below({ top }: Likeliest): string {
  const least = percent(top.at(-1)?.probability);
  return least.startsWith("<") ? least : `<\u00a0${least}`;
}
