// What the heads of an experiment are coloured by: what the change at hand did to each, or what switching it off alone
// would do.
import type { Changes } from "../../build/openapi";
import type { Theme } from "./colour";
import { lutOf, MIDDLE } from "./colour";
import type { EffectName, Effects } from "./effects";
import type { Tint } from "./head-switches";
import { signedTicksOf, ticksOf, wordsOf } from "./scale";
import type { MapName, Tone } from "./state";

interface About {
  name: string;
  group: "change" | "effect";
  title: string;
}

export const TONE_ABOUT: Record<Tone, About> = {
  similarities: { name: "Change of similarity", group: "change", title: "Norm of the difference over the norm before." },
  attentions: { name: "Change of attention", group: "change", title: "Norm of the difference over the norm before." },
  hidden_change: { name: "Effect on states", group: "effect", title: "‖Δh‖ / ‖h‖ of the last layer, mean over tokens, with the head alone switched off." },
  similarity_change: { name: "Effect on similarity", group: "effect", title: "‖ΔS‖ / ‖S‖, mean over the heads of later layers, with the head alone switched off; 0 in the last." },
  prediction_kl: { name: "Effect on the prediction", group: "effect", title: "KL divergence of the predictions shown, in nats, with the head alone switched off." },
  logprob_change: { name: "Effect on log-probability", group: "effect", title: "Of the chosen token, in nats, with the head alone switched off: below 0 the head had helped it." },
};

export const isEffect = (tone: Tone): tone is Extract<Tone, EffectName> => TONE_ABOUT[tone].group === "effect";

export type Values = readonly (readonly (number | null)[])[]; // [l][h]

export function valuesOf(tone: Tone, changes: Changes | undefined, effects: Effects | null, heads: number): Values | null {
  if (!isEffect(tone)) return changes?.[tone] ?? null;
  return effects && effects.rows.map((row) => (row ? row.map((effect) => effect[tone] ?? null) : Array<null>(heads).fill(null)));
}

export function tintOf(tone: Tone, values: Values, map: MapName, theme: Theme): Tint {
  const known = values.flat().filter((v) => v !== null);
  const signed = tone === "logprob_change";
  const top = Math.max(0, ...known.map(Math.abs));
  const place = (v: number): number => (top > 0 ? v / top : 0);
  return {
    values,
    place: signed ? (v) => (MIDDLE + place(v) * (255 - MIDDLE)) / 255 : place,
    bar: {
      lut: lutOf(map, signed ? "difference" : tone === "attentions" ? "attention" : isEffect(tone) ? "figure" : "similarity", theme),
      label: TONE_ABOUT[tone].name,
      ticks: signed ? signedTicksOf(top, "linear") : ticksOf(top, "linear"),
      words: wordsOf("linear", signed ? -top : 0, top),
    },
  };
}
