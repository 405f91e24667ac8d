"""The encoders and decoders of BART (Lewis et al. 2020), mBART (Liu et al. 2020), M2M100 (Fan et al. 2021), Marian
(Junczys-Dowmunt et al. 2018) and PEGASUS (Zhang et al. 2020): BERT's layers, with norms before in all but BART and Marian; positions
from a table or from sinusoids."""

import math

import numpy as np
from causal import block, causal_mask
from checkpoint import Weights, read, save
from encoder import (
    ACTIVATIONS,
    attend,
    dense,
    join_heads,
    layer_norm,
    padded_positions,
    run_decoder,
    run_layers,
    split_heads,
)

# Settings that differ from 3 layers, 4 heads, hidden 48, one "shared" table, "gelu".
VARIANTS = {
    "base": dict(),
    "whole_scaled_bf16": dict(decoder=True, scaled=True, dtype="BF16", n_shards=2, prefix="model.", activation="swish"),
    "own_words": dict(words="encoder.embed_tokens", n_heads=5, hidden=35, dtype="F16"),
    "mbart": dict(kind="mbart", scaled=True, prefix="model.", activation="relu"),
    "m2m_100": dict(kind="m2m_100", scaled=True, prefix="model.", activation="relu"),
    "marian": dict(kind="marian", scaled=True, prefix="model.", activation="swish", pad=299, decoder=True),
    "pegasus": dict(kind="pegasus", scaled=True, prefix="model.", activation="relu", pad=0, decoder=True),
    "marian_odd": dict(kind="marian", n_heads=5, hidden=35, n_layers=1, pad=299),
    "m2m_100_odd": dict(kind="m2m_100", n_heads=5, hidden=35, n_layers=1, pad=4),
}


def write_random(folder, seed=0, kind="bart", n_layers=3, n_heads=4, hidden=48, ffn=70, vocab=300, positions=160,
                 activation="gelu", words="shared", scaled=False, pad=1, decoder=False, prefix="", dtype="F32",
                 n_shards=1, own=(), causal=True):
    """own: stacks with a table of words of their own, beside the shared one."""
    weights = Weights(seed)
    for table in (words, *(f"{stack}.embed_tokens" for stack in own)):
        weights.table(table, vocab, hidden)
    for stack in ("encoder", "decoder") if decoder else ("encoder",):
        if kind in ("bart", "mbart"):
            weights.table(f"{stack}.embed_positions", positions + 2, hidden)
            weights.norm(f"{stack}.layernorm_embedding", hidden)
        if kind in ("mbart", "m2m_100", "pegasus"):
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
    config |= {} if causal else {"is_causal": False}
    return save(folder, config, weights, dtype, n_shards)


def sinusoids(positions, width, padding):
    """Rows of M2M100's positions, with rates and angles in float32 as in transformers."""
    half = width // 2
    rates = np.exp((np.arange(half, dtype=np.float32) * np.float32(-math.log(10000) / (half - 1))).astype(float))
    angles = (positions[:, None].astype(np.float32) * rates.astype(np.float32)).astype(float)
    rows = np.concatenate([np.sin(angles), np.cos(angles), np.zeros((len(positions), width % 2))], 1)
    rows[positions == padding] = 0
    return rows


def marian_sinusoids(n_positions, width):
    """Rows of Marian's positions: float32 of angles in float64, as in transformers."""
    angles = np.arange(n_positions)[:, None] / 10000 ** (2 * (np.arange(width) // 2) / width)
    return np.concatenate([np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])], 1).astype(np.float32).astype(float)


EPS = 1e-5


def norms_before(config):
    return config["model_type"] in ("mbart", "m2m_100", "pegasus")


def embed(config, weights, stack, ids):
    hidden = config["d_model"]
    own = f"{stack}.embed_tokens.weight"
    words = weights[own if own in weights else "shared.weight"]
    x = words[ids] * (math.sqrt(hidden) if config["scale_embedding"] else 1)
    if config["model_type"] in ("marian", "pegasus"):
        return x + marian_sinusoids(len(ids), hidden)
    if config["model_type"] == "m2m_100":
        return x + sinusoids(padded_positions(ids, config["pad_token_id"]), hidden, config["pad_token_id"])
    x = x + weights[f"{stack}.embed_positions.weight"][2 : 2 + len(ids)]
    return layer_norm(weights, f"{stack}.layernorm_embedding", x, EPS)


def attention_of(config, weights, name, n_heads, x, memory=None, bias=0.0, without=None):
    """x after a block's attention to itself or to a memory, its maps and its heads' outputs. The value of token `without` is 0."""
    y = layer_norm(weights, name + "_layer_norm", x, EPS) if norms_before(config) else x
    q, k, v = (split_heads(dense(weights, f"{name}.{part}_proj", y if part == "q" or memory is None else memory), n_heads)
               for part in "qkv")
    if without is not None:
        v[:, without] = 0
    attention, output = attend(q, k, v, bias)
    x = x + dense(weights, name + ".out_proj", join_heads(output))
    return x if norms_before(config) else layer_norm(weights, name + "_layer_norm", x, EPS), attention, output


def feed_forward(config, weights, name, x):
    activation, before = ACTIVATIONS[config["activation_function"]], norms_before(config)
    y = layer_norm(weights, name + "final_layer_norm", x, EPS) if before else x
    x = x + dense(weights, name + "fc2", activation(dense(weights, name + "fc1", y)))
    return x if before else layer_norm(weights, name + "final_layer_norm", x, EPS)


def behind_last_norm(config, weights, stack, heads):
    return block(heads, lambda x: layer_norm(weights, f"{stack}.layer_norm", x, EPS)) if norms_before(config) else heads


def forward(folder, ids, types=None):
    config, weights = read(folder)

    def layer(number, x):
        name = f"encoder.layers.{number}."
        x, attention, output = attention_of(config, weights, name + "self_attn", config["encoder_attention_heads"], x)
        return feed_forward(config, weights, name, x), attention, output

    heads = run_layers(embed(config, weights, "encoder", ids), config["encoder_layers"], layer)
    return behind_last_norm(config, weights, "encoder", heads)


def decode(folder, memory, ids, without=(None, None, None)):
    """The decoder's own heads, its cross heads, and the logits [T][V]; memory are the encoder's last states. without: layer,
    stack and token of a value that is 0."""
    config, weights = read(folder)
    n_heads = config["decoder_attention_heads"]
    mask = causal_mask(len(ids)) if config.get("is_causal", True) else 0

    def layer(number, x):
        name = f"decoder.layers.{number}."
        zeroed = {without[1]: without[2]} if without[0] == number else {}
        x, own, own_output = attention_of(config, weights, name + "self_attn", n_heads, x, bias=mask,
                                          without=zeroed.get("decoder"))
        x, cross, cross_output = attention_of(config, weights, name + "encoder_attn", n_heads, x, memory,
                                              without=zeroed.get("cross"))
        return feed_forward(config, weights, name, x), (own, cross), (own_output, cross_output)

    stacks = [behind_last_norm(config, weights, "decoder", heads)
              for heads in run_decoder(embed(config, weights, "decoder", ids), config["decoder_layers"], layer)]
    return *stacks, stacks[0].hidden_states[-1] @ weights["shared.weight"].T + weights.get("final_logits_bias", 0)
