// The key figures of runs side by side, as linked charts and as a table.
import { useRef } from "preact/hooks";
import type { App } from "../../app/app";
import { format, percent } from "../../maps/scale";
import type { Exportable } from "../../saving/export";
import { useApp, useExport } from "../../ui/context";
import { Segmented, Select } from "../../ui/controls";
import { StateSelect } from "../../ui/state-controls";
import { Sortable, type Column } from "../../ui/sortable";
import { comparisonAddress, type Report } from "./api";
import {
  columnOfRun,
  isOfHeads,
  isOfOneLayer,
  isOverRuns,
  rankRows,
  RUN_FIGURE_NAMES,
  RUN_FIGURES,
  type Row,
} from "./figures";
import { FileLink, useAttempt } from "./list";
import { fileName, nameOfRun } from "./names";
import { RunLabels } from "./labels";
import { patternNumbers, RunPatterns } from "./patterns";
import { Plot, styleOf } from "./charts";
import { OVER_LEAST, placeName, rowsIn, shownOf, type Shown, type Side } from "./shown";

const BY_CHOICES = [
  { value: "layers", label: "Layers" },
  { value: "heads", label: "Every head" },
  { value: "layer", label: "One layer’s heads" },
] as const;
const OVER_CHOICES = [
  { value: "runs", label: "Layers over runs" },
  { value: "runheads", label: "Heads over runs" },
] as const;

// With its sign, unless it is too small to write; the difference of two fractions is in percentage points.
function signed(value: number | null, write: (v: number | null) => string): string {
  if (value === null) return "–";
  const size = write(Math.abs(value)).replace("%", "pp");
  if (value === 0 || size.startsWith("<")) return size;
  return value < 0 ? `−${size}` : `+${size}`;
}

// The run's unusual options, and its predictions of masked tokens.
function optionsOf(report: Report): string {
  const { interventions, similarity_space, center } = report.provenance.options;
  const { precision } = report.provenance.model;
  const { masked } = report;
  const parts = [
    precision !== "fp32" && precision,
    similarity_space === "residual" && "residual space",
    center === "text" && "centred similarity",
    interventions?.length && `changed: ${JSON.stringify(interventions)}`,
    masked?.tokens &&
      `masked tokens found: ${percent(masked.accuracy)}, loss ${format(masked.loss)} (${masked.tokens.toLocaleString("en")})`,
  ];
  return parts
    .filter(Boolean)
    .map((part) => ` · ${part}`)
    .join("");
}

// `also`: saved with it.
export function RunCompare({ sides, also }: { sides: readonly Side[]; also: { current: Exportable["also"] } }) {
  const app = useApp();
  const shown = shownOf(app, sides);
  const { by } = shown;
  const cursor = useRef(-1); // index into the places; the charts share it
  useExport(() => runsExport(app, shown, also.current));
  const [first] = sides;
  return (
    <div class="run-compare">
      <div class="toolbar">
        <Segmented
          legend="Show"
          help="head"
          value={by}
          choices={sides.length < OVER_LEAST ? BY_CHOICES : [...BY_CHOICES, ...OVER_CHOICES]}
          onChange={(value) => app.set({ by: value })}
        />
        {isOfOneLayer(by) && (
          <Select
            label="Layer"
            help="head"
            value={shown.layer}
            options={shown.layers.map((l) => [l, String(l)] as const)}
            onChange={(layer) => app.set({ layer })}
          />
        )}
        <Select
          label="Threshold"
          help="tau"
          value={shown.level}
          options={shown.thresholds.map((tau) => [tau, String(tau)] as const)}
          onChange={(level) => app.set({ level })}
        />
      </div>
      <Legend shown={shown} />
      {sides.length > 1 && <ComparisonLinks sides={sides} />}
      <div class="plots">
        {RUN_FIGURE_NAMES.filter((name) => !isOfHeads(by) || RUN_FIGURES[name].head).map((name) => (
          <Plot key={name} name={name} shown={shown} cursor={cursor} />
        ))}
      </div>
      {first && <RunLabels run={first.run} report={first.report} />}
      {first && <RunPatterns run={first.run} report={first.report} />}
      <FigureTable shown={shown} />
    </div>
  );
}

// Why figures may differ that should not be compared.
function doubtsOf(reports: readonly Report[]): string {
  const lengths = new Set(reports.map((r) => r.provenance.options.max_tokens));
  const layers = new Set(reports.map((r) => r.layers.length));
  if (reports.length < 2)
    return "A second finished run is drawn beside this one: another model, or another kind of text.";
  return [
    lengths.size > 1 && "They cut texts at different lengths, which moves distances and chance.",
    layers.size > 1 && "Layers are side by side by number, not by depth.",
  ]
    .filter(Boolean)
    .join(" ");
}

