// The arithmetic over all heads, off the main thread: one order an answer, one reply a head.
import { levelsOf, tokensOf, type Levels } from "./levels";
import { profileOf, type Kinds, type Profile } from "./patterns";
import { fromHalves, leaveOut, signedBytes, similarityOf } from "./similarity";

// Heads of one answer, each by its place in it.
export type Order =
  | { kind: "similarity"; key: number; T: number; heads: Uint16Array[]; ids: number[]; sentences: number[]; out: boolean[] }
  | { kind: "attention"; key: number; T: number; heads: Uint8Array[]; kinds: Kinds };

export type Reply =
  | { kind: "similarity"; key: number; head: number; bytes: Int8Array<ArrayBuffer>; levels: Levels }
  | { kind: "attention"; key: number; head: number; profile: Profile };

const reply = (message: Reply, transfer: Transferable[] = []): void => postMessage(message, { transfer });

onmessage = ({ data: order }: MessageEvent<Order>) => {
  const { key, T } = order;
  if (order.kind === "attention") {
    order.heads.forEach((map, head) =>
      reply({ kind: "attention", key, head, profile: profileOf(map, T, 1 / 255, order.kinds) }),
    );
    return;
  }
  const tokens = tokensOf(order.ids, order.sentences);
  order.heads.forEach((halves, head) => {
    const S = similarityOf(fromHalves(halves), T);
    leaveOut(S, T, order.out);
    const bytes = signedBytes(S) as Int8Array<ArrayBuffer>;
    reply({ kind: "similarity", key, head, bytes, levels: levelsOf(S, T, tokens) }, [bytes.buffer]);
  });
};
