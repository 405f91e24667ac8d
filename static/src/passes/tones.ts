// The colours of an experiment's heads: how the change moved each of them, or the effect of switching each off alone.
import type { Changes, Effect } from "../../../build/openapi";
import type { Theme } from "../app/theme";
import { lutOf, type MapName } from "../maps/colour";
import { linearTint, type Tint, type Values } from "../heads/tint";
import type { Target } from "./target";

interface About {
  name: string;
  group: "change" | "effect";
  title: string;
}

export const TONE_ABOUT = {
  similarities: {
    name: "Change of similarity",
    group: "change",
    title: "Norm of the difference over the norm before.",
  },
  attentions: { name: "Change of attention", group: "change", title: "Norm of the difference over the norm before." },
  hidden_change: {
    name: "Effect on states",
    group: "effect",
    title: "‖Δh‖ / ‖h‖ of the last layer, mean over tokens, with the head alone switched off.",
  },
  similarity_change: {
    name: "Effect on similarity",
    group: "effect",
    title: "‖ΔS‖ / ‖S‖, mean over the heads of later layers, with the head alone switched off; 0 in the last.",
  },
  prediction_kl: {
    name: "Effect on the prediction",
    group: "effect",
    title: "KL divergence of the predictions shown, in nats, with the head alone switched off.",
  },
  logprob_change: {
    name: "Effect on log-probability",
    group: "effect",
    title: "Of the chosen token, in nats, with the head alone switched off: below 0 the head had helped it.",
  },
  target_change: {
    name: "Effect on the result",
    group: "effect",
    title: "Change of the number watched, with the head alone switched off: below 0 the head had raised it.",
  },
  class_kl: {
    name: "Effect on all classes",
    group: "effect",
    title: "KL divergence of the classes’ probabilities, in nats, with the head alone switched off.",
  },
} as const satisfies Record<string, About>;

export type Tone = keyof typeof TONE_ABOUT;
export const TONES = Object.keys(TONE_ABOUT) as Tone[];
const OF_PREDICTIONS: readonly Tone[] = ["prediction_kl", "logprob_change"];

// The colours that a model has; some need predictions, or a result of its own head.
export const tonesOf = (predicts: boolean, target: Target | null): Tone[] =>
  TONES.filter(
    (tone) =>
      (predicts || !OF_PREDICTIONS.includes(tone)) &&
      (tone !== "target_change" || target !== null) &&
      (tone !== "class_kl" || target?.hasClasses),
  );

export interface HeadTint extends Tint {
  estimated(this: void, layer: number, head: number): boolean; // the value is a first-order estimate
}

export type EffectRows = readonly (readonly Effect[] | null)[]; // [l][h]; null: not here yet

export const isEffect = (tone: Tone): tone is Extract<Tone, keyof Effect> => TONE_ABOUT[tone].group === "effect";

export function valuesOf(
  tone: Tone,
  changes: Changes | undefined,
  effects: EffectRows | null,
  heads: number,
): Values | null {
  if (!isEffect(tone)) return changes?.[tone] ?? null;
  return (
    effects && effects.map((row) => (row ? row.map((effect) => effect[tone] ?? null) : Array<null>(heads).fill(null)))
  );
}

// `effects`: those that the values are of, if they are.
export function tintOf(
  tone: Tone,
  values: Values,
  map: MapName,
  theme: Theme,
  effects: EffectRows | null = null,
): HeadTint {
  const signed = tone === "logprob_change" || tone === "target_change";
  const quantity = signed
    ? "difference"
    : tone === "attentions"
      ? "attention"
      : isEffect(tone)
        ? "figure"
        : "similarity";
  return {
    ...linearTint(values, TONE_ABOUT[tone].name, lutOf(map, quantity, theme), signed),
    estimated: (l, h) => effects?.[l]?.[h]?.estimated ?? false,
  };
}
