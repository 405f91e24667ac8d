// The colours of the tokens: by their relation to the chosen ones, or by their loss.
import type { JsonAnswer } from "../../app/answer";
import type { App } from "../../app/app";
import { isOfTarget } from "../../heads/joint";
import { measureNote } from "../../heads/measures";
import type { Axis, Head } from "../../maps/analysis";
import { lutOf, tinted } from "../../maps/colour";
import type { Bar } from "../../maps/colour-bar";
import { linearBar, placesUpTo } from "../../maps/linear";
import { maximumOf, minimumOf, sizeOf, wordsOf } from "../../maps/scale";
import { classes } from "../../ui/classes";
import type { TokenLook } from "../../ui/text-flow";
import { lossesOf, type Note } from "./notes";
import { ABOUT, relationOf } from "./relation";

export interface Colours {
  bar: Bar;
  fractions: Float64Array; // of the largest value that is not of a chosen token
  low: number;
}

export type Task = JsonAnswer | null | undefined;

export function coloursOf(app: App, head: Head, chosen: readonly number[], task: Task): Colours {
  const { state, theme } = app;
  const losses = state.loss && task ? lossesOf(task, head.axis) : null;
  if (losses) return lossColours(losses, lutOf(state.map, "figure", theme));
  return relationColours(app, relationOf(head, chosen, state.relation), chosen);
}

// `values`: the relation of each entry to the chosen ones.
export function relationColours(app: App, values: Float64Array, chosen: readonly number[]): Colours {
  const { state, theme } = app;
  const { relation, map, tau } = state;
  const { quantity, title } = ABOUT[relation];
  const others = values.map((v, t) => (chosen.includes(t) ? 0 : v));
  const low = Math.min(0, minimumOf(others));
  // Similarities below the threshold stay pale, however small their own maximum.
  const top = relation === "similar" ? Math.max(sizeOf(others), tau) : maximumOf(others);
  const lut = lutOf(map, low < 0 ? "signed" : quantity, theme);
  const bar = linearBar(title + measureNote(quantity, state), lut, top, low < 0);
  return { bar: { ...bar, words: wordsOf("linear", low, top) }, low, fractions: others.map(placesUpTo(top)) };
}

function lossColours(losses: Float64Array, lut: Bar["lut"]): Colours {
  const top = maximumOf(losses);
  return { bar: linearBar("Loss, nats", lut, top), low: 0, fractions: losses.map(placesUpTo(top)) };
}

const FAINT = 0.02; // fractions below it are not coloured

export function lookOf(
  colours: Colours,
  axis: Axis,
  chosen: readonly number[],
  notes: readonly Note[] | null,
  t: number,
): TokenLook {
  const { bar, low, fractions } = colours;
  const isChosen = chosen.includes(t);
  const fraction = fractions[t] ?? 0;
  const place = placesUpTo(1, low < 0)(fraction);
  const first = t === 0 || isOfTarget(axis, t) !== isOfTarget(axis, t - 1); // of its text
  const starts = !first && axis.sentences[t] !== axis.sentences[t - 1];
  const note = notes?.[t];
  return {
    ...(note?.title ? { note: note.text, title: note.title } : {}),
    class: classes(starts && "starts", isChosen && "chosen", note?.answer && "answer"),
    style: Math.abs(fraction) > FAINT ? tinted(bar.lut, place) : {},
    chosen: isChosen,
  };
}
