"""GPT-Neo (Black et al. 2021): GPT-2 with scores that are not divided, and local layers with a window."""

import family_gpt2
import numpy as np
from causal import block, causal_mask
from checkpoint import Weights, read, save
from encoder import ACTIVATIONS, attend, dense, join_heads, layer_norm, run_layers, split_heads

# Settings that differ from 3 layers, 4 heads, hidden 48, prefix "transformer.", lm_head tied.
VARIANTS = {
    "mixed": dict(),
    "buffers_of_a_base_model": dict(buffers=True, prefix=""),
    "untied_local_f16": dict(tied=False, n_layers=2, n_heads=3, hidden=42, ffn=31, activation="gelu", dtype="F16",
                             kinds=["local", "local"]),
    "types_only": dict(written_out=False, n_shards=3, dtype="BF16"),
}


def write_random(folder, seed=0, n_layers=3, n_heads=4, hidden=48, ffn=None, vocab=300, positions=200, tied=True,
                 activation="gelu_new", prefix="transformer.", buffers=False, dtype="F32", n_shards=1, kinds=None, window=9,
                 written_out=True):
    weights, inner, ffn = Weights(seed), ffn, ffn or 4 * hidden
    weights.table("wte", vocab, hidden)
    weights.table("wpe", positions, hidden)
    for number in range(n_layers):
        layer = f"h.{number}."
        weights.norm(layer + "ln_1", hidden)
        for name, scale in (("q_proj", 0.5), ("k_proj", 0.5), ("v_proj", 1)):
            weights.dense(f"{layer}attn.attention.{name}", hidden, hidden, scale, bias=False)
        weights.dense(layer + "attn.attention.out_proj", hidden, hidden, 0.3)
        weights.norm(layer + "ln_2", hidden)
        weights.dense(layer + "mlp.c_fc", ffn, hidden)
        weights.dense(layer + "mlp.c_proj", hidden, ffn, 0.3)
        if buffers:
            weights[layer + "attn.attention.bias"] = np.tril(np.ones((positions, positions)))[None, None]
            weights[layer + "attn.attention.masked_bias"] = np.array(-1e4)
    weights.norm("ln_f", hidden)
    weights.rename(prefix)
    if not tied:
        weights.table("lm_head", vocab, hidden)
    kinds = kinds or [("global", "local")[number % 2] for number in range(n_layers)]
    config = dict(
        model_type="gpt_neo", num_layers=n_layers, num_heads=n_heads, hidden_size=hidden, intermediate_size=inner,
        max_position_embeddings=positions, vocab_size=vocab, activation_function=activation, layer_norm_epsilon=1e-5,
        window_size=window, attention_types=[[[kind], 1] for kind in kinds], tie_word_embeddings=tied, bos_token_id=1,
        eos_token_id=1, **({"attention_layers": kinds} if written_out else {}),
    )
    return save(folder, config, weights, dtype, n_shards)


def forward(folder, ids, types=None):
    config, weights = read(folder, "transformer.")
    eps, n_heads = config["layer_norm_epsilon"], config["num_heads"]
    x = weights["wte.weight"][ids] + weights["wpe.weight"][: len(ids)]

    def layer(number, x):
        name = f"h.{number}."
        y = layer_norm(weights, name + "ln_1", x, eps)
        q, k, v = (split_heads(y @ weights[f"{name}attn.attention.{part}_proj.weight"].T, n_heads) for part in "qkv")
        local = config["attention_types"][number][0] == ["local"]
        attention, output = attend(q * np.sqrt(q.shape[-1]), k, v, causal_mask(len(x), config["window_size"] if local else None))
        x = x + dense(weights, name + "attn.attention.out_proj", join_heads(output))
        wide = ACTIVATIONS[config["activation_function"]](
            dense(weights, name + "mlp.c_fc", layer_norm(weights, name + "ln_2", x, eps)))
        return x + dense(weights, name + "mlp.c_proj", wide), attention, output

    return block(run_layers(x, config["num_layers"], layer), lambda x: layer_norm(weights, "ln_f", x, eps))


logits = family_gpt2.logits  # the head is that of GPT-2
