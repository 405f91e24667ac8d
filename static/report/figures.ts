// The paper's figures, each from one report: a picture, a caption that says how it was made, and its numbers.
import { cssOf, lutOf } from "../src/colour";
import {
  bars, coloursOf, dots, heatmap, lines, matrix, percent, stacks, together, type Ink, type Mark, type Series,
} from "./chart";
import type { Atlas, Head, Report } from "./data";
import type { Table } from "./save";

// Layers are indices into the report's list, not numbers of the model's.
export interface Pick { early: number; middle: number; last: number; head: number; t: number }
export interface Context { report: Report; atlas: Atlas; pick: Pick; ink: Ink; tell: (text: string) => void }
export interface Drawn { picture: SVGSVGElement; caption: string; table: Table }
export interface Plan { id: string; title: string; draw: (c: Context) => Drawn }

const SHARE_BINS = Array.from({ length: 20 }, (_, b) => (b + 0.5) / 20);
const headsOf = (r: Report): number[] => Array.from({ length: r.heads }, (_, h) => h);
const sum = (v: readonly number[]): number => v.reduce((a, b) => a + b, 0);
const shares = (v: readonly number[]): number[] => { const s = sum(v); return v.map((x) => (s ? x / s : 0)); };
const name = (c: Context, l: number): string => `layer ${c.report.layers[l]}`;
const tau = (c: Context): string => `similarity threshold ${c.report.thresholds[c.pick.t]}`;
const many = (c: Context): string => `${c.report.texts.toLocaleString("en")} texts`;
const mainTau = (c: Context): string => `similarity threshold ${c.report.thresholds[c.report.threshold_main]}`;
const unique = (layers: number[]): number[] => [...new Set(layers)].sort((a, b) => a - b);
const tokensOf = (c: Context): number => c.report.provenance.options.max_tokens;

function mapTable(maps: [string, { side: number; values: Float32Array }][]): Table {
  const table: Table = [["map", "row", "column", "value"]];
  for (const [title, { side, values }] of maps)
    values.forEach((v, k) => { if (v) table.push([title, Math.floor(k / side), k % side, +v.toPrecision(4)]); });
  return table;
}

function perHead(c: Context, hist: readonly (readonly number[])[]): { series: Series[]; table: Table } {
  const colours = coloursOf(c.report.heads, c.ink.theme);
  const series = headsOf(c.report).map((h) => ({
    name: `head ${h}`, values: shares(hist[h]!), colour: colours[h]!, dash: h % 2 ? "5 2" : undefined,
  }));
  return { series, table: [["head", "bin_from", "bin_to", "texts", "share_of_texts"], ...headsOf(c.report).flatMap((h) =>
    hist[h]!.map((n, b) => [h, b / 20, (b + 1) / 20, n, series[h]!.values[b]!]))] };
}

function shareFigure(
  hist: (r: Report) => number[][][][], chance: keyof Report["chance"] | null, what: string, xLabel: string,
): (c: Context) => Drawn {
  return (c) => {
    const { series, table } = perHead(c, hist(c.report)[c.pick.t]![c.pick.last]!);
    const at = chance ? c.report.chance[chance] : null;
    const marks: Mark[] = at === null ? [] : [{ at, label: `chance ${percent(at)}` }];
    const least = Math.min(...c.report.texts_with_high[c.pick.t]![c.pick.last]!);
    return {
      picture: lines(series, { xs: SHARE_BINS, xLabel, yLabel: "share of texts", marks, width: 760, height: 300, legend: true }, c.ink),
      caption: `${what} One line a head of ${name(c, c.pick.last)}; 20 bins of the share in one text; ${tau(c)}; ${many(c)}, ` +
        `of which at least ${least.toLocaleString("en")} have a high element in each head.` +
        (at === null ? "" : ` The dashed line is what pairs drawn evenly from the same texts give.`),
      table,
    };
  };
}

