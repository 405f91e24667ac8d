"""Falcon (Almazrouei et al. 2023): a causal mask, norms before, rotary positions. Attention and feed-forward part read one norm of a
state, a norm each, or follow each other. q of a group of heads, k and v are packed together."""

import numpy as np
from causal import block, causal_mask, frequencies, next_logits, rotate
from checkpoint import Weights, read, save
from encoder import ACTIVATIONS, attend, dense, join_heads, layer_norm, run_layers

# Settings that differ from 3 layers, 4 heads, hidden 48, Falcon-7B's architecture, prefix "transformer.", lm_head tied.
VARIANTS = {
    "shared": dict(),
    "groups": dict(newer=True, n_kv=2, n_heads=6, n_layers=2),
    "groups_one_norm_f16": dict(newer=True, n_kv=2, n_norms=1, activation="relu", ffn=50, prefix="", dtype="F16"),
    "heads_bf16": dict(shared=False, tied=False, n_heads=3, n_layers=2, dtype="BF16", n_shards=2),
    "serial_biased": dict(parallel=False, biased=True, theta=500.0),
    "newer_ungrouped": dict(newer=True, n_kv=None, biased=True),
}


def write_random(folder, seed=0, n_layers=3, n_heads=4, n_kv=None, hidden=48, ffn=None, vocab=300, newer=False, shared=True, parallel=True,
                 n_norms=None, biased=False, activation="gelu", theta=10000.0, tied=True, prefix="transformer.", dtype="F32", n_shards=1):
    weights, width = Weights(seed), hidden // n_heads
    n_packed = n_heads + 2 * ((n_kv or n_heads) if newer or not shared else 1)
    weights.table("word_embeddings", vocab, hidden)
    for number in range(n_layers):
        layer = f"h.{number}."
        norms = ("ln_attn", "ln_mlp") if newer and n_norms != 1 else ("input_layernorm",) if parallel else ("input_layernorm",
                                                                                                            "post_attention_layernorm")
        for name in norms:
            weights.norm(layer + name, hidden)
        weights.dense(layer + "self_attention.query_key_value", n_packed * width, hidden, 1.5, bias=biased)
        weights.dense(layer + "self_attention.dense", hidden, hidden, 0.3, bias=biased)
        weights.dense(layer + "mlp.dense_h_to_4h", ffn or 4 * hidden, hidden, bias=biased)
        weights.dense(layer + "mlp.dense_4h_to_h", hidden, ffn or 4 * hidden, 0.3, bias=biased)
    weights.norm("ln_f", hidden)
    weights.rename(prefix)
    if not tied:
        weights.table("lm_head", vocab, hidden)
    config = dict(model_type="falcon", num_hidden_layers=n_layers, num_attention_heads=n_heads, hidden_size=hidden, vocab_size=vocab,
                  layer_norm_epsilon=1e-5, alibi=False, new_decoder_architecture=newer, multi_query=shared, parallel_attn=parallel,
                  bias=biased, activation=activation, tie_word_embeddings=tied, bos_token_id=1, eos_token_id=2,
                  rope_parameters={"rope_type": "default", "rope_theta": theta})
    config |= {key: value for key, value in (("num_kv_heads", n_kv), ("ffn_hidden_size", ffn), ("num_ln_in_parallel_attn", n_norms)) if value}
    return save(folder, config, weights, dtype, n_shards)


def forward(folder, ids, types=None):
    config, weights = read(folder, "transformer.")
    eps, n_heads, act = config["layer_norm_epsilon"], config["num_attention_heads"], ACTIVATIONS[config["activation"]]
    width = config["hidden_size"] // n_heads
    inverse = frequencies(width, config["rope_parameters"]["rope_theta"])

    def layer(number, x):
        name = f"h.{number}."
        apart = name + "ln_attn.weight" in weights
        normed = layer_norm(weights, name + ("ln_attn" if apart else "input_layernorm"), x, eps)
        packed = dense(weights, name + "self_attention.query_key_value", normed)
        n_kv = (packed.shape[-1] // width - n_heads) // 2
        rows = packed.reshape(len(x), n_kv, n_heads // n_kv + 2, width).transpose(1, 2, 0, 3)  # [groups][queries, k, v][T][d]
        q = rows[:, :-2].reshape(n_heads, len(x), width)
        k, v = (np.repeat(rows[:, at], n_heads // n_kv, 0) for at in (-2, -1))
        attention, output = attend(rotate(q, inverse), rotate(k, inverse), v, causal_mask(len(x)))
        attended = dense(weights, name + "self_attention.dense", join_heads(output))
        if not config["parallel_attn"]:
            normed = layer_norm(weights, name + "post_attention_layernorm", x + attended, eps)
        elif apart:
            normed = layer_norm(weights, name + "ln_mlp", x, eps)
        wide = act(dense(weights, name + "mlp.dense_h_to_4h", normed))
        return x + attended + dense(weights, name + "mlp.dense_4h_to_h", wide), attention, output

    heads = run_layers(weights["word_embeddings.weight"][ids], config["num_hidden_layers"], layer)
    return block(heads, lambda x: layer_norm(weights, "ln_f", x, eps))


def logits(folder, states):
    """Logits of hidden states [L + 1][T][H]; the last ones are behind the final norm."""
    config, weights = read(folder, "transformer.")
    return next_logits(states, lambda x: layer_norm(weights, "ln_f", x, config["layer_norm_epsilon"]),
                       weights.get("lm_head.weight", weights["word_embeddings.weight"]))
