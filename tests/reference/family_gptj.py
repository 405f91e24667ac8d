"""GPT-J (Wang and Komatsuzaki 2021). One norm is before both blocks of a layer, which add to the same state. Neighbouring
columns in a part of each head rotate together. The logits have a bias."""

import numpy as np
from causal import block, causal_mask, frequencies, next_logits, rotate_pairs
from checkpoint import Weights, read, save
from encoder import ACTIVATIONS, attend, dense, join_heads, layer_norm, run_layers, split_heads

# Settings that differ from 3 layers, 4 heads, hidden 48, half of each head rotated, prefix "transformer.", lm_head of its own.
VARIANTS = {
    "part": dict(),
    "buffers": dict(buffers=True),
    "tied_f16": dict(tied=True, rotary=14, n_layers=2, n_heads=3, hidden=42, ffn=31, activation="gelu", dtype="F16"),
    "base_bf16": dict(prefix="", headless=True, dtype="BF16", n_shards=2),
}


def write_random(folder, seed=0, n_layers=3, n_heads=4, hidden=48, ffn=None, vocab=300, positions=200, rotary=6, tied=False,
                 headless=False, buffers=False, activation="gelu_new", prefix="transformer.", dtype="F32", n_shards=1):
    weights, inner, ffn = Weights(seed), ffn, ffn or 4 * hidden
    weights.table("wte", vocab, hidden)
    for number in range(n_layers):
        layer = f"h.{number}."
        weights.norm(layer + "ln_1", hidden)
        for name, scale in (("q_proj", 1.5), ("k_proj", 1.5), ("v_proj", 1), ("out_proj", 0.3)):
            weights.dense(f"{layer}attn.{name}", hidden, hidden, scale, bias=False)
        weights.dense(layer + "mlp.fc_in", ffn, hidden)
        weights.dense(layer + "mlp.fc_out", hidden, ffn, 0.3)
        if buffers:
            weights[layer + "attn.bias"] = np.tril(np.ones((positions, positions)))[None, None]
            weights[layer + "attn.masked_bias"] = np.array(-1e9)
    weights.norm("ln_f", hidden)
    weights.rename(prefix)
    if not headless:
        weights.dense("lm_head", vocab, hidden)
        weights["lm_head.bias"] *= 10
    if tied:
        del weights["lm_head.weight"]
    config = dict(
        model_type="gptj", n_layer=n_layers, n_head=n_heads, n_embd=hidden, n_inner=inner, n_positions=positions,
        rotary_dim=rotary, vocab_size=vocab, activation_function=activation, layer_norm_epsilon=1e-5,
        tie_word_embeddings=tied, bos_token_id=1, eos_token_id=1,
    )
    return save(folder, config, weights, dtype, n_shards)


def forward(folder, ids, types=None):
    config, weights = read(folder, "transformer.")
    eps, n_heads = config["layer_norm_epsilon"], config["n_head"]
    inverse = frequencies(config["rotary_dim"], 10000)

    def layer(number, x):
        name = f"h.{number}."
        y = layer_norm(weights, name + "ln_1", x, eps)
        q, k, v = (split_heads(dense(weights, f"{name}attn.{part}_proj", y), n_heads) for part in "qkv")
        attention, output = attend(rotate_pairs(q, inverse), rotate_pairs(k, inverse), v, causal_mask(len(x), config=config))
        wide = ACTIVATIONS[config["activation_function"]](dense(weights, name + "mlp.fc_in", y))
        x = x + dense(weights, name + "attn.out_proj", join_heads(output)) + dense(weights, name + "mlp.fc_out", wide)
        return x, attention, output

    heads = run_layers(weights["wte.weight"][ids], config["n_layer"], layer)
    return block(heads, lambda x: layer_norm(weights, "ln_f", x, eps))


def logits(folder, states):
    """Logits of hidden states [L + 1][T][H]; the last ones are behind the final norm."""
    config, weights = read(folder, "transformer.")
    return weights["lm_head.bias"] + next_logits(
        states, lambda x: layer_norm(weights, "ln_f", x, config["layer_norm_epsilon"]),
        weights.get("lm_head.weight", weights["wte.weight"]))
