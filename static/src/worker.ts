// The arithmetic over all heads, off the main thread: one order and one reply a layer.
import { levelsOf, tokensOf, type Levels } from "./levels";
import { profileOf, type Kinds, type Profile } from "./patterns";
import { fromHalves, leaveOut, signedBytes, similarityOf } from "./similarity";

// The heads of a layer.
export type Order =
  | { kind: "similarity"; key: number; T: number; heads: Uint16Array[]; ids: number[]; sentences: number[]; out: boolean[] }
  | { kind: "attention"; key: number; T: number; heads: Uint8Array[]; kinds: Kinds };

export type Reply =
  | { kind: "similarity"; key: number; heads: { bytes: Int8Array<ArrayBuffer>; levels: Levels }[] }
  | { kind: "attention"; key: number; heads: Profile[] };

const reply = (message: Reply, transfer: Transferable[] = []): void => postMessage(message, { transfer });

onmessage = ({ data: order }: MessageEvent<Order>) => {
  const { key, T } = order;
  if (order.kind === "attention") {
    const heads = order.heads.map((map) => profileOf(map, T, 1 / 255, order.kinds));
    return reply({ kind: "attention", key, heads });
  }
  const tokens = tokensOf(order.ids, order.sentences);
  const heads = order.heads.map((halves) => {
    const S = similarityOf(fromHalves(halves), T);
    leaveOut(S, T, order.out);
    return { bytes: signedBytes(S) as Int8Array<ArrayBuffer>, levels: levelsOf(S, T, tokens) };
  });
  reply(
    { kind: "similarity", key, heads },
    heads.map(({ bytes }) => bytes.buffer),
  );
};
