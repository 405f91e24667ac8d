"""ALBERT (Lan et al. 2019): groups of layers share weights; embeddings have a width of their own."""

from checkpoint import Weights, read, save
from encoder import ACTIVATIONS, attend, dense, join_heads, layer_norm, run_layers, split_heads

# Settings that differ from 4 layers in 1 group, 4 heads, hidden 48, embedding 20, prefix "albert.".
VARIANTS = {
    "base": dict(),
    "groups": dict(n_layers=6, groups=3, prefix="", activation="gelu"),
    "wider": dict(n_layers=3, groups=3, n_heads=3, hidden=21, embedding=33, ffn=8, dtype="F16"),
    "as_wide": dict(embedding=48, n_shards=2, dtype="BF16", pooler=True),
}


def write_random(folder, seed=0, n_layers=4, groups=1, n_heads=4, hidden=48, embedding=20, ffn=100, vocab=300,
                 positions=160, prefix="albert.", activation="gelu_new", pooler=False, dtype="F32", n_shards=1):
    weights = Weights(seed)
    for name, rows in (("word", vocab), ("position", positions), ("token_type", 2)):
        weights.table(f"embeddings.{name}_embeddings", rows, embedding)
    weights.norm("embeddings.LayerNorm", embedding)
    weights.dense("encoder.embedding_hidden_mapping_in", hidden, embedding)
    for group in range(groups):
        layer = f"encoder.albert_layer_groups.{group}.albert_layers.0."
        for name, scale in (("query", 2), ("key", 2), ("value", 1), ("dense", 0.3)):
            weights.dense(f"{layer}attention.{name}", hidden, hidden, scale)
        weights.norm(layer + "attention.LayerNorm", hidden)
        weights.dense(layer + "ffn", ffn, hidden)
        weights.dense(layer + "ffn_output", hidden, ffn, scale=0.3)
        weights.norm(layer + "full_layer_layer_norm", hidden)
    if pooler:
        weights.dense("pooler", hidden, hidden)
    weights.rename(prefix)
    config = dict(
        model_type="albert", num_hidden_layers=n_layers, num_hidden_groups=groups, inner_group_num=1,
        num_attention_heads=n_heads, hidden_size=hidden, embedding_size=embedding, intermediate_size=ffn,
        hidden_act=activation, layer_norm_eps=1e-12, max_position_embeddings=positions, type_vocab_size=2,
        vocab_size=vocab,
    )
    return save(folder, config, weights, dtype, n_shards)


def forward(folder, ids, types):
    config, weights = read(folder, "albert.")
    eps, activation, n_heads = config["layer_norm_eps"], ACTIVATIONS[config["hidden_act"]], config["num_attention_heads"]
    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][: len(ids)]
    x = x + weights["embeddings.token_type_embeddings.weight"][types]
    x = layer_norm(weights, "embeddings.LayerNorm", x, eps)
    x = dense(weights, "encoder.embedding_hidden_mapping_in", x)

    def layer(number, y):
        group = int(number / (config["num_hidden_layers"] / config["num_hidden_groups"]))
        name = f"encoder.albert_layer_groups.{group}.albert_layers.0."
        q, k, v = (split_heads(dense(weights, f"{name}attention.{part}", y), n_heads)
                   for part in ("query", "key", "value"))
        attention, output = attend(q, k, v)
        y = layer_norm(weights, name + "attention.LayerNorm",
                       y + dense(weights, name + "attention.dense", join_heads(output)), eps)
        wide = activation(dense(weights, name + "ffn", y))
        y = layer_norm(weights, name + "full_layer_layer_norm", y + dense(weights, name + "ffn_output", wide), eps)
        return y, attention, output

    return run_layers(x, config["num_hidden_layers"], layer)
