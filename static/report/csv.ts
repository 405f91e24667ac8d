// The numbers behind a figure as it is shown.
import { titleOf } from "./maps";
import type { Data, Head, Pick, Report } from "./data";
import type { Table } from "../src/saving/files";

const sum = (v: readonly number[]): number => v.reduce((a, b) => a + b, 0);
const shares = (v: readonly number[]): number[] => {
  const s = sum(v);
  return v.map((x) => (s ? x / s : 0));
};
const headsOf = (r: Report): number[] => Array.from({ length: r.heads }, (_, h) => h);
const added = (rows: readonly (readonly number[])[]): number[] =>
  rows[0]!.map((_, k) => sum(rows.map((row) => row[k]!)));
type Make = (r: Report, pick: Pick) => Table;

const ofShares =
  (hist: (r: Report) => number[][][][]): Make =>
  (r, pick) => {
    const rows = hist(r)[pick.threshold]![pick.layer]!;
    return [
      ["head", "bin_from", "bin_to", "texts", "share_of_texts"],
      ...headsOf(r).flatMap((h) => rows[h]!.map((n, b) => [h, b / 20, (b + 1) / 20, n, shares(rows[h]!)[b]!])),
    ];
  };

const STATISTICS: [string, (h: Head) => { value: number | null; spread: number | null }][] = [
  ["Repeated-token share", (h) => h.repeated_share],
  ["Same-sentence share", (h) => h.same_sentence_share],
  ["Mean distance", (h) => h.mean_distance],
  ["Focal share", (h) => h.focal_share],
];
const MASSES = ["mass_cls", "mass_sep", "mass_end", "mass_comma", "mass_rest"] as const;

// Maps of one text, of one kind or of all of one head.
const ofMaps =
  (selected: (map: NonNullable<Report["one_text"]>["maps"][number], last: number) => boolean): Make =>
  (r) => {
    const { tokens, maps } = r.one_text!;
    const last = maps.at(-1)!.layer;
    return [
      ["kind", "layer", "head", "from", "to", "from_token", "to_token", "value"],
      ...maps
        .filter((map) => selected(map, last))
        .flatMap(({ kind, layer, head, values }) =>
          values.map((v, k) => {
            const [i, j] = [Math.floor(k / tokens.length), k % tokens.length];
            return [kind, layer, head ?? "all", i, j, tokens[i]!, tokens[j]!, v];
          }),
        ),
    ];
  };

