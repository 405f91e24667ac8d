// Distances of high pairs as a histogram.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

// Tokens and pairs are counted: no tick stands between two.
const WHOLE = [1, 10, 100, 1e3, 1e4, 1e5].flatMap((power) => [power, 2 * power, 5 * power]);

export class Histogram {
  private chart: uPlot | null = null;
  private key = "";

  constructor(
    readonly element: HTMLElement,
    private readonly height: number,
  ) {
    new ResizeObserver(() => {
      if (this.chart && element.clientWidth) this.chart.setSize({ width: element.clientWidth, height });
    }).observe(element);
  }

  // counts[d] pairs at distance d; `chance` what evenly drawn pairs would give, in the same unit.
  show(counts: ArrayLike<number>, chance: ArrayLike<number>, theme: string): void {
    const x = Array.from(counts, (_, d) => d).slice(1);
    const data: uPlot.AlignedData = [x, Array.from(counts).slice(1), Array.from(chance).slice(1)];
    const key = `${theme} ${x.length}`;
    if (this.chart && this.key === key) return this.chart.setData(data);
    this.chart?.destroy();
    this.key = key;
    const style = getComputedStyle(this.element);
    const colour = (name: string): string => style.getPropertyValue(name).trim();
    const axis = {
      stroke: colour("--muted"),
      font: '11px "Plex Sans", system-ui',
      ticks: { show: false },
      grid: { stroke: colour("--line"), width: 1 },
    };
    this.chart = new uPlot(
      {
        width: this.element.clientWidth || 320,
        height: this.height,
        cursor: { y: false, points: { show: false } },
        legend: { show: false },
        scales: { x: { time: false } },
        axes: [
          {
            ...axis,
            grid: { show: false },
            size: 34,
            incrs: WHOLE,
            label: "Distance in tokens",
            labelSize: 16,
            labelGap: 0,
            labelFont: axis.font,
          },
          { ...axis, size: 44, incrs: WHOLE },
        ],
        series: [
          {},
          {
            label: "pairs",
            fill: colour("--similarity"),
            width: 0,
            points: { show: false },
            paths: uPlot.paths.bars!({ size: [0.9, 40] }),
          },
          { label: "chance", stroke: colour("--ink"), width: 1, dash: [3, 3], points: { show: false } },
        ],
      },
      data,
      this.element,
    );
  }
}
