"""Checkpoints in HuggingFace's layout: read any naming in use, write random ones of odd shapes.

Weights are read as float64; f16 and bf16 are upcast exactly.
"""

import json
import string
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

# ---- safetensors: u64 header length, JSON header, data ----


def bf16_bits(values):
    """float32 to bfloat16, to nearest, ties to even."""
    bits = np.asarray(values, "<f4").view("<u4").astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def _encode(values, dtype):
    if dtype == "BF16":
        return bf16_bits(values).tobytes()
    return np.asarray(values, {"F32": "<f4", "F16": "<f2", "I64": "<i8"}[dtype]).tobytes()


def _decode(data, dtype, shape):
    if dtype == "BF16":
        values = (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    else:
        values = np.frombuffer(data, {"F32": "<f4", "F16": "<f2", "I64": "<i8"}[dtype])
    return values.reshape(shape).astype(np.float64)


def write_safetensors(path, tensors, dtype="F32"):
    """tensors: name -> array; integer arrays are written as I64, the others as dtype."""
    header, blobs, end = {"__metadata__": {"format": "pt"}}, [], 0
    for name, values in tensors.items():
        kind = "I64" if np.issubdtype(values.dtype, np.integer) else dtype
        blob = _encode(values, kind)
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [end, end + len(blob)]}
        blobs.append(blob)
        end += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def read_safetensors(path):
    raw = Path(path).read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    header, data = json.loads(raw[8 : 8 + size]), raw[8 + size :]
    return {
        name: _decode(data[slice(*entry["data_offsets"])], entry["dtype"], entry["shape"])
        for name, entry in header.items()
        if name != "__metadata__"
    }


# ---- reading a checkpoint ----


@dataclass
class Checkpoint:
    """One shape for BERT and DistilBERT; `weights` are named as in HuggingFace's BertModel, no prefix."""

    n_layers: int
    n_heads: int
    hidden: int
    eps: float
    activation: str
    weights: dict

    def __getitem__(self, name):
        return self.weights[name]


DISTILBERT_LAYER = {
    "attention.q_lin": "attention.self.query",
    "attention.k_lin": "attention.self.key",
    "attention.v_lin": "attention.self.value",
    "attention.out_lin": "attention.output.dense",
    "sa_layer_norm": "attention.output.LayerNorm",
    "ffn.lin1": "intermediate.dense",
    "ffn.lin2": "output.dense",
    "output_layer_norm": "output.LayerNorm",
}


def _canonical(name):
    """The BertModel name of a weight in DistilBERT's naming."""
    if name.startswith("transformer.layer."):
        _, _, number, rest = name.split(".", 3)
        part, kind = rest.rsplit(".", 1)
        name = f"encoder.layer.{number}.{DISTILBERT_LAYER[part]}.{kind}"
    return name


def read(folder, *prefixes):
    """Config and weights of a folder: under their names without any of the prefixes, gamma and beta renamed."""
    folder = Path(folder)
    index = folder / "model.safetensors.index.json"
    files = {"model.safetensors"}
    if index.exists():
        files = set(json.loads(index.read_text())["weight_map"].values())
    weights = {}
    for file in sorted(files):
        for name, values in read_safetensors(folder / file).items():
            for prefix in (*prefixes, "model."):
                name = name.removeprefix(prefix)
            name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
            weights[name] = values
    return json.loads((folder / "config.json").read_text()), weights


def load(folder):
    config, weights = read(folder, "bert.", "distilbert.")
    distil = config["model_type"] == "distilbert"
    return Checkpoint(
        n_layers=config["n_layers" if distil else "num_hidden_layers"],
        n_heads=config["n_heads" if distil else "num_attention_heads"],
        hidden=config["dim" if distil else "hidden_size"],
        eps=1e-12 if distil else config["layer_norm_eps"],
        activation=config["activation" if distil else "hidden_act"],
        weights={_canonical(name): values for name, values in weights.items()},
    )


# ---- random checkpoints of odd shapes ----

# Settings that differ from a BERT of 3 layers, 4 heads, hidden 48, f32, prefix "bert.".
VARIANTS = {
    "one_layer": dict(n_layers=1, n_heads=5, hidden=60),
    "one_head": dict(n_heads=1, hidden=33, ffn=7),
    "deep": dict(n_layers=24, n_heads=4, hidden=32),
    "wide_heads": dict(n_layers=2, n_heads=2, hidden=200, ffn=301),
    "one_wide_heads": dict(n_layers=2, n_heads=12, hidden=12),
    "no_prefix": dict(prefix=""),
    "model_prefix": dict(prefix="model."),
    "gamma_beta": dict(gamma_beta=True, pretraining_head=True),
    "bf16": dict(dtype="BF16"),
    "f16": dict(dtype="F16"),
    "shards": dict(n_shards=3),
    "distilbert": dict(distil=True, prefix="distilbert."),
    "distilbert_no_prefix": dict(distil=True, prefix="", n_layers=6, dtype="F16"),
}

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = "the of and in to was is a for on as with by he at from his it an were police airport war city".split()


