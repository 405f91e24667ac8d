"""OPT (Zhang et al. 2022): a causal mask, norms before, learned positions from row 2 on, relu. OPT-350m has norms after,
and word embeddings of another width, projected to the layers' before positions are added, and back before the logits. BioGPT (Luo
et al. 2022) and XGLM (Lin et al. 2022) scale the embeddings, and XGLM's positions are sinusoids."""

import math

import numpy as np
from causal import block, causal_mask, next_logits
from checkpoint import Weights, read, save
from encoder import ACTIVATIONS, attend, dense, join_heads, layer_norm, run_layers, split_heads
from family_bart import sinusoids

# Settings that differ from 3 layers, 4 heads, hidden 48, prefix "model.", lm_head tied.
VARIANTS = {
    "tied": dict(),
    "base_f16": dict(prefix="", n_layers=2, n_heads=3, hidden=42, ffn=31, dtype="F16"),
    "untied_gelu_bf16": dict(tied=False, activation="gelu", dtype="BF16", n_shards=3),
    "350m": dict(norms_before=False, words=30),
    "350m_wide_untied": dict(words=180, tied=False, dtype="F16"),
    "biogpt": dict(kind="biogpt", prefix="biogpt.", activation="gelu"),
    "xglm": dict(kind="xglm", activation="gelu"),
    "xglm_untied_f16": dict(kind="xglm", prefix="", n_layers=2, n_heads=3, hidden=42, tied=False, dtype="F16"),
}
EPS = 1e-5
# Keys of the configs for layers, heads, hidden, feed-forward and activation; names of the last norm and of the decoder.
KEYS = {"opt": ("num_hidden_layers", "num_attention_heads", "hidden_size", "ffn_dim", "activation_function"),
        "biogpt": ("num_hidden_layers", "num_attention_heads", "hidden_size", "intermediate_size", "hidden_act"),
        "xglm": ("num_layers", "attention_heads", "d_model", "ffn_dim", "activation_function")}
NORM = {"opt": "final_layer_norm", "biogpt": "layer_norm", "xglm": "layer_norm"}
DECODER = {"opt": "lm_head", "biogpt": "output_projection", "xglm": "lm_head"}


def write_random(folder, seed=0, n_layers=3, n_heads=4, hidden=48, ffn=70, vocab=300, positions=200, tied=True,
                 activation="relu", prefix="model.", dtype="F32", n_shards=1, norms_before=True, words=None,
                 kind="opt"):
    weights = Weights(seed)
    words = words or hidden
    weights.table("decoder.embed_tokens", vocab, words)
    if words != hidden:
        weights.dense("decoder.project_in", hidden, words, bias=False)
        weights.dense("decoder.project_out", words, hidden, bias=False)
    if kind != "xglm":
        weights.table("decoder.embed_positions", positions + 2, hidden)
    for number in range(n_layers):
        layer = f"decoder.layers.{number}."
        for name, scale in (("q_proj", 1.5), ("k_proj", 1.5), ("v_proj", 1), ("out_proj", 0.3)):
            weights.dense(f"{layer}self_attn.{name}", hidden, hidden, scale)
        weights.norm(layer + "self_attn_layer_norm", hidden)
        weights.dense(layer + "fc1", ffn, hidden)
        weights.dense(layer + "fc2", hidden, ffn, 0.3)
        weights.norm(layer + "final_layer_norm", hidden)
    if norms_before:
        weights.norm("decoder." + NORM[kind], hidden)
    if kind != "opt":
        for name in list(weights):
            weights[name.removeprefix("decoder.")] = weights.pop(name)
    weights.rename(prefix)
    if not tied:
        weights.table(DECODER[kind], vocab, words)
    config = dict(
        model_type=kind, max_position_embeddings=positions, vocab_size=vocab, tie_word_embeddings=tied, bos_token_id=2, eos_token_id=2,
        pad_token_id=1, **dict(zip(KEYS[kind], (n_layers, n_heads, hidden, ffn, activation))),
    )
    if kind == "opt":
        config |= dict(word_embed_proj_dim=words, do_layer_norm_before=norms_before, _remove_final_layer_norm=False, enable_bias=True,
                       layer_norm_elementwise_affine=True)
    return save(folder, config, weights, dtype, n_shards)


def open_weights(folder):
    """The config, the weights without prefix, and whether norms come before."""
    config, weights = read(folder, "biogpt.", "decoder.", "model.decoder.")
    return config, weights, config.get("do_layer_norm_before", True)


def embed(config, weights, ids):
    words = weights["embed_tokens.weight"][ids]
    if config["model_type"] != "opt":
        words = words * math.sqrt(words.shape[1])
    if config["model_type"] == "xglm":
        return words + sinusoids(np.arange(2, 2 + len(ids)), words.shape[1], config["pad_token_id"])
    if "project_in.weight" in weights:
        words = words @ weights["project_in.weight"].T
    return words + weights["embed_positions.weight"][2 : 2 + len(ids)]


def forward(folder, ids, types=None):
    config, weights, norms_before = open_weights(folder)
    n_layers, n_heads, _, _, activation = (config[key] for key in KEYS[config["model_type"]])

    def norm(name, x, before):
        return layer_norm(weights, name, x, EPS) if norms_before == before else x

    def layer(number, x):
        name = f"layers.{number}."
        y = norm(name + "self_attn_layer_norm", x, True)
        q, k, v = (split_heads(dense(weights, f"{name}self_attn.{part}_proj", y), n_heads) for part in "qkv")
        attention, output = attend(q, k, v, causal_mask(len(x), config=config))
        x = norm(name + "self_attn_layer_norm", x + dense(weights, name + "self_attn.out_proj", join_heads(output)), False)
        wide = ACTIVATIONS[activation](
            dense(weights, name + "fc1", norm(name + "final_layer_norm", x, True)))
        return norm(name + "final_layer_norm", x + dense(weights, name + "fc2", wide), False), attention, output

    heads = run_layers(embed(config, weights, ids), n_layers, layer)
    return block(heads, lambda x: norm(NORM[config["model_type"]], x, True))


def logits(folder, states):
    """Logits of hidden states [L + 1][T][H]; the last ones are behind the final norm."""
    config, weights, norms_before = open_weights(folder)
    table = weights.get(DECODER[config["model_type"]] + ".weight", weights["embed_tokens.weight"])
    if "project_out.weight" in weights:
        table = table @ weights["project_out.weight"]
    return next_logits(states, lambda x: layer_norm(weights, NORM[config["model_type"]], x, EPS) if norms_before else x, table)
