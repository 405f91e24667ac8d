// The figures a head can be sorted and coloured by, with their names.
import type { HeadScore } from "../../../build/openapi";
import type { Summary } from "../app/answer";
import { labelOf, PATTERNS, strengthOf, type Pattern, type Profile, type Strengths } from "./patterns";
import { format, percent } from "../maps/scale";

// The figures of one head in this text. Its profile comes with its attention map. `sample` is of the model's sample text,
// the scores are of the model.
export interface Known extends Summary {
  profile?: Profile;
  sample?: Strengths | undefined;
  scores?: HeadScore | undefined;
}
interface About {
  name: string;
  short: string;
  title: string;
  ofPairs?: true; // about the high pairs: says little when they are few
  write(value: number | null): string;
}

const COUNTED = {
  high_pairs: {
    name: "High pairs",
    short: "pairs",
    write: (v) => (v === null ? "–" : v.toLocaleString("en")),
    title: "Token pairs whose similarity reaches the threshold",
  },
  repeated_share: {
    ofPairs: true,
    name: "Repeated tokens",
    short: "repeated",
    write: percent,
    title: "Fraction of high pairs that are one token twice (paper, Fig. 6)",
  },
  same_sentence_share: {
    ofPairs: true,
    name: "Same sentence",
    short: "same sent.",
    write: percent,
    title: "Fraction of high pairs within one sentence (paper, Fig. 8)",
  },
  mean_distance: {
    ofPairs: true,
    name: "Mean distance",
    short: "distance",
    write: format,
    title: "Mean distance of high pairs, in tokens (paper, Fig. 7)",
  },
  separator_attention: {
    name: "Separator attention",
    short: "separators",
    write: percent,
    title: "Fraction of attention on [CLS], [SEP] and sentence ends (paper, Fig. 4)",
  },
  focal_share: {
    ofPairs: true,
    name: "Focal share",
    short: "focal",
    write: percent,
    title: "Fraction of high pairs that hold the head's commonest token (paper, Fig. 11)",
  },
  attention_entropy: {
    name: "Attention entropy",
    short: "entropy",
    write: format,
    title: "Mean entropy of the attention rows, in nats: low is focused, high is even",
  },
  snr_dprime: {
    name: "d′ signal to noise",
    short: "d′",
    write: format,
    title: "Separation of same-token or same-sentence pairs from the rest",
  },
} satisfies Record<string, About>;

// Scores of a head that hold for any text, measured on random sequences that are repeated.
const SCORED = {
  induction: {
    name: "Induction score",
    short: "induction",
    write: percent,
    title: "Looks at the token that followed the same token before: attention there on repeated random sequences",
  },
  duplicate: {
    name: "Duplicate-token score",
    short: "duplicate",
    write: percent,
    title: "Attention to the same token before, on repeated random sequences",
  },
} satisfies Record<string, About>;
type Scored = keyof typeof SCORED;
export const isScore = (figure: Metric): figure is Scored => figure in SCORED;
const INDUCTION_LEAST = 0.4; // a head's score to be called an induction head

type Counted = keyof typeof COUNTED;
export type Figure = Counted | Pattern | Scored;
export type Label = Pattern | "induction";

// The patterns as every list, filter and tooltip names them.
export const PATTERN_NAMES: Record<Label | "none", string> = {
  previous: "previous",
  next: "next",
  self: "self",
  first: "first",
  separator: "separators",
  punctuation: "punctuation",
  repeated: "repeats",
  nearby: "nearby",
  sentence: "sentence",
  broad: "broad",
  induction: "induction",
  none: "mixed",
};

const attends = (pattern: Pattern, title: string): About => ({
  name: `Attention: ${PATTERN_NAMES[pattern]}`,
  short: PATTERN_NAMES[pattern],
  title,
  write: percent,
});
// Fractions of attention. A search finds the words of the titles.
const ATTENDED: Record<Pattern, About> = {
  previous: attends("previous", "Looks at the previous token, the one before: one word back"),
  next: attends("next", "Looks at the next token, the one after: one word ahead"),
  self: attends("self", "Looks at the token itself: the diagonal"),
  first: attends("first", "Looks at the first token, [CLS]"),
  separator: attends("separator", "Looks at the separators, [SEP]"),
  punctuation: attends("punctuation", "Looks at full stops, commas and the like"),
  repeated: attends("repeated", "Looks at repeated tokens: the same token elsewhere in the text"),
  nearby: attends("nearby", "Looks at its neighbourhood: up to three words either way"),
  sentence: attends("sentence", "Looks at tokens of the same sentence"),
  broad: {
    ...attends("broad", "Looks everywhere: entropy over that of an even spread"),
    name: "Attention: broad",
  },
};

export const FIGURES: Record<Figure, About> = { ...COUNTED, ...ATTENDED, ...SCORED };
export const FIGURE_NAMES = Object.keys(FIGURES) as Figure[];

