// The key figures of a run, or of two runs side by side, as linked charts and as a table.
import { useMemo, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import type { App } from "../../app/app";
import { format, percent } from "../../maps/scale";
import type { Exportable } from "../../saving/export";
import { Chart, chartsOf, labelledAxis, type ChartOptions, type ChartStyle } from "../../ui/chart";
import { useApp, useExport } from "../../ui/context";
import { Segmented, Select } from "../../ui/controls";
import { Sortable, type Column } from "../../ui/sortable";
import type { Report, Run } from "./api";
import {
  commonThresholds,
  placesOf,
  rankRows,
  rowsOf,
  RUN_FIGURE_NAMES,
  RUN_FIGURES,
  tickOf,
  type Place,
  type Row,
  type RunFigure,
} from "./figures";
import { nameOfRun } from "./names";
import { patternNumbers, RunPatterns } from "./patterns";

export interface Side {
  run: Run;
  report: Report;
}

const STYLES = [
  { colour: "--similarity", dash: undefined, word: "first" },
  { colour: "--attention", dash: [6, 3], word: "second" },
] as const;
const GROUP = "runs"; // of charts that share their cursor

const BY_CHOICES = [
  { value: "layers", label: "Layers" },
  { value: "heads", label: "Every head" },
  { value: "layer", label: "One layer’s heads" },
] as const;

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
  const key = JSON.stringify([sides.map(({ run }) => run.id), state.by, layer, level, theme]);
  return { sides, layers, layer, thresholds, level, places: placesOf(reports, state.by, layer), key };
}

const rowsIn = ({ sides, level }: Shown, name: RunFigure, places: readonly Place[]): Row[] =>
  rowsOf(
    sides.map(({ report }) => report),
    name,
    level,
    places,
  );

export function RunCompare({ sides }: { sides: readonly Side[] }) {
  const app = useApp();
  const { by } = app.state;
  const shown = shownOf(app, sides);
  const cursor = useRef(-1); // index into the places; the charts share it
  useExport(() => runsExport(app, shown));
  const [first] = sides;
  return (
    <div class="run-compare">
      <div class="toolbar">
        <Segmented legend="Show" value={by} choices={BY_CHOICES} onChange={(value) => app.set({ by: value })} />
        {by === "layer" && (
          <Select
            label="Layer"
            value={String(shown.layer)}
            options={shown.layers.map((l) => [String(l), String(l)] as const)}
            onChange={(layer) => app.set({ layer: Number(layer) })}
          />
        )}
        <Select
          label="Threshold"
          value={String(shown.level)}
          options={shown.thresholds.map((tau) => [String(tau), String(tau)] as const)}
          onChange={(level) => app.set({ level: Number(level) })}
        />
      </div>
      <Legend sides={sides} />
      <div class="plots">
        {RUN_FIGURE_NAMES.filter((name) => by === "layers" || RUN_FIGURES[name].head).map((name) => (
          <Plot key={name} name={name} shown={shown} cursor={cursor} />
        ))}
      </div>
      {first && <RunPatterns run={first.run} report={first.report} />}
      <FigureTable shown={shown} />
    </div>
  );
}

