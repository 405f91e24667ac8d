"""DeBERTa-v2 and v3 (He et al. 2021; He et al. 2023). Scores are the sum of three maps: content with content, content
with position and position with content. A position is the bucket of the distance between two tokens."""

import math

import numpy as np
from checkpoint import Weights, read, save
from encoder import ACTIVATIONS, dense, join_heads, layer_norm, run_layers, softmax, split_heads

ACTIVATIONS = ACTIVATIONS | {"tanh": np.tanh}

# Settings that differ from v3 with 3 layers, 4 heads, hidden 48, 16 buckets of up to 160 tokens, prefix "deberta.".
VARIANTS = {
    "v3": dict(),
    "v2_conv": dict(conv=3, conv_act="gelu", kinds="p2c|c2p", n_layers=2, n_heads=3, hidden=42),
    "conv_tanh_f16": dict(conv=5, n_layers=1, norm="none", dtype="F16"),
    "own_keys": dict(shared=False, prefix="", kinds=["c2p", "p2c"], types=2, positioned=True, head=True),
    "c2p_alone": dict(kinds=["c2p"], shared=False, hidden=35, n_heads=5, ffn=11, activation="gelu_new"),
    "p2c_alone": dict(kinds="p2c", buckets=32, distances=64, dtype="BF16", n_shards=3),
    "no_buckets": dict(buckets=-1, distances=20),
    "whole_table": dict(buckets=-1, distances=-1, n_layers=2, gamma_beta=True),
    "wide_heads": dict(n_layers=2, n_heads=2, hidden=200, buckets=256, distances=512),
    "few_positions": dict(buckets=400, n_layers=2),
    "absolute": dict(relative=False, positioned=True, kinds="c2p|p2c", norm=None),
}


def write_random(folder, seed=0, n_layers=3, n_heads=4, hidden=48, ffn=100, vocab=300, positions=160, types=0,
                 positioned=False, relative=True, buckets=16, distances=-1, norm="layer_norm", shared=True,
                 kinds="p2c|c2p", conv=0, conv_act=None, head=False, prefix="deberta.", gamma_beta=False,
                 activation="gelu", dtype="F32", n_shards=1):
    weights = Weights(seed)
    weights.table("embeddings.word_embeddings", vocab, hidden)
    weights.table("embeddings.position_embeddings", positions, hidden)  # v3's files have one that is not used
    if types:
        weights.table("embeddings.token_type_embeddings", types, hidden)
    weights.norm("embeddings.LayerNorm", hidden)
    if relative:
        weights.table("encoder.rel_embeddings", 2 * span_of(buckets, distances, positions), hidden)
    if norm == "layer_norm":
        weights.norm("encoder.LayerNorm", hidden)
    if conv:
        weights.norm("encoder.conv.LayerNorm", hidden)
        weights["encoder.conv.conv.weight"] = weights.rng.normal(0, 1 / np.sqrt(conv * hidden), (hidden, hidden, conv))
        weights["encoder.conv.conv.bias"] = weights.rng.normal(0, 0.1, hidden)
    for number in range(n_layers):
        layer = f"encoder.layer.{number}."
        for name, scale in (("query", 2), ("key", 2), ("value", 1)):
            weights.dense(f"{layer}attention.self.{name}_proj", hidden, hidden, scale)
        for kind, name in (("c2p", "key"), ("p2c", "query")):
            if relative and kind in kinds and not shared:
                weights.dense(f"{layer}attention.self.pos_{name}_proj", hidden, hidden, 2)
        weights.dense(layer + "attention.output.dense", hidden, hidden, scale=0.3)
        weights.norm(layer + "attention.output.LayerNorm", hidden)
        weights.dense(layer + "intermediate.dense", ffn, hidden)
        weights.dense(layer + "output.dense", hidden, ffn, scale=0.3)
        weights.norm(layer + "output.LayerNorm", hidden)
    weights.rename(prefix, gamma_beta)
    if head:
        weights.dense("mask_predictions.dense", hidden, hidden)
    config = dict(
        model_type="deberta-v2", num_hidden_layers=n_layers, num_attention_heads=n_heads, hidden_size=hidden,
        intermediate_size=ffn, hidden_act=activation, layer_norm_eps=1e-7, max_position_embeddings=positions,
        type_vocab_size=types, vocab_size=vocab, pad_token_id=0, relative_attention=relative, position_buckets=buckets,
        max_relative_positions=distances, share_att_key=shared, pos_att_type=kinds, position_biased_input=positioned,
    )
    config |= dict(norm_rel_ebd=norm) if norm else {}
    config |= dict(conv_kernel_size=conv) if conv else {}
    config |= dict(conv_act=conv_act) if conv_act else {}
    return save(folder, config, weights, dtype, n_shards)


def span_of(buckets, distances, positions):
    return buckets if buckets > 0 else distances if distances > 0 else positions