export const METRICS = ["none", ...FIGURE_NAMES] as const;
export type Metric = Figure | "none";
export const ONLY = ["all", ...PATTERNS, "induction", "none"] as const; // heads of one pattern, or of none
export type Only = (typeof ONLY)[number];
export const onlyName = (only: Only): string => (only === "all" ? "all" : PATTERN_NAMES[only]);

const isPattern = (figure: Figure): figure is Pattern => (PATTERNS as readonly string[]).includes(figure);
export const needsProfiles = isPattern;

export const valueOf = (head: Known, figure: Figure): number | null => {
  const value = isPattern(figure)
    ? head.profile && strengthOf(head.profile, figure)
    : isScore(figure)
      ? head.scores?.[figure]
      : head[figure];
  return value === null || value === undefined || Number.isNaN(value) ? null : value;
};

// The head's pattern, which does not depend on the text; "" without one, or before it is known.
export function patternOf({ sample, scores }: Known): Label | "" {
  if ((scores?.induction ?? 0) >= INDUCTION_LEAST) return "induction";
  return (sample && labelOf(sample)) ?? "";
}

// How clear that pattern is, 0..1.
export const clarityOf = ({ sample, scores }: Known, label: Label): number =>
  label === "induction" ? (scores?.induction ?? 0) : sample ? strengthOf(sample, label) : 0;

// The pattern's name; "" before it is known.
export const patternName = (head: Known): string => {
  const pattern = patternOf(head);
  return pattern || head.sample ? PATTERN_NAMES[pattern || "none"] : "";
};

// The name of the pattern in this text; "" before it is known.
export const patternHere = ({ profile }: Known): string => (profile ? PATTERN_NAMES[labelOf(profile) ?? "none"] : "");

// The pattern, and that in this text if it is another one.
export function patternsOf(known: Known): string {
  const [sample, here] = [patternName(known), patternHere(known)];
  return here && sample && here !== sample ? `${sample} · in this text ${here}` : sample;
}

// The layer, and the head if it is named, of a place: "7·5", "L7 H5", "layer 7", "7"; null for other words.
export function soughtPlace(sought: string): { l: number; h: number | null } | null {
  const [, l, h] = /^(?:layer |l)?(\d+)(?:[·., ]*(?:head |h)?(\d+))?$/.exec(sought.trim().toLowerCase()) ?? [];
  return l === undefined ? null : { l: Number(l), h: h === undefined ? null : Number(h) };
}

// True if a search means this head: "7·5", "L7 H5", "layer 7" or words of its pattern.
export function isSought(l: number, h: number, pattern: Label | "", sought: string): boolean {
  const about = pattern
    ? `${pattern} ${PATTERN_NAMES[pattern]} ${FIGURES[pattern].title}`
    : `${PATTERN_NAMES.none} no one strong target`;
  const words = `${l}·${h} l${l} h${h} l${l}h${h} layer head ${about}`;
  const place = soughtPlace(sought);
  if (place) return place.l === l && (place.h ?? h) === h;
  return hasWords(words, sought);
}

// The pattern that words like "repeated tokens" mean, or null.
export const soughtPattern = (sought: string): Label | null =>
  ([...PATTERNS, "induction"] as const).find(
    (pattern) =>
      sought.trim() !== "" && hasWords(`${pattern} ${PATTERN_NAMES[pattern]} ${FIGURES[pattern].title}`, sought),
  ) ?? null;

const hasWords = (text: string, sought: string): boolean =>
  sought
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.toLowerCase().includes(word));

// "like 7·5": the layer and head named.
export function likeOf(sought: string): [number, number] | null {
  const [, l, k] = /^like (?:layer |l)?(\d+)[·., ]*(?:head |h)?(\d+)$/.exec(sought.trim().toLowerCase()) ?? [];
  return k === undefined ? null : [Number(l), Number(k)];
}

// Returns none also if the figure counts fewer high pairs than `least`.
export const soundValueOf = (summary: Known, figure: Figure, least: number): number | null =>
  FIGURES[figure].ofPairs && summary.high_pairs < least ? null : valueOf(summary, figure);

// With the number of pairs it is about.
export const writeFigure = (summary: Known, figure: Figure): string => {
  const value = valueOf(summary, figure);
  const written = FIGURES[figure].write(value);
  return FIGURES[figure].ofPairs && value !== null
    ? `${written} of ${summary.high_pairs.toLocaleString("en")}`
    : written;
};

// Smallest and largest over all heads that have the figure.
export function rangeOf(summary: Known[][], figure: Figure, least: number): [number, number] {
  const values = summary
    .flat()
    .map((s) => soundValueOf(s, figure, least))
    .filter((v): v is number => v !== null);
  return values.length ? [Math.min(...values), Math.max(...values)] : [0, 0];
}

// The place of a value in that range, 0..1.
export const placeIn = ([low, high]: [number, number], value: number | null): number =>
  value === null || high <= low ? 0 : (value - low) / (high - low);
