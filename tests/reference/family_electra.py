"""ELECTRA (Clark et al. 2020): BERT with embeddings of a width of their own."""

from checkpoint import Weights, bert_layers, read, save
from encoder import bert_layer, dense, layer_norm, run_layers

# Settings that differ from 3 layers, 4 heads, hidden 48, embedding 20, prefix "electra.".
VARIANTS = {
    "small": dict(),
    "base": dict(embedding=48, prefix=""),
    "wider": dict(embedding=70, n_layers=2, n_heads=5, hidden=35, ffn=11),
    "one_wide": dict(embedding=1, n_layers=1, n_heads=1, hidden=3),
    "gamma_beta_f16": dict(gamma_beta=True, dtype="F16", activation="relu"),
    "shards_bf16": dict(n_shards=3, dtype="BF16", head=True),
}


def write_random(folder, seed=0, n_layers=3, n_heads=4, hidden=48, embedding=20, ffn=100, vocab=300, positions=160,
                 prefix="electra.", gamma_beta=False, activation="gelu", head=False, dtype="F32", n_shards=1):
    weights = Weights(seed)
    for name, rows in (("word", vocab), ("position", positions), ("token_type", 2)):
        weights.table(f"embeddings.{name}_embeddings", rows, embedding)
    weights.norm("embeddings.LayerNorm", embedding)
    if embedding != hidden:
        weights.dense("embeddings_project", hidden, embedding)
    bert_layers(weights, n_layers, hidden, ffn)
    weights.rename(prefix, gamma_beta)
    if head:
        weights.dense("discriminator_predictions.dense", hidden, hidden)
    config = dict(
        model_type="electra", num_hidden_layers=n_layers, num_attention_heads=n_heads, hidden_size=hidden,
        embedding_size=embedding, intermediate_size=ffn, hidden_act=activation, layer_norm_eps=1e-12,
        max_position_embeddings=positions, type_vocab_size=2, vocab_size=vocab,
    )
    return save(folder, config, weights, dtype, n_shards)


def forward(folder, ids, types):
    config, weights = read(folder, "electra.")
    eps = config["layer_norm_eps"]
    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][: len(ids)]
    x = x + weights["embeddings.token_type_embeddings.weight"][types]
    x = layer_norm(weights, "embeddings.LayerNorm", x, eps)
    if config["embedding_size"] != config["hidden_size"]:
        x = dense(weights, "embeddings_project", x)

    def layer(number, y):
        return bert_layer(weights, f"encoder.layer.{number}.", y, config["num_attention_heads"], eps,
                          config["hidden_act"])

    return run_layers(x, config["num_hidden_layers"], layer)
