// Charts as SVG with every style written into the elements: what is on the page is what is saved.
import { cssOf, lutOf, type Lut, type Quantity, type Theme } from "../src/colour";
import { svg } from "../src/dom";
import type { Plate } from "./data";

export const FONT = "'Plex Sans', system-ui, sans-serif";
export interface Ink { ink: string; muted: string; line: string; page: string; theme: Theme }

export function inkOf(theme: Theme): Ink {
  return theme === "light"
    ? { ink: "#16191d", muted: "#59626c", line: "#e1e2df", page: "#ffffff", theme }
    : { ink: "#e8eaec", muted: "#a0a8b1", line: "#2b3036", page: "#181b1f", theme };
}

export interface Series { name: string; values: (number | null)[]; colour: string; dash?: string; wide?: boolean }
export interface Mark { at: number; label: string }
interface Frame {
  width?: number; height?: number; title?: string; xLabel?: string; yLabel?: string;
  xs: number[]; yMax?: number; yMin?: number; marks?: Mark[]; yMarks?: Mark[]; yFormat?: (v: number) => string;
  legend?: boolean;
}

const short = (v: number): string =>
  v === 0 ? "0" : Math.abs(v) >= 1e5 || Math.abs(v) < 1e-3 ? v.toExponential(0) : String(+v.toPrecision(3));
export const percent = (v: number): string => `${+(100 * v).toPrecision(3)} %`;

// Round steps of 1, 2 or 5 times a power of ten.
export function ticks(low: number, high: number, n: number): number[] {
  const raw = (high - low) / n || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= raw) ?? raw;
  const out = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-6; v += step) out.push(+v.toPrecision(12));
  return out;
}

export function label(x: number, y: number, text: string, ink: string, options: Record<string, unknown> = {}): SVGElement {
  return svg("text", { x, y, fill: ink, "font-size": 11, "font-family": FONT, ...options }, text);
}

export function canvas(width: number, height: number, ink: Ink, title: string): SVGSVGElement {
  return svg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title },
    svg("title", {}, title), svg("rect", { width, height, fill: ink.page }));
}

interface Plot { root: SVGSVGElement; x: (v: number) => number; y: (v: number) => number; bottom: number; step: number }

function plot(frame: Frame, high: number, ink: Ink): Plot {
  const { width = 460, height = 240, xs } = frame;
  const [left, right, top, bottom] = [52, width - (frame.legend ? 88 : 14), frame.title ? 26 : 12, height - 38];
  const root = canvas(width, height, ink, frame.title ?? `${frame.yLabel ?? ""} by ${frame.xLabel ?? ""}`);
  const step = xs.length > 1 ? xs[1]! - xs[0]! : 1;
  const [x0, x1] = [xs[0]! - step / 2, xs.at(-1)! + step / 2];
  const y0 = frame.yMin ?? 0, y1 = (frame.yMax ?? high * 1.05) || 1;
  const x = (v: number): number => left + ((v - x0) / (x1 - x0)) * (right - left);
  const y = (v: number): number => bottom - ((Math.min(Math.max(v, y0), y1) - y0) / (y1 - y0)) * (bottom - top);
  const format = frame.yFormat ?? short;
  if (frame.title) root.append(label(left, 16, frame.title, ink.ink, { "font-weight": 600, "font-size": 12 }));
  for (const t of ticks(y0, y1, 4)) {
    root.append(svg("line", { x1: left, x2: right, y1: y(t), y2: y(t), stroke: ink.line }));
    root.append(label(left - 6, y(t) + 4, format(t), ink.muted, { "text-anchor": "end" }));
  }
  for (const t of ticks(x0, x1, 6).filter((v) => v >= xs[0]! - step / 2)) {
    root.append(svg("line", { x1: x(t), x2: x(t), y1: bottom, y2: bottom + 4, stroke: ink.muted }));
    root.append(label(x(t), bottom + 15, short(t), ink.muted, { "text-anchor": "middle" }));
  }
  if (frame.xLabel) root.append(label((left + right) / 2, height - 6, frame.xLabel, ink.muted, { "text-anchor": "middle" }));
  if (frame.yLabel)
    root.append(label(0, 0, frame.yLabel, ink.muted, { "text-anchor": "middle", transform: `translate(12 ${(top + bottom) / 2}) rotate(-90)` }));
  for (const mark of frame.marks ?? []) {
    root.append(svg("line", { x1: x(mark.at), x2: x(mark.at), y1: top, y2: bottom, stroke: ink.ink, "stroke-dasharray": "4 3" }));
    root.append(label(x(mark.at) + 4, top + 10, mark.label, ink.ink));
  }
  for (const mark of frame.yMarks ?? []) {
    root.append(svg("line", { x1: left, x2: right, y1: y(mark.at), y2: y(mark.at), stroke: ink.ink, "stroke-dasharray": "4 3" }));
    root.append(label(right, y(mark.at) - 4, mark.label, ink.ink, { "text-anchor": "end" }));
  }
  return { root, x, y, bottom, step };
}

