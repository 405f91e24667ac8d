"""MPNet (Song et al. 2020): no token types, positions from 2 on, a bias by distance in the scores of every layer."""

import math

import numpy as np
from checkpoint import Weights, read, save
from encoder import ACTIVATIONS, attend, dense, join_heads, layer_norm, padded_positions, run_layers, split_heads

# Settings that differ from 3 layers, 4 heads, hidden 48, prefix "mpnet.".
VARIANTS = {
    "base": dict(),
    "no_prefix": dict(prefix="", n_layers=5, n_heads=1, hidden=7, ffn=13),
    "odd_f16": dict(n_heads=5, hidden=35, dtype="F16", activation="gelu_new"),
    "shards_bf16": dict(n_shards=2, dtype="BF16", gamma_beta=True),
}


def write_random(folder, seed=0, n_layers=3, n_heads=4, hidden=48, ffn=100, vocab=300, positions=160, prefix="mpnet.",
                 gamma_beta=False, activation="gelu", dtype="F32", n_shards=1):
    weights = Weights(seed)
    for name, rows in (("word", vocab), ("position", positions)):
        weights.table(f"embeddings.{name}_embeddings", rows, hidden)
    weights.norm("embeddings.LayerNorm", hidden)
    weights.table("encoder.relative_attention_bias", 32, n_heads)
    weights["encoder.relative_attention_bias.weight"] *= 4
    for number in range(n_layers):
        layer = f"encoder.layer.{number}."
        for name, scale in (("q", 2), ("k", 2), ("v", 1), ("o", 0.3)):
            weights.dense(f"{layer}attention.attn.{name}", hidden, hidden, scale)
        weights.norm(layer + "attention.LayerNorm", hidden)
        weights.dense(layer + "intermediate.dense", ffn, hidden)
        weights.dense(layer + "output.dense", hidden, ffn, scale=0.3)
        weights.norm(layer + "output.LayerNorm", hidden)
    weights.rename(prefix, gamma_beta)
    config = dict(
        model_type="mpnet", num_hidden_layers=n_layers, num_attention_heads=n_heads, hidden_size=hidden,
        intermediate_size=ffn, hidden_act=activation, layer_norm_eps=1e-5, max_position_embeddings=positions,
        vocab_size=vocab, relative_attention_num_buckets=32, pad_token_id=1,
    )
    return save(folder, config, weights, dtype, n_shards)


def bucket(query, key):
    """T5's, for both directions: 16 buckets a direction, one a distance up to 7, logarithmic up to 128."""
    n = query - key
    side, n = (16, -n) if n < 0 else (0, n)
    if n < 8:
        return side + n
    return side + min(15, 8 + int(math.log(n / 8) / math.log(128 / 8) * 8))


def forward(folder, ids, types=None):
    config, weights = read(folder, "mpnet.")
    eps, activation, n_heads = config["layer_norm_eps"], ACTIVATIONS[config["hidden_act"]], config["num_attention_heads"]
    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][padded_positions(ids, 1)]
    x = layer_norm(weights, "embeddings.LayerNorm", x, eps)
    buckets = np.array([[bucket(i, j) for j in range(len(ids))] for i in range(len(ids))])
    bias = weights["encoder.relative_attention_bias.weight"][buckets].transpose(2, 0, 1)

    def layer(number, y):
        name = f"encoder.layer.{number}."
        q, k, v = (split_heads(dense(weights, f"{name}attention.attn.{part}", y), n_heads) for part in "qkv")
        attention, output = attend(q, k, v, bias)
        y = layer_norm(weights, name + "attention.LayerNorm",
                       y + dense(weights, name + "attention.attn.o", join_heads(output)), eps)
        wide = activation(dense(weights, name + "intermediate.dense", y))
        y = layer_norm(weights, name + "output.LayerNorm", y + dense(weights, name + "output.dense", wide), eps)
        return y, attention, output

    return run_layers(x, config["num_hidden_layers"], layer)
