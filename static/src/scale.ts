// Values -> colour indices 0..255, and the ticks that explain them.
import type { Scale } from "./state";

const DECADES = 4; // the log scale spans max / 10^4 .. max

// 0..1 for one value. `top` is the value shown as full colour: the map's maximum, or the row's.
export function position(value: number, top: number, scale: Scale): number {
  if (!(top > 0) || !(value > 0)) return 0;
  const share = value / top;
  if (scale === "log") return Math.min(1, Math.max(0, 1 + Math.log10(share) / DECADES));
  return Math.min(1, share);
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
    if (scale === "log")
      for (let j = at; j < at + columns; j++) out[j] = 255 * position(values[j]!, rowTop, scale) + 0.5;
    else
      for (let j = at; j < at + columns; j++) {
        const share = values[j]! / rowTop;
        out[j] = share >= 1 ? 255 : share > 0 ? 255 * share + 0.5 : 0;
      }
  }
  return out;
}

// Differences: -top..top -> 0..255 with 0 in the middle.
export function divergingIndicesOf(values: ArrayLike<number>, top: number): Uint8Array {
  const out = new Uint8Array(values.length);
  for (let n = 0; n < values.length; n++)
    out[n] = top > 0 ? 127.5 + 127.5 * Math.min(1, Math.max(-1, values[n]! / top)) + 0.5 : 128;
  return out;
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

export function ticksOf(top: number, scale: Scale): Tick[] {
  if (!(top > 0)) return [{ at: 0, label: "0" }];
  if (scale === "row")
    return [
      { at: 0, label: "0" },
      { at: 1, label: "row max" },
    ];
  if (scale === "log")
    return [DECADES, DECADES / 2, 0].map((d) => ({ at: 1 - d / DECADES, label: format(top / 10 ** d) }));
  return [0, 0.5, 1].map((at) => ({ at, label: format(top * at) }));
}

export function divergingTicksOf(top: number): Tick[] {
  return [-1, 0, 1].map((at) => ({ at: (at + 1) / 2, label: (at > 0 ? "+" : "") + format(top * at) }));
}

// Three significant digits, without a tail of zeros or an exponent where none is needed.
export function format(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text =
    size >= 1e5 || size < 1e-4 ? value.toExponential(1) : size >= 100 ? value.toFixed(0) : value.toPrecision(3);
  return text.replace("-", "−");
}

export const percent = (value: number | null | undefined): string =>
  value === null || value === undefined || Number.isNaN(value)
    ? "–"
    : `${(value * 100).toFixed(value < 0.1 ? 1 : 0)}\u00a0%`;
