// The numbers behind a figure as it is shown.
import { titleOf } from "./maps";
import type { Data, Head, Pick, Report } from "./data";
import type { Table } from "../src/saving/files";

type Make = (r: Report, pick: Pick) => Table;
const sum = (v: readonly number[]): number => v.reduce((a, b) => a + b, 0);
const shares = (v: readonly number[]): number[] => {
  const s = sum(v);
  return v.map((x) => (s ? x / s : 0));
};
const headsOf = (r: Report): number[] => Array.from({ length: r.heads }, (_, h) => h);
const added = (rows: readonly (readonly number[])[]): number[] =>
  rows[0]!.map((_, k) => sum(rows.map((row) => row[k]!)));
const layersOf = ({ early, middle, layer }: Pick): number[] => [...new Set([early, middle, layer])];

// Columns are names with the paths of their members; the name alone where they are the same.
const namesOf = (columns: string): string[] => columns.split(" ").map((column) => column.split("=")[0]!);
const cellsOf = (columns: string, row: object): Table[number] =>
  columns.split(" ").map((column) => {
    const path = column.split("=").at(-1)!.split(".");
    return path.reduce<unknown>((at, name) => (at as Record<string, unknown>)[name], row) as Table[number][number];
  });

const HEAD =
  "high_pairs=high texts_with_high repeated_share=repeated_share.value repeated_spread=repeated_share.spread " +
  "repeated_lift same_sentence_share=same_sentence_share.value same_sentence_spread=same_sentence_share.spread " +
  "same_sentence_lift repeated_same_sentence_share repeated_same_sentence_lift mean_distance=mean_distance.value " +
  "mean_distance_spread=mean_distance.spread median_distance focal_share=focal_share.value " +
  "focal_share_spread=focal_share.spread dprime auc";
const NOISE = "snr snr_db snr_null auc auc_within_distances dprime dprime_within_distances";
const FOCUS = "mass_cls mass_sep mass_end mass_comma mass_rest precision recall f1";
const FINDING = "claim paper measured criterion verdict";
const NEAR = ["first", "self", "previous", "next"] as const;
const STATISTICS = [
  ["Repeated-token share", "repeated_share"],
  ["Same-sentence share", "same_sentence_share"],
  ["Mean distance", "mean_distance"],
  ["Focal share", "focal_share"],
] as const;

const ofShares =
  (name: "repeated_hist" | "repeated_same_sentence_hist" | "same_sentence_hist" | "focal_hist"): Make =>
  (r, pick) => [
    ["head", "bin_from", "bin_to", "texts", "share_of_texts"],
    ...r[name][pick.threshold]![pick.layer]!.flatMap((texts, h) => {
      const of = shares(texts);
      return texts.map((n, b) => [h, b / 20, (b + 1) / 20, n, of[b]!]);
    }),
  ];

// Pairs by their distance from 1 on, of heads or layers.
function byDistance(r: Report, of: string, list: readonly (readonly [number, readonly number[]])[]): Table {
  const chance = shares(r.all_distance);
  return [
    [of, "distance", "pairs", "chance_share"],
    ...list.flatMap(([at, pairs]) => pairs.map((n, d) => [at, d, n, chance[d]!]).slice(1)),
  ];
}

// A statistic of the chosen layer's heads.
const ofHeads =
  (names: readonly string[], rows: (of: (t: number) => Head["focal_share"], r: Report, pick: Pick) => Table): Make =>
  (r, pick) => [
    ["statistic", "head", ...names],
    ...STATISTICS.flatMap(([title, key]) =>
      headsOf(r).flatMap((h) =>
        rows((t) => r.head_figures[t]![pick.layer]![h]![key], r, pick).map((row) => [title, h, ...row]),
      ),
    ),
  ];

// Maps of one text, of one kind or of all of one head.
const ofMaps =
  (selected: (map: NonNullable<Report["one_text"]>["maps"][number], last: number) => boolean): Make =>
  (r) => {
    const { tokens, source_tokens, maps } = r.one_text!;
    const last = maps.at(-1)!.layer;
    return [
      ["kind", "layer", "head", "from", "to", "from_token", "to_token", "value"],
      ...maps
        .filter((map) => selected(map, last))
        .flatMap(({ kind, layer, head, values }) => {
          const keys = kind === "attention" && source_tokens ? source_tokens : tokens;
          return values.map((v, k) => {
            const [i, j] = [Math.floor(k / keys.length), k % keys.length];
            return [kind, layer, head ?? "all", i, j, tokens[i]!, keys[j]!, v];
          });
        }),
    ];
  };

