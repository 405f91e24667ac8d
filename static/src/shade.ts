// A map's values as colours, with the bar that explains them.
import { lutOf, MIDDLE, type Lut, type Theme } from "./colour";
import {
  indicesOf,
  maximumOf,
  minimumOf,
  signedIndicesOf,
  signedTicksOf,
  sizeOf,
  ticksOf,
  wordsOf,
  type Tick,
} from "./scale";
import type { MapName, Scale } from "./state";

export interface Shade {
  indices: Uint8Array; // [n][n]
  lut: Lut;
  middle: number; // the index of 0
  ticks: readonly Tick[];
  words: string;
}

export interface Paints {
  map: MapName;
  theme: Theme;
  scale: Scale;
}

// reach: the maps whose largest value means full colour. Values below 0 bring in the second side.
export function shadeOf(
  values: Float32Array,
  n: number,
  quantity: "attention" | "similarity",
  { map, theme, scale }: Paints,
  reach: readonly Float32Array[] = [values],
): Shade {
  const low = Math.min(0, ...reach.map(minimumOf)),
    high = Math.max(0, ...reach.map((v) => maximumOf(v)));
  const words = wordsOf(scale, low, high);
  if (low < 0) {
    const top = Math.max(...reach.map((v) => sizeOf(v)));
    return {
      indices: signedIndicesOf(values, n, n, top, scale),
      lut: lutOf(map, "signed", theme),
      middle: MIDDLE,
      ticks: signedTicksOf(top, scale),
      words,
    };
  }
  return {
    indices: indicesOf(values, n, n, high, scale),
    lut: lutOf(map, quantity, theme),
    middle: 0,
    ticks: ticksOf(high, scale),
    words,
  };
}

// first - second: one colour a side.
export function differenceShade(delta: Float32Array, n: number, { map, theme }: Paints): Shade {
  const top = sizeOf(delta);
  return {
    indices: signedIndicesOf(delta, n, n, top, "linear"),
    lut: lutOf(map, "difference", theme),
    middle: MIDDLE,
    ticks: signedTicksOf(top, "linear"),
    words: wordsOf("linear", n ? -top : 0, top),
  };
}
