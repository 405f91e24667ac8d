"""GPT-2 (Radford et al. 2019): a causal mask, norms before, learned positions, matrices stored [in][out]. GPT (Radford et al. 2018)
has its norms after. In GPT-BigCode (SantaCoder and StarCoder 1) all heads share a key and a value, or each has its own beside its
query."""

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
    "by_layer": dict(by_layer=True),
    "undivided_by_layer": dict(by_layer=True, divided=False, n_layers=2),
    "gpt_bigcode": dict(kind="gpt_bigcode"),
    "gpt_bigcode_by_head_f16": dict(kind="gpt_bigcode", shared=False, n_heads=3, ffn=31, activation="gelu", dtype="F16"),
    "openai-gpt": dict(kind="openai-gpt"),
}
WORDS = {"openai-gpt": "tokens_embed"}
POSITIONS = {"openai-gpt": "positions_embed"}


def write_random(folder, seed=0, n_layers=3, n_heads=4, hidden=48, ffn=None, vocab=300, positions=200, tied=True,
                 activation="gelu_new", prefix="transformer.", buffers=False, dtype="F32", n_shards=1, kind="gpt2",
                 shared=True, by_layer=False, divided=True):
    weights, inner, ffn = Weights(seed), ffn, ffn or 4 * hidden
    weights.table(WORDS.get(kind, "wte"), vocab, hidden)
    weights.table(POSITIONS.get(kind, "wpe"), positions, hidden)
    n_qkv = hidden + 2 * hidden // n_heads if kind == "gpt_bigcode" and shared else 3 * hidden
    for number in range(n_layers):
        layer = f"h.{number}."
        weights.norm(layer + "ln_1", hidden)
        weights.dense(layer + "attn.c_attn", n_qkv, hidden, 1.5)
        weights.dense(layer + "attn.c_proj", hidden, hidden, 0.3)
        weights.norm(layer + "ln_2", hidden)
        weights.dense(layer + "mlp.c_fc", ffn, hidden)
        weights.dense(layer + "mlp.c_proj", hidden, ffn, 0.3)
        if buffers:
            weights[layer + "attn.bias"] = np.tril(np.ones((positions, positions)))[None, None]
            weights[layer + "attn.masked_bias"] = np.array(-1e4)
    if kind != "openai-gpt":
        weights.norm("ln_f", hidden)
    if kind != "gpt_bigcode":
        transpose(weights)
    weights.rename(prefix)
    if not tied:
        weights.table("lm_head", vocab, hidden)
    config = dict(
        model_type=kind, n_layer=n_layers, n_head=n_heads, n_embd=hidden, n_inner=inner, n_positions=positions,
        n_ctx=positions, vocab_size=vocab, activation_function=activation, layer_norm_epsilon=1e-5,
        tie_word_embeddings=tied, bos_token_id=1, eos_token_id=1,
    )
    if kind == "gpt_bigcode":
        config["multi_query"] = shared
    if kind == "gpt2":
        config |= dict(scale_attn_by_inverse_layer_idx=by_layer, scale_attn_weights=divided)
    return save(folder, config, weights, dtype, n_shards)


def transpose(weights):
    for name in weights:
        if ".c_" in name and name.endswith(".weight"):
            weights[name] = weights[name].T


def unpack(config, packed):
    """q, k and v [h][T][d] of the rows of c_attn."""
    n_heads, width = config["n_head"], config["n_embd"] // config["n_head"]
    if config["model_type"] != "gpt_bigcode":
        return [split_heads(part, n_heads) for part in np.split(packed, 3, axis=-1)]
    if not config["multi_query"]:
        return packed.reshape(len(packed), n_heads, 3, width).transpose(2, 1, 0, 3)
    q, k, v = np.split(packed, [config["n_embd"], config["n_embd"] + width], axis=-1)
    return split_heads(q, n_heads), *(np.repeat(part[None], n_heads, axis=0) for part in (k, v))


def forward(folder, ids, types=None):
    config, weights = read(folder, "transformer.")
    kind, eps, before = config["model_type"], config["layer_norm_epsilon"], config["model_type"] != "openai-gpt"
    if kind != "gpt_bigcode":
        transpose(weights)
    x = weights[WORDS.get(kind, "wte") + ".weight"][ids] + weights[POSITIONS.get(kind, "wpe") + ".weight"][: len(ids)]

    def norm(name, x, here):
        return layer_norm(weights, name, x, eps) if here else x

    def layer(number, x):
        name = f"h.{number}."
        q, k, v = unpack(config, dense(weights, name + "attn.c_attn", norm(name + "ln_1", x, before)))
        q = q * (q.shape[-1] ** 0.5 if not config.get("scale_attn_weights", True) else 1)  # attend divides by it
        q = q / (number + 1 if config.get("scale_attn_by_inverse_layer_idx") else 1)
        attention, output = attend(q, k, v, causal_mask(len(x), config=config))
        x = norm(name + "ln_1", x + dense(weights, name + "attn.c_proj", join_heads(output)), not before)
        wide = ACTIVATIONS[config["activation_function"]](dense(weights, name + "mlp.c_fc", norm(name + "ln_2", x, before)))
        return norm(name + "ln_2", x + dense(weights, name + "mlp.c_proj", wide), not before), attention, output

    return block(run_layers(x, config["n_layer"], layer), lambda x: norm("ln_f", x, before))


def logits(folder, states):
    """Logits of hidden states [L + 1][T][H]; the last ones are behind the final norm."""
    config, weights = read(folder, "transformer.")
    return next_logits(states, lambda x: layer_norm(weights, "ln_f", x, config["layer_norm_epsilon"]) if "ln_f.weight" in weights else x,
                       weights.get("lm_head.weight", weights[WORDS.get(config["model_type"], "wte") + ".weight"]))
