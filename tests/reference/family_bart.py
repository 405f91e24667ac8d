"""The encoders of BART (Lewis et al. 2020), mBART (Liu et al. 2020) and M2M100 (Fan et al. 2021): BERT's layers, in
the latter two with norms before; positions from a table or from sinusoids."""

import math

import numpy as np
from causal import block
from checkpoint import Weights, read, save
from encoder import ACTIVATIONS, attend, dense, join_heads, layer_norm, padded_positions, run_layers, split_heads

# Settings that differ from 3 layers, 4 heads, hidden 48, one "shared" table, "gelu".
VARIANTS = {
    "base": dict(),
    "whole_scaled_bf16": dict(decoder=True, scaled=True, dtype="BF16", n_shards=2, prefix="model.", activation="swish"),
    "own_words": dict(words="encoder.embed_tokens", n_heads=5, hidden=35, dtype="F16"),
    "mbart": dict(kind="mbart", scaled=True, prefix="model.", activation="relu"),
    "m2m_100": dict(kind="m2m_100", scaled=True, prefix="model.", activation="relu"),
    "m2m_100_odd": dict(kind="m2m_100", n_heads=5, hidden=35, n_layers=1, pad=4),
}


def write_random(folder, seed=0, kind="bart", n_layers=3, n_heads=4, hidden=48, ffn=70, vocab=300, positions=160,
                 activation="gelu", words="shared", scaled=False, pad=1, decoder=False, prefix="", dtype="F32",
                 n_shards=1):
    weights = Weights(seed)
    weights.table(words, vocab, hidden)
    for stack in ("encoder", "decoder") if decoder else ("encoder",):
        if kind != "m2m_100":
            weights.table(f"{stack}.embed_positions", positions + 2, hidden)
            weights.norm(f"{stack}.layernorm_embedding", hidden)
        if kind != "bart":
            weights.norm(f"{stack}.layer_norm", hidden)
        for number in range(n_layers):
            name = f"{stack}.layers.{number}."
            for attention in ("self_attn", "encoder_attn") if stack == "decoder" else ("self_attn",):
                for part, scale in (("q", 2), ("k", 2), ("v", 1), ("out", 0.3)):
                    weights.dense(f"{name}{attention}.{part}_proj", hidden, hidden, scale)
                weights.norm(f"{name}{attention}_layer_norm", hidden)
            weights.dense(name + "fc1", ffn, hidden)
            weights.dense(name + "fc2", hidden, ffn, 0.3)
            weights.norm(name + "final_layer_norm", hidden)
    weights.rename(prefix)
    sizes = {f"{stack}_{name}": value for stack in ("encoder", "decoder")
             for name, value in (("layers", n_layers), ("attention_heads", n_heads), ("ffn_dim", ffn))}
    config = dict(model_type=kind, d_model=hidden, vocab_size=vocab, max_position_embeddings=positions,
                  activation_function=activation, scale_embedding=scaled, is_encoder_decoder=True, pad_token_id=pad,
                  bos_token_id=0, eos_token_id=2, decoder_start_token_id=2, **sizes)
    return save(folder, config, weights, dtype, n_shards)


def sinusoids(positions, width, padding):
    """Rows of M2M100's positions, with rates and angles in float32 as in transformers."""
    half = width // 2
    rates = np.exp((np.arange(half, dtype=np.float32) * np.float32(-math.log(10000) / (half - 1))).astype(float))
    angles = (positions[:, None].astype(np.float32) * rates.astype(np.float32)).astype(float)
    rows = np.concatenate([np.sin(angles), np.cos(angles), np.zeros((len(positions), width % 2))], 1)
    rows[positions == padding] = 0
    return rows


def forward(folder, ids, types=None):
    config, weights = read(folder)
    kind, n_heads, hidden = config["model_type"], config["encoder_attention_heads"], config["d_model"]
    activation, before, eps = ACTIVATIONS[config["activation_function"]], config["model_type"] != "bart", 1e-5
    words = weights["shared.weight" if "shared.weight" in weights else "encoder.embed_tokens.weight"]
    x = words[ids] * (math.sqrt(hidden) if config["scale_embedding"] else 1)
    if kind == "m2m_100":
        x = x + sinusoids(padded_positions(ids, config["pad_token_id"]), hidden, config["pad_token_id"])
    else:
        x = x + weights["encoder.embed_positions.weight"][2 : 2 + len(ids)]
        x = layer_norm(weights, "encoder.layernorm_embedding", x, eps)

    def layer(number, x):
        name = f"encoder.layers.{number}."
        y = layer_norm(weights, name + "self_attn_layer_norm", x, eps) if before else x
        q, k, v = (split_heads(dense(weights, f"{name}self_attn.{part}_proj", y), n_heads) for part in "qkv")
        attention, output = attend(q, k, v)
        x = x + dense(weights, name + "self_attn.out_proj", join_heads(output))
        x = x if before else layer_norm(weights, name + "self_attn_layer_norm", x, eps)
        y = layer_norm(weights, name + "final_layer_norm", x, eps) if before else x
        x = x + dense(weights, name + "fc2", activation(dense(weights, name + "fc1", y)))
        return x if before else layer_norm(weights, name + "final_layer_norm", x, eps), attention, output

    heads = run_layers(x, config["encoder_layers"], layer)
    return block(heads, lambda x: layer_norm(weights, "encoder.layer_norm", x, eps)) if before else heads
