// The key figures of runs side by side, as linked charts and as a table.
import { useMemo, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import type { App } from "../../app/app";
import { format, percent } from "../../maps/scale";
import type { Exportable } from "../../saving/export";
import { Chart, chartsOf, labelledAxis, type ChartOptions, type ChartStyle } from "../../ui/chart";
import { useApp, useExport } from "../../ui/context";
import { Button, Segmented, Select } from "../../ui/controls";
import { StateSelect } from "../../ui/state-controls";
import { Sortable, type Column } from "../../ui/sortable";
import { comparisonAddress, type Report, type Run } from "./api";
import {
  columnOfRun,
  commonThresholds,
  isOfHeads,
  isOfOneLayer,
  isOverRuns,
  placesOf,
  rankRows,
  rowsOf,
  RUN_FIGURE_NAMES,
  RUN_FIGURES,
  tickOf,
  type By,
  type Place,
  type Row,
  type RunFigure,
} from "./figures";
import { FileLink, useAttempt } from "./list";
import { fileName, nameOfRun } from "./names";
import { RunLabels } from "./labels";
import { patternNumbers, RunPatterns } from "./patterns";

export interface Side {
  run: Run;
  report: Report;
}

interface LineStyle {
  colour: string; // a custom property's name, or a colour
  dash: readonly number[] | undefined;
  hollow: boolean; // its points
}

// Two lines differ in colour, dashes and points; more go from blue to red in their order.
function styleOf(n: number, count: number): LineStyle {
  if (count <= 2)
    return n
      ? { colour: "--attention", dash: [6, 3], hollow: true }
      : { colour: "--similarity", dash: undefined, hollow: false };
  return { colour: `hsl(${220 - (220 * n) / (count - 1)} 62% 48%)`, dash: undefined, hollow: false };
}
const GROUP = "runs"; // of charts that share their cursor

const BY_CHOICES = [
  { value: "layers", label: "Layers" },
  { value: "heads", label: "Every head" },
  { value: "layer", label: "One layer’s heads" },
] as const;
const OVER_CHOICES = [
  { value: "runs", label: "Layers over runs" },
  { value: "runheads", label: "Heads over runs" },
] as const;
const OVER_LEAST = 3; // runs

const placeName = ({ layer, head }: Place): string =>
  head === null ? `layer ${layer}` : `layer ${layer} head ${head}`;

// With its sign; the difference of two fractions is in percentage points.
function signed(value: number | null, write: (v: number | null) => string): string {
  if (value === null) return "–";
  const size = write(Math.abs(value)).replace("%", "pp");
  return value < 0 ? `−${size}` : value > 0 ? `+${size}` : size;
}

// The run's unusual options, and its predictions of masked tokens.
function optionsOf(report: Report): string {
  const { interventions, similarity_space } = report.provenance.options;
  const { precision } = report.provenance.model;
  const { masked } = report;
  const parts = [
    precision !== "fp32" && precision,
    similarity_space === "residual" && "residual space",
    interventions?.length && `changed: ${JSON.stringify(interventions)}`,
    masked?.tokens &&
      `masked tokens found: ${percent(masked.accuracy)}, loss ${format(masked.loss)} (${masked.tokens.toLocaleString("en")})`,
  ];
  return parts
    .filter(Boolean)
    .map((part) => ` · ${part}`)
    .join("");
}

// The choices that all charts and the table share.
interface Shown {
  sides: readonly Side[];
  by: By;
  layers: number[];
  layer: number;
  thresholds: number[];
  level: number;
  places: Place[];
  key: string;
}

function shownOf({ state, theme }: App, sides: readonly Side[]): Shown {
  const reports = sides.map(({ report }) => report);
  const layers = [...new Set(reports.flatMap((r) => r.layers))].sort((a, b) => a - b);
  const layer = layers.includes(state.layer) ? state.layer : (layers.at(-1) ?? 0);
  const thresholds = commonThresholds(reports);
  const middle = thresholds[Math.floor(thresholds.length / 2)] ?? NaN;
  const level = thresholds.includes(state.level) ? state.level : middle;
  const by = isOverRuns(state.by) && sides.length < OVER_LEAST ? "layers" : state.by;
  const key = JSON.stringify([sides.map(({ run }) => run.id), by, layer, level, theme]);
  return { sides, by, layers, layer, thresholds, level, places: placesOf(reports, by, layer), key };
}

const rowsIn = ({ sides, level }: Shown, name: RunFigure, places: readonly Place[]): Row[] =>
  rowsOf(
    sides.map(({ report }) => report),
    name,
    level,
    places,
  );

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

// From 0, so that heights compare; with space above.
const reach = (low: number | null, high: number | null): [number, number] => {
  const top = Math.max(0, high ?? 0);
  return [Math.min(0, low ?? 0), top > 0 ? top * 1.08 : 1];
};

interface Line extends LineStyle {
  values: (number | null)[];
  faint?: boolean; // without points
}

// The levels of chance, one if the runs agree, and a line for each run, or for each place over the runs.
function linesOf(shown: Shown, name: RunFigure): Line[] {
  const rows = rowsIn(shown, name, shown.places);
  const { sides, by } = shown;
  const of = isOverRuns(by)
    ? rows.map(({ values }) => values)
    : sides.map((_, n) => rows.map(({ values }) => values[n] ?? null));
  const chances = sides.map(({ report }) => RUN_FIGURES[name].chance(report));
  const one = chances.every((v) => v === chances[0]);
  const faint = chances.slice(0, one ? 1 : sides.length).flatMap((chance, n): Line[] => {
    if (chance === null || (isOverRuns(by) && n)) return [];
    const colour = one || isOverRuns(by) ? "--muted" : styleOf(n, sides.length).colour;
    const values = isOverRuns(by) ? chances : rows.map(() => chance);
    return [{ values, colour, dash: [2, 3], hollow: false, faint: true }];
  });
  return [...faint, ...of.map((values, n) => ({ values, ...styleOf(n, of.length) }))];
}

function seriesOf({ colour, dash, hollow, faint }: Line, style: ChartStyle, dots: boolean): uPlot.Series {
  const stroke = colour.startsWith("--") ? style.colour(colour) : colour;
  const fill = hollow ? style.colour("--page") : stroke;
  return {
    stroke,
    width: faint ? 1 : 2,
    dash: dash && [...dash],
    alpha: faint ? 0.75 : 1,
    ...(dots && !faint ? { paths: () => null } : {}), // too many points to join
    points: { show: !faint, size: 5, width: 1, stroke, fill },
  };
}

function Plot(props: { name: RunFigure; shown: Shown; cursor: { current: number } }) {
  const app = useApp();
  const { name, shown, cursor } = props;
  const { figure } = app.state;
  const about = RUN_FIGURES[name];
  const { sides, by, places, key } = shown;
  const over = isOverRuns(by);
  const xs = over ? sides.map((_, n) => n) : places.map(({ x }) => x);
  const [index, setIndex] = useState<number | null>(null);
  const lines = useMemo(() => linesOf(shown, name), [key]);
  const data = useMemo((): uPlot.AlignedData => [xs, ...lines.map(({ values }) => values)], [lines]);
  const solid = lines.filter(({ faint }) => !faint);
  const words = (at: number): string[] => solid.map(({ values }) => about.write(values[at] ?? null));
  const describe = (at: number): string => {
    const place = places[at];
    const names = over ? places.map(placeName) : sides.map(({ run }) => nameOfRun(run));
    const where = over ? sides[at] && `run ${at} ${nameOfRun(sides[at].run)}` : place && placeName(place);
    return where ? [where, about.name, ...words(at).map((value, n) => `${names[n]} ${value}`)].join("   ") : "";
  };
  // The cursor of one chart is that of all; the one under the pointer announces.
  const point = useRef<(chart: uPlot) => void>(() => {});
  point.current = (chart) => {
    const at = chart.cursor.idx ?? null;
    cursor.current = at ?? -1;
    setIndex(at);
    if (chart.root.matches(":hover")) app.announce(at === null ? "" : describe(at));
  };
  const options = (style: ChartStyle): ChartOptions => ({
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false }, sync: { key: GROUP, setSeries: false } },
    legend: { show: false },
    scales: { x: { time: false }, y: { range: (_, low, high) => reach(low, high) } },
    axes: [
      {
        ...labelledAxis(style, over ? "Run" : by === "layer" ? "Head" : "Layer"),
        size: 20,
        gap: 2,
        incrs: [1, 2, 4, 5, 10, 20, 50],
      },
      { ...style.axis, grid: style.grid, size: 46, space: 28, values: (_, ticks) => ticks.map((v) => tickOf(name, v)) },
    ],
    series: [{}, ...lines.map((line) => seriesOf(line, style, by === "heads"))],
    hooks: { setCursor: [(chart) => point.current(chart)] },
  });
  const onKeyDown = (e: KeyboardEvent): void => {
    const last = xs.length - 1;
    const to = { ArrowLeft: cursor.current - 1, ArrowRight: cursor.current + 1, Home: 0, End: last }[e.key];
    if (to === undefined) return;
    const at = Math.min(last, Math.max(0, to));
    e.preventDefault();
    for (const chart of chartsOf(GROUP)) chart.setCursor({ left: chart.valToPos(xs[at] ?? 0, "x"), top: 1 });
    app.announce(describe(at), true);
  };
  return (
    <figure class="plot">
      <figcaption>
        <Button
          class="plain"
          title={`${about.title}. Shows it in the table.`}
          aria-pressed={figure === name}
          onClick={() => app.set({ figure: name })}
        >
          {about.name}
        </Button>
        <span class="at" aria-hidden="true">
          {index !== null && words(index).slice(0, 4).join(" · ")}
        </span>
      </figcaption>
      <Chart
        class="line-chart"
        label={`Chart of ${about.name}; arrows move through it`}
        data={data}
        look={key}
        options={options}
        onKeyDown={onKeyDown}
      />
    </figure>
  );
}

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
