// ONNX Runtime on the graph of onnx_graph.py, in the protocol of run.py: node onnx_peer.mjs MODEL.onnx THREADS
import { createInterface } from "node:readline";
import ort from "onnxruntime-node";

const [path, threads] = process.argv.slice(2);
const session = await ort.InferenceSession.create(path, {
  intraOpNumThreads: Number(threads), interOpNumThreads: 1, graphOptimizationLevel: "all",
});

// Sum of A squared, and of |S| off the diagonal, over all layers and heads.
function sums(out, T) {
  let attention = 0, similarity = 0;
  for (const name of session.outputNames) {
    const map = out[name].data;
    if (name.startsWith("attentions"))
      for (const a of map) attention += a * a;
    else
      map.forEach((s, i) => { similarity += i % (T * T) % (T + 1) === 0 ? 0 : Math.abs(s); });
  }
  return `${attention} ${similarity}`;
}

console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const T = parseInt(line);
  const ids = new ort.Tensor("int64", BigInt64Array.from({ length: T }, (_, i) => BigInt((i * 7919 + 13) % 1000)), [T]);
  const positions = new ort.Tensor("int64", BigInt64Array.from({ length: T }, (_, i) => BigInt(i)), [T]);
  const start = performance.now();
  const out = await session.run({ ids, positions });
  const ms = performance.now() - start;
  console.log(line.endsWith("check") ? sums(out, T) : ms.toFixed(3));
}