function figure2(c: Context): Drawn {
  const layers = unique([c.pick.early, c.pick.middle, c.pick.last - 1, c.pick.last].filter((l) => l >= 0));
  const maps = layers.flatMap((l) => [
    [`${name(c, l)}, head ${c.pick.head}`, c.atlas.plate("attention", l, c.pick.head)] as const,
    [`${name(c, l)}, all heads`, c.atlas.plate("attention_layer", l)] as const,
  ]);
  return {
    picture: together(maps.map(([title, plate]) => heatmap(plate, "attention", title, tokensOf(c), 200, c.ink, c.tell)), 2, c.ink, "Summed attention maps"),
    caption: `Attention summed over ${many(c)} and divided by the number of texts that reach each cell: head ${c.pick.head} (left), all heads of ` +
      `the layer added up (right). Rows are queries, columns keys; square-root colours.`,
    table: mapTable(maps.map(([title, plate]) => [title, plate])),
  };
}

function figure3(c: Context): Drawn {
  const l = c.pick.last;
  const maps = ([["all", "attention_layer"], ["without columns of H", "attention_layer_no_columns"],
    ["and without diagonal", "attention_layer_no_columns_no_diagonal"]] as const)
    .map(([title, map]) => [title, c.atlas.plate(map, l)] as const);
  return {
    picture: together(maps.map(([title, plate]) => heatmap(plate, "attention", title, tokensOf(c), 200, c.ink, c.tell)), 3, c.ink, "Attention without its columns"),
    caption: `Summed attention of ${name(c, l)} (left), with each text's high-attention columns set to zero (middle; attention threshold ` +
      `${c.report.provenance.options.attention_threshold}), and the diagonal too (right). Mean over ${many(c)}; square-root colours, each map on its own scale.`,
    table: mapTable(maps.map(([title, plate]) => [title, plate])),
  };
}

function figure7(c: Context): Drawn {
  const counts = c.report.distance[c.pick.t]![c.pick.last]!;
  const xs = c.report.all_distance.map((_, d) => d).slice(1);
  const colours = coloursOf(c.report.heads, c.ink.theme);
  const chance = shares(c.report.all_distance);
  const parts = headsOf(c.report).map((h) => {
    const mean = c.report.head_figures[c.pick.t]![c.pick.last]![h]!.mean_distance.value;
    return bars(shares(counts[h]!).slice(1), colours[h]!, {
      xs, title: `Head ${h}`, width: 270, height: 170, xLabel: "distance", yLabel: "share of pairs",
      marks: mean === null ? [] : [{ at: mean, label: `mean ${mean.toFixed(1)}` }],
    }, c.ink, [{ name: "chance", values: chance.slice(1), colour: c.ink.muted, dash: "3 3" }]);
  });
  return {
    picture: together(parts, 3, c.ink, "Distances of high pairs, by head"),
    caption: `Distance j − i of token pairs with high similarity, each head of ${name(c, c.pick.last)}; ${tau(c)}; ${many(c)}. Thin dashes: pairs drawn ` +
      `evenly from the same texts (mean ${c.report.chance.mean_distance?.toFixed(1) ?? "–"}); upright dashes: the head's mean.`,
    table: [["head", "distance", "pairs", "chance_share"], ...headsOf(c.report).flatMap((h) =>
      counts[h]!.map((n, d) => [h, d, n, chance[d]!]).slice(1))],
  };
}

function figure10(c: Context): Drawn {
  const maps = headsOf(c.report).map((h) => [`Head ${h}`, c.atlas.plate("location", c.pick.last, h)] as const);
  return {
    picture: together(maps.map(([title, plate]) => heatmap(plate, "similarity", title, tokensOf(c), 150, c.ink, c.tell)), 4, c.ink, "Where high similarities lie"),
    caption: `How often the pair (i, j) is a high element, as a share of the texts long enough: heads of ${name(c, c.pick.last)}; ${mainTau(c)}; ${many(c)}. ` +
      `Square-root colours, each head on its own scale.`,
    table: mapTable(maps.map(([title, plate]) => [title, plate])),
  };
}

