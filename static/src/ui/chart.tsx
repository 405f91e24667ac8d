// A chart of uPlot's, in the page's colours and at the width of its place.
import { useLayoutEffect, useRef } from "preact/hooks";
import type uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { FINENESS } from "./fineness";

const FONT = '11px "Plex Sans", system-ui';
const HEIGHT = 150;

type Library = typeof uPlot;

// uPlot is fetched with the first chart: the first page needs none.
let library: Library | null = null;
const load = async (): Promise<Library> => (library ??= (await import("uplot")).default);

// The library and the style of the page, for options.
export interface ChartStyle {
  library: Library;
  colour(this: void, property: string): string; // of a custom property, "--ink"
  axis: uPlot.Axis; // without grid lines
  grid: uPlot.Axis.Grid;
}

export type ChartOptions = Omit<uPlot.Options, "width" | "height">;

export const labelledAxis = (style: ChartStyle, label: string): uPlot.Axis => ({
  ...style.axis,
  grid: { show: false },
  label,
  labelSize: 16,
  labelGap: 0,
  labelFont: FONT,
});

function styleOf(element: Element, uplot: Library): ChartStyle {
  const style = getComputedStyle(element);
  const colour = (property: string): string => style.getPropertyValue(property).trim();
  return {
    library: uplot,
    colour,
    axis: { stroke: colour("--muted"), font: FONT, ticks: { show: false } },
    grid: { stroke: colour("--line"), width: 1 },
  };
}

// Makes the chart again when `look` changes; otherwise only its data.
export function Chart(props: {
  class: string;
  label: string;
  data: uPlot.AlignedData;
  look: string;
  options: (style: ChartStyle) => ChartOptions;
  onKeyDown?: (e: KeyboardEvent) => void; // makes it a stop for the Tab key
}) {
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  useLayoutEffect(() => {
    const element = place.current;
    if (!element) return;
    let gone = false;
    const fit = (): void => {
      const width = element.clientWidth;
      if (!width || !library || gone) return;
      const { options, data } = latest.current;
      if (chart.current) return chart.current.setSize({ width, height: HEIGHT });
      const made = new library({ ...options(styleOf(element, library)), width, height: HEIGHT }, data, element);
      made.ctx.canvas.addEventListener(FINENESS, () => made.batch(() => made.redraw(false))); // at once, as fine as before
      chart.current = made;
    };
    const observer = new ResizeObserver(() => void load().then(fit, () => {})); // without a server, again with the next size
    observer.observe(element);
    return () => {
      gone = true;
      observer.disconnect();
      chart.current?.destroy();
      chart.current = null;
    };
  }, [props.look]);
  useLayoutEffect(() => chart.current?.setData(props.data), [props.data]);
  const { label, onKeyDown } = props;
  const described = onKeyDown ? { role: "group" as const, tabIndex: 0, onKeyDown } : { role: "img" as const };
  return <div class={props.class} aria-label={label} ref={place} {...described} />;
}