const highest = (series: readonly Series[]): number =>
  Math.max(0, ...series.flatMap((s) => s.values.filter((v): v is number => v !== null && Number.isFinite(v))));

export function lines(series: readonly Series[], frame: Frame, ink: Ink): SVGSVGElement {
  const { root, x, y } = plot(frame, highest(series), ink);
  const aside = (frame.width ?? 460) - 76;
  series.forEach((s, k) => {
    if (!frame.legend) return;
    root.append(svg("line", { x1: aside, x2: aside + 18, y1: 22 + 14 * k, y2: 22 + 14 * k, stroke: s.colour, "stroke-width": 2, "stroke-dasharray": s.dash }),
      label(aside + 23, 26 + 14 * k, s.name, ink.muted));
  });
  for (const s of series) {
    let path = "";
    s.values.forEach((v, k) => {
      if (v === null || !Number.isFinite(v)) return;
      path += `${path ? "L" : "M"}${x(frame.xs[k]!).toFixed(1)} ${y(v).toFixed(1)}`;
    });
    root.append(svg("path", {
      d: path, fill: "none", stroke: s.colour, "stroke-width": s.wide ? 2.5 : 1.5, "stroke-dasharray": s.dash, "stroke-linejoin": "round",
      class: "series",
    }, svg("title", {}, s.name)));
  }
  return root;
}

export function bars(values: readonly number[], colour: string, frame: Frame, ink: Ink, over: readonly Series[] = []): SVGSVGElement {
  const { root, x, y, bottom, step } = plot(frame, Math.max(...values, highest(over)), ink);
  const width = Math.max(1, x(step) - x(0) - 1);
  values.forEach((v, k) => root.append(svg("rect", {
    x: x(frame.xs[k]!) - width / 2, y: y(v), width, height: Math.max(0, bottom - y(v)), fill: colour,
  }, svg("title", {}, `${frame.xs[k]}: ${short(v)}`))));
  for (const s of over)
    root.append(svg("polyline", {
      points: s.values.map((v, k) => `${x(frame.xs[k]!).toFixed(1)},${y(v ?? 0).toFixed(1)}`).join(" "), fill: "none",
      stroke: s.colour, "stroke-dasharray": s.dash, "stroke-width": 1.5,
    }, svg("title", {}, s.name)));
  return root;
}

export interface Dot { value: number | null; spread: number | null; colour: string }
export function dots(values: readonly Dot[], frame: Frame, ink: Ink): SVGSVGElement {
  const high = Math.max(0, ...values.map((d) => (d.value ?? 0) + (d.spread ?? 0)));
  const { root, x, y } = plot(frame, high, ink);
  values.forEach((dot, k) => {
    if (dot.value === null) return;
    const at = x(frame.xs[k]!), spread = dot.spread ?? 0;
    root.append(svg("line", { x1: at, x2: at, y1: y(dot.value - spread), y2: y(dot.value + spread), stroke: dot.colour, "stroke-width": 2 }));
    root.append(svg("circle", { cx: at, cy: y(dot.value), r: 3.5, fill: dot.colour },
      svg("title", {}, `${frame.xs[k]}: ${short(dot.value)} ± ${short(spread)}`)));
  });
  return root;
}

export interface Stack { name: string; colour: string; values: (number | null)[] }
export function stacks(parts: readonly Stack[], frame: Frame, ink: Ink): SVGSVGElement {
  const { root, x, y, step } = plot({ ...frame, yMax: 1 }, 1, ink);
  const width = Math.max(1, (x(step) - x(0)) * 0.8);
  frame.xs.forEach((at, k) => {
    let sum = 0;
    for (const part of parts) {
      const v = part.values[k] ?? 0;
      root.append(svg("rect", { x: x(at) - width / 2, width, y: y(sum + v), height: Math.max(0, y(sum) - y(sum + v)), fill: part.colour },
        svg("title", {}, `layer ${at}, ${part.name}: ${percent(v)}`)));
      sum += v;
    }
  });
  return root;
}

// n colours of one ramp, told apart by lightness as well.
export function coloursOf(n: number, theme: Theme): string[] {
  const lut = lutOf("viridis", "attention", theme);
  return Array.from({ length: n }, (_, k) => {
    const at = theme === "light" ? (k / Math.max(1, n - 1)) * 0.86 : 0.18 + (k / Math.max(1, n - 1)) * 0.82;
    const c = lut[Math.round(at * 255)]!;
    return `#${[c & 255, (c >> 8) & 255, (c >> 16) & 255].map((v) => v.toString(16).padStart(2, "0")).join("")}`;
  });
}

function picture(plate: Plate, lut: Lut): string {
  const target = document.createElement("canvas");
  target.width = target.height = plate.side;
  const context = target.getContext("2d")!;
  const image = context.createImageData(plate.side, plate.side);
  const pixels = new Uint32Array(image.data.buffer);
  plate.roots.forEach((root, k) => { pixels[k] = lut[Math.round(Math.max(0, root) * 255)]!; });
  context.putImageData(image, 0, 0);
  return target.toDataURL();
}

