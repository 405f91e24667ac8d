// The figures a head can be sorted and coloured by: how they are named and written.
import type { Summary } from "./answer";
import { format, percent } from "./scale";
import type { Metric } from "./state";

export type Figure = Exclude<Metric, "none">;
interface About {
  name: string;
  short: string;
  title: string;
  ofPairs?: true; // about the high pairs: says little when they are few
  write(value: number | null): string;
}

export const FIGURES: Record<Figure, About> = {
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
    title: "Share of high pairs that are one token twice (paper, Fig. 6)",
  },
  same_sentence_share: {
    ofPairs: true,
    name: "Same sentence",
    short: "same sent.",
    write: percent,
    title: "Share of high pairs within one sentence (paper, Fig. 8)",
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
    title: "Share of attention on [CLS], [SEP] and sentence ends (paper, Fig. 4)",
  },
  focal_share: {
    ofPairs: true,
    name: "Focal share",
    short: "focal",
    write: percent,
    title: "Share of high pairs that hold the head's commonest token (paper, Fig. 11)",
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
};

export const valueOf = (summary: Summary, figure: Figure): number | null => {
  const value = summary[figure];
  return value === null || value === undefined || Number.isNaN(value) ? null : value;
};

// None also where it is about fewer high pairs than `least`.
export const soundValueOf = (summary: Summary, figure: Figure, least: number): number | null =>
  FIGURES[figure].ofPairs && summary.high_pairs < least ? null : valueOf(summary, figure);

// With the number of pairs it is about.
export const writeFigure = (summary: Summary, figure: Figure): string => {
  const value = valueOf(summary, figure);
  const written = FIGURES[figure].write(value);
  return FIGURES[figure].ofPairs && value !== null
    ? `${written} of ${summary.high_pairs.toLocaleString("en")}`
    : written;
};

// Smallest and largest over all heads that have the figure.
export function rangeOf(summary: Summary[][], figure: Figure, least: number): [number, number] {
  const values = summary
    .flat()
    .map((s) => soundValueOf(s, figure, least))
    .filter((v): v is number => v !== null);
  return values.length ? [Math.min(...values), Math.max(...values)] : [0, 0];
}

// Where a value stands in that range, 0..1.
export const placeIn = ([low, high]: [number, number], value: number | null): number =>
  value === null || high <= low ? 0 : (value - low) / (high - low);
