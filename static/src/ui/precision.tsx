// The precision of a model beside its name, if it is not fp32. docs/explanation/performance.md has the differences.
import type { Model } from "../app/api";
import { useApp } from "./context";

type Precision = Model["precision"] | null | undefined;

const MEANINGS: Record<Exclude<Model["precision"], "fp32">, string> = {
  int24:
    "Weights and activations have 24 bits, as integers with a scale for each token and output. " +
    "Figures are within a few times the rounding of fp32 of the float64 reference.",
  bf16:
    "Weights and activations are rounded to bfloat16. Good for exploring and for large corpora; figures should be computed in fp32. " +
    "In the built-in model attention moves by at most 0.028, normalised similarity by 0.05, and one pair in 370 changes at τ = 0.3.",
  int8:
    "Weights and activations are rounded to bytes. Good for exploring, not for figures. " +
    "In the built-in model attention moves by at most 0.067, normalised similarity by up to 0.71, and one pair in 60 changes at τ = 0.3.",
};

export function PrecisionBadge({ of }: { of: Precision }) {
  if (!of || of === "fp32") return null;
  return (
    <span class="badge" role="note" title={MEANINGS[of]} aria-label={`${of}: ${MEANINGS[of]}`}>
      {of}
    </span>
  );
}

export function ModelBadge({ name }: { name?: string }) {
  return <PrecisionBadge of={useApp().model(name)?.precision} />;
}
