// JSON pointer of a problem -> the field of the panel it is about.

export type FieldName = "text" | "pair" | "model" | "max" | "tau" | "atau";

const FIELDS: Record<string, FieldName> = {
  "/text": "text",
  "/text_pair": "pair",
  "/model": "model",
  "/max_tokens": "max",
  "/threshold": "tau",
  "/attention_threshold": "atau",
};

export const fieldOf = (pointer: string): FieldName | null => FIELDS[pointer] ?? null;
