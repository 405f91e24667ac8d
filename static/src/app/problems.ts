// JSON pointer of a problem -> the field of the panel it is about.

import { capital } from "./words";

export type FieldName = "text" | "pair" | "model" | "max" | "tau" | "atau";

const FIELDS: Record<string, FieldName> = {
  "/text": "text",
  "/text_pair": "pair",
  "/model": "model",
  "/max_tokens": "max",
  "/threshold": "tau",
  "/attention_threshold": "atau",
};

const LABELS: Record<FieldName, string> = {
  text: "Text",
  pair: "Second segment",
  model: "Model",
  max: "Tokens at most",
  tau: "Similarity τ",
  atau: "Attention τ",
};

// The problem in the words of the page: a field has the name of its control.
export function inWords({ detail, pointer }: { detail: string; pointer: string }, label = labelOf(pointer)): string {
  const named = label && detail.startsWith(`${pointer.slice(1)} `) ? label + detail.slice(pointer.length - 1) : detail;
  return capital(named);
}

// True if the same request can succeed later: the server is gone, busy or failed.
export const canRetry = (status: number): boolean => status < 400 || status >= 500 || [408, 429].includes(status);

export const fieldOf = (pointer: string): FieldName | null => FIELDS[pointer] ?? null;
function labelOf(pointer: string): string {
  const field = fieldOf(pointer);
  return field ? LABELS[field] : "";
}
