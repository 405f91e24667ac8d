// Everything that decides what is on screen, and how it is written into the address.
//
// The address holds the whole state in its fragment, so a link restores the view and the text never travels
// in a URL to the server. Values equal to their default are left out.
import { EXAMPLES } from "./examples";
import { formatEdits, KIND_NAMES, parseEdits, type Edit } from "./interventions";
import { TIES } from "./pair-heads";
import { PATTERNS } from "./patterns";

export const SUM = -1; // head: the layer's heads summed (the paper's Fig. 12)

export const VIEWS = ["overview", "head", "text", "pairs", "compare", "corpus", "experiment"] as const;
export const SHOWS = ["attention", "similarity", "both"] as const;
export const SCALES = ["linear", "log", "row"] as const;
export const OVERLAYS = ["none", "mask", "regions", "pairs"] as const;
export const DIAGONALS = ["paper", "on", "off"] as const; // paper: on in attention, off in similarity
export const RELATIONS = ["to", "from", "similar"] as const;
export const ANSWERS = ["any", "yes", "no"] as const;
export const MAPS = ["ink", "viridis", "cividis", "grey"] as const;
export const AGAINST = ["head", "text", "model", "off"] as const; // off: the same with a head switched off
export const SIDES = ["first", "second", "both"] as const;
export const METRICS = [
  "none",
  "high_pairs",
  "repeated_share",
  "same_sentence_share",
  "mean_distance",
  "separator_attention",
  "focal_share",
  "attention_entropy",
  "snr_dprime",
  ...PATTERNS,
] as const;
export const ONLY = ["all", ...PATTERNS, "none"] as const; // heads of one pattern, or of none

export const SPACES = ["head", "residual"] as const; // of similarities
export const DISTANCES = ["cka", "js"] as const; // of heads: by their outputs, by their maps
export const PAINTS = ["pattern", "layer"] as const; // of the heads in the plane
// What colours the heads of an experiment: what changed, or the effects of switching each off alone.
export const TONES = ["similarities", "attentions", "hidden_change", "similarity_change", "prediction_kl", "logprob_change"] as const;
export const BYS = ["layers", "heads", "layer"] as const; // layers, every head, the heads of one layer
export const RUN_FIGURE_NAMES = [
  "repeated_share",
  "repeated_lift",
  "same_sentence_share",
  "same_sentence_lift",
  "mean_distance",
  "focal_share",
  "unique_focal",
  "separator_attention",
  "attention_first",
  "attention_self",
  "attention_previous",
  "attention_next",
  "attention_entropy",
] as const;

export const BESIDE_MOST = 7;

export type View = (typeof VIEWS)[number];
export type Show = (typeof SHOWS)[number];
export type Scale = (typeof SCALES)[number];
export type Overlay = (typeof OVERLAYS)[number];
export type Diagonal = (typeof DIAGONALS)[number];
export type Relation = (typeof RELATIONS)[number];
export type Answer = (typeof ANSWERS)[number];
export type MapName = (typeof MAPS)[number];
export type Against = (typeof AGAINST)[number];
export type Side = (typeof SIDES)[number];
export type Only = (typeof ONLY)[number];
export type Metric = (typeof METRICS)[number];
export type Space = (typeof SPACES)[number];
export type Distance = (typeof DISTANCES)[number];
export type Paint = (typeof PAINTS)[number];
export type Tone = (typeof TONES)[number];
export type By = (typeof BYS)[number];
export type RunFigure = (typeof RUN_FIGURE_NAMES)[number];

interface Field<T> {
  initial: T;
  parse(text: string): T | undefined;
  format(value: T): string;
}

const text = (initial: string): Field<string> => ({ initial, parse: (t) => t, format: (v) => v });
const flag = (initial: boolean): Field<boolean> => ({
  initial,
  parse: (t) => (t === "1" ? true : t === "0" ? false : undefined),
  format: (v) => (v ? "1" : "0"),
});
const within = (initial: number, low: number, high: number, whole: boolean): Field<number> => ({
  initial,
  parse: (t) => {
    const v = t.trim() === "" ? NaN : Number(t);
    return v >= low && v <= high && (!whole || Number.isInteger(v)) ? v : undefined;
  },
  format: String,
});
const whole = (initial: number, low: number, high: number): Field<number> => within(initial, low, high, true);
const share = (initial: number): Field<number> => within(initial, 0.01, 1, false);
// Column, row and number of cells in sight of a zoomed map, in hundredths of a cell; none: the whole map.
const zoom: Field<readonly number[]> = {
  initial: [],
  parse: (t) => {
    const values = t.split(".").map(Number);
    return values.length === 3 && values.every((v) => Number.isInteger(v) && v >= 0) && values[2]! > 0
      ? values
      : undefined;
  },
  format: (v) => v.join("."),
};
// Heads as layer.head-layer.head; none: "".
const heads = (most: number): Field<readonly (readonly [number, number])[]> => ({
  initial: [],
  parse: (t) => {
    const read = t.split("-").map((pair) => pair.split(".").map(Number));
    const good = read.every((pair) => pair.length === 2 && pair.every((v) => Number.isInteger(v) && v >= 0));
    return good && read.length <= most ? (read as unknown as [number, number][]) : undefined;
  },
  format: (v) => v.map((pair) => pair.join(".")).join("-"),
});
const oneOf = <T extends string>(values: readonly T[], initial: T): Field<T> => ({
  initial,
  parse: (t) => values.find((v) => v === t),
  format: (v) => v,
});
const indices = (most: number): Field<readonly number[]> => ({
  initial: [],
  parse: (t) => {
    const values = t.split(".").map(Number);
    return values.length <= most && values.every((v) => Number.isInteger(v) && v >= 0) ? values : undefined;
  },
  format: (v) => v.join("."),
});

