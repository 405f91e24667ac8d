"""Runs the same work in PyTorch, in the protocol of peers.py: python3 torch_peer.py CHECKPOINT THREADS [bf16] [pairs]

In bf16 weights, activations and maps are bfloat16. With pairs it also finds the high-similarity pairs, as
onnx_graph.py's graph does.
"""
import math
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "reference"))
import checkpoint  # noqa: E402


class Bert:
    def __init__(self, folder, dtype=torch.float32):
        self.shape = checkpoint.load(folder)
        self.w = {name: torch.tensor(array, dtype=dtype) for name, array in self.shape.weights.items()}
        for layer in range(self.shape.n_layers):
            p = f"encoder.layer.{layer}.attention.self."
            for part in ("weight", "bias"):
                self.w[p + part] = torch.cat([self.w[f"{p}{n}.{part}"] for n in ("query", "key", "value")])

    def dense(self, x, name):
        return F.linear(x, self.w[name + ".weight"], self.w[name + ".bias"])

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.w[name + ".weight"], self.w[name + ".bias"], self.shape.eps)

    def run(self, ids):
        """Attentions and similarities, each a list of [A][T][T], one per layer."""
        T, A = len(ids), self.shape.n_heads
        e, attentions, similarities = "embeddings.", [], []
        x = (self.w[e + "word_embeddings.weight"][ids] + self.w[e + "position_embeddings.weight"][:T] +
             self.w[e + "token_type_embeddings.weight"][0])
        x = self.norm(x, e + "LayerNorm")
        for layer in range(self.shape.n_layers):
            p = f"encoder.layer.{layer}."
            q, k, v = self.dense(x, p + "attention.self").view(T, 3, A, -1).permute(1, 2, 0, 3)
            attention = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(q.shape[-1]), -1)
            o = attention @ v
            attentions.append(attention)
            similarities.append(o @ o.transpose(1, 2))
            if layer + 1 == self.shape.n_layers:
                break  # what is left of the last layer changes no output
            x = self.norm(x + self.dense(o.transpose(0, 1).reshape(T, -1), p + "attention.output.dense"),
                          p + "attention.output.LayerNorm")
            y = F.gelu(self.dense(x, p + "intermediate.dense"))
            x = self.norm(x + self.dense(y, p + "output.dense"), p + "output.LayerNorm")
        return attentions, similarities


def find_pairs(similarities):
    """(head, i, j) and value of every S with i < j that is at least 0.3 of the head's largest one, by layer."""
    found = []
    for similarity in similarities:
        above = torch.ones(similarity.shape[1:], dtype=torch.bool).triu(1)
        upper = similarity.masked_fill(~above, -math.inf)
        most = upper.amax((1, 2), keepdim=True)
        least = torch.where(most > 0, 0.3 * most, math.inf)
        places = (upper >= least).nonzero()
        found.append((places, similarity[tuple(places.T)]))
    return found


def sums(attentions, similarities, pairs):
    """Sums A squared, |S| off the diagonal and the pairs, over all layers and heads."""
    attention, similarity = torch.stack(attentions).double(), torch.stack(similarities).double()
    similarity.diagonal(dim1=-2, dim2=-1).zero_()
    count = sum(len(values) for _, values in pairs) if pairs else ""
    return f"{(attention * attention).sum().item()} {similarity.abs().sum().item()} {count}"


def main():
    torch.set_num_threads(int(sys.argv[2]))
    bert = Bert(sys.argv[1], torch.bfloat16 if "bf16" in sys.argv[3:] else torch.float32)
    with_pairs = "pairs" in sys.argv[3:]
    print("ready", flush=True)
    for line in sys.stdin:
        tokens, *check = line.split()
        ids = (torch.arange(int(tokens)) * 7919 + 13) % 1000
        start = time.perf_counter()
        with torch.inference_mode():
            maps = bert.run(ids)
            pairs = find_pairs(maps[1]) if with_pairs else []
        ms = 1e3 * (time.perf_counter() - start)
        print(sums(*maps, pairs) if check else f"{ms:.3f}", flush=True)


if __name__ == "__main__":
    main()