function figure11b(c: Context): Drawn {
  const counts = c.report.unique_focal[c.pick.t]![c.pick.last]!;
  const mean = c.report.layer_figures[c.pick.t]![c.pick.last]!.unique_focal;
  return {
    picture: bars(shares(counts), cssOf(lutOf("ink", "similarity", c.ink.theme), 0.55), {
      xs: counts.map((_, k) => k), xLabel: "different focal tokens among the heads", yLabel: "share of texts", width: 640, height: 280,
      marks: mean === null ? [] : [{ at: mean, label: `mean ${mean.toFixed(2)}` }],
    }, c.ink),
    caption: `Number of different focal tokens among the ${c.report.heads} heads of ${name(c, c.pick.last)}, per text; ${tau(c)}; ${many(c)}. The paper reads 9 to 10 of 12.`,
    table: [["unique_focal_tokens", "texts"], ...counts.map((n, k) => [k, n])],
  };
}

function figure12(c: Context): Drawn {
  const maps = unique([c.pick.early, c.pick.middle, c.pick.last]).flatMap((l) => [
    [`${name(c, l)}, S`, c.atlas.plate("similarity", l)] as const,
    [`${name(c, l)}, N (each text the same)`, c.atlas.plate("normalized", l)] as const,
  ]);
  return {
    picture: together(maps.map(([title, plate]) => heatmap(plate, "similarity", title, tokensOf(c), 220, c.ink, c.tell)), 2, c.ink, "Summed similarity"),
    caption: `Context similarity summed over the layer's heads, mean over ${many(c)}: as it is (left) and with each text's head divided by its maximum (right). ` +
      `Diagonal zero; negative means are drawn as zero; square-root colours, each map on its own scale.`,
    table: mapTable(maps.map(([title, plate]) => [title, plate])),
  };
}

function figure13(c: Context): Drawn {
  const chance = shares(c.report.all_distance);
  const xs = chance.map((_, d) => d).slice(1);
  const colour = cssOf(lutOf("ink", "similarity", c.ink.theme), 0.55);
  const layers = unique([c.pick.early, c.pick.middle, c.pick.last]);
  const counts = layers.map((l) => xs.map((d) => sum(c.report.distance[c.pick.t]![l]!.map((head) => head[d]!))));
  const parts = layers.map((l, k) => {
    const mean = c.report.layer_figures[c.pick.t]![l]!.mean_distance;
    return bars(shares(counts[k]!), colour, {
      xs, title: `Layer ${c.report.layers[l]}`, width: 640, height: 190, xLabel: "distance in tokens", yLabel: "share of pairs",
      marks: mean === null ? [] : [{ at: mean, label: `mean ${mean.toFixed(1)}` }],
    }, c.ink, [{ name: "chance", values: chance.slice(1), colour: c.ink.muted, dash: "3 3" }]);
  });
  return {
    picture: together(parts, 1, c.ink, "Distances of high pairs, by layer"),
    caption: `Distance of high pairs over all heads of a layer; ${tau(c)}; ${many(c)}. Thin dashes: pairs drawn evenly from the same texts.`,
    table: [["layer", "distance", "pairs", "chance_share"], ...layers.flatMap((l, k) =>
      xs.map((d, at) => [c.report.layers[l]!, d, counts[k]![at]!, chance[d]!]))],
  };
}

function figureA1(c: Context): Drawn {
  const l = c.pick.last;
  const normal = shares(c.report.normalized_hist[l]!.reduce((a, b) => a.map((v, k) => v + b[k]!)));
  const columns = shares(c.report.column_hist[l]!.reduce((a, b) => a.map((v, k) => v + b[k]!)));
  const bins = columns.map((_, b) => (b + 0.5) / 100);
  const { threshold, attention_threshold } = c.report.provenance.options;
  return {
    picture: together([
      lines([{ name: "N", values: normal.slice(1).map((v) => Math.log10(Math.max(v, 1e-7))), colour: cssOf(lutOf("ink", "similarity", c.ink.theme), 0.6), wide: true }],
        { xs: bins, title: "Normalised similarity N", xLabel: "N", yLabel: "share of pairs", yMin: -7, yMax: 0, yFormat: (v) => `1e${v}`,
          marks: [{ at: threshold, label: `threshold ${threshold}` }], width: 440, height: 280 }, c.ink),
      lines([{ name: "c", values: columns.map((v) => Math.log10(Math.max(v, 1e-7))), colour: cssOf(lutOf("ink", "attention", c.ink.theme), 0.6), wide: true }],
        { xs: bins, title: "Attention columns c / max c", xLabel: "c / max c", yLabel: "share of columns", yMin: -7, yMax: 0, yFormat: (v) => `1e${v}`,
          marks: [{ at: attention_threshold, label: `threshold ${attention_threshold}` }], width: 440, height: 280 }, c.ink),
    ], 2, c.ink, "What the thresholds divide"),
    caption: `All heads of ${name(c, l)}, ${many(c)}; 100 bins; ${percent(normal[0]!)} of the pairs have N below 0 and are left out. Logarithmic.`,
    table: [["bin_from", "bin_to", "share_of_pairs", "share_of_columns"], ...bins.map((_, b) => [b / 100, (b + 1) / 100, normal[b + 1]!, columns[b]!])],
  };
}

