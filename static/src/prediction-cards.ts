// What the model says at a token before and after: the likeliest tokens of either, each with both probabilities.
import type { Prediction, PredictedToken } from "../../build/openapi";
import { h, type Child } from "./dom";
import { format, percent } from "./scale";
import { visible } from "./visible";

const LISTED = 6; // likeliest tokens of each side

export interface Guess {
  id: number;
  token: string;
  before: Place | null; // null: not among those answered
  after: Place | null;
}
interface Place {
  rank: number; // from 1
  probability: number;
}

// The likeliest of both sides, as they stand after (or before, where nothing was changed).
export function guessesOf(before: Prediction, after: Prediction | null, listed = LISTED): Guess[] {
  const place = (top: readonly PredictedToken[] | undefined, id: number): Place | null => {
    const at = top?.findIndex((one) => one.id === id) ?? -1;
    return at < 0 ? null : { rank: at + 1, probability: top![at]!.probability ?? NaN };
  };
  const known = new Map<number, string>();
  for (const side of [after, before]) for (const { id, token } of side?.top.slice(0, listed) ?? []) known.set(id, token);
  const guesses = [...known].map(([id, token]) => ({ id, token, before: place(before.top, id), after: place(after?.top, id) }));
  const rank = (guess: Guess): number => (after ? guess.after : guess.before)?.rank ?? Infinity;
  const difference = (a: number, b: number): number => (a === b ? 0 : a - b);
  return guesses.sort((a, b) => difference(rank(a), rank(b)) || difference(a.before?.rank ?? Infinity, b.before?.rank ?? Infinity));
}

export function predictionCard(before: Prediction, after: Prediction | null): HTMLElement {
  const guesses = guessesOf(before, after);
  const top = Math.max(...guesses.flatMap((g) => [g.before?.probability ?? 0, g.after?.probability ?? 0]), 1e-9);
  const sides = after ? ["Before", "After"] : ["Probability"];
  const name = `What stands at ${visible(before.token)} ${before.position}`;
  return h(
    "section",
    { class: "card prediction" },
    h("h2", {}, `At ${visible(before.token)} ${before.position}`),
    h("p", { class: "muted" }, factsOf(before, after)),
    h(
      "table",
      {},
      h("caption", { class: "hidden" }, name),
      h(
        "thead",
        {},
        h("tr", {}, h("th", { scope: "col" }, "Token"), h("th", { scope: "col", class: "bars" }, h("span", { class: "hidden" }, "As bars")), sides.map((side) => h("th", { scope: "col", class: "number" }, side))),
      ),
      h("tbody", {}, guesses.map((guess) => row(guess, before, after, top))),
    ),
  );
}

function factsOf(before: Prediction, after: Prediction | null): Child[] {
  const both = (a: string, b: string | undefined): string => (b === undefined ? a : `${a} → ${b}`);
  const there =
    before.rank === null
      ? ""
      : `The token there: ${both(percent(before.probability), after ? percent(after.probability) : undefined)}, ` +
        `rank ${both(String(before.rank), after ? String(after.rank) : undefined)}. `;
  return [there, `Entropy ${both(format(before.entropy), after ? format(after.entropy) : undefined)} nats.`];
}

function row(guess: Guess, before: Prediction, after: Prediction | null, top: number): HTMLElement {
  const bar = (place: Place | null, side: string): HTMLElement => {
    const line = h("i", { class: side });
    line.style.width = `${((place?.probability ?? 0) / top) * 100}%`;
    return line;
  };
  const number = (place: Place | null, side: Prediction): HTMLElement =>
    h("td", { class: "number" }, place ? [percent(place.probability), " ", h("small", {}, place.rank)] : below(side));
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, visible(guess.token)),
    h("td", { class: "bars", "aria-hidden": "true" }, bar(guess.before, "before"), after && bar(guess.after, "after")),
    number(guess.before, before),
    after && number(guess.after, after),
  );
}

// A token that is not among those answered has less than the last of them.
function below({ top }: Prediction): string {
  const least = percent(top.at(-1)?.probability);
  return least.startsWith("<") ? least : `<\u00a0${least}`;
}
