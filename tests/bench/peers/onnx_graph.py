"""Write a checkpoint of BERT or GPT-2 as an ONNX graph whose outputs are all attentions and similarities.

    python3 onnx_graph.py CHECKPOINT OUT.onnx [int8] [pairs]

With pairs it also gives the high-similarity pairs, as a complete analysis does: (head, i, j) and value of every S with
i < j that is at least 0.3 of the head's largest one.

The graph is what a careful user would give ONNX Runtime. One product computes query, key and value with 1/sqrt(d)
folded in. LayerNormalization and Gelu are single operators. There is no padding, and the batch is one. Protocol buffers
are simple enough to be written here: a field is (number << 3 | kind), then a varint or a length and bytes.

GPT-2's mask is made once for each text and added to the scores of every layer.

With int8, for BERT alone, it is what onnxruntime.quantization.quantize_dynamic makes of the matrix products with weights by default: weights
in -127 .. 127 with one scale for each tensor (query, key and value count as three), activations in 0 .. 255 with one
scale and zero for all tokens, found while it runs.
"""
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "reference"))
import checkpoint  # noqa: E402

FLOAT, INT8, INT64 = 1, 3, 7
THRESHOLD = np.float32(0.3)
KINDS = {np.dtype(np.int8): INT8, np.dtype(np.int64): INT64}


def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + np.float32(value).tobytes()
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor(name, array):
    kind = KINDS.get(array.dtype, FLOAT)
    array = np.ascontiguousarray(array, np.float32 if kind == FLOAT else None)
    return b"".join(field(1, d) for d in array.shape) + field(2, kind) + field(8, name) + field(9, array.tobytes())


def value_info(name, kind, shape):
    dims = b"".join(field(1, field(2, d) if isinstance(d, str) else field(1, d)) for d in shape)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, dims)))


def attribute(name, value):
    if isinstance(value, float):
        return field(1, name) + field(2, value) + field(20, 1)
    if isinstance(value, int):
        return field(1, name) + field(3, value) + field(20, 2)
    if isinstance(value, str):
        return field(1, name) + field(4, value) + field(20, 3)
    return field(1, name) + b"".join(field(8, n) for n in value) + field(20, 7)


class Graph:
    def __init__(self, pairs):
        self.nodes, self.initializers, self.outputs, self.count = [], [], [], 0
        self.pairs = [] if pairs else None
        rows, columns = (self.node("Unsqueeze", "positions", self.constant(np.array([axis], np.int64))) for axis in (1, 0))
        self.above = self.node("Greater", columns, rows)  # [i][j]: i < j

    def constant(self, array):
        self.count += 1
        name = f"c{self.count}"
        self.initializers.append(tensor(name, np.asarray(array)))
        return name

    def node(self, op, *inputs, n_outputs=1, output=None, **attributes):
        self.count += 1
        outputs = [output] if output else [f"v{self.count}_{n}" for n in range(n_outputs)]
        self.nodes.append(b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs) +
                          field(3, f"n{self.count}") + field(4, op) +
                          b"".join(field(5, attribute(k, v)) for k, v in attributes.items()))
        return outputs[0] if len(outputs) == 1 else outputs

    def similarity(self, layer, o):
        """Gives the heads' outputs [heads][T][d], each times its own transpose, and their pairs if requested."""
        similarity = self.node("MatMul", o, self.node("Transpose", o, perm=[0, 2, 1]), output=f"similarities_{layer}")
        self.outputs.append(similarity)
        if self.pairs is None:
            return
        minus_infinity = self.constant(np.float32(-np.inf))
        upper = self.node("Where", self.above, similarity, minus_infinity)
        most = self.node("ReduceMax", upper, self.constant(np.array([1, 2], np.int64)))
        least = self.node("Where", self.node("Greater", most, self.constant(np.float32(0))),
                          self.node("Mul", most, self.constant(THRESHOLD)), self.constant(np.float32(np.inf)))
        places = self.node("NonZero", self.node("GreaterOrEqual", upper, least))
        self.pairs.append((self.node("Transpose", places, perm=[1, 0], output=f"places_{layer}"), INT64, ["N", 3]))
        self.pairs.append((self.node("GatherND", similarity, self.pairs[-1][0], output=f"values_{layer}"), FLOAT, ["N"]))

    def model(self, n_heads):
        inputs = [value_info(name, INT64, ["T"]) for name in ("ids", "positions")]
        outputs = [value_info(name, FLOAT, [n_heads, "T", "T"]) for name in self.outputs]
        outputs += [value_info(name, kind, [f"{name}_{n}" if n == "N" else n for n in shape])
                    for name, kind, shape in self.pairs or ()]
        graph = (b"".join(field(1, n) for n in self.nodes) + field(2, "bert") +
                 b"".join(field(5, i) for i in self.initializers) + b"".join(field(11, i) for i in inputs) +
                 b"".join(field(12, o) for o in outputs))
        return field(1, 9) + field(8, field(1, "") + field(2, 20)) + field(7, graph)


