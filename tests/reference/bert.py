"""BERT and DistilBERT's forward pass in float64, heads captured; HuggingFace's definition.

    heads = forward(checkpoint, input_ids, token_type_ids)
    heads.attentions      [L][h][T][T]   softmax(Q K' / sqrt(d)), rows are queries
    heads.outputs         [L][h][T][d]   A V, before the heads are joined
    heads.hidden_states   [L+1][T][H]    embeddings, then after each layer
"""

import math
from dataclasses import dataclass

import numpy as np

erf = np.vectorize(math.erf, otypes=[float])


@dataclass
class Heads:
    attentions: np.ndarray
    outputs: np.ndarray
    hidden_states: np.ndarray


def dense(checkpoint, name, x):
    return x @ checkpoint[name + ".weight"].T + checkpoint[name + ".bias"]


def layer_norm(checkpoint, name, x):
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + checkpoint.eps)
    return scaled * checkpoint[name + ".weight"] + checkpoint[name + ".bias"]


def gelu(x):
    return x * 0.5 * (1 + erf(x / math.sqrt(2)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def embed(checkpoint, ids, types):
    x = checkpoint["embeddings.word_embeddings.weight"][ids]
    x = x + checkpoint["embeddings.position_embeddings.weight"][: len(ids)]
    if "embeddings.token_type_embeddings.weight" in checkpoint.weights:
        x = x + checkpoint["embeddings.token_type_embeddings.weight"][types]
    return layer_norm(checkpoint, "embeddings.LayerNorm", x)


def attend(checkpoint, layer, x, mask):
    """Attention maps [h][T][T] and head outputs [h][T][d] of one layer."""

    def heads_of(name):
        projected = dense(checkpoint, f"{layer}attention.self.{name}", x)
        return projected.reshape(len(x), checkpoint.n_heads, -1).transpose(1, 0, 2)

    query, key, value = heads_of("query"), heads_of("key"), heads_of("value")
    scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
    attention = softmax(scores + np.where(mask, 0, np.finfo(np.float32).min))
    return attention, attention @ value


def forward(checkpoint, ids, types=None, mask=None):
    """mask: True for tokens, False for padding; None when nothing is padded."""
    ids = np.asarray(ids)
    types = np.zeros_like(ids) if types is None else np.asarray(types)
    mask = np.ones(len(ids), bool) if mask is None else np.asarray(mask, bool)
    x = embed(checkpoint, ids, types)
    states, attentions, outputs = [x], [], []
    for number in range(checkpoint.n_layers):
        layer = f"encoder.layer.{number}."
        attention, output = attend(checkpoint, layer, x, mask)
        joined = output.transpose(1, 0, 2).reshape(len(ids), -1)
        x = layer_norm(checkpoint, layer + "attention.output.LayerNorm",
                       x + dense(checkpoint, layer + "attention.output.dense", joined))
        wide = gelu(dense(checkpoint, layer + "intermediate.dense", x))
        x = layer_norm(checkpoint, layer + "output.LayerNorm", x + dense(checkpoint, layer + "output.dense", wide))
        attentions.append(attention)
        outputs.append(output)
        states.append(x)
    return Heads(np.array(attentions), np.array(outputs), np.array(states))
