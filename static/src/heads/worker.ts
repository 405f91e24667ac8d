// The arithmetic over all heads, off the main thread: one order and one reply a layer. Maps come before figures, which
// nobody waits for.
import { levelsOf, tokensOf, type Levels } from "./levels";
import { profileOf, type Kinds, type Profile } from "./patterns";
import { fromHalves, leaveOut, signedBytes, similarityOf } from "./similarity";

// A layer's heads one after the other; out: tokens that make no pairs.
interface Outputs {
  key: number;
  T: number;
  H: number;
  outputs: Uint16Array<ArrayBuffer>; // [H][T][d]
  out: boolean[];
}

export type Order =
  | ({ kind: "similarity" } & Outputs)
  | ({ kind: "levels"; ids: number[]; sentences: number[] } & Outputs)
  | { kind: "attention"; key: number; T: number; H: number; maps: Uint8Array<ArrayBuffer>; kinds: Kinds }; // [H][T][T]

export type Reply =
  | { kind: "similarity"; key: number; heads: Int8Array<ArrayBuffer>[] }
  | { kind: "levels"; key: number; heads: Levels[] }
  | { kind: "attention"; key: number; heads: Profile[] };

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

let scratch = new Float32Array(0); // one head's S after the other

function replyTo(order: Order): Reply {
  const { kind, key, T, H } = order;
  if (kind === "attention")
    return { kind, key, heads: partsOf(order.maps, H).map((map) => profileOf(map, T, 1 / 255, order.kinds)) };
  if (scratch.length !== T * T) scratch = new Float32Array(T * T);
  const similarity = (halves: Uint16Array): Float32Array => {
    const S = similarityOf(fromHalves(halves), T, scratch);
    leaveOut(S, T, order.out);
    return S;
  };
  const heads = partsOf(order.outputs, H);
  if (kind === "similarity") return { kind, key, heads: heads.map((halves) => signedBytes(similarity(halves))) };
  const tokens = tokensOf(order.ids, order.sentences);
  return { kind, key, heads: heads.map((halves) => levelsOf(similarity(halves), T, tokens)) };
}

// Engines make fast what they have seen run: a rehearsal of maps, while the server computes.
const [T, H] = [96, 3];
const shape = { key: 0, T, H };
const no = new Array<boolean>(T).fill(false);
const count = [...no.keys()];
const bytes = Uint8Array.from({ length: H * T * T }, (_, n) => (n * n) % 8);
replyTo({
  kind: "similarity",
  ...shape,
  outputs: Uint16Array.from({ length: H * T * 64 }, (_, n) => 0x3000 + (n % 999)),
  out: no,
});
replyTo({
  kind: "attention",
  ...shape,
  maps: bytes,
  kinds: { first: 0, separator: no, punctuation: no, repeated: count, sentence: count, causal: false },
});