function Legend({ sides }: { sides: readonly Side[] }) {
  const [a, b] = sides.map(({ report }) => report);
  const doubts =
    a && b
      ? [
          a.provenance.options.max_tokens !== b.provenance.options.max_tokens &&
            "They cut texts at different lengths, which moves distances and chance.",
          a.layers.length !== b.layers.length && "Layers are side by side by number, not by depth.",
        ]
      : ["A second finished run is drawn beside this one: another model, or another kind of text."];
  const note = doubts.filter(Boolean).join(" ");
  return (
    <>
      <div class="run-legend">
        {sides.map(({ run, report }, n) => (
          <div class={`key ${n ? "second" : "first"}`} key={run.id}>
            <i aria-hidden="true" />
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
      {note && <p class="muted">{note}</p>}
    </>
  );
}

// From 0, so that heights compare; with space above.
const reach = (low: number | null, high: number | null): [number, number] => {
  const top = Math.max(0, high ?? 0);
  return [Math.min(0, low ?? 0), top > 0 ? top * 1.08 : 1];
};

interface Line {
  values: (number | null)[];
  colour: string; // a custom property's name
  dash?: readonly number[] | undefined;
  hollow?: boolean; // its points
  faint?: boolean; // without points
}

// The levels of chance, one if the runs agree, and a line a run.
function linesOf(shown: Shown, name: RunFigure): Line[] {
  const rows = rowsIn(shown, name, shown.places);
  const chances = shown.sides.map(({ report }) => RUN_FIGURES[name].chance(report));
  const one = chances.every((v) => v === chances[0]);
  const faint = chances.slice(0, one ? 1 : 2).flatMap((chance, n): Line[] => {
    if (chance === null) return [];
    const colour = one ? "--muted" : (STYLES[n]?.colour ?? "--muted");
    return [{ values: rows.map(() => chance), colour, dash: [2, 3], faint: true }];
  });
  const lines = STYLES.slice(0, shown.sides.length).map(({ colour, dash }, n) => ({
    values: rows.map((row) => (n ? row.second : row.first)),
    colour,
    dash,
    hollow: n > 0,
  }));
  return [...faint, ...lines];
}

function seriesOf({ colour, dash, hollow, faint }: Line, style: ChartStyle, dots: boolean): uPlot.Series {
  const stroke = style.colour(colour);
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
  const { by, figure } = app.state;
  const about = RUN_FIGURES[name];
  const { places, key } = shown;
  const [index, setIndex] = useState<number | null>(null);
  const lines = useMemo(() => linesOf(shown, name), [key]);
  const data = useMemo(
    (): uPlot.AlignedData => [places.map(({ x }) => x), ...lines.map(({ values }) => values)],
    [lines],
  );
  const words = (at: number): string[] => {
    const place = places[at];
    const [row] = place ? rowsIn(shown, name, [place]) : [];
    return row ? [row.first, row.second].slice(0, shown.sides.length).map((v) => about.write(v)) : [];
  };
  const describe = (at: number): string => {
    const place = places[at];
    if (!place) return "";
    const values = words(at).map((value, n) => `${shown.sides[n] ? nameOfRun(shown.sides[n].run) : ""} ${value}`);
    return [placeName(place), about.name, ...values].join("   ");
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
      { ...labelledAxis(style, by === "layer" ? "Head" : "Layer"), size: 20, gap: 2, incrs: [1, 2, 4, 5, 10, 20, 50] },
      { ...style.axis, grid: style.grid, size: 46, space: 28, values: (_, ticks) => ticks.map((v) => tickOf(name, v)) },
    ],
    series: [{}, ...lines.map((line) => seriesOf(line, style, by === "heads"))],
    hooks: { setCursor: [(chart) => point.current(chart)] },
  });
  const onKeyDown = (e: KeyboardEvent): void => {
    const last = places.length - 1;
    const to = { ArrowLeft: cursor.current - 1, ArrowRight: cursor.current + 1, Home: 0, End: last }[e.key];
    const place = to === undefined ? undefined : places[Math.min(last, Math.max(0, to))];
    if (!place) return;
    e.preventDefault();
    for (const chart of chartsOf(GROUP)) chart.setCursor({ left: chart.valToPos(place.x, "x"), top: 1 });
    app.announce(describe(places.indexOf(place)), true);
  };
  return (
    <figure class="plot">
      <figcaption>
        <button
          type="button"
          class="plain"
          title={`${about.title}. Shows it in the table.`}
          aria-pressed={figure === name}
          onClick={() => app.set({ figure: name })}
        >
          {about.name}
        </button>
        <span class="at" aria-hidden="true">
          {index !== null && words(index).join(" · ")}
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

function FigureTable({ shown }: { shown: Shown }) {
  const app = useApp();
  const { figure, rank } = app.state;
  const about = RUN_FIGURES[figure];
  const places = about.head ? shown.places : shown.places.filter(({ head }) => head === null);
  const names = shown.sides.map(({ run }) => nameOfRun(run));
  const [a = "", b] = names[0] === names[1] ? ["First", "Second"] : names;
  const columns: Column<Row>[] = [
    { key: "place", name: "Place", words: true, cell: ({ place }) => placeName(place) },
    { key: "first", name: a, number: true, cell: ({ first }) => about.write(first) },
  ];
  if (b !== undefined)
    columns.push(
      { key: "second", name: b, number: true, cell: ({ second }) => about.write(second) },
      { key: "difference", name: "First − second", number: true, cell: (row) => signed(row.difference, about.write) },
    );
  return (
    <div class="run-table">
      <Select
        label="Figure in the table"
        id="run-figure"
        value={figure}
        options={RUN_FIGURE_NAMES.map((name) => [name, RUN_FIGURES[name].name] as const)}
        onChange={(name) => app.set({ figure: name })}
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

function runsExport(app: App, shown: Shown): Exportable | null {
  const { sides, places, level } = shown;
  const [first] = sides;
  if (!first) return null;
  const rows = (): (string | number)[][] => [
    ["figure", "threshold", "layer", "head", "first", "second", "difference"],
    ...RUN_FIGURE_NAMES.flatMap((name) =>
      rowsIn(shown, name, places).map(({ place, first: a, second: b, difference }) => [
        ...[name, level, place.layer, place.head ?? ""],
        ...[a, b, difference].map((value) => value ?? ""),
      ]),
    ),
  ];
  const names = sides.map(({ run }) => nameOfRun(run));
  return {
    name: `headscope-runs-${names.join("-").replaceAll(/[^\w.-]+/g, "_")}`,
    title: `headscope · ${names.join(" and ")}`,
    provenance: {
      tool: "headscope",
      runs: sides.map(({ report }) => report.provenance),
      page: app.address.href(),
    },
    part: ".run-compare",
    rows,
    heads: patternNumbers(app, first.report),
  };
}
