// The predictions at a token after each layer: the likeliest tokens, layer by layer.
import type { PredictedToken, Prediction } from "../../../../build/openapi";
import { escapeBidi } from "../../app/bidi";
import { tinted, type Lut } from "../../maps/colour";
import { format, percent } from "../../maps/scale";
import { levelName } from "../../ui/levels";

const RANKS = ["1st", "2nd", "3rd", "4th", "5th"];
export const LENS_TOP = RANKS.length;
const NARROW = 3; // ranks that fit a narrow window
const rankClass = (n: number): string => (n < NARROW ? "" : "wide");

// `side`: "Before" or "After"; "" if nothing is changed.
// `place`: of the prediction, in words.
export function LensTable({ place, of, side, lut }: { place: string; of: Prediction; side: string; lut: Lut }) {
  const { layers = [], rank, top } = of;
  const known = rank !== null; // the token that is there
  const name = `Lens ${place.replace(/^A/, "a")}${side ? `, ${side.toLowerCase()}` : ""}`;
  const cell = ({ id, token: text, probability }: PredictedToken, n: number) => {
    return (
      <td
        key={n}
        class={`${id === top[0]?.id ? "answered" : ""} ${rankClass(n)}`}
        title={`${escapeBidi(text)}: ${percent(probability)}`}
        style={tinted(lut, Math.sqrt(probability ?? 0))}
      >
        <span>{escapeBidi(text)}</span>
        <small>{percent(probability)}</small>
      </td>
    );
  };
  return (
    <div class="lens-table" tabIndex={0} role="region" aria-label={name}>
      <table>
        <caption>
          {name}
          <span class="narrow">{` (the first ${NARROW} of ${LENS_TOP}; the others in a wider window)`}</span>
        </caption>
        <thead>
          <tr>
            <th scope="col">After</th>
            {RANKS.map((words, n) => (
              <th key={words} scope="col" class={rankClass(n)}>
                {words}
              </th>
            ))}
            {known && (
              <th scope="col" class="number" title="Of the token of the text">
                Its rank
              </th>
            )}
            <th scope="col" class="number" title="In nats">
              Entropy
            </th>
          </tr>
        </thead>
        <tbody>
          {layers.map((reading, n) => (
            <tr key={n}>
              <th scope="row">{levelName(n)}</th>
              {reading.top.slice(0, LENS_TOP).map(cell)}
              {known && <td class="number">{reading.rank}</td>}
              <td class="number">{format(reading.entropy)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
