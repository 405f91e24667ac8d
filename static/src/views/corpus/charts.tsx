// The charts of runs side by side, one a figure; their cursors move together.
import { useMemo, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import { Chart, chartsOf, labelledAxis, type ChartOptions, type ChartStyle } from "../../ui/chart";
import { useApp } from "../../ui/context";
import { Button } from "../../ui/controls";
import { isOverRuns, RUN_FIGURES, tickOf, type RunFigure } from "./figures";
import { nameOfRun } from "./names";
import { placeName, rowsIn, type Shown } from "./shown";

interface LineStyle {
  colour: string; // a custom property's name, or a colour
  dash: readonly number[] | undefined;
  hollow: boolean; // its points
}

// Two lines differ in colour, dashes and points; more go from blue to red in their order.
export function styleOf(n: number, count: number): LineStyle {
  if (count <= 2)
    return n
      ? { colour: "--attention", dash: [6, 3], hollow: true }
      : { colour: "--similarity", dash: undefined, hollow: false };
  return { colour: `hsl(${220 - (220 * n) / (count - 1)} 62% 48%)`, dash: undefined, hollow: false };
}
const GROUP = "runs"; // of charts that share their cursor

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

export function Plot(props: { name: RunFigure; shown: Shown; cursor: { current: number } }) {
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
