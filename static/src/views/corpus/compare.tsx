// The figures of runs side by side: the server's charts of all, one figure in full, and its numbers as a table.
import type { CorpusComparison } from "../../../../build/openapi";
import { format, percent } from "../../maps/scale";
import type { Exportable } from "../../saving/export";
import { useExport } from "../../saving/offer";
import { useApp } from "../../ui/context";
import { Button, Select } from "../../ui/controls";
import { HeadLink } from "../../heads/head-map";
import { StateSegmented } from "../../ui/state-controls";
import { Sortable, type Column } from "../../ui/sortable";
import { comparisonAddress, type Compared, type Report, type Run } from "./api";
import { columnOfRun, commonThresholds, rankRows, rowsOf, type Row } from "./figures";
import { RunLabels } from "./labels";
import { FileLink, useAttempt } from "./list";
import { fileName, nameOfRun } from "./names";
import { Part } from "./pages";
import { openInRun, patternNumbers, RunPatterns } from "./patterns";
import { RunPruning } from "./pruning";

// With its sign, unless it is too small to write; the difference of two fractions is in percentage points.
function signed(value: number | null, write: (v: number | null) => string): string {
  if (value === null) return "–";
  const size = write(Math.abs(value)).replace("%", "pp");
  if (value === 0 || size.startsWith("<")) return size;
  return value < 0 ? `−${size}` : `+${size}`;
}

interface Props {
  runs: readonly Run[];
  compared: Compared;
  report: Report; // of the first
  page: Document | null; // of the first's report; null: on its way
  also: { current: Exportable["also"] }; // saved with it
}

export function RunCompare({ runs, compared, report, page, also }: Props) {
  const app = useApp();
  const { numbers, page: drawn } = compared;
  const figure = numbers.figures.find(({ name }) => name === app.state.figure) ?? numbers.figures[0];
  useExport(() => ({
    name: `headscope-runs-${fileName(runs.map(nameOfRun).join("-"))}`,
    title: `headscope · ${runs.map(nameOfRun).join(" and ")}`,
    provenance: {
      tool: "headscope",
      runs: numbers.runs.map(({ provenance }) => provenance),
      page: app.address.href(),
    },
    part: ".run-compare",
    rows: () => tableOf(numbers),
    heads: patternNumbers(app, report),
    also: also.current,
  }));
  const [first] = runs;
  const thresholds = commonThresholds(numbers);
  return (
    <div class="run-compare">
      <div class="toolbar">
        <Select
          label="Threshold"
          help="tau"
          value={thresholds.find((tau) => Math.abs(tau - numbers.threshold) < 1e-6) ?? NaN}
          options={thresholds.map((tau) => [tau, String(tau)] as const)}
          onChange={app.setter("level")}
        />
      </div>
      <Legend runs={runs} numbers={numbers} />
      <ComparisonLinks runs={runs} threshold={app.state.level} />
      <div class="plots">
        {numbers.figures.map(({ name, title }) => (
          <figure class="plot" key={name} aria-label={title}>
            <Button
              class="plain"
              title="Shows it in full, and in the table."
              aria-pressed={name === figure?.name}
              onClick={() => app.set({ figure: name })}
            >
              {title}
            </Button>
            <Part page={drawn} select={`#figure-${name} .panels > svg:first-child`} />
          </figure>
        ))}
      </div>
      {figure && (
        <section class="run-figure" aria-label={figure.title}>
          <h3>{figure.title}</h3>
          <Part page={drawn} select={`#figure-${figure.name} > :is(.panels, figcaption)`} />
          <FigureTable runs={runs} numbers={numbers} figure={figure} />
        </section>
      )}
      {first && <RunLabels run={first} report={report} page={page} />}
      {first && <RunPruning run={first} report={report} page={page} />}
      {first && <RunPatterns run={first} report={report} />}
    </div>
  );
}

