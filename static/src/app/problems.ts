// JSON pointer of a problem -> the field of the panel it is about.

import { capital } from "./words";

export type FieldName = "text" | "pair" | "target" | "write" | "lang" | "tlang" | "model" | "max" | "tau" | "atau";

const FIELDS: Record<string, FieldName> = {
  "/text": "text",
  "/text_pair": "pair",
  "/text_target": "target",
  "/max_new_tokens": "write",
  "/source_language": "lang",
  "/target_language": "tlang",
  "/model": "model",
  "/max_tokens": "max",
  "/threshold": "tau",
  "/attention_threshold": "atau",
};

const LABELS: Record<FieldName, string> = {
  text: "Text",
  pair: "Second segment",
  target: "Target text",
  write: "New tokens at most",
  lang: "Language of the text",
  tlang: "Language of the target",
  model: "Model",
  max: "Tokens at most",
  tau: "Similarity τ",
  atau: "Attention τ",
};

const NO_TARGET = "The decoder has no text to read. Type the target text, or let the model write it.";
const NO_LANGUAGE = "Choose the language of the target.";
const NO_NUMBER =
  "The model predicts nothing here, so there is no number to follow. Put a mask, such as [MASK], in place of a token, or take a model with a head for classes, answers or next tokens.";

// The problem in the words of the page: a field has the name of its control.
export function inWords({ detail, pointer }: { detail: string; pointer: string }, label = labelOf(pointer)): string {
  if (pointer === "/text_target" && detail.startsWith("the decoder has no text")) return NO_TARGET;
  if (pointer === "/target_language" && detail.startsWith("the target needs a language")) return NO_LANGUAGE;
  if (detail.startsWith("gradients require target")) return NO_NUMBER;
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
