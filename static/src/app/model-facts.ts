// Facts about models that answers leave out, from the server's list.
import type { Model } from "../../../build/openapi";

const known = new Map<string, Model>(); // by name
let first = ""; // the server's default

export function learnModels(models: readonly Model[]): void {
  models.forEach((model) => known.set(model.name, model));
  first = models[0]?.name ?? first;
}

// Undefined before the list is here, and for files.
export const factsOf = (name: string): Model | undefined => known.get(name || first);

export const tokenizerOf = (name: string): Model["tokenizer"] | undefined => known.get(name)?.tokenizer;
export const isCausal = (name: string): boolean => known.get(name)?.causal ?? false;