const TABLES: Record<string, Make> = {
  "4": ofMaps((map) => map.kind === "attention"),
  "5": ofMaps((map, last) => map.layer === last && map.head !== null),
  "9": (r) => [
    ["layer", "head", "i", "j", "token_i", "token_j", "normalized_similarity", "same_token", "same_sentence"],
    ...r.one_text!.heads.flatMap(({ head, pairs }) =>
      pairs.map(([i, j, n]) => {
        const { tokens, sentences } = r.one_text!;
        const sameSentence = sentences[i]! >= 0 && sentences[i] === sentences[j];
        const same = [tokens[i] === tokens[j], sameSentence].map(Number);
        return [r.layers.at(-1)!, head, i, j, tokens[i]!, tokens[j]!, n, ...same];
      }),
    ),
  ],
  "6a": ofShares("repeated_hist"),
  "6b": ofShares("repeated_same_sentence_hist"),
  "8": ofShares("same_sentence_hist"),
  "11a": ofShares("focal_hist"),
  "7": (r, pick) => byDistance(r, "head", [...r.distance[pick.threshold]![pick.layer]!.entries()]),
  "11b": (r, pick) => [
    ["unique_focal_tokens", "texts"],
    ...r.unique_focal[pick.threshold]![pick.layer]!.map((n, k) => [k, n]),
  ],
  "13": (r, pick) => {
    const distances = r.distance[pick.threshold]!;
    return byDistance(
      r,
      "layer",
      layersOf(pick).map((l) => [r.layers[l]!, added(distances[l]!)]),
    );
  },
  A1: (r, pick) => {
    const normal = shares(added(r.normalized_hist[pick.layer]!)),
      columns = shares(added(r.column_hist[pick.layer]!));
    return [
      ["bin_from", "bin_to", "share_of_pairs", "share_of_columns"],
      ...columns.map((share, b) => [b / 100, (b + 1) / 100, normal[b + 1]!, share]),
    ];
  },
  sensitivity: ofHeads(["threshold", "value"], (of, r) => r.thresholds.map((tau, t) => [tau, of(t).value])),
  stability: ofHeads(["value", "low", "high", "spread_of_parts"], (of, _, { threshold }) => {
    const { value, low, high, spread } = of(threshold);
    return [[value, low ?? null, high ?? null, spread]];
  }),
  noise: (r) => [
    ["layer", "head", ...namesOf(NOISE)],
    ...r.layers.flatMap((layer, l) => r.head_figures[0]![l]!.map((f, h) => [layer, h, ...cellsOf(NOISE, f)])),
  ],
  focus: (r) => [
    ["layer", ...namesOf(FOCUS)],
    ...r.layer_figures[0]!.map((f, l) => [r.layers[l]!, ...cellsOf(FOCUS, f)]),
  ],
  tokens: (r, pick) => [
    ["layer", "token", "times_focal"],
    ...layersOf(pick).flatMap((l) =>
      r.focal_ids[l]!.map((id, k) => [r.layers[l]!, r.focus_tokens[String(id)] ?? "", r.focal_counts[l]![k]!]).filter(
        (row) => row[2],
      ),
    ),
  ],
  neighbours: (r) => [
    ["layer", "head", ...NEAR],
    ...r.layers.flatMap((layer, l) =>
      headsOf(r).map((h) => [layer, h, ...NEAR.map((near) => r[`profiles_${near}`]?.[l]![h] ?? null)]),
    ),
  ],
  findings: (r) => [
    [...namesOf(FINDING), "holds"],
    ...r.findings.map((f) => [...cellsOf(FINDING, f), f.holds === null ? null : String(f.holds)]),
  ],
  heads: (r) => [
    ["threshold", "layer", "head", ...namesOf(HEAD)],
    ...r.head_figures.flatMap((layers, t) =>
      layers.flatMap((list, l) => list.map((f, h) => [r.thresholds[t]!, r.layers[l]!, h, ...cellsOf(HEAD, f)])),
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