const TABLES: Record<string, Make> = {
  "4": ofMaps((map) => map.kind === "attention"),
  "5": ofMaps((map, last) => map.layer === last && map.head !== null),
  "9": (r) => [
    ["layer", "head", "i", "j", "token_i", "token_j", "normalized_similarity"],
    ...r.one_text!.heads.flatMap(({ head, pairs }) =>
      pairs.map(([i, j, n]) => [r.layers.at(-1)!, head, i, j, r.one_text!.tokens[i]!, r.one_text!.tokens[j]!, n]),
    ),
  ],
  "6a": ofShares((r) => r.repeated_hist),
  "6b": ofShares((r) => r.repeated_same_sentence_hist),
  "8": ofShares((r) => r.same_sentence_hist),
  "11a": ofShares((r) => r.focal_hist),
  "7": (r, pick) => [
    ["head", "distance", "pairs", "chance_share"],
    ...headsOf(r).flatMap((h) =>
      r.distance[pick.threshold]![pick.layer]![h]!.map((n, d) => [h, d, n, shares(r.all_distance)[d]!]).slice(1),
    ),
  ],
  "11b": (r, pick) => [
    ["unique_focal_tokens", "texts"],
    ...r.unique_focal[pick.threshold]![pick.layer]!.map((n, k) => [k, n]),
  ],
  "13": (r, pick) => [
    ["layer", "distance", "pairs", "chance_share"],
    ...[...new Set([pick.early, pick.middle, pick.layer])].flatMap((l) =>
      added(r.distance[pick.threshold]![l]!)
        .map((n, d) => [r.layers[l]!, d, n, shares(r.all_distance)[d]!])
        .slice(1),
    ),
  ],
  A1: (r, pick) => {
    const normal = shares(added(r.normalized_hist[pick.layer]!)),
      columns = shares(added(r.column_hist[pick.layer]!));
    return [
      ["bin_from", "bin_to", "share_of_pairs", "share_of_columns"],
      ...columns.map((share, b) => [b / 100, (b + 1) / 100, normal[b + 1]!, share]),
    ];
  },
  sensitivity: (r, pick) => [
    ["statistic", "head", "threshold", "value"],
    ...STATISTICS.flatMap(([title, of]) =>
      headsOf(r).flatMap((h) =>
        r.thresholds.map((tau, t) => [title, h, tau, of(r.head_figures[t]![pick.layer]![h]!).value]),
      ),
    ),
  ],
  stability: (r, pick) => [
    ["statistic", "head", "value", "spread"],
    ...STATISTICS.flatMap(([title, of]) =>
      headsOf(r).map((h) => {
        const f = of(r.head_figures[pick.threshold]![pick.layer]![h]!);
        return [title, h, f.value, f.spread];
      }),
    ),
  ],
  noise: (r) => [
    ["layer", "head", "auc", "dprime"],
    ...r.layers.flatMap((layer, l) => r.head_figures[0]![l]!.map((f, h) => [layer, h, f.auc, f.dprime])),
  ],
  focus: (r) => [
    ["layer", ...MASSES, "precision", "recall", "f1"],
    ...r.layer_figures[0]!.map((f, l) => [r.layers[l]!, ...MASSES.map((key) => f[key]), f.precision, f.recall, f.f1]),
  ],
  tokens: (r, pick) => [
    ["layer", "token", "times_focal"],
    ...[...new Set([pick.early, pick.middle, pick.layer])].flatMap((l) =>
      r.focal_ids[l]!.map((id, k) => [r.layers[l]!, r.focus_tokens[String(id)] ?? "", r.focal_counts[l]![k]!]).filter(
        (row) => row[2],
      ),
    ),
  ],
  neighbours: (r) => [
    ["layer", "head", "first", "self", "previous", "next"],
    ...r.layers.flatMap((layer, l) =>
      headsOf(r).map((h) => [
        layer,
        h,
        r.profiles_first[l]![h]!,
        r.profiles_self[l]![h]!,
        r.profiles_previous[l]![h]!,
        r.profiles_next[l]![h]!,
      ]),
    ),
  ],
  findings: (r) => [
    ["claim", "paper", "measured", "criterion", "holds"],
    ...r.findings.map((f) => [f.claim, f.paper, f.measured, f.criterion, f.holds === null ? null : String(f.holds)]),
  ],
  heads: (r) => [
    [
      "threshold",
      "layer",
      "head",
      "high_pairs",
      "texts_with_high",
      "repeated_share",
      "repeated_spread",
      "repeated_lift",
      "same_sentence_share",
      "same_sentence_spread",
      "same_sentence_lift",
      "repeated_same_sentence_share",
      "repeated_same_sentence_lift",
      "mean_distance",
      "mean_distance_spread",
      "median_distance",
      "focal_share",
      "focal_share_spread",
      "dprime",
      "auc",
    ],
    ...r.head_figures.flatMap((layers, t) =>
      layers.flatMap((list, l) =>
        list.map((f, k) => [
          r.thresholds[t]!,
          r.layers[l]!,
          k,
          f.high,
          f.texts_with_high,
          f.repeated_share.value,
          f.repeated_share.spread,
          f.repeated_lift,
          f.same_sentence_share.value,
          f.same_sentence_share.spread,
          f.same_sentence_lift,
          f.repeated_same_sentence_share,
          f.repeated_same_sentence_lift,
          f.mean_distance.value,
          f.mean_distance.spread,
          f.median_distance,
          f.focal_share.value,
          f.focal_share.spread,
          f.dprime,
          f.auc,
        ]),
      ),
    ),
  ],
};

// Figures of maps have theirs on the page.
function mapTable(data: Data, figure: Element): Table {
  const table: Table = [["map", "row", "column", "value"]];
  for (const image of figure.querySelectorAll<SVGImageElement>(".panels:not(.other) image[data-name]")) {
    const { side, values } = data.atlas.plate(image.dataset.name!);
    const title = titleOf(image);
    values.forEach((v, k) => {
      if (v) table.push([title, Math.floor(k / side), k % side, +v.toPrecision(4)]);
    });
  }
  return table;
}

export function tableOf(id: string, data: Data, pick: Pick, figure: Element): Table {
  return TABLES[id]?.(data.report, pick) ?? mapTable(data, figure);
}
