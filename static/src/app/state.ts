// Everything that decides what is on screen. The address holds all of it in its fragment, so a link restores the view
// and the text never travels to the server in a URL. Fields at their defaults are left out.
import { SUM } from "../heads/selection";
import { MAPS } from "../maps/colour";
import { COMPARE_FIELDS } from "../views/compare/state";
import { CORPUS_FIELDS } from "../views/corpus/state";
import { EXPERIMENT_FIELDS } from "../views/experiment/state";
import { HEAD_FIELDS } from "../views/head/state";
import { OVERVIEW_FIELDS } from "../views/overview/state";
import { PAIRS_FIELDS } from "../views/pairs/state";
import { TEXT_FIELDS } from "../views/text/state";
import { TRACE_FIELDS } from "../views/trace/state";
import { EXAMPLES } from "./examples";
import { flag, fraction, integer, oneOf, text, type Field, type ValuesOf } from "./fields";

export const VIEWS = ["overview", "head", "text", "pairs", "compare", "corpus", "experiment", "trace"] as const;
export type View = (typeof VIEWS)[number];

const FIELDS = {
  view: oneOf(VIEWS, "overview"),
  text: text(EXAMPLES[0].text),
  pair: text(),
  model: text(), // "": the server's first, until the server has named it
  sha: text(), // the beginning of its checksum when the link was made
  max: integer(0, 0, 1 << 20), // tokens; 0: the service’s default, which no model refuses
  literal: flag(), // split_special_tokens
  prompt: text(), // "": the model's default, "=": none, "=query": the one of this name
  layer: integer(-1, -1, 9999), // -1: that of the most telling head
  head: integer(0, SUM, 9999),
  tau: fraction(0.3),
  atau: fraction(0.3),
  special: flag(true), // false: special tokens hidden and left out of every figure
  words: flag(), // word pieces merged to words
  positions: flag(), // beside the tokens of a map
  map: oneOf(MAPS, "ink"),
  ...OVERVIEW_FIELDS,
  ...HEAD_FIELDS,
  ...TEXT_FIELDS,
  ...PAIRS_FIELDS,
  ...COMPARE_FIELDS,
  ...EXPERIMENT_FIELDS,
  ...TRACE_FIELDS,
  ...CORPUS_FIELDS,
};

export type State = ValuesOf<typeof FIELDS>;

const ENTRIES = Object.entries(FIELDS) as [keyof State, Field<unknown>][];

export const INITIAL = Object.fromEntries(ENTRIES.map(([key, { initial }]) => [key, initial])) as State;

// "#view=head&layer=7" -> the state, and the names of the fields that cannot be read. Those keep their defaults.
export function parseState(fragment: string): { state: State; unread: string[] } {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  const state: Record<string, unknown> = { ...INITIAL };
  const unread: string[] = given.has("link") ? ["link"] : []; // version 1.0 kept views under short names
  for (const [key, { parse }] of ENTRIES) {
    const value = given.get(key);
    if (value === null) continue;
    const read = parse(value);
    if (read === undefined) unread.push(key);
    else state[key] = read;
  }
  return { state: state as State, unread };
}

export function formatState(state: State): string {
  const out = new URLSearchParams();
  for (const [key, { format }] of ENTRIES) {
    const value = format(state[key]);
    // With the model's name the text is written too: another server has others by default.
    if (value !== format(INITIAL[key]) || (key === "text" && state.model)) out.set(key, value);
  }
  return out.toString();
}
