// Models that write. An encoder-decoder model reads a text and writes a target. It has heads of its encoder, of its decoder,
// and cross heads, which attend from the target's tokens to those of the text. A causal model continues its text.
import type { AnalyzeRequest } from "../../../build/openapi";
import { escapeBidi } from "./bidi";
import { factsOf } from "./model-facts";
import { perObject } from "./per-object";
import type { Stack, State, View } from "./state";

type Written = Pick<State, "model" | "stack" | "target" | "write">;

// Whose heads the state is about, as far as its model has them. Before the list of models is here the link is believed.
export function stackOf({ model, stack }: Pick<State, "model" | "stack">): Stack {
  const facts = factsOf(model);
  return !facts || stack in facts.stacks ? stack : "encoder";
}

export const isCross = (state: Pick<State, "model" | "stack">): boolean => stackOf(state) === "cross";
export const hasDecoder = (model: string): boolean => "decoder" in (factsOf(model)?.stacks ?? {});
export const canContinue = (model: string): boolean => factsOf(model)?.task === "text-generation";

// The text that the decoder reads; "" if it reads none, or what the model writes.
export const targetOf = (state: Written): string => (stackOf(state) === "encoder" ? "" : state.target);

// Tokens that the model writes at most; 0: none. A target that is given is not continued.
export function writtenOf(state: Written): number {
  const { model, target, write } = state;
  if (stackOf(state) !== "encoder") return target ? 0 : write;
  return !factsOf(model) || canContinue(model) ? write : 0;
}

// The languages that a request names, as far as its model has them.
export function languagesOf(
  state: Written & Pick<State, "lang" | "tlang"> & Pick<AnalyzeRequest, "target_ids">,
): Pick<AnalyzeRequest, "source_language" | "target_language"> {
  const facts = factsOf(state.model);
  const has = (code: string): boolean => code !== "" && (facts?.languages.includes(code) ?? true);
  const ofDecoder = stackOf(state) !== "encoder" && (targetOf(state) !== "" || writtenOf(state) > 0);
  const decodes = ofDecoder || state.target_ids !== undefined;
  return {
    ...(has(state.lang) ? { source_language: state.lang } : {}),
    ...(decodes && has(state.tlang) ? { target_language: state.tlang } : {}),
  };
}

// The texts on screen by the type of their tokens, as they are written. "" stands for one that the model wrote. Those of cross
// heads are the text, its second segment and the target.
export const shownTexts = (state: Written & Pick<State, "text" | "pair">): string[] =>
  isCross(state) ? [state.text, state.pair, targetOf(state)] : rowTexts(state);

// Those of the rows alone.
export const rowTexts = (state: Written & Pick<State, "text" | "pair">): string[] =>
  stackOf(state) === "encoder" ? [state.text, state.pair] : [targetOf(state)];

const inQuotes = (text: string, most: number): string =>
  `“${escapeBidi(text.slice(0, most))}${text.length > most ? "…" : ""}”`;

// The texts of a request in a title, cut to so many characters each: with the target of a decoder.
export function quotedTexts({ text = "", stack, text_target, max_new_tokens }: AnalyzeRequest, most: number): string {
  const decodes = stack === "decoder" || stack === "cross";
  if (!decodes || (text_target === undefined && !max_new_tokens)) return inQuotes(text, most);
  return `${inQuotes(text, most)} → ${text_target === undefined ? "written by the model" : inQuotes(text_target, most)}`;
}

// After the name of a head; nothing for one of the encoder.
export const stackNote = (state: Pick<State, "model" | "stack">): string =>
  ({ encoder: "", decoder: " of the decoder", cross: " across to the text" })[stackOf(state)];

// Whose notes these are: heads of another stack are others, and their cells are of the target, too.
export function notedIn(
  state: Written & Pick<State, "text" | "pair">,
  model: string,
): { model: string; text: string; pair: string } {
  const { text, pair } = state;
  const stack = stackOf(state);
  return stack === "encoder" ? { model, text, pair } : { model: `${model} (${stack})`, text, pair: targetOf(state) };
}

// The state as far as cross heads can follow it. Their maps are of two texts: what compares a token with itself or with
// its neighbours has no meaning, and the service counts no figures of them.
const followed = perObject((state: State): State => ({
  ...state,
  ...{ sort: "none", tint: "none", only: "all", seek: "", overlay: "none", diag: "paper", ties: false, bands: false },
  relation: state.relation === "similar" ? "to" : state.relation,
  ...{ what: "similarity", kind: state.kind === "identity" ? "zero" : state.kind },
}));
export const withinStack = (state: State): State => (isCross(state) ? followed(state) : state);

export const CROSS_TOO_LONG =
  "Cross heads are shown whole: of texts and targets of at most 512 tokens each. Set “Tokens at most”.";

// A pinned cell of Head is of a token of the target and one of the text; other views pin two of the target.
export const keepsPin = (state: State, view: View): boolean =>
  !isCross(state) || (state.view === "head") === (view === "head");
