"""The parts that causal models share, in float64."""

import numpy as np
from encoder import Heads


def causal_mask(n, window=None, config=None):
    """0 where a query sees a key, else -inf; a window of n keys includes the query's own. With is_causal false a query
    also sees what follows, and a window holds n keys on either side."""
    distance = np.arange(n)[:, None] - np.arange(n)
    if not (config or {}).get("is_causal", True):
        return np.where(np.abs(distance) <= (window or n), 0.0, -np.inf)
    return np.where((distance >= 0) & (distance < (window or n)), 0.0, -np.inf)


def rms_norm(weight, x, eps):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight


def frequencies(width, theta, scaling=None):
    """Rotary frequencies of a head's first `width` columns, in float32 as HuggingFace takes them."""
    exponents = np.arange(0, width, 2, dtype=np.float32) / np.float32(width)
    inverse = 1 / (float(theta) ** exponents.astype(float)).astype(np.float32)
    kind = (scaling or {}).get("rope_type", "default")
    if kind == "linear":
        return inverse / np.float32(scaling["factor"])
    if kind == "llama3":
        turns = scaling["original_max_position_embeddings"] / (2 * np.pi / inverse)
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        smooth = np.clip((turns - low) / (high - low), 0, 1)
        return ((1 - smooth) * inverse / scaling["factor"] + smooth * inverse).astype(np.float32)
    return inverse


def rotate(x, inverse):
    """Rotates the first 2 len(inverse) columns of [h][T][d], halves against each other."""
    half = len(inverse)
    angles = (np.arange(x.shape[1], dtype=np.float32)[:, None] * inverse).astype(float)
    first, second = x[..., :half], x[..., half : 2 * half]
    return np.concatenate([first * np.cos(angles) - second * np.sin(angles),
                           second * np.cos(angles) + first * np.sin(angles), x[..., 2 * half :]], -1)


def rotate_pairs(x, inverse):
    """Rotates the first 2 len(inverse) columns of [h][T][d], each even one against the next."""
    n = 2 * len(inverse)
    angles = (np.arange(x.shape[1], dtype=np.float32)[:, None] * inverse).astype(float)
    even, odd, turned = x[..., 0:n:2], x[..., 1:n:2], x.copy()
    turned[..., 0:n:2] = even * np.cos(angles) - odd * np.sin(angles)
    turned[..., 1:n:2] = odd * np.cos(angles) + even * np.sin(angles)
    return turned


def block(heads, final_norm):
    """The heads with the last state behind the final norm."""
    states = np.concatenate([heads.hidden_states[:-1], final_norm(heads.hidden_states[-1])[None]])
    return Heads(heads.attentions, heads.outputs, states)


def next_logits(states, final_norm, table):
    """Logits [L + 1][T][V]: inner states get the final norm first."""
    return np.concatenate([final_norm(states[:-1]), states[-1:]]) @ table.T
