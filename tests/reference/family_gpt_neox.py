"""GPT-NeoX and Pythia: a causal mask, rotation of a part of each head, q, k and v packed per head, and a feed-forward
part beside the attention or behind it."""

import numpy as np
from causal import block, causal_mask, frequencies, next_logits, rotate
from checkpoint import Weights, read, save
from encoder import ACTIVATIONS, attend, dense, join_heads, layer_norm, run_layers

# Settings that differ from 3 layers, 4 heads, hidden 64, a quarter rotated, parallel, prefix "gpt_neox.".
VARIANTS = {
    "parallel": dict(),
    "serial": dict(parallel=False, fraction=0.5, n_heads=2),
    "whole_heads_f16": dict(fraction=1.0, base=500.0, n_layers=2, n_heads=3, hidden=42, ffn=31, dtype="F16"),
    "new_keys_bf16": dict(new=True, dtype="BF16", n_shards=2),
    "buffers": dict(buffers=True),
}


def write_random(folder, seed=0, n_layers=3, n_heads=4, hidden=64, ffn=100, vocab=300, positions=200, fraction=0.25,
                 base=10000.0, parallel=True, new=False, buffers=False, prefix="gpt_neox.", dtype="F32", n_shards=1):
    weights = Weights(seed)
    weights.table("embed_in", vocab, hidden)
    for number in range(n_layers):
        layer = f"layers.{number}."
        weights.norm(layer + "input_layernorm", hidden)
        weights.norm(layer + "post_attention_layernorm", hidden)
        weights.dense(layer + "attention.query_key_value", 3 * hidden, hidden, 1.5)
        weights.dense(layer + "attention.dense", hidden, hidden, 0.3)
        weights.dense(layer + "mlp.dense_h_to_4h", ffn, hidden)
        weights.dense(layer + "mlp.dense_4h_to_h", hidden, ffn, 0.3)
        if buffers:
            weights[layer + "attention.bias"] = np.tril(np.ones((positions, positions)))[None, None]
            weights[layer + "attention.masked_bias"] = np.array(-1e9)
            weights[layer + "attention.rotary_emb.inv_freq"] = np.ones(2)
    weights.norm("final_layer_norm", hidden)
    weights.rename(prefix)
    weights.table("embed_out", vocab, hidden)
    config = dict(
        model_type="gpt_neox", num_hidden_layers=n_layers, num_attention_heads=n_heads, hidden_size=hidden,
        intermediate_size=ffn, hidden_act="gelu", layer_norm_eps=1e-5, max_position_embeddings=positions,
        vocab_size=vocab, use_parallel_residual=parallel, tie_word_embeddings=False, bos_token_id=0, eos_token_id=0,
    )
    if new:
        config["rope_parameters"] = {"rope_type": "default", "rope_theta": base, "partial_rotary_factor": fraction}
    else:
        config |= dict(rotary_pct=fraction, rotary_emb_base=base)
    return save(folder, config, weights, dtype, n_shards)


def forward(folder, ids, types=None):
    config, weights = read(folder, "gpt_neox.")
    eps, n_heads = config["layer_norm_eps"], config["num_attention_heads"]
    rope = config.get("rope_parameters") or {"rope_theta": config["rotary_emb_base"],
                                             "partial_rotary_factor": config["rotary_pct"]}
    width = int(config["hidden_size"] // n_heads * rope["partial_rotary_factor"])
    inverse = frequencies(width, rope["rope_theta"])

    def layer(number, x):
        name = f"layers.{number}."
        packed = dense(weights, name + "attention.query_key_value", layer_norm(weights, name + "input_layernorm", x, eps))
        q, k, v = packed.reshape(len(x), n_heads, 3, -1).transpose(2, 1, 0, 3)
        attention, output = attend(rotate(q, inverse), rotate(k, inverse), v, causal_mask(len(x), config=config))
        attended = dense(weights, name + "attention.dense", join_heads(output))
        before = x if config["use_parallel_residual"] else x + attended
        wide = ACTIVATIONS[config["hidden_act"]](
            dense(weights, name + "mlp.dense_h_to_4h", layer_norm(weights, name + "post_attention_layernorm", before, eps)))
        return x + attended + dense(weights, name + "mlp.dense_4h_to_h", wide), attention, output

    heads = run_layers(weights["embed_in.weight"][ids], config["num_hidden_layers"], layer)
    return block(heads, lambda x: layer_norm(weights, "final_layer_norm", x, eps))


def logits(folder, states):
    config, weights = read(folder, "gpt_neox.")
    return next_logits(states, lambda x: layer_norm(weights, "final_layer_norm", x, config["layer_norm_eps"]),
                       weights["embed_out.weight"])
