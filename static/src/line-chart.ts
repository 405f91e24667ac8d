// A small chart of one or two lines with the level of chance; charts of one group share their cursor.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { h } from "./dom";

export interface Line {
  values: (number | null)[];
  colour: string; // a custom property's name
  dash?: number[];
  hollow?: boolean; // its points
  faint?: boolean; // without points
}
export interface Content {
  x: number[];
  lines: Line[];
  xLabel: string;
  write: (value: number) => string; // of the y axis
  dots: boolean; // points only: too many to join
  key: string; // changes with anything drawn
}

const HEIGHT = 150;

export class LineChart {
  readonly element = h("div", { class: "line-chart" });
  private chart: uPlot | null = null;
  private content: Content | null = null;
  private shown = "";

  constructor(
    private readonly group: string,
    private readonly onpoint: (index: number | null) => void,
  ) {
    new ResizeObserver(() => {
      const width = this.element.clientWidth;
      if (!width || !this.content) return;
      if (this.chart) this.chart.setSize({ width, height: HEIGHT });
      else this.make();
    }).observe(this.element);
  }

  show(content: Content): void {
    if (content.key === this.shown) return;
    this.shown = content.key;
    this.content = content;
    this.make();
  }

  // Puts the cursor of the whole group at a place, as the pointer would.
  point(index: number): void {
    const x = this.content?.x[index];
    if (x === undefined) return;
    for (const chart of uPlot.sync(this.group).plots) chart.setCursor({ left: chart.valToPos(x, "x"), top: 1 });
  }

  private make(): void {
    const { content, element } = this;
    this.chart?.destroy();
    this.chart = null;
    if (!content || !element.clientWidth) return;
    const style = getComputedStyle(element);
    const colour = (name: string): string => style.getPropertyValue(name).trim();
    const axis = {
      stroke: colour("--muted"),
      font: '11px "Plex Sans", system-ui',
      ticks: { show: false },
      grid: { stroke: colour("--line"), width: 1 },
    };
    this.chart = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        cursor: {
          y: false,
          points: { show: false },
          drag: { x: false, y: false },
          sync: { key: this.group, setSeries: false },
        },
        legend: { show: false },
        scales: { x: { time: false }, y: { range: (_, low, high) => reach(low, high) } },
        axes: [
          {
            ...axis,
            grid: { show: false },
            size: 20,
            gap: 2,
            incrs: [1, 2, 4, 5, 10, 20, 50],
            label: content.xLabel,
            labelSize: 16,
            labelGap: 0,
            labelFont: axis.font,
          },
          { ...axis, size: 46, space: 28, values: (_, ticks) => ticks.map((v) => content.write(v)) },
        ],
        series: [
          {},
          ...content.lines.map((line): uPlot.Series => ({
            stroke: colour(line.colour),
            width: line.faint ? 1 : 2,
            dash: line.dash,
            alpha: line.faint ? 0.75 : 1,
            ...(content.dots && !line.faint ? { paths: () => null } : {}),
            points: {
              show: !line.faint,
              size: 5,
              width: 1,
              stroke: colour(line.colour),
              fill: colour(line.hollow ? "--page" : line.colour),
            },
          })),
        ],
        hooks: { setCursor: [(chart) => this.onpoint(chart.cursor.idx ?? null)] },
      },
      [content.x, ...content.lines.map(({ values }) => values)],
      element,
    );
  }
}

// From nought, so that heights compare; with air above.
const reach = (low: number | null, high: number | null): [number, number] => {
  const top = Math.max(0, high ?? 0);
  return [Math.min(0, low ?? 0), top > 0 ? top * 1.08 : 1];
};
