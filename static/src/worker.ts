// The arithmetic over all heads, off the main thread: one order and one reply a layer. What is waited for in sight is
// done before what came earlier.
import { levelsOf, tokensOf, type Levels } from "./levels";
import { profileOf, type Kinds, type Profile } from "./patterns";
import { fromHalves, leaveOut, signedBytes, similarityOf } from "./similarity";

// The outputs of a layer's heads; out: tokens that make no pairs.
interface Outputs {
  key: number;
  urgent: boolean;
  T: number;
  heads: Uint16Array[];
  out: boolean[];
}

export type Order =
  | ({ kind: "similarity" } & Outputs)
  | ({ kind: "levels"; ids: number[]; sentences: number[] } & Outputs)
  | { kind: "attention"; key: number; urgent: boolean; T: number; heads: Uint8Array[]; kinds: Kinds };

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
  const urgent = orders.findIndex((order) => order.urgent);
  const [order] = orders.splice(Math.max(0, urgent), 1);
  const message = replyTo(order!);
  postMessage(message, { transfer: message.kind === "similarity" ? message.heads.map(({ buffer }) => buffer) : [] });
}

function replyTo(order: Order): Reply {
  const { kind, key, T } = order;
  if (kind === "attention")
    return { kind, key, heads: order.heads.map((map) => profileOf(map, T, 1 / 255, order.kinds)) };
  const similarity = (halves: Uint16Array): Float32Array => {
    const S = similarityOf(fromHalves(halves), T);
    leaveOut(S, T, order.out);
    return S;
  };
  if (kind === "similarity") return { kind, key, heads: order.heads.map((halves) => signedBytes(similarity(halves))) };
  const tokens = tokensOf(order.ids, order.sentences);
  return { kind, key, heads: order.heads.map((halves) => levelsOf(similarity(halves), T, tokens)) };
}
