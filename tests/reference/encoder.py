"""The parts of the encoders of all families, in float64, as HuggingFace defines them."""

import math
from dataclasses import dataclass

import numpy as np

erf = np.vectorize(math.erf, otypes=[float])


@dataclass
class Heads:
    attentions: np.ndarray  # [L][h][T][T]   softmax of the scores, rows are queries
    outputs: np.ndarray  # [L][h][T][d]   A V, before the heads are joined
    hidden_states: np.ndarray  # [L+1][T][H]    embeddings, then after each layer


def gelu(x):
    return x * 0.5 * (1 + erf(x / math.sqrt(2)))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def sigmoid(x):
    return 0.5 * (1 + np.tanh(x / 2))


# By the name in config.json.
ACTIVATIONS = {
    "gelu": gelu,
    "gelu_new": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
    "gelu_fast": gelu_tanh,
    "quick_gelu": lambda x: x * sigmoid(1.702 * x),
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x * sigmoid(x),
    "swish": lambda x: x * sigmoid(x),
}


def dense(weights, name, x):
    """y = x W' + b; without b where there is none."""
    return x @ weights[name + ".weight"].T + weights.get(name + ".bias", 0)


def layer_norm(weights, name, x, eps):
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    return scaled * weights[name + ".weight"] + weights.get(name + ".bias", 0)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def split_heads(x, n_heads):
    """[T][H] -> [h][T][d]"""
    return x.reshape(len(x), n_heads, -1).transpose(1, 0, 2)


def join_heads(x):
    return x.transpose(1, 0, 2).reshape(x.shape[1], -1)


def attend(query, key, value, bias=0.0):
    """Maps [h][T][T] and outputs [h][T][d]; bias is added to the scaled scores, -inf hides a key."""
    attention = softmax(query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1]) + bias)
    return attention, attention @ value


def padded_positions(ids, padding):
    """Positions of fairseq's models: tokens count from padding + 1 on, padding itself stays where it is."""
    counts = np.asarray(ids) != padding
    return np.cumsum(counts) * counts + padding


def bert_layer(weights, layer, x, n_heads, eps, activation, bias=0.0):
    """HuggingFace's BertLayer: x after it, its maps and its heads' outputs."""
    query, key, value = (split_heads(dense(weights, f"{layer}attention.self.{name}", x), n_heads)
                         for name in ("query", "key", "value"))
    attention, output = attend(query, key, value, bias)
    x = layer_norm(weights, layer + "attention.output.LayerNorm",
                   x + dense(weights, layer + "attention.output.dense", join_heads(output)), eps)
    wide = ACTIVATIONS[activation](dense(weights, layer + "intermediate.dense", x))
    x = layer_norm(weights, layer + "output.LayerNorm", x + dense(weights, layer + "output.dense", wide), eps)
    return x, attention, output


def collect_layers(x, n_layers, layer):
    """n_layers times layer(number, x) -> x, attention, output. Returns lists: of attentions, outputs, and states with x."""
    states, attentions, outputs = [x], [], []
    for number in range(n_layers):
        x, attention, output = layer(number, x)
        states.append(x)
        attentions.append(attention)
        outputs.append(output)
    return attentions, outputs, states


def run_layers(x, n_layers, layer):
    """Heads of x and n_layers of collect_layers."""
    return Heads(*map(np.array, collect_layers(x, n_layers, layer)))


def run_decoder(x, n_layers, layer):
    """As run_layers, with pairs of maps and of outputs: the decoder's own heads, and its cross heads."""
    attentions, outputs, states = collect_layers(x, n_layers, layer)
    return tuple(Heads(np.array(maps), np.array(products), np.array(states))
                 for maps, products in zip(zip(*attentions), zip(*outputs)))


def rotate(x, base, frequencies=None):
    """Rotary positions on [h][T][d], halves against each other. Angles are float32, as HuggingFace takes them. The frequencies of a
    checkpoint count before those of a base."""
    half = x.shape[-1] // 2
    exponents = np.arange(0, 2 * half, 2, dtype=np.float32) / np.float32(2 * half)
    inverse = 1 / (float(base) ** exponents.astype(float)).astype(np.float32)
    if frequencies is not None:
        inverse = frequencies.astype(np.float32)
    angles = (np.arange(x.shape[1], dtype=np.float32)[:, None] * inverse).astype(float)
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * np.cos(angles) - second * np.sin(angles),
                           second * np.cos(angles) + first * np.sin(angles)], -1)