function Legend({ shown }: { shown: Shown }) {
  const { sides, by, places } = shown;
  const over = isOverRuns(by);
  const note = doubtsOf(sides.map(({ report }) => report));
  const ends = [places[0], places.at(-1)].map((place) => (place ? placeName(place) : ""));
  return (
    <>
      <div class="run-legend">
        {sides.map(({ run, report }, n) => (
          <div class={`key ${sides.length > 2 ? "" : n ? "second" : "first"}`} key={run.id}>
            {over ? <b>{n}</b> : <i aria-hidden="true" style={swatch(n, sides.length)} />}
            <strong>{nameOfRun(run)}</strong>
            <span class="muted">
              {`${report.provenance.model.name} · ${report.texts.toLocaleString("en")} texts · `}
              {`${report.provenance.options.max_tokens} tokens${optionsOf(report)}`}
            </span>
          </div>
        ))}
        <div class="key chance">
          <i aria-hidden="true" />
          <span class="muted">chance</span>
        </div>
      </div>
      {over && (
        <p class="muted">{`Runs from left to right in this order. Lines from ${ends.join(" (blue) to ")} (red).`}</p>
      )}
      {note && <p class="muted">{note}</p>}
    </>
  );
}

const swatch = (n: number, count: number): { borderTopColor: string } | undefined =>
  count > 2 ? { borderTopColor: styleOf(n, count).colour } : undefined;

// The server's own comparison of these runs, as files.
function ComparisonLinks({ sides }: { sides: readonly Side[] }) {
  const [attempt, failure] = useAttempt();
  const ids = sides.map(({ run }) => run.id);
  return (
    <div class="comparison-links">
      {COMPARISON_FORMATS.map(([format, text]) => (
        <FileLink
          key={format}
          text={text}
          file={`comparison.${format}`}
          address={comparisonAddress(ids, format)}
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

function FigureTable({ shown }: { shown: Shown }) {
  const app = useApp();
  const { figure, rank } = app.state;
  const about = RUN_FIGURES[figure];
  const places = about.head ? shown.places : shown.places.filter(({ head }) => head === null);
  const names = shown.sides.map(({ run }) => nameOfRun(run));
  const alike = new Set(names).size < names.length;
  const columns: Column<Row>[] = [
    { key: "place", name: "Place", words: true, cell: ({ place }) => placeName(place) },
    ...names.map((name, n) => ({
      key: columnOfRun(n),
      name: alike ? `${n + 1}. ${name}` : name,
      number: true,
      cell: ({ values }: Row) => about.write(values[n] ?? null),
    })),
  ];
  if (names.length > 1)
    columns.push({
      key: "difference",
      name: differenceName(names.length),
      number: true,
      cell: (row) => signed(row.difference, about.write),
    });
  return (
    <div class="run-table">
      <StateSelect
        label="Figure in the table"
        help="figure"
        id="run-figure"
        field="figure"
        options={RUN_FIGURE_NAMES.map((name) => [name, RUN_FIGURES[name].name] as const)}
      />
      <Sortable
        label={`${about.name} as a table`}
        caption={`${about.title}.`}
        columns={columns}
        rows={rankRows(rowsIn(shown, figure, places), rank)}
        order={rank}
        onSort={(order) => app.set({ rank: order })}
        keyOf={({ place }) => placeName(place)}
      />
    </div>
  );
}

function runsExport(app: App, shown: Shown, also: Exportable["also"]): Exportable | null {
  const { sides, places, level } = shown;
  const [first] = sides;
  if (!first) return null;
  const rows = (): (string | number)[][] => [
    ["figure", "threshold", "layer", "head", ...sides.map((_, n) => columnOfRun(n)), "difference"],
    ...RUN_FIGURE_NAMES.flatMap((name) =>
      rowsIn(shown, name, places).map(({ place, values, difference }) => [
        ...[name, level, place.layer, place.head ?? ""],
        ...[...values, difference].map((value) => value ?? ""),
      ]),
    ),
  ];
  const names = sides.map(({ run }) => nameOfRun(run));
  return {
    name: `headscope-runs-${fileName(names.join("-"))}`,
    title: `headscope · ${names.join(" and ")}`,
    provenance: {
      tool: "headscope",
      runs: sides.map(({ report }) => report.provenance),
      page: app.address.href(),
    },
    part: ".run-compare",
    rows,
    heads: patternNumbers(app, first.report),
    also,
  };
}
