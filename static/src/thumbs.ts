// A head as a thumbnail: the largest value of each block of cells, so that a thin line survives; the square
// root of attention and of N, 0..1, the same for every head, so that faint structure shows and heads compare.
import type { Lut } from "./colour";

// Block maxima of a [T][T] byte map into [size][size]; or, for texts shorter than the thumbnail, [T][T].
export function pool(map: Uint8Array, T: number, size: number): { values: Uint8Array; side: number } {
  if (T <= size) return { values: map, side: T };
  const values = new Uint8Array(size * size);
  const block = new Uint16Array(T);
  for (let t = 0; t < T; t++) block[t] = Math.floor((t * size) / T);
  for (let i = 0, at = 0; i < T; i++) {
    const row = block[i]! * size;
    for (let j = 0; j < T; j++, at++) {
      const cell = row + block[j]!;
      if (map[at]! > values[cell]!) values[cell] = map[at]!;
    }
  }
  return { values, side: size };
}

// values [side][side] -> pixels through the colour map.
export function paint(values: Uint8Array, side: number, lut: Lut): ImageData {
  const table = Uint32Array.from({ length: 256 }, (_, v) => lut[Math.round(255 * Math.sqrt(v / 255))]!);
  const image = new ImageData(side, side);
  const pixels = new Uint32Array(image.data.buffer);
  for (let k = 0; k < pixels.length; k++) pixels[k] = table[values[k]!]!;
  return image;
}
