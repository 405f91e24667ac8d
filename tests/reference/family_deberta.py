"""DeBERTa, the first version (He et al. 2021). Scores are the sum of three maps, as in family_deberta_v2.py. Queries, keys and
values of a head lie side by side, keys have no bias, and each distance has its own row of the table of positions."""

import math

import numpy as np
from checkpoint import Weights, read, save
from encoder import ACTIVATIONS, dense, join_heads, layer_norm, run_layers, softmax

# Settings that differ from 3 layers, 4 heads, hidden 48, texts of 160 tokens, distances below 160, prefix "deberta.".
VARIANTS = {
    "base": dict(),
    "near": dict(distances=20, prefix="", n_heads=3, hidden=42, n_layers=2, head=True),
    "c2p_alone": dict(kinds=["c2p"], hidden=35, n_heads=5, ffn=11, activation="gelu_new", dtype="F16"),
    "p2c_alone": dict(kinds="p2c", distances=64, dtype="BF16", n_shards=3),
    "positioned": dict(positioned=True, types=2, n_layers=2, gamma_beta=True),
    "absolute": dict(relative=False, positioned=True, kinds="c2p|p2c"),
}


def write_random(folder, seed=0, n_layers=3, n_heads=4, hidden=48, ffn=100, vocab=300, positions=160, types=0,
                 positioned=False, relative=True, distances=-1, kinds="c2p|p2c", head=False, prefix="deberta.",
                 gamma_beta=False, activation="gelu", dtype="F32", n_shards=1):
    weights = Weights(seed)
    weights.table("embeddings.word_embeddings", vocab, hidden)
    weights.table("embeddings.position_embeddings", positions, hidden)  # the published files have one that is not used
    if types:
        weights.table("embeddings.token_type_embeddings", types, hidden)
    weights.norm("embeddings.LayerNorm", hidden)
    if relative:
        weights.table("encoder.rel_embeddings", 2 * (distances if distances > 0 else positions), hidden)
    for number in range(n_layers):
        layer = f"encoder.layer.{number}."
        weights.dense(layer + "attention.self.in_proj", 3 * hidden, hidden, 2, bias=False)
        for part in "qv":
            weights[f"{layer}attention.self.{part}_bias"] = weights.rng.normal(0, 0.5, hidden)
        if relative and "c2p" in kinds:
            weights.dense(layer + "attention.self.pos_proj", hidden, hidden, 2, bias=False)
        if relative and "p2c" in kinds:
            weights.dense(layer + "attention.self.pos_q_proj", hidden, hidden, 2)
        weights.dense(layer + "attention.output.dense", hidden, hidden, scale=0.3)
        weights.norm(layer + "attention.output.LayerNorm", hidden)
        weights.dense(layer + "intermediate.dense", ffn, hidden)
        weights.dense(layer + "output.dense", hidden, ffn, scale=0.3)
        weights.norm(layer + "output.LayerNorm", hidden)
    weights.rename(prefix, gamma_beta)
    if head:
        weights.dense("mask_predictions.dense", hidden, hidden)
    config = dict(
        model_type="deberta", num_hidden_layers=n_layers, num_attention_heads=n_heads, hidden_size=hidden,
        intermediate_size=ffn, hidden_act=activation, layer_norm_eps=1e-7, max_position_embeddings=positions,
        type_vocab_size=types, vocab_size=vocab, pad_token_id=0, relative_attention=relative,
        max_relative_positions=distances, pos_att_type=kinds, position_biased_input=positioned)
    return save(folder, config, weights, dtype, n_shards)


def forward(folder, ids, types=None):
    """Heads, with the addends of the scores: {"c2c", "c2p", "p2c"} -> [L][h][T][T]."""
    config, weights = read(folder, "deberta.")
    eps, activation, n_heads = config["layer_norm_eps"], ACTIVATIONS[config["hidden_act"]], config["num_attention_heads"]
    kinds = config["pos_att_type"].split("|") if isinstance(config["pos_att_type"], str) else config["pos_att_type"]
    width, n_tokens = config["hidden_size"] // n_heads, len(ids)
    scale = math.sqrt(width * (1 + len(kinds)))
    x = weights["embeddings.word_embeddings.weight"][ids]
    if config["position_biased_input"]:
        x = x + weights["embeddings.position_embeddings.weight"][:n_tokens]
    if config["type_vocab_size"]:
        x = x + weights["embeddings.token_type_embeddings.weight"][types]
    x = layer_norm(weights, "embeddings.LayerNorm", x, eps)
    addends = {"c2c": [], "c2p": [], "p2c": []}
    distances = config["max_relative_positions"] if config["max_relative_positions"] > 0 else config["max_position_embeddings"]
    which = np.clip(np.subtract.outer(np.arange(n_tokens), np.arange(n_tokens)) + distances, 0, 2 * distances - 1)

    def heads_of(rows):
        return rows.reshape(len(rows), n_heads, -1).transpose(1, 0, 2)

    def layer(number, y):
        name = f"encoder.layer.{number}."
        of_self = name + "attention.self."
        q, k, v = np.split(heads_of(y @ weights[of_self + "in_proj.weight"].T), 3, axis=-1)
        q = q + weights[of_self + "q_bias"].reshape(n_heads, 1, width)
        v = v + weights[of_self + "v_bias"].reshape(n_heads, 1, width)
        parts = {"c2c": q @ k.transpose(0, 2, 1) / scale}
        if config["relative_attention"] and "c2p" in kinds:
            rows = heads_of(weights["encoder.rel_embeddings.weight"] @ weights[of_self + "pos_proj.weight"].T)
            to_all = q @ rows.transpose(0, 2, 1) / scale
            parts["c2p"] = np.take_along_axis(to_all, np.broadcast_to(which, parts["c2c"].shape), 2)
        if config["relative_attention"] and "p2c" in kinds:
            rows = heads_of(dense(weights, of_self + "pos_q_proj", weights["encoder.rel_embeddings.weight"]))
            to_all = rows @ k.transpose(0, 2, 1) / scale
            parts["p2c"] = np.take_along_axis(to_all, np.broadcast_to(which, parts["c2c"].shape), 1)
        for kind, part in parts.items():
            addends[kind].append(part)
        attention = softmax(sum(parts.values()))
        output = attention @ v
        y = layer_norm(weights, name + "attention.output.LayerNorm",
                       y + dense(weights, name + "attention.output.dense", join_heads(output)), eps)
        wide = activation(dense(weights, name + "intermediate.dense", y))
        y = layer_norm(weights, name + "output.LayerNorm", y + dense(weights, name + "output.dense", wide), eps)
        return y, attention, output

    heads = run_layers(x, config["num_hidden_layers"], layer)
    heads.addends = {kind: np.array(maps) for kind, maps in addends.items() if maps}
    return heads
