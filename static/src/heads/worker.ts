// The arithmetic over all heads, off the main thread: one order and one reply a layer. Maps come before figures, which
// nobody waits for.
import { levelsOf, tokensOf, type Levels } from "./levels";
import { profileOf, type Kinds, type Profile } from "./patterns";
import { pool, type Pooled } from "../maps/thumbnail";
import { centre, fromHalves, leaveOut, signedBytes, similarityOf } from "./similarity";

// The thumbnails that are requested of the maps; side 0: none.
export interface Pooling {
  side: number;
  seen: number[]; // tokens
  lower: boolean; // of attention
}

// A layer's heads one after the other; out: tokens that make no pairs.
interface Outputs {
  key: number;
  T: number;
  H: number;
  outputs: Uint16Array<ArrayBuffer>; // [H][T][d]
  centred: boolean; // similarities are of outputs without their mean
  out: boolean[];
  pooling: Pooling;
}

export type Order =
  | ({ kind: "similarity" } & Outputs)
  | ({ kind: "levels"; ids: number[]; sentences: number[] } & Outputs)
  | {
      kind: "attention";
      key: number;
      T: number;
      H: number;
      maps: Uint8Array<ArrayBuffer>;
      kinds: Kinds;
      pooling: Pooling;
    }; // [H][T][T]

export type Reply =
  | { kind: "similarity"; key: number; heads: Int8Array<ArrayBuffer>[]; small: (Pooled<Int8Array> | undefined)[] }
  | { kind: "levels"; key: number; heads: Levels[] }
  | { kind: "attention"; key: number; heads: Profile[]; small: (Pooled<Uint8Array> | undefined)[] };

const orders: Order[] = [];

onmessage = ({ data: order }: MessageEvent<Order>) => {
  orders.push(order);
  setTimeout(work); // orders that arrived meanwhile are read first
};

function work(): void {
  const map = orders.findIndex(({ kind }) => kind !== "levels");
  const [order] = orders.splice(Math.max(0, map), 1);
  const message = replyTo(order!);
  postMessage(message, { transfer: message.kind === "similarity" ? message.heads.map(({ buffer }) => buffer) : [] });
}

// Each head's part of a layer. A view, not a copy.
function partsOf<A extends Uint8Array | Uint16Array>(layer: A, H: number): A[] {
  const size = layer.length / H;
  return Array.from({ length: H }, (_, h) => layer.subarray(h * size, (h + 1) * size) as A);
}

// Smaller copies of maps; undefined where they would not be smaller.
function smallOf<B extends Uint8Array | Int8Array>(maps: B[], T: number, { side, seen }: Pooling, lower = false) {
  return maps.map((map) => {
    const small = side ? pool(map, T, side, seen, lower) : undefined;
    return small?.values === map ? undefined : small;
  });
}

let scratch = new Float32Array(0); // one head's S after the other

function replyTo(order: Order): Reply {
  const { kind, key, T, H } = order;
  if (kind === "attention") {
    const maps = partsOf(order.maps, H);
    const heads = maps.map((map) => profileOf(map, T, order.kinds));
    return { kind, key, heads, small: smallOf(maps, T, order.pooling, order.pooling.lower) };
  }
  if (scratch.length !== T * T) scratch = new Float32Array(T * T);
  const similarity = (halves: Uint16Array): Float32Array => {
    const outputs = fromHalves(halves);
    const S = similarityOf(order.centred ? centre(outputs, T) : outputs, T, scratch);
    leaveOut(S, T, order.out);
    return S;
  };
  const heads = partsOf(order.outputs, H);
  if (kind === "similarity") {
    const maps = heads.map((halves) => signedBytes(similarity(halves)));
    return { kind, key, heads: maps, small: smallOf(maps, T, order.pooling) };
  }
  const tokens = tokensOf(order.ids, order.sentences);
  return { kind, key, heads: heads.map((halves) => levelsOf(similarity(halves), T, tokens)) };
}

// Engines make fast what they have seen run: a rehearsal of maps, while the server computes.
const [T, H] = [96, 3];
const pooling = { side: 64, seen: [...Array(T).keys()], lower: false };
const shape = { key: 0, T, H, pooling };
const no = new Array<boolean>(T).fill(false);
const count = [...no.keys()];
const bytes = Uint8Array.from({ length: H * T * T }, (_, n) => (n * n) % 8);
replyTo({
  kind: "similarity",
  ...shape,
  centred: false,
  outputs: Uint16Array.from({ length: H * T * 64 }, (_, n) => 0x3000 + (n % 999)),
  out: no,
});
replyTo({
  kind: "attention",
  ...shape,
  maps: bytes,
  kinds: { first: 0, separator: no, punctuation: no, repeated: count, sentence: count, causal: false },
});
