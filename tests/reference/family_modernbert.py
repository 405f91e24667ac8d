"""ModernBERT (Warner et al. 2024): norms before, rotary positions with two bases, windows, a gated feed-forward part."""

import numpy as np
from checkpoint import Weights, read, save
from encoder import ACTIVATIONS, attend, dense, join_heads, layer_norm, rotate, run_layers, split_heads

# Settings that differ from 5 layers, every third global, a window of 8 to each side, 4 heads, hidden 48, prefix "model.".
VARIANTS = {
    "old_keys": dict(),
    "new_keys": dict(new=True, prefix=""),
    "one_layer": dict(n_layers=1, n_heads=3, hidden=42, ffn=9, activation="gelu_new"),
    "all_local_f16": dict(n_layers=3, new=True, kinds=["sliding_attention"] * 3, window=3, dtype="F16"),
    "null_theta_bf16": dict(local_theta=None, window=200, dtype="BF16", n_shards=3),
}


def write_random(folder, seed=0, n_layers=5, n_heads=4, hidden=48, ffn=60, vocab=300, positions=300, window=17,
                 every=3, global_theta=160000.0, local_theta=10000.0, new=False, kinds=None, prefix="model.",
                 activation="gelu", dtype="F32", n_shards=1):
    weights = Weights(seed)
    weights.table("embeddings.tok_embeddings", vocab, hidden)
    weights.norm("embeddings.norm", hidden, bias=False)
    for number in range(n_layers):
        layer = f"layers.{number}."
        if number > 0:
            weights.norm(layer + "attn_norm", hidden, bias=False)
        weights.dense(layer + "attn.Wqkv", 3 * hidden, hidden, 1.5, bias=False)
        weights.dense(layer + "attn.Wo", hidden, hidden, 0.3, bias=False)
        weights.norm(layer + "mlp_norm", hidden, bias=False)
        weights.dense(layer + "mlp.Wi", 2 * ffn, hidden, bias=False)
        weights.dense(layer + "mlp.Wo", hidden, ffn, 0.3, bias=False)
    weights.norm("final_norm", hidden, bias=False)
    weights.rename(prefix)
    config = dict(
        model_type="modernbert", num_hidden_layers=n_layers, num_attention_heads=n_heads, hidden_size=hidden,
        intermediate_size=ffn, hidden_activation=activation, norm_eps=1e-5, max_position_embeddings=positions,
        vocab_size=vocab, norm_bias=False, attention_bias=False, mlp_bias=False, local_attention=window, pad_token_id=0,
    )
    if new:
        kinds = kinds or ["sliding_attention" if i % every else "full_attention" for i in range(n_layers)]
        config |= dict(layer_types=kinds, rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": global_theta},
            "sliding_attention": {"rope_type": "default", "rope_theta": local_theta}})
    else:
        config |= dict(global_attn_every_n_layers=every, global_rope_theta=global_theta, local_rope_theta=local_theta)
    return save(folder, config, weights, dtype, n_shards)


def layer_kinds(config):
    """(base of rotation, whether within the window) of each layer, from newer or older keys."""
    if "layer_types" in config:
        return [(config["rope_parameters"][kind]["rope_theta"], kind == "sliding_attention")
                for kind in config["layer_types"]]
    local = config["local_rope_theta"] or config["global_rope_theta"]
    return [(local, True) if i % config["global_attn_every_n_layers"] else (config["global_rope_theta"], False)
            for i in range(config["num_hidden_layers"])]


def forward(folder, ids, types=None):
    config, weights = read(folder)
    eps, activation, n_heads = config["norm_eps"], ACTIVATIONS[config["hidden_activation"]], config["num_attention_heads"]
    kinds, far = layer_kinds(config), np.abs(np.subtract.outer(np.arange(len(ids)), np.arange(len(ids))))
    hidden_keys = np.where(far > config["local_attention"] // 2, -np.inf, 0.0)
    x = layer_norm(weights, "embeddings.norm", weights["embeddings.tok_embeddings.weight"][ids], eps)

    def layer(number, y):
        name, (base, within) = f"layers.{number}.", kinds[number]
        normed = layer_norm(weights, name + "attn_norm", y, eps) if number else y
        q, k, v = (split_heads(part, n_heads) for part in np.split(dense(weights, name + "attn.Wqkv", normed), 3, -1))
        attention, output = attend(rotate(q, base), rotate(k, base), v, hidden_keys if within else 0.0)
        y = y + dense(weights, name + "attn.Wo", join_heads(output))
        gate, wide = np.split(dense(weights, name + "mlp.Wi", layer_norm(weights, name + "mlp_norm", y, eps)), 2, -1)
        return y + dense(weights, name + "mlp.Wo", activation(gate) * wide), attention, output

    heads = run_layers(x, config["num_hidden_layers"], layer)
    heads.hidden_states[-1] = layer_norm(weights, "final_norm", heads.hidden_states[-1], eps)
    return heads