def bucket(r, buckets, distances):
    """The bucket of the distance r: itself up to buckets / 2, then logarithmic up to `distances`. float32, as
    HuggingFace has it."""
    middle = buckets // 2
    if buckets <= 0 or abs(r) <= middle:
        return r
    log = [np.float32(math.log(x)) for x in (np.float32(abs(r) / middle), np.float32((distances - 1) / middle))]
    return int(math.copysign(np.ceil(log[0] / log[1] * np.float32(middle - 1)) + middle, r))


def relative_rows(config, weights, n_tokens):
    """Normed rows of the table of positions, and which of them is for a query and a key: [T][T]."""
    buckets, positions = config["position_buckets"], config["max_position_embeddings"]
    distances = config["max_relative_positions"] if config["max_relative_positions"] > 0 else positions
    span = span_of(buckets, distances, positions)
    rows = weights["encoder.rel_embeddings.weight"]
    if "layer_norm" in config.get("norm_rel_ebd", "none").split("|"):
        rows = layer_norm(weights, "encoder.LayerNorm", rows, config["layer_norm_eps"])
    which = [[min(max(bucket(i - j, buckets, distances) + span, 0), 2 * span - 1) for j in range(n_tokens)]
             for i in range(n_tokens)]
    return rows, np.array(which)


def convolution(weights, x, activation):
    """Over the tokens, the text's ends padded with 0."""
    kernel = weights["encoder.conv.conv.weight"]
    width = kernel.shape[-1]
    padded = np.pad(x, ((width // 2, width // 2), (0, 0)))
    return activation(sum(padded[k : k + len(x)] @ kernel[:, :, k].T for k in range(width))
                      + weights["encoder.conv.conv.bias"])


def forward(folder, ids, types=None):
    """Heads, with the addends of the scores: {"c2c", "c2p", "p2c"} -> [L][h][T][T]."""
    config, weights = read(folder, "deberta.")
    eps, activation, n_heads = config["layer_norm_eps"], ACTIVATIONS[config["hidden_act"]], config["num_attention_heads"]
    kinds = config["pos_att_type"].split("|") if isinstance(config["pos_att_type"], str) else config["pos_att_type"]
    scale = math.sqrt(config["hidden_size"] // n_heads * (1 + len(kinds)))
    x = weights["embeddings.word_embeddings.weight"][ids]
    if config["position_biased_input"]:
        x = x + weights["embeddings.position_embeddings.weight"][: len(ids)]
    if config["type_vocab_size"]:
        x = x + weights["embeddings.token_type_embeddings.weight"][types]
    x = embedded = layer_norm(weights, "embeddings.LayerNorm", x, eps)
    addends = {"c2c": [], "c2p": [], "p2c": []}
    if config["relative_attention"]:
        rows, which = relative_rows(config, weights, len(ids))

    def positions(name, kind, part):
        """Rows of positions as a layer's keys or queries: [h][rows][d]."""
        module = f"{part}_proj" if config["share_att_key"] else f"pos_{part}_proj"
        return split_heads(dense(weights, f"{name}attention.self.{module}", rows), n_heads)

    def layer(number, y):
        name = f"encoder.layer.{number}."
        q, k, v = (split_heads(dense(weights, f"{name}attention.self.{part}_proj", y), n_heads)
                   for part in ("query", "key", "value"))
        parts = {"c2c": q @ k.transpose(0, 2, 1) / scale}
        if config["relative_attention"] and "c2p" in kinds:
            to_all = q @ positions(name, "c2p", "key").transpose(0, 2, 1) / scale
            parts["c2p"] = np.take_along_axis(to_all, np.broadcast_to(which, parts["c2c"].shape), 2)
        if config["relative_attention"] and "p2c" in kinds:
            to_all = positions(name, "p2c", "query") @ k.transpose(0, 2, 1) / scale
            parts["p2c"] = np.take_along_axis(to_all, np.broadcast_to(which, parts["c2c"].shape), 1)
        for kind, part in parts.items():
            addends[kind].append(part)
        attention = softmax(sum(parts.values()))
        output = attention @ v
        y = layer_norm(weights, name + "attention.output.LayerNorm",
                       y + dense(weights, name + "attention.output.dense", join_heads(output)), eps)
        wide = activation(dense(weights, name + "intermediate.dense", y))
        y = layer_norm(weights, name + "output.LayerNorm", y + dense(weights, name + "output.dense", wide), eps)
        if number == 0 and config.get("conv_kernel_size"):
            more = convolution(weights, embedded, ACTIVATIONS[config.get("conv_act", "tanh")])
            y = layer_norm(weights, "encoder.conv.LayerNorm", y + more, eps)
        return y, attention, output

    heads = run_layers(x, config["num_hidden_layers"], layer)
    heads.addends = {kind: np.array(maps) for kind, maps in addends.items() if maps}
    return heads
