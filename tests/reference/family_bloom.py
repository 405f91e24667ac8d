"""BLOOM (Scao et al. 2022): a causal mask, norms before and one of the embeddings, no positions. Scores fall with the distance between
query and key (ALiBi, Press et al. 2022). q, k and v are packed per head."""

import math

import numpy as np
from causal import block, causal_mask, next_logits
from checkpoint import Weights, read, save
from encoder import attend, dense, gelu_tanh, join_heads, layer_norm, run_layers

# Settings that differ from 3 layers, 4 heads, hidden 48, prefix "transformer.", lm_head tied.
VARIANTS = {
    "tied": dict(),
    "six_heads_f16": dict(n_heads=6, n_layers=2, hidden=42, prefix="", dtype="F16"),
    "untied_old_keys_bf16": dict(n_heads=3, tied=False, old_keys=True, dtype="BF16", n_shards=2),
}


def write_random(folder, seed=0, n_layers=3, n_heads=4, hidden=48, vocab=300, tied=True, prefix="transformer.", old_keys=False,
                 dtype="F32", n_shards=1):
    weights = Weights(seed)
    weights.table("word_embeddings", vocab, hidden)
    weights.norm("word_embeddings_layernorm", hidden)
    for number in range(n_layers):
        layer = f"h.{number}."
        weights.norm(layer + "input_layernorm", hidden)
        weights.norm(layer + "post_attention_layernorm", hidden)
        weights.dense(layer + "self_attention.query_key_value", 3 * hidden, hidden, 1.5)
        weights.dense(layer + "self_attention.dense", hidden, hidden, 0.3)
        weights.dense(layer + "mlp.dense_h_to_4h", 4 * hidden, hidden)
        weights.dense(layer + "mlp.dense_4h_to_h", hidden, 4 * hidden, 0.3)
    weights.norm("ln_f", hidden)
    weights.rename(prefix)
    if not tied:
        weights.table("lm_head", vocab, hidden)
    sizes = dict(n_embed=hidden, num_attention_heads=n_heads) if old_keys else dict(hidden_size=hidden, n_head=n_heads)
    config = dict(model_type="bloom", n_layer=n_layers, vocab_size=vocab, layer_norm_epsilon=1e-5, tie_word_embeddings=tied,
                  apply_residual_connection_post_layernorm=False, bos_token_id=1, eos_token_id=2, pad_token_id=3, **sizes)
    return save(folder, config, weights, dtype, n_shards)


def slopes(n_heads):
    power = 2 ** int(math.log2(n_heads))
    found = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    return np.array(found + [2 ** (-4 * (2 * h + 1) / power) for h in range(n_heads - power)])


def forward(folder, ids, types=None):
    config, weights = read(folder, "transformer.")
    eps, n_heads = config["layer_norm_epsilon"], config.get("n_head") or config["num_attention_heads"]
    places = np.arange(len(ids))
    bias = causal_mask(len(ids)) - slopes(n_heads)[:, None, None] * np.abs(places[:, None] - places)

    def layer(number, x):
        name = f"h.{number}."
        packed = dense(weights, name + "self_attention.query_key_value", layer_norm(weights, name + "input_layernorm", x, eps))
        q, k, v = packed.reshape(len(x), n_heads, 3, -1).transpose(2, 1, 0, 3)
        attention, output = attend(q, k, v, bias)
        x = x + dense(weights, name + "self_attention.dense", join_heads(output))
        wide = gelu_tanh(dense(weights, name + "mlp.dense_h_to_4h", layer_norm(weights, name + "post_attention_layernorm", x, eps)))
        return x + dense(weights, name + "mlp.dense_4h_to_h", wide), attention, output

    x = layer_norm(weights, "word_embeddings_layernorm", weights["word_embeddings.weight"][ids], eps)
    return block(run_layers(x, config["n_layer"], layer), lambda x: layer_norm(weights, "ln_f", x, eps))


def logits(folder, states):
    """Logits of hidden states [L + 1][T][H]; the last ones are behind the final norm."""
    config, weights = read(folder, "transformer.")
    return next_logits(states, lambda x: layer_norm(weights, "ln_f", x, config["layer_norm_epsilon"]),
                       weights.get("lm_head.weight", weights["word_embeddings.weight"]))
