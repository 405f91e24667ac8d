// The colours of the tokens: by their relation to the chosen ones, or by their loss.
import type { JsonAnswer } from "../../app/answer";
import type { App } from "../../app/app";
import { isOfTarget } from "../../heads/joint";
import { measureNote } from "../../heads/measures";
import type { Axis } from "../../maps/analysis";
import { lutOf, tinted } from "../../maps/colour";
import type { Bar } from "../../maps/colour-bar";
import { linearBar, placesUpTo } from "../../maps/linear";
import { maximumOf, minimumOf, sizeOf, wordsOf } from "../../maps/scale";
import { METHOD_ABOUT, type Attributing, type Attribution } from "../../passes/attribution";
import { classes } from "../../ui/classes";
import type { TokenLook } from "../../ui/text-flow";
import { lossesOf, type Note } from "./notes";
import { ABOUT, relationOf, type Rows } from "./rows";

export interface Colours {
  bar: Bar;
  fractions: Float64Array; // of the largest value that is not of a chosen token
  low: number;
}

export type Task = JsonAnswer | null | undefined;

// Null while the requested attributions, or relations of a long text, are not here.
export function coloursOf(
  app: App,
  rows: Rows,
  chosen: readonly number[],
  task: Task,
  attributing: Attributing | null,
): Colours | null {
  const { state, theme } = app;
  if (attributing) return attributing.attribution && attributionColours(app, attributing.attribution);
  const losses = state.loss && task ? lossesOf(task, rows.axis) : null;
  if (losses) return lossColours(losses, lutOf(state.map, "figure", theme));
  const values = relationOf(rows, chosen, state.relation);
  return values && relationColours(app, values, chosen);
}

// `values`: the relation of each entry to the chosen ones.
function relationColours({ state, theme }: App, values: Float64Array, chosen: readonly number[]): Colours {
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

function attributionColours({ state, theme }: App, { method, values, top }: Attribution): Colours {
  const signed = method !== "gradient";
  const lut = lutOf(state.map, signed ? "difference" : "figure", theme);
  const share = placesUpTo(top);
  return {
    bar: linearBar(`Attribution, ${METHOD_ABOUT[method].name.toLowerCase()}`, lut, top, signed),
    low: signed ? -top : 0,
    fractions: values.map(share),
  };
}

function lossColours(losses: Float64Array, lut: Bar["lut"]): Colours {
  const top = maximumOf(losses);
  return { bar: linearBar("Loss, nats", lut, top), low: 0, fractions: losses.map(placesUpTo(top)) };
}

const FAINT = 0.02; // fractions below it are not coloured

export function lookOf(
  colours: Colours | null,
  axis: Axis,
  chosen: readonly number[],
  notes: readonly Note[] | null,
  t: number,
): TokenLook {
  const isChosen = chosen.includes(t);
  const fraction = colours?.fractions[t] ?? 0;
  const style =
    colours && Math.abs(fraction) > FAINT ? tinted(colours.bar.lut, placesUpTo(1, colours.low < 0)(fraction)) : null;
  const first = t === 0 || isOfTarget(axis, t) !== isOfTarget(axis, t - 1); // of its text
  const starts = !first && axis.sentences[t] !== axis.sentences[t - 1];
  const note = notes?.[t];
  return {
    ...(note?.title ? { note: note.text, title: note.title } : {}),
    // A frame shows a chosen token that has a colour of its own.
    class: classes(starts && "starts", isChosen && "chosen", isChosen && style && "held", note?.answer && "answer"),
    style: style ?? {},
    chosen: isChosen,
  };
}