const STATISTICS: [string, (h: Head) => { value: number | null; spread: number | null }, keyof Report["chance"] | null][] = [
  ["Repeated-token share", (h) => h.repeated_share, "repeated_share"],
  ["Same-sentence share", (h) => h.same_sentence_share, "same_sentence_share"],
  ["Mean distance", (h) => h.mean_distance, "mean_distance"],
  ["Focal share", (h) => h.focal_share, null],
];

function sensitivity(c: Context): Drawn {
  const colours = coloursOf(c.report.heads, c.ink.theme);
  const table: Table = [["statistic", "head", "threshold", "value"]];
  const parts = STATISTICS.map(([title, of, chance]) => {
    const series = headsOf(c.report).map((h) => ({
      name: `head ${h}`, colour: colours[h]!, dash: h % 2 ? "5 2" : undefined,
      values: c.report.thresholds.map((_, t) => of(c.report.head_figures[t]![c.pick.last]![h]!).value),
    }));
    series.forEach((s, h) => s.values.forEach((v, t) => table.push([title, h, c.report.thresholds[t]!, v])));
    const at = chance ? c.report.chance[chance] : null;
    return lines(series, { xs: c.report.thresholds, title, xLabel: "similarity threshold", width: 500, height: 250, legend: true,
      yMarks: at === null ? [] : [{ at, label: "chance" }] }, c.ink);
  });
  return {
    picture: together(parts, 2, c.ink, "Threshold sensitivity"),
    caption: `How the figures of ${name(c, c.pick.last)}'s heads move with the similarity threshold; ${many(c)}, counted in one pass.`,
    table,
  };
}

function stability(c: Context): Drawn {
  const colours = coloursOf(c.report.heads, c.ink.theme);
  const table: Table = [["statistic", "head", "value", "spread"]];
  const parts = STATISTICS.map(([title, of]) => {
    const figures = headsOf(c.report).map((h) => of(c.report.head_figures[c.pick.t]![c.pick.last]![h]!));
    figures.forEach((f, h) => table.push([title, h, f.value, f.spread]));
    return dots(figures.map((f, h) => ({ ...f, colour: colours[h]! })), { xs: headsOf(c.report), title, xLabel: "head", width: 440, height: 220 }, c.ink);
  });
  return {
    picture: together(parts, 2, c.ink, "Stability"),
    caption: `Each head of ${name(c, c.pick.last)} with its standard deviation over ${c.report.provenance.options.parts} interleaved parts of the corpus; ${tau(c)}; ${many(c)}.`,
    table,
  };
}

function noise(c: Context): Drawn {
  const of = (read: (h: Head) => number | null): (number | null)[][] => c.report.head_figures[c.pick.t]!.map((layer) => layer.map(read));
  const auc = of((h) => h.auc), dprime = of((h) => h.dprime);
  const top = Math.max(0.1, ...dprime.flat().map((v) => v ?? 0));
  return {
    picture: together([matrix(auc, 0.5, 1, "Area under the ROC curve (0.5 to 1)", c.report.layers, c.ink),
      matrix(dprime, 0, top, `d′ (0 to ${top.toPrecision(2)})`, c.report.layers, c.ink)], 2, c.ink, "Signal to noise"),
    caption: `Signal: N of pairs that repeat a token or share a sentence; noise: of all other pairs. Rows are layers; ${many(c)}. The paper asks for such a measure (its second open question).`,
    table: [["layer", "head", "auc", "dprime"], ...c.report.layers.flatMap((layer, l) => headsOf(c.report).map((h) => [layer, h, auc[l]![h]!, dprime[l]![h]!]))],
  };
}

