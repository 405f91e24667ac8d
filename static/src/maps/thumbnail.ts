// A head as a thumbnail: of each block of cells the value largest in size, so that a thin line survives. It shows the
// square root of attention, and of S as a fraction of the head's largest |S|. So faint structure shows, and heads can
// be compared.
import type { Answer } from "../app/answer";
import { MIDDLE, type Lut } from "./colour";

type Bytes = Uint8Array | Int8Array;

// The tokens along a map, without the special ones if they are hidden.
export const visibleTokens = ({ encoding }: Pick<Answer, "encoding">, withSpecial: boolean): number[] =>
  encoding.special.flatMap((special, t) => (special && !withSpecial ? [] : [t]));

// Blocks of a map, [side][across].
export interface Pooled<B extends Bytes = Bytes> {
  values: B;
  side: number;
  across: number;
  lower: boolean; // blocks above the diagonal stay clear
}

const startsOf = (n: number, blocks: number): Uint16Array =>
  Uint16Array.from({ length: blocks + 1 }, (_, b) => Math.ceil((b * n) / blocks));

// A [T][U] map's blocks into [size][size]; or, for texts shorter than the thumbnail, [T][U]. `seen`: the tokens shown of
// the rows, and of the columns if they are others.
export function pool<B extends Bytes>(
  map: B,
  T: number,
  size: number,
  seen: readonly number[],
  lower = false,
  columns = seen,
): Pooled<B> {
  const U = T ? map.length / T : 0;
  const [side, across] = [Math.min(seen.length, size), Math.min(columns.length, size)];
  if (side === T && across === U) return { values: map, side, across, lower };
  const at = Uint16Array.from(columns);
  const [down, starts] = [startsOf(seen.length, side), startsOf(columns.length, across)];
  const values = new (map.constructor as new (n: number) => B)(side * across);
  const most = map instanceof Uint8Array ? largest : furthest;
  for (let block = 0; block < side; block++)
    for (let i = down[block]!; i < down[block + 1]!; i++)
      most(map as never, seen[i]! * U, at, starts, values as never, block * across);
  return { values, side, across, lower };
}

// One row of cells into its row of blocks. Two functions, each of one kind of bytes, as engines like it.
type RowInto<B extends Bytes> = (
  map: B,
  from: number,
  at: Uint16Array,
  starts: Uint16Array,
  values: B,
  into: number,
) => void;

const largest: RowInto<Uint8Array> = (map, from, at, starts, values, into) => {
  for (let block = 0; block + 1 < starts.length; block++) {
    let high = values[into + block]!;
    for (let k = starts[block]!, end = starts[block + 1]!; k < end; k++) {
      const value = map[from + at[k]!]!;
      if (value > high) high = value;
    }
    values[into + block] = high;
  }
};

const furthest: RowInto<Int8Array> = (map, from, at, starts, values, into) => {
  for (let block = 0; block + 1 < starts.length; block++) {
    let high = Math.max(0, values[into + block]!),
      low = Math.min(0, values[into + block]!);
    for (let k = starts[block]!, end = starts[block + 1]!; k < end; k++) {
      const value = map[from + at[k]!]!;
      if (value > high) high = value;
      else if (value < low) low = value;
    }
    values[into + block] = high >= -low ? high : low;
  }
};

// 0..255 attention or -127..127 similarity -> the index of its colour.
export const rootIndex = (value: number, signed: boolean): number =>
  signed
    ? Math.round(MIDDLE + Math.sign(value) * (255 - MIDDLE) * Math.sqrt(Math.abs(value) / 127))
    : Math.round(255 * Math.sqrt(value / 255));

const tables = new WeakMap<Lut, Uint32Array>();
// The pixel of each byte, signed ones from -128. Signed maps have colours of their own, so the colours show which it is.
function tableOf(lut: Lut, signed: boolean): Uint32Array {
  let table = tables.get(lut);
  if (!table) {
    table = Uint32Array.from({ length: 256 }, (_, v) => lut[rootIndex(signed ? v - 128 : v, signed)]!);
    tables.set(lut, table);
  }
  return table;
}

// A map through its colours into a square of a picture that is `width` wide, from row `top`.
function paintSquare(
  picture: Uint32Array,
  width: number,
  top: number,
  { values, side, across, lower }: Pooled,
  lut: Lut,
): void {
  const signed = values instanceof Int8Array;
  const table = tableOf(lut, signed);
  const shift = signed ? 128 : 0;
  const block = Uint16Array.from({ length: width }, (_, x) => Math.floor((x * across) / width));
  for (let y = 0; y < width; y++) {
    const down = Math.floor((y * side) / width);
    const from = down * across;
    const row = (top + y) * width;
    const end = lower ? Math.ceil(((down + 1) * width) / side) : width;
    for (let x = 0; x < end; x++) picture[row + x] = table[values[from + block[x]!]! + shift]!;
  }
}

// A map alone, as a square of pixels.
export function paint(map: Pooled, lut: Lut, width: number): ImageData {
  const image = new ImageData(width, width);
  paintSquare(new Uint32Array(image.data.buffer), width, 0, map, lut);
  return image;
}

// The parts of a thumbnail, from above. A missing part keeps its pixels.
interface Parts {
  attention?: Pooled<Uint8Array> | undefined;
  offsets?: readonly number[] | undefined; // fractions of attention by offset
  similarity?: Pooled<Int8Array> | undefined;
}
interface Luts {
  attention: Lut;
  similarity: Lut;
}

const stripOf = (width: number): number => Math.max(3, Math.round(width / 8)); // its height, with a clear line either side

export const heightOf = (show: "both" | "attention" | "similarity", width: number): number =>
  show === "both" ? 2 * width + stripOf(width) : show === "attention" ? width + stripOf(width) : width;

// Parts into a thumbnail, which is heightOf(show, its width) high.
export function paintParts(
  { data, width, height }: ImageData,
  { attention, offsets, similarity }: Parts,
  luts: Luts,
): void {
  const picture = new Uint32Array(data.buffer);
  if (attention) paintSquare(picture, width, 0, attention, luts.attention);
  if (offsets) fillStrip(picture, width, width + 1, stripOf(width) - 2, offsets, luts.attention);
  if (similarity) paintSquare(picture, width, height - width, similarity, luts.similarity);
}

function fillStrip(
  picture: Uint32Array,
  width: number,
  top: number,
  height: number,
  offsets: readonly number[],
  lut: Lut,
): void {
  for (let x = 0; x < width; x++) {
    const share = offsets[Math.floor((x * offsets.length) / width)]! || 0;
    picture[top * width + x] = lut[Math.round(255 * Math.min(1, Math.sqrt(share)))]!;
  }
  for (let y = top + 1; y < top + height; y++) picture.copyWithin(y * width, top * width, (top + 1) * width);
}
