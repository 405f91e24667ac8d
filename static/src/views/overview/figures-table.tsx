// All heads' figures as a table, for screen readers and for copying.
import type { Answer } from "../../app/answer";
import {
  FIGURE_NAMES,
  FIGURES,
  isScore,
  patternName,
  patternOf,
  soundValueOf,
  writeFigure,
  type Figure,
  type Known,
} from "../../heads/figures";
import { HeadLink } from "../../heads/head-map";
import { useApp } from "../../ui/context";
import { columnOf, difference, signOf, Sortable, type Column } from "../../ui/sortable";

interface Row {
  l: number;
  head: number;
  summary: Known;
}

// Rows without a sound value come last either way.
export function orderRows(rows: readonly Row[], order: string, least: number): Row[] {
  const [column, sign] = [columnOf(order), signOf(order)];
  const place = (a: Row, b: Row): number => a.l - b.l || a.head - b.head;
  if (column === "pattern")
    return [...rows].sort((a, b) => {
      const [p, q] = [patternOf(a.summary), patternOf(b.summary)];
      return Number(!p) - Number(!q) || sign * p.localeCompare(q) || place(a, b);
    });
  const figure = FIGURE_NAMES.find((name) => name === column);
  if (!figure) return sign > 0 ? [...rows] : [...rows].reverse();
  const value = (row: Row): number => {
    const v = soundValueOf(row.summary, figure, least);
    return v === null ? Infinity : sign * v;
  };
  return [...rows].sort((a, b) => difference(value(a), value(b)) || place(a, b));
}

export function FiguresTable({ answer, summary }: { answer: Answer; summary: Known[][] }) {
  const app = useApp();
  const { column, least } = app.state;
  const rows = answer.layers.flatMap(
    (_, l) => summary[l]?.map((known, head): Row => ({ l, head, summary: known })) ?? [],
  );
  const scored = rows.some(({ summary: known }) => known.scores);
  const figureColumn = (name: Figure): Column<Row> => ({
    key: name,
    name: FIGURES[name].name,
    title: FIGURES[name].title,
    cell: ({ summary: known }) => writeFigure(known, name),
    weak: ({ summary: known }) => soundValueOf(known, name, least) === null,
  });
  const columns: Column<Row>[] = [
    {
      key: "head",
      name: "Head",
      title: "By layer and head",
      words: true,
      cell: ({ l, head }) => <HeadLink layer={l} head={head} onOpen={app.open} />,
    },
    {
      key: "pattern",
      name: "Pattern",
      title: "The target of most of its attention in the model’s sample text",
      words: true,
      cell: ({ summary: known }) => patternName(known) || "–",
    },
    ...FIGURE_NAMES.filter((name) => scored || !isScore(name)).map(figureColumn),
  ];
  return (
    <Sortable
      label="Figures of all heads"
      caption={`Fractions are of high pairs, whose number is beside them. Heads with fewer than ${least} are sorted last.`}
      columns={columns}
      rows={orderRows(rows, column, least)}
      order={column}
      onSort={app.setter("column")}
      keyOf={({ l, head }) => `${l} ${head}`}
    />
  );
}