// A map with its axes in tokens and its colour bar; `tell` hears of the cell under the pointer.
export function heatmap(
  plate: Plate, quantity: Quantity, title: string, tokens: number, size: number, ink: Ink, tell: (text: string) => void,
): SVGSVGElement {
  const [left, top, gap, bar] = [30, 24, 8, 10];
  const root = canvas(left + size + gap + bar + 44, top + size + 22, ink, title);
  const image = svg("image", {
    x: left, y: top, width: size, height: size, href: picture(plate, lutOf("ink", quantity, ink.theme)), style: "image-rendering: pixelated",
    preserveAspectRatio: "none",
  });
  image.addEventListener("pointermove", (event) => {
    const box = image.getBoundingClientRect();
    const j = Math.min(plate.side - 1, Math.floor(((event.clientX - box.left) / box.width) * plate.side));
    const i = Math.min(plate.side - 1, Math.floor(((event.clientY - box.top) / box.height) * plate.side));
    const factor = tokens / plate.side;
    if (i >= 0 && j >= 0) tell(`${title}: row ${Math.floor(i * factor)}, column ${Math.floor(j * factor)}: ${short(plate.values[i * plate.side + j]!)}`);
  });
  root.append(label(left, 15, title, ink.ink, { "font-weight": 600 }), image,
    svg("rect", { x: left, y: top, width: size, height: size, fill: "none", stroke: ink.line }));
  for (const t of ticks(0, tokens, size > 160 ? 4 : 2)) {
    const at = (t / tokens) * size;
    root.append(label(left + at, top + size + 14, String(t), ink.muted, { "text-anchor": "middle", "font-size": 10 }));
    root.append(label(left - 4, top + at + 4, String(t), ink.muted, { "text-anchor": "end", "font-size": 10 }));
  }
  const id = `ramp-${quantity}-${ink.theme}`;
  const lut = lutOf("ink", quantity, ink.theme);
  root.append(svg("linearGradient", { id, x1: 0, y1: 1, x2: 0, y2: 0 }, Array.from({ length: 9 }, (_, k) =>
    svg("stop", { offset: k / 8, "stop-color": cssOf(lut, k / 8) }))));
  root.append(svg("rect", { x: left + size + gap, y: top, width: bar, height: size, fill: `url(#${id})` }));
  for (const [at, share] of [[0, 0], [0.5, 0.25], [1, 1]] as const)
    root.append(label(left + size + gap + bar + 4, top + (1 - at) * size + (at === 1 ? 8 : at === 0 ? 0 : 4), short(plate.scale * share), ink.muted, { "font-size": 10 }));
  return root;
}

// A grid of numbers, such as layers by heads.
export function matrix(
  values: readonly (readonly (number | null)[])[], low: number, high: number, title: string, rows: readonly (number | string)[], ink: Ink,
): SVGSVGElement {
  const n = values[0]?.length ?? 0, cell = Math.max(14, Math.min(30, 420 / Math.max(1, n)));
  const [left, top] = [44, 44];
  const root = canvas(left + n * cell + 10, top + values.length * cell + 10, ink, title);
  const lut = lutOf("ink", "figure", ink.theme);
  root.append(label(left, 16, title, ink.ink, { "font-weight": 600, "font-size": 12 }), label(left, 32, "head", ink.muted));
  values.forEach((row, r) => {
    root.append(label(left - 6, top + (r + 0.5) * cell + 4, String(rows[r]), ink.muted, { "text-anchor": "end" }));
    row.forEach((value, c) => {
      if (r === 0) root.append(label(left + (c + 0.5) * cell, top - 4, String(c), ink.muted, { "text-anchor": "middle", "font-size": 10 }));
      const at = value === null ? 0 : Math.min(1, Math.max(0, (value - low) / (high - low || 1)));
      const rgb = lut[Math.round(at * 255)]!;
      root.append(svg("rect", {
        x: left + c * cell, y: top + r * cell, width: cell - 1, height: cell - 1, rx: 2,
        fill: value === null ? "none" : `rgb(${rgb & 255},${(rgb >> 8) & 255},${(rgb >> 16) & 255})`,
      }, svg("title", {}, `layer ${rows[r]}, head ${c}: ${value === null ? "–" : short(value)}`)));
    });
  });
  return root;
}

// Several charts as one, so that a figure is saved whole.
export function together(parts: readonly SVGSVGElement[], columns: number, ink: Ink, title: string): SVGSVGElement {
  const sizes = parts.map((part) => [Number(part.getAttribute("width")), Number(part.getAttribute("height"))] as const);
  const width = Math.max(0, ...sizes.map(([w]) => w)), height = Math.max(0, ...sizes.map(([, h]) => h));
  const rows = Math.ceil(parts.length / columns);
  const root = canvas(Math.min(columns, parts.length) * width, rows * height, ink, title);
  parts.forEach((part, k) => {
    part.setAttribute("x", String((k % columns) * width));
    part.setAttribute("y", String(Math.floor(k / columns) * height));
    root.append(part);
  });
  return root;
}
