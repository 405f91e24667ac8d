// The model's prediction at a token before and after a change, with bars.
import type { Prediction } from "../../../../build/openapi";
import { escapeBidi } from "../../app/bidi";
import { format, percent } from "../../maps/scale";
import { guessesOf, type Guess, type Place } from "./guesses";

export function PredictionCard({ before, after }: { before: Prediction; after: Prediction | null }) {
  const guesses = guessesOf(before, after);
  const probabilities = guesses.flatMap((g) => [g.before?.probability ?? 0, g.after?.probability ?? 0]);
  const top = Math.max(...probabilities, 1e-9);
  const place = `${escapeBidi(before.token ?? "the end")} ${before.position}`;
  return (
    <section class="card prediction">
      <h2>At {place}</h2>
      <p class="muted">{factsOf(before, after)}</p>
      <table>
        <caption class="hidden">Predictions at {place}</caption>
        <thead>
          <tr>
            <th scope="col">Token</th>
            <th scope="col" class="bars">
              <span class="hidden">As bars</span>
            </th>
            {(after ? ["Before", "After"] : ["Probability"]).map((side) => (
              <th key={side} scope="col" class="number">
                {side}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {guesses.map((guess) => (
            <Row key={guess.id} guess={guess} before={before} after={after} top={top} />
          ))}
        </tbody>
      </table>
    </section>
  );
}

function factsOf(before: Prediction, after: Prediction | null): string {
  const both = (write: (one: Prediction) => string): string =>
    after ? `${write(before)} → ${write(after)}` : write(before);
  const there =
    before.rank === null
      ? ""
      : `The token there: ${both(({ probability }) => percent(probability))}, rank ${both(({ rank }) => String(rank))}. `;
  return `${there}Entropy ${both(({ entropy }) => format(entropy))} nats.`;
}

function Row(props: { guess: Guess; before: Prediction; after: Prediction | null; top: number }) {
  const { guess, before, after, top } = props;
  const bar = (place: Place | null, side: string) => (
    <i class={side} style={{ width: `${((place?.probability ?? 0) / top) * 100}%` }} />
  );
  const number = (place: Place | null, side: Prediction) => (
    <td class="number">
      {place ? (
        <>
          {percent(place.probability)} <small>{place.rank}</small>
        </>
      ) : (
        below(side)
      )}
    </td>
  );
  return (
    <tr>
      <th scope="row">{escapeBidi(guess.token)}</th>
      <td class="bars" aria-hidden="true">
        {bar(guess.before, "before")}
        {after && bar(guess.after, "after")}
      </td>
      {number(guess.before, before)}
      {after && number(guess.after, after)}
    </tr>
  );
}

// A token that is not among those answered has less than the last of them.
function below({ top }: Prediction): string {
  const least = percent(top.at(-1)?.probability);
  return least.startsWith("<") ? least : `<\u00a0${least}`;
}