const MASSES = [["[CLS]", "mass_cls"], ["[SEP]", "mass_sep"], ["sentence ends", "mass_end"], ["commas", "mass_comma"], ["the rest", "mass_rest"]] as const;

function focus(c: Context): Drawn {
  const layers = c.report.layer_figures[c.pick.t]!;
  const colours = [...coloursOf(4, c.ink.theme), c.ink.line];
  const parts = MASSES.map(([title, key], k) => ({ name: title, colour: colours[k]!, values: layers.map((l) => l[key]) }));
  const score = (["precision", "recall", "f1"] as const).map((key, k) => ({
    name: key, colour: coloursOf(3, c.ink.theme)[k]!, wide: key === "f1", values: layers.map((l) => l[key]) }));
  return {
    picture: together([
      stacks(parts, { xs: c.report.layers, title: "Where attention goes", xLabel: "layer", yLabel: "share of attention", width: 440, height: 260 }, c.ink),
      lines(score, { xs: c.report.layers, title: "Attention boundaries against sentence ends", xLabel: "layer", width: 440, height: 260, yMax: 1 }, c.ink),
    ], 2, c.ink, "Attention focus and segmentation"),
    caption: `Left, from below: ${MASSES.map(([title]) => title).join(", ")}. Right: precision, recall and F1 (bold) of boundaries after high-attention tokens; ${many(c)}. ` +
      `${name(c, c.pick.last)}'s high-attention columns hold most often: ${focusOf(c, c.pick.last)}.`,
    table: [["layer", ...MASSES.map(([title]) => title), "precision", "recall", "f1"], ...c.report.layers.map((layer, l) =>
      [layer, ...MASSES.map(([, key]) => layers[l]![key]), layers[l]!.precision, layers[l]!.recall, layers[l]!.f1])],
  };
}

function focusOf(c: Context, l: number): string {
  const all = sum(c.report.focus_counts[l]!);
  return c.report.focus_ids[l]!.slice(0, 8).filter((_, k) => c.report.focus_counts[l]![k]! > 0)
    .map((id, k) => `${c.report.focus_tokens[String(id)] ?? `#${id}`} (${percent(c.report.focus_counts[l]![k]! / all)})`).join(", ");
}

export const FIGURES: Plan[] = [
  { id: "2", title: "Figure 2 · Summed attention", draw: figure2 },
  { id: "3", title: "Figure 3 · Attention without its columns", draw: figure3 },
  { id: "6a", title: "Figure 6a · Repeated tokens", draw: shareFigure((r) => r.repeated_hist, "repeated_share",
    "Share of high elements whose two tokens are the same.", "share of repeated tokens in a text") },
  { id: "6b", title: "Figure 6b · Repeated tokens in one sentence", draw: shareFigure((r) => r.repeated_same_sentence_hist, "repeated_same_sentence_share",
    "Share of high elements whose two tokens are the same and in the same sentence.", "share of repeated tokens in one sentence") },
  { id: "7", title: "Figure 7 · Distances by head", draw: figure7 },
  { id: "8", title: "Figure 8 · Same sentence", draw: shareFigure((r) => r.same_sentence_hist, "same_sentence_share",
    "Share of high elements whose two tokens are in the same sentence.", "share within one sentence in a text") },
  { id: "10", title: "Figure 10 · Where high similarities lie", draw: figure10 },
  { id: "11a", title: "Figure 11a · Focal token", draw: shareFigure((r) => r.focal_hist, null,
    "Share of high elements that hold the text's most common token.", "share with the focal token in a text") },
  { id: "11b", title: "Figure 11b · Different focal tokens", draw: figure11b },
  { id: "12", title: "Figure 12 · Summed similarity", draw: figure12 },
  { id: "13", title: "Figure 13 · Distances by layer", draw: figure13 },
  { id: "A1", title: "Figure A1 · Thresholds", draw: figureA1 },
  { id: "sensitivity", title: "Threshold sensitivity", draw: sensitivity },
  { id: "stability", title: "Stability", draw: stability },
  { id: "noise", title: "Signal to noise", draw: noise },
  { id: "focus", title: "Attention focus and segmentation", draw: focus },
];
