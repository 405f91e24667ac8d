// Everything that decides what is on screen. The address holds all of it in its fragment, so a link restores the view
// and the text never travels to the server in a URL. Fields at their defaults are left out. Here are the fields that
// requests are made of; a part of the viewer that has more adds them in a file "state.ts" of its own.
import { EXAMPLES } from "./examples";
import { flag, fraction, integer, oneOf, text, type Field, type ValuesOf } from "./fields";
import { SUM } from "./selection";

// The sections of the page, and the views that are the parts of each.
export const SECTIONS = {
  Heads: ["overview"],
  Head: ["head", "text", "pairs"],
  "What if": ["experiment", "compare", "trace"],
  Corpus: ["corpus"],
} as const;
export type Section = keyof typeof SECTIONS;
export type View = (typeof SECTIONS)[Section][number];
export const VIEWS: readonly View[] = Object.values(SECTIONS).flat();

export const STACKS = ["encoder", "decoder", "cross"] as const; // of an encoder-decoder model
export type Stack = (typeof STACKS)[number];

export const WRITTEN_MOST = 128; // tokens that a model writes

const ROWS = new Map<keyof State, Field<unknown>>(); // in the order of links
export const INITIAL = {} as State;

export const fieldOf = (key: keyof State): Field<unknown> | undefined => ROWS.get(key);

const FIELDS = {
  view: oneOf(VIEWS, "overview"),
  text: text(EXAMPLES[0].text),
  pair: text(),
  model: text(), // "": the server's first, until the server has named it
  // For models that write: whose heads are shown, what the decoder reads, and how many tokens the model writes at most.
  stack: oneOf(STACKS, "encoder", "Heads of", {
    encoder: "the encoder",
    decoder: "the decoder",
    cross: "cross, target to text",
  }),
  target: text(),
  write: integer(0, 0, WRITTEN_MOST),
  lang: text(), // of the text, and of the target, for models with languages; "": the model's default
  tlang: text(),
  sha: text(), // the beginning of its checksum when the link was made
  max: integer(0, 0, 1 << 20), // tokens; 0: the service’s default, which no model refuses
  window: integer(-1, -1, 262143), // of a text longer than max, counted from 0; -1: the text is cut off
  literal: flag(), // split_special_tokens
  prompt: text(), // "": the model's default, "=": none, "=query": the one of this name
  layer: integer(-1, -1, 9999), // -1: that of the most telling head
  head: integer(0, SUM, 9999),
  tau: fraction(0.3, "Similarity τ", "A pair is high when its similarity reaches this fraction of the head's maximum"),
  atau: fraction(
    0.3,
    "Attention τ",
    "A token gathers attention when its column sum reaches this fraction of the largest",
  ),
  special: flag(true), // false: special tokens hidden and left out of every figure
  words: flag(false, "Merge word pieces", "Attention to a word is the sum over its pieces, from it their mean"),
};

export interface State extends ValuesOf<typeof FIELDS> {}

type FieldsOf<K extends keyof State> = { readonly [Name in K]: Field<State[Name]> };

function add(fields: Partial<FieldsOf<keyof State>>): void {
  for (const [key, field] of Object.entries(fields) as [keyof State, Field<unknown>][]) {
    ROWS.set(key, field);
    Object.assign(INITIAL, { [key]: field.initial });
  }
}
add(FIELDS);

// Adds the fields of the parts above: all that their files "state.ts" declare.
export const addFields = (fields: FieldsOf<Exclude<keyof State, keyof typeof FIELDS>>): void => add(fields);

// Returns the state of a page without a fragment: the first example, its similarities centred. Every other text begins
// with S as in the paper.
export const firstPage = (): State => ({ ...INITIAL, center: true });
// True if this leaves the first example, whose centring ends with it.
export const leavesFirst = ({ text, pair }: State, next: Partial<State>): boolean =>
  text === INITIAL.text && pair === "" && ((next.text ?? text) !== text || (next.pair ?? "") !== "");

// "#view=head&layer=7" -> the state, and the names of the fields that cannot be read. Those keep their defaults.
export function parseState(fragment: string): { state: State; unread: string[] } {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  const state: Record<string, unknown> = { ...INITIAL };
  const unread: string[] = given.has("link") ? ["link"] : []; // version 1.0 kept views under short names
  for (const [key, { parse }] of ROWS) {
    const value = given.get(key);
    if (value === null) continue;
    const read = parse(value);
    if (read === undefined) unread.push(key);
    else state[key] = read;
  }
  return { state: state as unknown as State, unread };
}

export function formatState(state: State): string {
  const out = new URLSearchParams();
  for (const [key, { format }] of ROWS) {
    const value = format(state[key]);
    // With the model's name the text is written too: another server has others by default.
    if (value !== format(INITIAL[key]) || (key === "text" && state.model)) out.set(key, value);
  }
  return out.toString();
}