def _vocabulary(size):
    letters = list(string.ascii_lowercase + string.digits)
    entries = SPECIAL + list(string.punctuation) + letters + ["##" + c for c in letters] + WORDS[1:]
    entries = list(dict.fromkeys(entries))
    entries += [f"##{a}{b}" for a in "aeioustrn" for b in string.ascii_lowercase]
    return entries[:size]


class Weights(dict):
    """Random weights by name."""

    def __init__(self, seed):
        super().__init__()
        self.rng = np.random.default_rng(seed)

    def table(self, name, n_rows, n_columns):
        self[name + ".weight"] = self.rng.normal(0, 0.5, (n_rows, n_columns))

    def dense(self, name, n_out, n_in, scale=1.0, bias=True):
        self[name + ".weight"] = self.rng.normal(0, scale / np.sqrt(n_in), (n_out, n_in))
        if bias:
            self[name + ".bias"] = self.rng.normal(0, 0.1, n_out)

    def norm(self, name, width, bias=True):
        self[name + ".weight"] = self.rng.normal(1, 0.1, width)
        if bias:
            self[name + ".bias"] = self.rng.normal(0, 0.1, width)

    def rename(self, prefix, gamma_beta=False):
        """A prefix before every name, and TensorFlow's names in norms if they are wanted."""
        renamed = {prefix + name: values for name, values in self.items()}
        self.clear()
        for name, values in renamed.items():
            if gamma_beta:
                name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
            self[name] = values


def bert_layers(weights, n_layers, hidden, ffn):
    """HuggingFace's BertLayers. Attention chooses and the residual lasts, so that the tokens of deep models stay
    different."""
    for number in range(n_layers):
        layer = f"encoder.layer.{number}."
        for name, scale in (("query", 2), ("key", 2), ("value", 1)):
            weights.dense(layer + "attention.self." + name, hidden, hidden, scale)
        weights.dense(layer + "attention.output.dense", hidden, hidden, scale=0.3)
        weights.norm(layer + "attention.output.LayerNorm", hidden)
        weights.dense(layer + "intermediate.dense", ffn, hidden)
        weights.dense(layer + "output.dense", hidden, ffn, scale=0.3)
        weights.norm(layer + "output.LayerNorm", hidden)


def _distilbert_name(name):
    back = {bert: distil for distil, bert in DISTILBERT_LAYER.items()}
    if not name.startswith("encoder.layer."):
        return name
    _, _, number, rest = name.split(".", 3)
    part, kind = rest.rsplit(".", 1)
    return f"transformer.layer.{number}.{back[part]}.{kind}"


def _config(distil, n_layers, n_heads, hidden, ffn, vocab, positions, activation):
    if distil:
        return dict(
            model_type="distilbert", n_layers=n_layers, n_heads=n_heads, dim=hidden, hidden_dim=ffn,
            activation=activation, max_position_embeddings=positions, vocab_size=vocab, sinusoidal_pos_embds=False,
        )
    return dict(
        model_type="bert", num_hidden_layers=n_layers, num_attention_heads=n_heads, hidden_size=hidden,
        intermediate_size=ffn, hidden_act=activation, layer_norm_eps=1e-12, max_position_embeddings=positions,
        type_vocab_size=2, vocab_size=vocab,
    )


def save(folder, config, weights, dtype="F32", n_shards=1):
    """A checkpoint with BERT's tokenizer, in `folder`, which is made and returned."""
    folder = Path(folder)
    folder.mkdir(parents=True)
    names = list(weights)
    parts = [names[k::n_shards] for k in range(n_shards)]
    files = ["model.safetensors"]
    if n_shards > 1:
        files = [f"model-{k + 1:05}-of-{n_shards:05}.safetensors" for k in range(n_shards)]
        index = {"metadata": {}, "weight_map": {n: f for f, part in zip(files, parts) for n in part}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    for file, part in zip(files, parts):
        write_safetensors(folder / file, {name: weights[name] for name in part}, dtype)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").write_text("\n".join(_vocabulary(config["vocab_size"])) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True, "tokenizer_class": "BertTokenizer"}))
    return folder


def write_random(folder, seed=0, n_layers=3, n_heads=4, hidden=48, ffn=100, vocab=300, positions=160,
                 prefix="bert.", gamma_beta=False, pretraining_head=False, distil=False, activation="gelu",
                 dtype="F32", n_shards=1):
    """A random BERT or DistilBERT."""
    weights = Weights(seed)
    for name, rows in (("word", vocab), ("position", positions), ("token_type", 2)):
        weights.table(f"embeddings.{name}_embeddings", rows, hidden)
    weights.norm("embeddings.LayerNorm", hidden)
    bert_layers(weights, n_layers, hidden, ffn)
    if distil:
        del weights["embeddings.token_type_embeddings.weight"]
        for name in list(weights):
            weights[_distilbert_name(name)] = weights.pop(name)
    weights.rename(prefix, gamma_beta)
    if pretraining_head:
        weights["cls.predictions.bias"] = np.zeros(vocab)
        weights["bert.embeddings.position_ids"] = np.arange(positions)[None]
    config = _config(distil, n_layers, n_heads, hidden, ffn, vocab, positions, activation)
    return save(folder, config, weights, dtype, n_shards)
