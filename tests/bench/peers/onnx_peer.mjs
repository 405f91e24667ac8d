// ONNX Runtime on the graph of onnx_graph.py, in the protocol of peers.py: node onnx_peer.mjs MODEL.onnx THREADS
//
// A line {"ids": [...], "file": "..."} is answered when all outputs of these ids are in the file, floats one output
// after the other.
import { closeSync, openSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";
import ort from "onnxruntime-node";

const [path, threads] = process.argv.slice(2);
const session = await ort.InferenceSession.create(path, {
  intraOpNumThreads: Number(threads), interOpNumThreads: 1, graphOptimizationLevel: "all",
});

// Sum of A squared, of |S| off the diagonal, and the number of pairs if the graph finds them, over all layers and heads.
function sums(out, T) {
  let attention = 0, similarity = 0, pairs = 0;
  for (const name of session.outputNames) {
    const map = out[name].data;
    if (name.startsWith("attentions"))
      for (const a of map) attention += a * a;
    else if (name.startsWith("similarities"))
      map.forEach((s, i) => { similarity += i % (T * T) % (T + 1) === 0 ? 0 : Math.abs(s); });
    else if (name.startsWith("values"))
      pairs += map.length;
  }
  return `${attention} ${similarity} ${session.outputNames.includes("values_0") ? pairs : ""}`;
}

function run(list) {
  const ids = new ort.Tensor("int64", BigInt64Array.from(list, BigInt), [list.length]);
  const positions = new ort.Tensor("int64", BigInt64Array.from(list, (_, i) => BigInt(i)), [list.length]);
  return () => session.run({ ids, positions });
}

function keep(out, path) {
  const file = openSync(path, "w");
  for (const name of session.outputNames) writeSync(file, out[name].data);
  closeSync(file);
  return "kept";
}

console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  if (line.startsWith("{")) {
    const { ids, file } = JSON.parse(line);
    console.log(keep(await run(ids)(), file));
    continue;
  }
  const T = parseInt(line), pass = run(Array.from({ length: T }, (_, i) => (i * 7919 + 13) % 1000));
  const start = performance.now();
  const out = await pass();
  const ms = performance.now() - start;
  console.log(line.endsWith("check") ? sums(out, T) : ms.toFixed(3));
}
