// Facts about models that answers leave out, from the server's list.
import type { Model } from "../../../build/openapi";

const known = new Map<string, Model>(); // by name

export const learnModels = (models: readonly Model[]): void => models.forEach((model) => known.set(model.name, model));

export const tokenizerOf = (name: string): Model["tokenizer"] | undefined => known.get(name)?.tokenizer;
export const isCausal = (name: string): boolean => known.get(name)?.causal ?? false;
