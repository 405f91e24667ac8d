// A head as a thumbnail: of each block of cells the value largest in size, so that a thin line survives; the square
// root of attention and of S as a share of the head's largest |S|, the same for every head, so that faint structure
// shows and heads compare.
import { MIDDLE, type Lut } from "./colour";

type Bytes = Uint8Array | Int8Array;

// A [T][T] map's blocks into [size][size]; or, for texts shorter than the thumbnail, [T][T]. `at`: the tokens seen.
export function pool<B extends Bytes>(map: B, T: number, size: number, seen: readonly number[]): { values: B; side: number } {
  const n = seen.length;
  const side = Math.min(n, size);
  if (side === T) return { values: map, side: T };
  const values = new (map.constructor as new (n: number) => B)(side * side);
  const block = Uint16Array.from(seen, (_, k) => Math.floor((k * side) / n));
  for (let i = 0; i < n; i++) {
    const row = block[i]! * side,
      from = seen[i]! * T;
    for (let j = 0; j < n; j++) {
      const cell = row + block[j]!;
      const value = map[from + seen[j]!]!;
      if (Math.abs(value) > Math.abs(values[cell]!)) values[cell] = value;
    }
  }
  return { values, side };
}

// 0..255 attention or -127..127 similarity -> the index of its colour.
export const rootIndex = (value: number, signed: boolean): number =>
  signed
    ? Math.round(MIDDLE + Math.sign(value) * (255 - MIDDLE) * Math.sqrt(Math.abs(value) / 127))
    : Math.round(255 * Math.sqrt(value / 255));

// values [side][side] -> pixels through the colour map.
export function paint(values: Bytes, side: number, lut: Lut): ImageData {
  const signed = values instanceof Int8Array;
  const table = Uint32Array.from({ length: 256 }, (_, v) => lut[rootIndex(signed ? v - 128 : v, signed)]!);
  const shift = signed ? 128 : 0;
  const image = new ImageData(side, side);
  const pixels = new Uint32Array(image.data.buffer);
  for (let k = 0; k < pixels.length; k++) pixels[k] = table[values[k]! + shift]!;
  return image;
}
