// ONNX Runtime on the graph of onnx_graph.py: node onnx_peer.mjs MODEL.onnx THREADS
// Reads lines "T", answers "milliseconds checksum": one pass over T tokens with all outputs fetched.
import { createInterface } from "node:readline";
import ort from "onnxruntime-node";

const [path, threads] = process.argv.slice(2);
const session = await ort.InferenceSession.create(path, {
  intraOpNumThreads: Number(threads), interOpNumThreads: 1, graphOptimizationLevel: "all",
});
console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const T = Number(line);
  const ids = new ort.Tensor("int64", BigInt64Array.from({ length: T }, (_, i) => BigInt((i * 7919 + 13) % 1000)), [T]);
  const positions = new ort.Tensor("int64", BigInt64Array.from({ length: T }, (_, i) => BigInt(i)), [T]);
  const start = performance.now();
  const out = await session.run({ ids, positions });
  const ms = performance.now() - start;
  const last = out[session.outputNames[session.outputNames.length - 1]].data;
  console.log(`${ms.toFixed(3)} ${last[1]}`);
}
