"""Compares bf16 and int8 with fp32: python3 tests/bench/precision.py build/headscope

Compares attention maps, normalised similarities N = S / max, and the pairs with N >= 0.3, over every layer and head of
some texts. The models are the built-in one and the random BERT-base. With ONNX Runtime (`make bench-peers` installs
it), also compares its int8, which has scales for whole tensors (peers/onnx_graph.py). """
import argparse
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import models
import numpy as np
import texts

THRESHOLD = 0.3
PEERS = Path(__file__).resolve().parent / "peers"
MINI = Path(__file__).resolve().parents[2] / "model/mini"


def normalised(similarities):
    """N of the pairs above the diagonal."""
    upper = similarities.astype(np.float64)[(..., *np.triu_indices(similarities.shape[-1], 1))]
    return upper / upper.max(axis=-1, keepdims=True)


class Headscope:
    def __init__(self, program, model, precision):
        self.command = [program, "analyze", "--model", model, "--layers", "all", "--format", "npz", "--precision",
                        precision, "--outputs", "attentions,similarities"]

    def analyze(self, text):
        """Token ids, attentions [L][H][T][T], N [L][H][pairs]."""
        done = subprocess.run(self.command, input=text.encode(), check=True, capture_output=True)
        maps = np.load(io.BytesIO(done.stdout))
        return maps["input_ids"], maps["attentions"].astype(np.float64), normalised(maps["similarities"])


class OnnxRuntime:
    def __init__(self, folder, scratch):
        graph, self.file = f"{scratch}/int8.onnx", f"{scratch}/maps"
        subprocess.run([sys.executable, PEERS / "onnx_graph.py", folder, graph, "int8"], check=True)
        self.process = subprocess.Popen(["node", "onnx_peer.mjs", graph, "1"], cwd=PEERS, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if self.process.stdout.readline().strip() != "ready":
            raise OSError("ONNX Runtime did not start")

    def analyze(self, ids, attentions):
        self.process.stdin.write(json.dumps({"ids": ids.tolist(), "file": self.file}) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline().strip() == "kept"
        layers, heads, tokens, _ = attentions.shape
        maps = np.fromfile(self.file, np.float32).reshape(layers, 2, heads, tokens, tokens)
        return maps[:, 0].astype(np.float64), normalised(maps[:, 1])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Changes:
    """Sums the changes of attention, N and pairs over texts."""

    def __init__(self):
        self.attention, self.similarity, self.changed, self.pairs = [], [], 0, 0

    def add(self, attention, n, exact_attention, exact_n):
        self.attention.append(np.abs(attention - exact_attention).ravel())
        self.similarity.append(np.abs(n - exact_n).ravel())
        self.changed += np.count_nonzero((n >= THRESHOLD) != (exact_n >= THRESHOLD))
        self.pairs += np.count_nonzero(exact_n >= THRESHOLD)

    def row(self):
        cells = []
        for kind in (self.attention, self.similarity):
            errors = np.concatenate(kind)
            cells += [f"{errors.mean():.1e}", f"{np.quantile(errors, 0.999):.1e}", f"{errors.max():.1e}"]
        return [*cells, f"{100 * self.changed / self.pairs:.2f} %"]


def compare(program, name, model, folder, count, scratch):
    exact = Headscope(program, model, "fp32")
    ours = {precision: Headscope(program, model, precision) for precision in ("bf16", "int8")}
    changes = {precision: Changes() for precision in ours}
    try:
        theirs = OnnxRuntime(folder, scratch)
        changes["int8, ONNX Runtime"] = Changes()
    except OSError as e:
        theirs = None
        print(f"left out: {e}", file=sys.stderr)
    for text in texts.make(count, 128):
        ids, attention, n = exact.analyze(text)
        for precision, one in ours.items():
            changes[precision].add(*one.analyze(text)[1:], attention, n)
        if theirs:
            changes["int8, ONNX Runtime"].add(*theirs.analyze(ids, attention), attention, n)
    if theirs:
        theirs.close()
    for precision, found in changes.items():
        print("| " + " | ".join([name, precision, *found.row()]) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("headscope")
    parser.add_argument("--model", type=Path, default=Path("build/bench/base"), help="made when it is not there")
    parser.add_argument("--texts", type=int, default=4)
    args = parser.parse_args()
    head = ["model", "precision", "attention: mean", "99.9 %", "max", "N: mean", "99.9 %", "max", "pairs that change"]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    with tempfile.TemporaryDirectory() as scratch:
        for name, model, folder in (("mini", "mini", MINI),
                                    ("random BERT-base", models.random_checkpoint(args.model), args.model.resolve())):
            compare(args.headscope, name, model, folder, args.texts, scratch)


if __name__ == "__main__":
    main()
