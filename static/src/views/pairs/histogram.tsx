// Distances of high pairs as a histogram, with the numbers expected by chance.
import { useMemo } from "preact/hooks";
import type uPlot from "uplot";
import { Chart, labelledAxis, type ChartOptions, type ChartStyle } from "../../ui/chart";

// Tokens and pairs are counted: ticks are integers.
const STEPS = [1, 10, 100, 1e3, 1e4, 1e5].flatMap((power) => [power, 2 * power, 5 * power]);

const optionsOf = (style: ChartStyle): ChartOptions => ({
  cursor: { y: false, points: { show: false } },
  legend: { show: false },
  scales: { x: { time: false } },
  axes: [
    { ...labelledAxis(style, "Distance in tokens"), size: 34, incrs: STEPS },
    { ...style.axis, grid: style.grid, size: 44, incrs: STEPS },
  ],
  series: [
    {},
    {
      label: "pairs",
      fill: style.colour("--similarity"),
      width: 0,
      points: { show: false },
      paths: style.library.paths.bars?.({ size: [0.9, 40] }),
    },
    { label: "chance", stroke: style.colour("--ink"), width: 1, dash: [3, 3], points: { show: false } },
  ],
});

// Both by distance, from 0.
export function Histogram(props: { counts: Uint32Array; chance: readonly number[]; theme: string }) {
  const { counts, chance, theme } = props;
  const data = useMemo((): uPlot.AlignedData => {
    const distances = Array.from(counts, (_, d) => d).slice(1);
    return [distances, Array.from(counts).slice(1), chance.slice(1)];
  }, [counts, chance]);
  return (
    <Chart
      class="chart"
      label="Histogram of distances of high pairs"
      data={data}
      look={`${theme} ${counts.length}`}
      options={optionsOf}
    />
  );
}
