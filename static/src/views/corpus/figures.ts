// The key figures of reports side by side: by layer, by head, by one layer's heads, or over the runs.
import type { Head, Layer, Report } from "../../../report/data";
import { format, percent } from "../../maps/scale";

// Axes as in report.json: t threshold, l index among the run's layers, k head.
interface About {
  name: string;
  title: string;
  write(this: void, value: number | null): string;
  share: boolean; // a fraction, drawn in per cent
  layer(report: Report, t: number, l: number): number | null;
  head: ((report: Report, t: number, l: number, k: number) => number | null) | null; // null: of layers only
  chance: (report: Report) => number | null; // expected by chance: of evenly drawn pairs
}

const none = (): null => null;
const over = (part: number | null | undefined, whole: number | null): number | null =>
  part === null || part === undefined || !whole ? null : part / whole;
const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
const headAt = (report: Report, t: number, l: number, k: number): Head | undefined => report.head_figures[t]?.[l]?.[k];
const layerAt = (report: Report, t: number, l: number): Layer | undefined => report.layer_figures[t]?.[l];
const known = (value: number | null | undefined): number | null => value ?? null;
// [CLS], [SEP] and sentence ends of the five places attention is counted at.
const separators = (mass: readonly number[]): number | null => over(sum(mass.slice(0, 3)), sum(mass));

const mean = (values: readonly (number | null)[]): number | null =>
  values.some((v) => v === null) || !values.length ? null : sum(values as number[]) / values.length;

// A figure of the attention profiles; a layer's is the mean of its heads. Reports of earlier versions lack them.
const profiled = (name: string, title: string, of: (report: Report) => (number | null)[][] | undefined): About => ({
  name,
  title,
  write: percent,
  share: true,
  layer: (r, _, l) => mean(of(r)?.[l] ?? []),
  head: (r, _, l, k) => of(r)?.[l]?.[k] ?? null,
  chance: none,
});

const FIGURES = {
  repeated_share: {
    name: "Repeated tokens",
    title: "Fraction of high pairs that are one token twice (paper, Fig. 6)",
    write: percent,
    share: true,
    layer: (r, t, l) => known(layerAt(r, t, l)?.repeated_share),
    head: (r, t, l, k) => known(headAt(r, t, l, k)?.repeated_share.value),
    chance: (r) => r.chance.repeated_share,
  },
  repeated_lift: {
    name: "Repeated tokens, lift",
    title: "That fraction over the one expected by chance in the same texts",
    write: format,
    share: false,
    layer: (r, t, l) => over(layerAt(r, t, l)?.repeated_share, r.chance.repeated_share),
    head: (r, t, l, k) => known(headAt(r, t, l, k)?.repeated_lift),
    chance: () => 1,
  },
  same_sentence_share: {
    name: "Same sentence",
    title: "Fraction of high pairs within one sentence (paper, Fig. 8)",
    write: percent,
    share: true,
    layer: (r, t, l) => known(layerAt(r, t, l)?.same_sentence_share),
    head: (r, t, l, k) => known(headAt(r, t, l, k)?.same_sentence_share.value),
    chance: (r) => r.chance.same_sentence_share,
  },
  same_sentence_lift: {
    name: "Same sentence, lift",
    title: "That fraction over the one expected by chance in the same texts",
    write: format,
    share: false,
    layer: (r, t, l) => over(layerAt(r, t, l)?.same_sentence_share, r.chance.same_sentence_share),
    head: (r, t, l, k) => known(headAt(r, t, l, k)?.same_sentence_lift),
    chance: () => 1,
  },
  mean_distance: {
    name: "Mean distance",
    title: "Mean distance of high pairs, in tokens (paper, Fig. 7 and 13)",
    write: format,
    share: false,
    layer: (r, t, l) => known(layerAt(r, t, l)?.mean_distance),
    head: (r, t, l, k) => known(headAt(r, t, l, k)?.mean_distance.value),
    chance: (r) => r.chance.mean_distance,
  },
  focal_share: {
    name: "Focal share",
    title: "Fraction of high pairs that hold the text's commonest token, mean over texts (paper, Fig. 11a)",
    write: percent,
    share: true,
    layer: (r, t, l) => over(sum(r.focal_share_sum[t]?.[l] ?? []), sum(r.texts_with_high[t]?.[l] ?? [])),
    head: (r, t, l, k) => known(headAt(r, t, l, k)?.focal_share.value),
    chance: none,
  },
  unique_focal: {
    name: "Different focal tokens",
    title: "How many different focal tokens a layer's heads have in one text, mean (paper, Fig. 11b)",
    write: format,
    share: false,
    layer: (r, t, l) => known(layerAt(r, t, l)?.unique_focal),
    head: null,
    chance: none,
  },
  separator_attention: {
    name: "Separator attention",
    title: "Fraction of attention on [CLS], [SEP] and sentence ends (paper, Fig. 4)",
    write: percent,
    share: true,
    layer: (r, _, l) => {
      const heads = r.attention_mass[l] ?? [];
      return separators((heads[0] ?? []).map((_, place) => sum(heads.map((mass) => mass[place] ?? 0))));
    },
    head: (r, _, l, k) => separators(r.attention_mass[l]?.[k] ?? []),
    chance: none,
  },
  attention_first: profiled("On the first token", "Fraction of attention on [CLS] or <s>", (r) => r.profiles_first),
  attention_self: profiled("On itself", "Fraction of attention on the token itself", (r) => r.profiles_self),
  attention_previous: profiled(
    "On the previous token",
    "Fraction of attention on the token before",
    (r) => r.profiles_previous,
  ),
  attention_next: profiled("On the next token", "Fraction of attention on the token behind", (r) => r.profiles_next),
  attention_entropy: {
    ...profiled("Entropy", "Entropy of attention in nats, mean over rows and texts", (r) => r.profiles_entropy),
    write: format,
    share: false,
  },
} satisfies Record<string, About>;

