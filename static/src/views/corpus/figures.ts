// The numbers of a comparison of runs as the rows of a table. The service counts them.
import type { CorpusComparison } from "../../../../build/openapi";

export const BYS = ["layers", "heads"] as const;
type By = (typeof BYS)[number];

export interface Row {
  layer: number;
  head: number | null; // null: the whole layer
  values: (number | null)[]; // of each run
  difference: number | null; // of two runs the first - the second, of more the last - the first
}

function differenceOf(values: readonly (number | null)[]): number | null {
  const [from, to] = values.length > 2 ? [values.at(-1), values[0]] : values;
  return typeof from === "number" && typeof to === "number" ? from - to : null;
}

// The rows of a figure by layer, or by head. A figure that only layers have has no rows of heads.
export function rowsOf(of: CorpusComparison, figure: string, by: By): Row[] {
  const heads = by === "heads" ? of.head_figures?.[figure] : undefined;
  const row = (layer: number, head: number | null, values: (number | null)[]): Row => ({
    ...{ layer, head, values },
    difference: differenceOf(values),
  });
  if (by === "layers")
    return of.layers.map((layer, l) =>
      row(
        layer,
        null,
        (of.layer_figures[figure] ?? []).map((run) => run[l] ?? null),
      ),
    );
  return of.layers.flatMap((layer, l) =>
    (heads?.[0]?.[l] ?? []).map((_, head) =>
      row(
        layer,
        head,
        (heads ?? []).map((run) => run[l]?.[head] ?? null),
      ),
    ),
  );
}

// The key of a run's column: "first", "second", "run3".
export const columnOfRun = (n: number): string => ["first", "second"][n] ?? `run${n + 1}`;

// rank: a column, with "-" before it from the largest down; differences by their size. Missing values come last.
export function rankRows(rows: readonly Row[], rank: string): Row[] {
  const down = rank.startsWith("-");
  const column = rank.replace("-", "");
  const key = ({ values, difference }: Row, at: number): number | null => {
    if (column === "difference") return difference === null ? null : Math.abs(difference);
    const run = values.findIndex((_, n) => columnOfRun(n) === column);
    return run < 0 ? at : (values[run] ?? null);
  };
  const keyed = rows.map((row, at) => ({ row, at, key: key(row, at) }));
  keyed.sort((a, b) => {
    if (a.key === null || b.key === null) return Number(a.key === null) - Number(b.key === null) || a.at - b.at;
    return (down ? b.key - a.key : a.key - b.key) || a.at - b.at;
  });
  return keyed.map(({ row }) => row);
}

// Thresholds that all runs counted at.
export function commonThresholds(of: CorpusComparison): number[] {
  const lists = of.runs.map(({ provenance }) =>
    (provenance as { options: { thresholds: number[] } }).options.thresholds.map((tau) => Number(tau.toPrecision(6))),
  );
  return (lists[0] ?? []).filter((tau) => lists.every((list) => list.includes(tau)));
}