const edits: Field<readonly Edit[]> = { initial: [], parse: parseEdits, format: formatEdits };

const FIELDS = {
  view: oneOf(VIEWS, "overview"),
  text: text(EXAMPLES[0]!.text),
  pair: text(""),
  model: text(""), // the server's first
  max: whole(128, 2, 1 << 20),
  literal: flag(false), // split_special_tokens
  layer: whole(-1, -1, 9999), // -1: the last
  head: whole(0, SUM, 9999),
  tau: share(0.3),
  atau: share(0.3),
  special: flag(true), // false: special tokens hidden and left out of every figure
  words: flag(false), // word pieces merged to words
  positions: flag(false), // beside the tokens of a map
  map: oneOf(MAPS, "ink"),
  // overview
  show: oneOf(SHOWS, "both"),
  sort: oneOf(METRICS, "none"),
  down: flag(true), // largest first
  least: whole(10, 0, 1 << 20), // high pairs a head needs to be ranked by a figure about them
  tint: oneOf(METRICS, "none"),
  only: oneOf(ONLY, "all"),
  seek: text(""), // heads by number or by words of their pattern
  plane: flag(false), // heads as points, those alike together
  distance: oneOf(DISTANCES, "cka"),
  paint: oneOf(PAINTS, "pattern"),
  column: text("head"), // the table's order; a leading minus: falling
  // head
  scale: oneOf(SCALES, "linear"),
  space: oneOf(SPACES, "head"), // of the similarities in Head and Text
  weigh: flag(false), // there: attention weighed by norms
  diag: oneOf(DIAGONALS, "paper"),
  lines: flag(false), // sentence boundaries upon the maps
  overlay: oneOf(OVERLAYS, "none"),
  zoom, // in Head, and of the first map in Compare
  pin: indices(2), // the cell held by the cross-hair, as two token positions
  // who ties the two chosen tokens
  ties: flag(false),
  tie: oneOf(TIES, "to"),
  // text
  sel: indices(512),
  relation: oneOf(RELATIONS, "similar"),
  arcs: flag(true),
  beside: heads(BESIDE_MOST), // whose lines are drawn beside the head's own
  bands: flag(false),
  sentences: flag(true),
  // pairs
  find: text(""),
  near: whole(1, 1, 1 << 20), // distance from
  far: whole(0, 0, 1 << 20), // distance to; 0: no bound
  same: oneOf(ANSWERS, "any"),
  within: oneOf(ANSWERS, "any"),
  order: text("-normalized"),
  // compare: the second side
  against: oneOf(AGAINST, "head"),
  what: oneOf(["attention", "similarity"] as const, "similarity"),
  text2: text(""),
  pair2: text(""),
  model2: text(""),
  changes: flag(false), // what changed, over all heads
  side: oneOf(SIDES, "both"), // the map whose cell is held
  layer2: whole(0, -1, 9999),
  head2: whole(0, SUM, 9999),
  // experiment
  edits, // what is changed in which heads
  kind: oneOf(KIND_NAMES, "zero"), // what a click on a head does
  factor: within(0.5, -100, 100, false), // of scale
  at: whole(-1, -1, 9999), // the token that is predicted; -1: every [MASK]
  depth: whole(-1, -1, 9999), // the layer after which tokens are compared; -1: the last
  tone: oneOf(TONES, "similarities"),
  lens: flag(false),
  // corpus: two runs
  run: text(""), // the newest that is done
  run2: text(""), // the one before
  level: share(0.3), // one of the runs' thresholds
  by: oneOf(BYS, "layers"),
  figure: oneOf(RUN_FIGURE_NAMES, "repeated_share"),
  rank: text("place"),
  runheads: flag(false), // which head does what, over the first run
  runonly: oneOf(ONLY, "all"),
  runseek: text(""),
  runcolumn: text("-previous"),
};

type Fields = typeof FIELDS;
export type State = { [K in keyof Fields]: Fields[K]["initial"] };

const KEYS = Object.keys(FIELDS) as (keyof State)[];

export const INITIAL = Object.fromEntries(KEYS.map((key) => [key, FIELDS[key].initial])) as State;

// "#view=head&layer=7" -> state. What cannot be read falls back to its default.
export function parseState(fragment: string): State {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  const state: Record<string, unknown> = { ...INITIAL };
  for (const key of KEYS) {
    const value = given.get(key);
    if (value !== null) state[key] = FIELDS[key].parse(value) ?? INITIAL[key];
  }
  return state as State;
}

// The names of what the fragment gives and cannot be read.
export function unreadIn(fragment: string): string[] {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  return KEYS.filter((key) => given.has(key) && FIELDS[key].parse(given.get(key)!) === undefined);
}

export function formatState(state: State): string {
  const out = new URLSearchParams();
  for (const key of KEYS) {
    const write = FIELDS[key].format as (value: unknown) => string;
    const value = write(state[key]);
    if (value !== write(INITIAL[key])) out.set(key, value);
  }
  return out.toString();
}
