// The arithmetic over all heads, off the main thread: one order and one reply a layer, and one head where the pointer
// rests. Attention comes first, figures last: nobody waits for them.
import { levelsOf, tokensOf, type Levels } from "./levels";
import { profileOf, type Kinds, type Profile } from "./patterns";
import type { Answer } from "../app/answer";
import type { Head } from "../maps/analysis";
import type { Lens } from "../maps/axis";
import { pool, type Pooled } from "../maps/thumbnail";
import { roughHeadOf, type Outputs as OneHead } from "./outputs";
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

// A head's maps in bytes, the tokens of its figures, and those of its pictures.
export interface Single {
  attention: Uint8Array;
  similarity: Int8Array | undefined;
  lens: Lens;
  side: number; // of the pictures, in pixels
  tokens: readonly number[];
  columns: readonly number[];
}

// A head with its pictures.
export interface Made {
  head: Head;
  attention: Pooled<Uint8Array>;
  similarity: Pooled<Int8Array> | undefined;
}

export type Order =
  | ({ kind: "head"; key: number; of: OneHead & Pick<Answer, "source"> } & Single)
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
  | { kind: "head"; key: number; made: Made }
  | { kind: "attention"; key: number; heads: Profile[]; small: (Pooled<Uint8Array> | undefined)[] };

const orders: Order[] = [];

onmessage = ({ data: order }: MessageEvent<Order>) => {
  orders.push(order);
  setTimeout(work); // orders that arrived meanwhile are read first
};

// Outputs are here before maps of attention, which are what the first page shows. A head without pictures is what a whole
// view waits for.
const RANKS: Record<Order["kind"], number> = { attention: 1, similarity: 2, head: 3, levels: 4 };
const rankOf = (order: Order): number => (order.kind === "head" && !order.side ? 0 : RANKS[order.kind]);

function work(): void {
  const first = Math.min(...orders.map(rankOf));
  const at = orders.findIndex((order) => rankOf(order) === first);
  const message = replyTo(orders.splice(at, 1)[0]!);
  postMessage(message, { transfer: buffersOf(message) });
}

function buffersOf(reply: Reply): ArrayBuffer[] {
  if (reply.kind === "similarity") return reply.heads.map(({ buffer }) => buffer);
  if (reply.kind !== "head") return [];
  const { attention, similarity, normalized } = reply.made.head;
  return [attention, similarity, normalized].map(({ buffer }) => buffer as ArrayBuffer);
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

// A head's own similarities are no map of the overview, from which tokens are left out: its picture is of the bytes.
function headOf({ of, attention, similarity, lens, side, tokens, columns }: Extract<Order, { kind: "head" }>): Made {
  const T = of.encoding.ids.length;
  return {
    head: roughHeadOf(of, attention, 0, 0, lens),
    attention: pool(attention, T, side, tokens, false, columns),
    similarity: similarity && pool(similarity, T, side, tokens),
  };
}

function replyTo(order: Order): Reply {
  if (order.kind === "head") return { kind: order.kind, key: order.key, made: headOf(order) };
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
