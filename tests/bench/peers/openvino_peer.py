"""OpenVINO on the graph of onnx_graph.py, in the protocol of peers.py: python3 openvino_peer.py MODEL.onnx THREADS PRECISION

PRECISION is f32 or bf16, OpenVINO's hint for its own choice. The graph is compiled for each length, so that shapes are
known, except those of the pairs.
"""
import sys
import time

import numpy as np
import openvino


class Graph:
    def __init__(self, path, threads, precision):
        self.core, self.path, self.tokens, self.compiled = openvino.Core(), path, 0, None
        self.options = {"INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": threads,
                        "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY", "ENABLE_CPU_PINNING": False}

    def compile(self, tokens):
        """The request for texts of that many tokens."""
        if tokens != self.tokens:
            model = self.core.read_model(self.path)
            model.reshape({"ids": [tokens], "positions": [tokens]})
            self.compiled = self.core.compile_model(model, "CPU", self.options)
            self.tokens, self.request = tokens, self.compiled.create_infer_request()
        return self.request

    def sums(self):
        """A squared, |S| off the diagonal and, of a graph that finds them, the number of pairs."""
        attention = similarity = pairs = 0.0
        for output in self.compiled.outputs:
            name, values = output.any_name, self.request.get_tensor(output).data
            if name.startswith("attentions"):
                attention += np.square(values.astype(np.float64)).sum()
            elif name.startswith("similarities"):
                off_diagonal = values.astype(np.float64) * ~np.eye(self.tokens, dtype=bool)
                similarity += np.abs(off_diagonal).sum()
            elif name.startswith("values"):
                pairs += len(values)
        return f"{attention} {similarity} {pairs if pairs else ''}"


def main():
    graph = Graph(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    graph.compile(32)
    print("ready", flush=True)
    for line in sys.stdin:
        tokens, *check = line.split()
        request, tokens = graph.compile(int(tokens)), int(tokens)
        inputs = {"ids": (np.arange(tokens) * 7919 + 13) % 1000, "positions": np.arange(tokens)}
        start = time.perf_counter()
        request.infer(inputs, share_outputs=True)  # else it returns a copy of all outputs
        ms = 1e3 * (time.perf_counter() - start)
        print(graph.sums() if check else f"{ms:.3f}", flush=True)


if __name__ == "__main__":
    main()