def build(w, int8, pairs):
    A, H = w.n_heads, w.hidden
    d = H // A
    g = Graph(pairs)

    def norm(x, prefix):
        return g.node("LayerNormalization", x, g.constant(w[prefix + ".weight"]), g.constant(w[prefix + ".bias"]),
                      axis=-1, epsilon=float(w.eps))

    def dense(x, *parts):
        """Parts (weight, bias) side by side, one product."""
        weights, bias = [weight for weight, _ in parts], g.constant(np.concatenate([bias for _, bias in parts]))
        if not int8:
            return g.node("Add", g.node("MatMul", x, g.constant(np.concatenate(weights).T)), bias)
        scales = [np.abs(weight).max() / 127 for weight in weights]
        rounded = np.concatenate([np.rint(weight / scale) for weight, scale in zip(weights, scales, strict=True)])
        columns = np.repeat(scales, [len(weight) for weight in weights])
        u, scale, zero = g.node("DynamicQuantizeLinear", x, n_outputs=3)
        sums = g.node("MatMulInteger", u, g.constant(rounded.T.astype(np.int8)), zero, g.constant(np.int8(0)))
        return g.node("Add", g.node("Mul", g.node("Cast", sums, to=FLOAT),
                                    g.node("Mul", scale, g.constant(columns if len(parts) > 1 else scales[0]))), bias)

    def named(prefix):
        return w[prefix + ".weight"], w[prefix + ".bias"]

    e = "embeddings."
    x = g.node("Add", g.node("Gather", g.constant(w[e + "word_embeddings.weight"]), "ids"),
               g.node("Gather", g.constant(w[e + "position_embeddings.weight"] +
                                           w[e + "token_type_embeddings.weight"][0]), "positions"))
    x = norm(x, e + "LayerNorm")
    heads, rows = g.constant(np.array([0, A, d], np.int64)), g.constant(np.array([0, H], np.int64))
    for layer in range(w.n_layers):
        p = f"encoder.layer.{layer}."
        scale = {"query": 1 / np.sqrt(d), "key": 1, "value": 1}
        parts = [(w[f"{p}attention.self.{n}.weight"] * s, w[f"{p}attention.self.{n}.bias"] * s)
                 for n, s in scale.items()]
        qkv = g.node("Split", dense(x, *parts), n_outputs=3, axis=-1, num_outputs=3)
        q, k, v = (g.node("Reshape", part, heads) for part in qkv)
        q, v = (g.node("Transpose", part, perm=[1, 0, 2]) for part in (q, v))
        k = g.node("Transpose", k, perm=[1, 2, 0])
        g.outputs.append(f"attentions_{layer}")
        attention = g.node("Softmax", g.node("MatMul", q, k), output=g.outputs[-1], axis=-1)
        o = g.node("MatMul", attention, v)
        g.similarity(layer, o)
        if layer + 1 == w.n_layers:
            break  # what is left of the last layer changes no output
        o = g.node("Reshape", g.node("Transpose", o, perm=[1, 0, 2]), rows)
        o = dense(o, named(p + "attention.output.dense"))
        x = norm(g.node("Add", x, o), p + "attention.output.LayerNorm")
        y = g.node("Gelu", dense(x, named(p + "intermediate.dense")))
        y = dense(y, named(p + "output.dense"))
        x = norm(g.node("Add", x, y), p + "output.LayerNorm")
    return g.model(A)


def build_gpt2(folder, pairs):
    config, w = checkpoint.read(Path(folder), "transformer.")
    A, H, eps = config["n_head"], config["n_embd"], float(config["layer_norm_epsilon"])
    d = H // A
    g = Graph(pairs)

    def norm(x, prefix):
        return g.node("LayerNormalization", x, g.constant(w[prefix + ".weight"]), g.constant(w[prefix + ".bias"]),
                      axis=-1, epsilon=eps)

    def dense(x, prefix, scale=1.0):
        return g.node("Add", g.node("MatMul", x, g.constant(w[prefix + ".weight"] * scale)),
                      g.constant(w[prefix + ".bias"] * scale))

    x = g.node("Add", g.node("Gather", g.constant(w["wte.weight"]), "ids"),
               g.node("Gather", g.constant(w["wpe.weight"]), "positions"))
    mask = g.node("Where", g.above, g.constant(np.float32(-np.inf)), g.constant(np.float32(0)))
    heads, flat = g.constant(np.array([0, A, d], np.int64)), g.constant(np.array([0, H], np.int64))
    scale = np.repeat([1 / np.sqrt(d), 1, 1], H)
    for layer in range(config["n_layer"]):
        p = f"h.{layer}."
        qkv = g.node("Split", dense(norm(x, p + "ln_1"), p + "attn.c_attn", scale), n_outputs=3, axis=-1, num_outputs=3)
        q, k, v = (g.node("Reshape", part, heads) for part in qkv)
        q, v = (g.node("Transpose", part, perm=[1, 0, 2]) for part in (q, v))
        k = g.node("Transpose", k, perm=[1, 2, 0])
        g.outputs.append(f"attentions_{layer}")
        attention = g.node("Softmax", g.node("Add", g.node("MatMul", q, k), mask), output=g.outputs[-1], axis=-1)
        o = g.node("MatMul", attention, v)
        g.similarity(layer, o)
        if layer + 1 == config["n_layer"]:
            break  # what is left of the last layer changes no output
        o = g.node("Reshape", g.node("Transpose", o, perm=[1, 0, 2]), flat)
        x = g.node("Add", x, dense(o, p + "attn.c_proj"))
        y = g.node("Gelu", dense(norm(x, p + "ln_2"), p + "mlp.c_fc"), approximate="tanh")
        x = g.node("Add", x, dense(y, p + "mlp.c_proj"))
    return g.model(A)


def build_any(folder, int8=False, pairs=False):
    config = json.loads((Path(folder) / "config.json").read_text())
    if config["model_type"] == "gpt2":
        return build_gpt2(folder, pairs)
    return build(checkpoint.load(folder), int8, pairs)


if __name__ == "__main__":
    if len(sys.argv) < 3 or not {*sys.argv[3:]} <= {"int8", "pairs"}:
        sys.exit(__doc__)
    Path(sys.argv[2]).write_bytes(build_any(sys.argv[1], **dict.fromkeys(sys.argv[3:], True)))
