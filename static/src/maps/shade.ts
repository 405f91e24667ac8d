// A map's values as colours, with the bar that explains them.
import type { Theme } from "../app/theme";
import { lutOf, MIDDLE, type Lut, type MapName } from "./colour";
import {
  format,
  indicesOf,
  maximumOf,
  minimumOf,
  signedIndicesOf,
  signedTicksOf,
  sizeOf,
  ticksOf,
  wordsOf,
  type Scale,
  type Tick,
} from "./scale";

export interface Shade {
  indices: Uint8Array; // [n][m]
  lut: Lut;
  middle: number; // the index of 0
  ticks: readonly Tick[];
  words: string;
}

interface Paints {
  map: MapName;
  theme: Theme;
  scale: Scale;
  weigh?: boolean; // attention is weighted by norms
}

// The map has n rows. reach: the maps whose largest value means full colour. Values below 0 bring in the second side.
export function shadeOf(
  values: Float32Array,
  n: number,
  quantity: "attention" | "similarity",
  { map, theme, scale, weigh }: Paints,
  reach: readonly Float32Array[] = [values],
): Shade {
  const m = n ? values.length / n : 0;
  // Weights reach 1, as in thumbnails, so that all heads' roots have the same colours.
  const least = quantity === "attention" && scale === "root" && !weigh ? 1 : 0;
  const low = Math.min(0, ...reach.map(minimumOf)),
    high = Math.max(least, ...reach.map((v) => maximumOf(v)));
  const words = wordsOf(scale, low, high);
  if (low < 0) {
    const top = Math.max(...reach.map((v) => sizeOf(v)));
    return {
      indices: signedIndicesOf(values, n, m, top, scale),
      lut: lutOf(map, "signed", theme),
      middle: MIDDLE,
      ticks: signedTicksOf(top, scale),
      words,
    };
  }
  return {
    indices: indicesOf(values, n, m, high, scale),
    lut: lutOf(map, quantity, theme),
    middle: 0,
    ticks: ticksOf(high, scale),
    words,
  };
}

// The shade of bytes with square roots: attention in 255ths, or similarity in 127ths of the head's largest |S|. The same as
// shadeOf() has it of the same numbers. There are 256 of them, so each cell takes its index from a table.
export function shadeOfBytes(
  map: Uint8Array | Int8Array,
  quantity: "attention" | "similarity",
  colours: Omit<Paints, "scale" | "weigh">,
): Shade {
  const bytes = new Uint8Array(map.buffer, map.byteOffset, map.length); // those below 0 are 128 to 255
  const occurs = new Uint8Array(256);
  for (let k = 0; k < bytes.length; k++) occurs[bytes[k]!] = 1;
  const valueOf = (byte: number): number =>
    quantity === "attention" ? byte / 255 : (byte < 128 ? byte : byte - 256) / 127;
  const values = Float32Array.from(occurs, (is, byte) => (is ? valueOf(byte) : 0));
  const shade = shadeOf(values, 1, quantity, { ...colours, scale: "root" });
  const table = shade.indices;
  const indices = new Uint8Array(bytes.length);
  for (let k = 0; k < bytes.length; k++) indices[k] = table[bytes[k]!]!;
  return { ...shade, indices };
}

const WITHIN = 0.995; // of the cells lie within the scale of a difference: one outlier must not make the others pale

// The size that this fraction of the values does not exceed; the largest if there are few values.
function reachOf(values: Float32Array): number {
  const sizes = values.map(Math.abs).sort();
  const reach = sizes[Math.floor(WITHIN * (sizes.length - 1))] ?? 0;
  return reach > 0 ? reach : (sizes.at(-1) ?? 0);
}

// first - second: one colour a side. Larger differences have the colour of the scale's end.
export function differenceShade(delta: Float32Array, n: number, { map, theme }: Paints): Shade {
  const top = reachOf(delta);
  const largest = sizeOf(delta);
  return {
    indices: signedIndicesOf(delta, n, n, top, "linear"),
    lut: lutOf(map, "difference", theme),
    middle: MIDDLE,
    ticks: signedTicksOf(top, "linear"),
    words:
      wordsOf("linear", n ? -top : 0, top) + (largest > top ? `; the largest, ${format(largest)}, lies beyond` : ""),
  };
}