// Names the runs by their numbers in the charts.
function Legend({ runs, numbers }: { runs: readonly Run[]; numbers: CorpusComparison }) {
  const of = (name: string, n: number): number | null => numbers.run_figures[name]?.[n] ?? null;
  const masked = (n: number): string =>
    of("masked_loss", n) === null
      ? ""
      : ` · masked tokens found: ${percent(of("masked_accuracy", n))}, loss ${format(of("masked_loss", n))}`;
  return (
    <>
      <div class="run-legend">
        {runs.map((run, n) => (
          <div class="key" key={run.id}>
            <b>run {n}</b>
            <strong>{nameOfRun(run)}</strong>
            <span class="muted">{`${of("texts", n)?.toLocaleString("en") ?? ""} texts${masked(n)}`}</span>
          </div>
        ))}
      </div>
      {numbers.warnings.map((warning) => (
        <p class="muted" key={warning}>
          {warning}
        </p>
      ))}
    </>
  );
}

// The server's own comparison of these runs, as files.
function ComparisonLinks({ runs, threshold }: { runs: readonly Run[]; threshold: number }) {
  const [attempt, failure] = useAttempt();
  const ids = runs.map(({ id }) => id);
  return (
    <div class="comparison-links">
      {COMPARISON_FORMATS.map(([format, text]) => (
        <FileLink
          key={format}
          text={text}
          file={`comparison.${format}`}
          address={comparisonAddress(ids, format, threshold)}
          attempt={attempt}
        />
      ))}
      {failure}
    </div>
  );
}

const COMPARISON_FORMATS = [
  ["html", "Open the comparison"],
  ["json", "JSON"],
  ["csv", "CSV"],
] as const;

const differenceName = (count: number): string => (count > 2 ? "Last − first" : "First − second");
const placeName = ({ layer, head }: Row): string => (head === null ? `layer ${layer}` : `layer ${layer} head ${head}`);

function FigureTable(props: {
  runs: readonly Run[];
  numbers: CorpusComparison;
  figure: CorpusComparison["figures"][number];
}) {
  const app = useApp();
  const { runs, numbers, figure } = props;
  const { by, rank } = app.state;
  const write = figure.unit === "share" ? percent : format;
  const names = runs.map(nameOfRun);
  const alike = new Set(names).size < names.length;
  const open = (layer: number, head: number): void => void (runs[0] && openInRun(app, runs[0], layer, head));
  const columns: Column<Row>[] = [
    {
      key: "place",
      name: "Place",
      words: true,
      cell: (row) =>
        row.head === null ? placeName(row) : <HeadLink layer={row.layer} head={row.head} onOpen={open} />,
    },
    ...names.map((name, n) => ({
      key: columnOfRun(n),
      name: alike ? `${n}. ${name}` : name,
      number: true,
      cell: ({ values }: Row) => write(values[n] ?? null),
    })),
  ];
  if (names.length > 1)
    columns.push({
      key: "difference",
      name: differenceName(names.length),
      number: true,
      cell: (row) => signed(row.difference, write),
    });
  return (
    <div class="run-table">
      <StateSegmented field="by" help="head" />
      <Sortable
        label={`${figure.title} as a table`}
        caption={`${figure.title}, ${figure.unit}`}
        columns={columns}
        rows={rankRows(rowsOf(numbers, figure.name, by), rank)}
        order={rank}
        onSort={app.setter("rank")}
        keyOf={placeName}
      />
    </div>
  );
}

// All figures of layers and heads.
function tableOf(numbers: CorpusComparison): (string | number)[][] {
  return [
    ["figure", "threshold", "layer", "head", ...numbers.runs.map((_, n) => columnOfRun(n)), "difference"],
    ...numbers.figures.flatMap(({ name }) =>
      [...rowsOf(numbers, name, "layers"), ...rowsOf(numbers, name, "heads")].map((row) => [
        ...[name, numbers.threshold, row.layer, row.head ?? ""],
        ...[...row.values, row.difference].map((value) => value ?? ""),
      ]),
    ),
  ];
}
