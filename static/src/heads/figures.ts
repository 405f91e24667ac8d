// The figures a head can be sorted and coloured by, with their names.
import type { Summary } from "../app/answer";
import { labelOf, PATTERNS, strengthOf, type Pattern, type Profile } from "./patterns";
import { format, percent } from "../maps/scale";

// The figures of one head; the profile comes with its attention map.
export interface Known extends Summary {
  profile?: Profile;
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

type Counted = keyof typeof COUNTED;
export type Figure = Counted | Pattern;

const attends = (name: string, short: string, title: string): About => ({ name, short, title, write: percent });
// Fractions of attention. A search finds the words of the titles.
const ATTENDED: Record<Pattern, About> = {
  previous: attends("Attention one back", "previous", "Looks at the previous token, the one before: one word back"),
  next: attends("Attention one ahead", "next", "Looks at the next token, the one after: one word ahead"),
  self: attends("Attention on itself", "self", "Looks at the token itself: the diagonal"),
  first: attends("Attention on the first", "first", "Looks at the first token, [CLS]"),
  separator: attends("Attention on [SEP]", "separator", "Looks at the separators, [SEP]"),
  punctuation: attends("Attention on punctuation", "punctuation", "Looks at full stops, commas and the like"),
  repeated: attends(
    "Attention on repeats",
    "repeated",
    "Looks at repeated tokens: the same token elsewhere in the text",
  ),
  sentence: attends("Attention in the sentence", "sentence", "Looks at tokens of the same sentence"),
  broad: attends("Evenness of attention", "broad", "Looks everywhere: entropy over that of an even spread"),
};

export const FIGURES: Record<Figure, About> = { ...COUNTED, ...ATTENDED };
export const FIGURE_NAMES = Object.keys(FIGURES) as Figure[];

export const METRICS = ["none", ...FIGURE_NAMES] as const;
export type Metric = Figure | "none";
export const ONLY = ["all", ...PATTERNS, "none"] as const; // heads of one pattern, or of none
export type Only = (typeof ONLY)[number];

// Patterns as filters and tables name them.
export const ONLY_NAMES: Record<Only, string> = {
  all: "all",
  previous: "previous token",
  next: "next token",
  self: "the token itself",
  first: "first token",
  separator: "separators",
  punctuation: "punctuation",
  repeated: "repeated tokens",
  sentence: "same sentence",
  broad: "broad",
  none: "mixed",
};

const isPattern = (figure: Figure): figure is Pattern => (PATTERNS as readonly string[]).includes(figure);
export const needsProfiles = isPattern;

export const valueOf = (head: Known, figure: Figure): number | null => {
  const value = isPattern(figure) ? head.profile && strengthOf(head.profile, figure) : head[figure];
  return value === null || value === undefined || Number.isNaN(value) ? null : value;
};

// The head's pattern in one word; "" without one, or before it is known.
export const patternOf = ({ profile }: Known): Pattern | "" => (profile && labelOf(profile)) ?? "";

// True if a search means this head: "7·5", "L7 H5", "layer 7" or words of its pattern.
export function isSought(l: number, h: number, pattern: Pattern | "", sought: string): boolean {
  const words = `${l}·${h} l${l} h${h} l${l}h${h} layer head ${pattern} ${pattern && FIGURES[pattern].title}`;
  const numbered = /^(?:layer |l)?(\d+)(?:[·., ]*(?:head |h)?(\d+))?$/.exec(sought.trim().toLowerCase());
  if (numbered) return Number(numbered[1]) === l && (numbered[2] === undefined || Number(numbered[2]) === h);
  return hasWords(words, sought);
}

// The pattern that words like "repeated tokens" mean, or null.
export const soughtPattern = (sought: string): Pattern | null =>
  PATTERNS.find((pattern) => sought.trim() !== "" && hasWords(`${pattern} ${FIGURES[pattern].title}`, sought)) ?? null;

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

// None also where it is about fewer high pairs than `least`.
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