export type RunFigure = keyof typeof FIGURES;
export const RUN_FIGURES: Record<RunFigure, About> = FIGURES;

// A value beside the axis of a chart.
export const tickOf = (figure: RunFigure, v: number): string =>
  RUN_FIGURES[figure].share ? `${+(v * 100).toPrecision(3)} %` : String(+v.toPrecision(3));
export const RUN_FIGURE_NAMES = Object.keys(FIGURES) as RunFigure[];

// Layers, every head, the heads of one layer; layers over the runs, and one layer's heads over the runs.
export const BYS = ["layers", "heads", "layer", "runs", "runheads"] as const;
export type By = (typeof BYS)[number];
export const isOverRuns = (by: By): boolean => by === "runs" || by === "runheads";
export const isOfHeads = (by: By): boolean => by !== "layers" && by !== "runs";
export const isOfOneLayer = (by: By): boolean => by === "layer" || by === "runheads";

// One place in a model; x is where a chart shows it. head: null for a whole layer.
export interface Place {
  layer: number;
  head: number | null;
  x: number;
}

// Thresholds all runs counted at.
export const commonThresholds = (reports: readonly Report[]): number[] =>
  (reports[0]?.thresholds ?? []).filter((tau) => reports.every((r) => r.thresholds.includes(tau)));

// Places that any of the runs has, in order. Layers go by their numbers in the model.
export function placesOf(reports: readonly Report[], by: By, layer: number): Place[] {
  const layers = [...new Set(reports.flatMap((r) => r.layers))].sort((a, b) => a - b);
  const heads = Math.max(0, ...reports.map((r) => r.heads));
  const every = Array.from({ length: heads }, (_, k) => k);
  if (!isOfHeads(by)) return layers.map((at) => ({ layer: at, head: null, x: at }));
  if (isOfOneLayer(by)) return every.map((head) => ({ layer, head, x: head }));
  return layers.flatMap((at) => every.map((head) => ({ layer: at, head, x: at + head / heads })));
}

export function valueAt(report: Report, figure: RunFigure, tau: number, { layer, head }: Place): number | null {
  const t = report.thresholds.indexOf(tau);
  const l = report.layers.indexOf(layer);
  const about = RUN_FIGURES[figure];
  if (t < 0 || l < 0) return null;
  if (head === null) return about.layer(report, t, l);
  return head < report.heads && about.head ? about.head(report, t, l, head) : null;
}

export interface Row {
  place: Place;
  values: (number | null)[]; // of each run
  difference: number | null; // of two runs the first - the second, of more the last - the first
}

function differenceOf(values: readonly (number | null)[]): number | null {
  const [from, to] = values.length > 2 ? [values.at(-1), values[0]] : values;
  return typeof from === "number" && typeof to === "number" ? from - to : null;
}

export function rowsOf(reports: readonly Report[], figure: RunFigure, tau: number, places: readonly Place[]): Row[] {
  return places.map((place) => {
    const values = reports.map((r) => valueAt(r, figure, tau, place));
    return { place, values, difference: differenceOf(values) };
  });
}

// The key of a run's column: "first", "second", "run3".
export const columnOfRun = (n: number): string => ["first", "second"][n] ?? `run${n + 1}`;

// rank: a column, with "-" before it from the largest down; differences by their size. Missing values come last.
export function rankRows(rows: readonly Row[], rank: string): Row[] {
  const down = rank.startsWith("-");
  const column = rank.replace("-", "");
  const key = ({ place, values, difference }: Row): number | null => {
    if (column === "difference") return difference === null ? null : Math.abs(difference);
    const run = values.findIndex((_, n) => columnOfRun(n) === column);
    return run < 0 ? place.x : (values[run] ?? null);
  };
  return [...rows].sort((a, b) => {
    const [p, q] = [key(a), key(b)];
    if (p === null || q === null) return Number(p === null) - Number(q === null) || a.place.x - b.place.x;
    return (down ? q - p : p - q) || a.place.x - b.place.x;
  });
}
