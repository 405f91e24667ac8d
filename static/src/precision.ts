// What a model's numbers are rounded to, where it is not fp32: a word beside its name, so that nobody takes its figures
// for exact ones. The differences are those of docs/performance.md.
import type { Model } from "./api";
import { h } from "./dom";

const MEANINGS: Record<Exclude<Model["precision"], "fp32">, string> = {
  bf16:
    "Weights and activations are rounded to bfloat16. Good for exploring and for large corpora; figures should be computed in fp32. " +
    "In the built-in model attention moves by at most 0.028, normalised similarity by 0.05, and one pair in 370 changes at τ = 0.3.",
  int8:
    "Weights and activations are rounded to bytes. Good for exploring, not for figures. " +
    "In the built-in model attention moves by at most 0.067, normalised similarity by up to 0.71, and one pair in 60 changes at τ = 0.3.",
};

// Empty for fp32, and where it is not known.
export const roundedTo = (precision: Model["precision"] | null | undefined): "" | keyof typeof MEANINGS =>
  precision === "fp32" || !precision ? "" : precision;

// name "": the server's first.
export const precisionOf = (models: readonly Model[], name: string): "" | keyof typeof MEANINGS =>
  roundedTo((name ? models.find((model) => model.name === name) : models[0])?.precision);

export class PrecisionBadge {
  readonly element = h("span", { class: "badge", role: "note", hidden: true });

  update(models: readonly Model[], name: string): void {
    this.show(precisionOf(models, name));
  }

  show(precision: "" | keyof typeof MEANINGS): void {
    this.element.hidden = !precision;
    if (!precision || this.element.textContent === precision) return;
    this.element.textContent = precision;
    this.element.title = MEANINGS[precision];
    this.element.setAttribute("aria-label", `${precision}: ${MEANINGS[precision]}`);
  }
}
