// Values -> colour indices 0..255, and the ticks that explain them.
import { MIDDLE } from "./colour";

export const SCALES = ["root", "linear", "log", "row"] as const;
export type Scale = (typeof SCALES)[number];

const DECADES = 4; // the log scale spans max / 10^4 .. max

// 0..1 for one value. `top` is the value shown as full colour: the map's maximum, or the row's.
export function position(value: number, top: number, scale: Scale): number {
  if (!(top > 0) || !(value > 0)) return 0;
  const share = value / top;
  if (scale === "log") return Math.min(1, Math.max(0, 1 + Math.log10(share) / DECADES));
  return Math.min(1, scale === "root" ? Math.sqrt(share) : share);
}

// Colour indices of a whole [rows][columns] map. Values at or below 0 get index 0.
export function indicesOf(
  values: ArrayLike<number>,
  rows: number,
  columns: number,
  top: number,
  scale: Scale,
): Uint8Array {
  const out = new Uint8Array(rows * columns);
  for (let i = 0; i < rows; i++) {
    const at = i * columns;
    const rowTop = scale === "row" ? maximumOf(values, at, at + columns) : top;
    if (!(rowTop > 0)) continue;
    if (scale === "log" || scale === "root")
      for (let j = at; j < at + columns; j++) out[j] = 255 * position(values[j]!, rowTop, scale) + 0.5;
    else
      for (let j = at; j < at + columns; j++) {
        const share = values[j]! / rowTop;
        out[j] = share >= 1 ? 255 : share > 0 ? 255 * share + 0.5 : 0;
      }
  }
  return out;
}

// Values of both signs: 0 gets the middle index, each side the colours of its size.
export function signedIndicesOf(
  values: ArrayLike<number>,
  rows: number,
  columns: number,
  top: number,
  scale: Scale,
): Uint8Array {
  const out = new Uint8Array(rows * columns).fill(MIDDLE);
  for (let i = 0; i < rows; i++) {
    const at = i * columns;
    const rowTop = scale === "row" ? sizeOf(values, at, at + columns) : top;
    for (let j = at; j < at + columns; j++) out[j] = signedIndex(values[j]!, rowTop, scale);
  }
  return out;
}

const signedIndex = (value: number, top: number, scale: Scale): number =>
  value < 0
    ? Math.round(MIDDLE - MIDDLE * position(-value, top, scale))
    : Math.round(MIDDLE + (255 - MIDDLE) * position(value, top, scale));

export function minimumOf(values: ArrayLike<number>): number {
  let least = Infinity;
  for (let n = 0; n < values.length; n++) if (values[n]! < least) least = values[n]!;
  return least;
}

// The largest value in size.
export function sizeOf(values: ArrayLike<number>, from = 0, to = values.length): number {
  let top = 0;
  for (let n = from; n < to; n++) if (Math.abs(values[n]!) > top) top = Math.abs(values[n]!);
  return top;
}

export function maximumOf(values: ArrayLike<number>, from = 0, to = values.length): number {
  let top = -Infinity;
  for (let n = from; n < to; n++) if (values[n]! > top) top = values[n]!;
  return top;
}

export interface Tick {
  at: number;
  label: string;
}

const HALVES: Record<Scale, readonly number[]> = {
  root: [0, 0.5, 1],
  linear: [0, 0.5, 1],
  log: [0, 0.5, 1],
  row: [0, 1],
};

export function ticksOf(top: number, scale: Scale): Tick[] {
  if (!(top > 0)) return [{ at: 0, label: "0" }];
  return HALVES[scale].map((at) => ({ at, label: tickLabel(at, top, scale) }));
}

function tickLabel(at: number, top: number, scale: Scale): string {
  if (scale === "row") return at ? "row max" : "0";
  if (scale === "root") return format(top * at ** 2);
  return format(scale === "log" ? top / 10 ** ((1 - at) * DECADES) : top * at);
}

export function signedTicksOf(top: number, scale: Scale): Tick[] {
  if (!(top > 0)) return [{ at: 0.5, label: "0" }];
  const side = ticksOf(top, scale).at(-1)!.label;
  return [
    { at: 0, label: `−${side}` },
    { at: 0.5, label: "0" },
    { at: 1, label: `+${side}` },
  ];
}

const KINDS: Record<Scale, string> = {
  root: "square root",
  linear: "linear",
  log: "logarithmic, four decades",
  row: "linear in each row",
};
// The kind of a scale and its range, in words.
export const wordsOf = (scale: Scale, low: number, high: number): string =>
  !low && !high
    ? "all values are 0"
    : scale === "row"
      ? `${KINDS.row}, ${low < 0 ? "± the row’s largest" : "0 to the row’s largest"}`
      : `${KINDS[scale]}, ${format(low)} to ${format(high)}`;

// Three significant digits, without a tail of zeros or an exponent where none is needed.
export function format(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text =
    size >= 1e5 || size < 1e-4 ? value.toExponential(1) : size >= 100 ? value.toFixed(0) : value.toPrecision(3);
  return text.replace("-", "−");
}

// Small fractions are not written as 0.
export const percent = (value: number | null | undefined): string =>
  value === null || value === undefined || Number.isNaN(value)
    ? "–"
    : value > 0 && value < 0.0005
      ? "<\u00a00.1\u00a0%"
      : `${(value * 100).toFixed(value < 0.1 ? 1 : 0)}\u00a0%`;
