// The maps and profiles of a long text, which the service makes small: all of its maps are too large for a page.
import { partAt, WHOLE_MOST, type Answer, type Coarse } from "../app/answer";
import { perObject } from "../app/per-object";
import { LONG } from "../app/requests";
import { visibleTokens } from "../maps/thumbnail";
import { fromHalves, signedBytes } from "./similarity";

export const SHORT_ONLY = `This reads the whole maps of all heads: for texts of at most ${LONG} tokens. Set “Tokens at most” to see the beginning of this one.`;

export const WHOLE_ONLY = `This view reads a head’s whole maps: for texts of at most ${WHOLE_MOST} tokens. The parts of Head show longer ones. Or set “Tokens at most” to ${WHOLE_MOST}, and step through the text window by window.`;

// Square maps of blocks, in the bytes of whole maps. A layer's are made when they are first read.
export interface CoarseMaps {
  side: number;
  attention: (layer: number) => readonly Uint8Array[];
}
interface SmallMaps extends CoarseMaps {
  similarity: (layer: number) => readonly Int8Array[];
}

// Remembers what is made of each layer.
function perLayer<V>(make: (layer: number) => V): (layer: number) => V {
  const known: V[] = [];
  return (layer) => (known[layer] ??= make(layer));
}

// Null for a text whose maps come whole.
export const smallMapsOf = perObject((overview: Answer): SmallMaps | null => {
  const { pooled, heads } = overview;
  if (!pooled) return null;
  const parts = (stack: Uint16Array, l: number): Float32Array[] =>
    heads.map((_, h) => fromHalves(partAt(stack, overview, l, h)));
  return {
    ...coarseOf(overview, pooled),
    similarity: perLayer((l) => parts(pooled.similarity as Uint16Array, l).map(signedBytes)),
  };
});

// Null for a text whose whole maps are the first, and for a long one.
export const coarseMapsOf = perObject((overview: Answer): CoarseMaps | null =>
  overview.coarse ? coarseOf(overview, overview.coarse) : null,
);

const coarseOf = (overview: Answer, { side, attention }: Coarse): CoarseMaps => ({
  side,
  attention: perLayer((l) =>
    overview.heads.map((_, h) => bytesOfHalves(partAt(attention as Uint16Array, overview, l, h))),
  ),
});

const HALF_ONE = 0x3c00;
let byteOf: Uint8Array | null = null; // of each half from 0 to 1

function bytesOfHalves(halves: Uint16Array): Uint8Array {
  byteOf ??= Uint8Array.from(fromHalves(Uint16Array.from({ length: HALF_ONE + 1 }, (_, k) => k)), (v) =>
    Math.round(255 * v),
  );
  const bytes = new Uint8Array(halves.length);
  for (let k = 0; k < bytes.length; k++) bytes[k] = byteOf[halves[k]!]!;
  return bytes;
}

// The tokens along a block of the maps; 1 for whole ones.
export const blockOf = ({ pooled, encoding }: Answer): number =>
  pooled?.side ? Math.ceil(encoding.ids.length / pooled.side) : 1;

export interface Extent {
  T: number;
  tokens: readonly number[];
  columns: readonly number[]; // of attention: the same array, or tokens of another text
}

// The rows of the maps at hand, and those of them and of the columns that are shown. Blocks are shown with all their tokens.
export function extentOf(overview: Answer, withSpecial: boolean): Extent {
  const small = smallMapsOf(overview);
  const { encoding, source } = overview;
  const tokens = small ? [...Array(small.side).keys()] : visibleTokens(overview, withSpecial);
  const columns = source ? visibleTokens({ encoding: source }, withSpecial) : tokens;
  return { T: small ? small.side : encoding.ids.length, tokens, columns };
}
