"""GPT-2 (Radford et al. 2019): a causal mask, norms before, learned positions, matrices stored [in][out]."""

import numpy as np
from causal import block, causal_mask, next_logits
from checkpoint import Weights, read, save
from encoder import ACTIVATIONS, attend, dense, join_heads, layer_norm, run_layers, split_heads

# Settings that differ from 3 layers, 4 heads, hidden 48, prefix "transformer.", lm_head tied.
VARIANTS = {
    "tied": dict(),
    "buffers": dict(buffers=True, prefix=""),
    "untied_f16": dict(tied=False, n_layers=2, n_heads=3, hidden=42, ffn=31, activation="gelu", dtype="F16"),
    "shards_bf16": dict(dtype="BF16", n_shards=3),
}


def write_random(folder, seed=0, n_layers=3, n_heads=4, hidden=48, ffn=None, vocab=300, positions=200, tied=True,
                 activation="gelu_new", prefix="transformer.", buffers=False, dtype="F32", n_shards=1):
    weights, inner, ffn = Weights(seed), ffn, ffn or 4 * hidden
    weights.table("wte", vocab, hidden)
    weights.table("wpe", positions, hidden)
    for number in range(n_layers):
        layer = f"h.{number}."
        weights.norm(layer + "ln_1", hidden)
        weights.dense(layer + "attn.c_attn", 3 * hidden, hidden, 1.5)
        weights.dense(layer + "attn.c_proj", hidden, hidden, 0.3)
        weights.norm(layer + "ln_2", hidden)
        weights.dense(layer + "mlp.c_fc", ffn, hidden)
        weights.dense(layer + "mlp.c_proj", hidden, ffn, 0.3)
        if buffers:
            weights[layer + "attn.bias"] = np.tril(np.ones((positions, positions)))[None, None]
            weights[layer + "attn.masked_bias"] = np.array(-1e4)
    weights.norm("ln_f", hidden)
    for name in weights:
        if ".c_" in name and name.endswith(".weight"):
            weights[name] = weights[name].T
    weights.rename(prefix)
    if not tied:
        weights.table("lm_head", vocab, hidden)
    config = dict(
        model_type="gpt2", n_layer=n_layers, n_head=n_heads, n_embd=hidden, n_inner=inner, n_positions=positions,
        n_ctx=positions, vocab_size=vocab, activation_function=activation, layer_norm_epsilon=1e-5,
        tie_word_embeddings=tied, bos_token_id=1, eos_token_id=1,
    )
    return save(folder, config, weights, dtype, n_shards)


def forward(folder, ids, types=None):
    config, weights = read(folder, "transformer.")
    eps, n_heads = config["layer_norm_epsilon"], config["n_head"]
    for name in weights:
        if ".c_" in name and name.endswith(".weight"):
            weights[name] = weights[name].T
    x = weights["wte.weight"][ids] + weights["wpe.weight"][: len(ids)]

    def layer(number, x):
        name = f"h.{number}."
        packed = dense(weights, name + "attn.c_attn", layer_norm(weights, name + "ln_1", x, eps))
        q, k, v = (split_heads(part, n_heads) for part in np.split(packed, 3, axis=-1))
        attention, output = attend(q, k, v, causal_mask(len(x), config=config))
        x = x + dense(weights, name + "attn.c_proj", join_heads(output))
        wide = ACTIVATIONS[config["activation_function"]](
            dense(weights, name + "mlp.c_fc", layer_norm(weights, name + "ln_2", x, eps)))
        return x + dense(weights, name + "mlp.c_proj", wide), attention, output

    return block(run_layers(x, config["n_layer"], layer), lambda x: layer_norm(weights, "ln_f", x, eps))


def logits(folder, states):
    """Logits of hidden states [L + 1][T][H]; the last ones are behind the final norm."""
    config, weights = read(folder, "transformer.")
    return next_logits(states, lambda x: layer_norm(weights, "ln_f", x, config["layer_norm_epsilon"]),
                       weights.get("lm_head.weight", weights["wte.weight"]))
