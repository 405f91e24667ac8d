"""RoBERTa, XLM-RoBERTa and CamemBERT (Liu et al. 2019; Conneau et al. 2020; Martin et al. 2020): BERT's layers,
positions that count from the id of padding on."""

from checkpoint import Weights, bert_layers, read, save
from encoder import bert_layer, layer_norm, padded_positions, run_layers

# Settings that differ from 3 layers, 4 heads, hidden 48, padding 1, prefix "roberta.".
VARIANTS = {
    "roberta": dict(types=2),
    "padding_0_bf16": dict(padding=0, dtype="BF16", n_shards=3),
    "xlm-roberta": dict(model_type="xlm-roberta", prefix="", n_layers=2, n_heads=1, hidden=9, ffn=5),
    "camembert": dict(model_type="camembert", n_layers=5, n_heads=5, hidden=60, activation="gelu_new"),
    "padding_7": dict(padding=7, gamma_beta=True, dtype="F16", types=3),
}


def write_random(folder, seed=0, model_type="roberta", n_layers=3, n_heads=4, hidden=48, ffn=100, vocab=300,
                 positions=170, types=1, padding=1, prefix="roberta.", gamma_beta=False, activation="gelu", dtype="F32",
                 n_shards=1):
    weights = Weights(seed)
    for name, rows in (("word", vocab), ("position", positions), ("token_type", types)):
        weights.table(f"embeddings.{name}_embeddings", rows, hidden)
    weights.norm("embeddings.LayerNorm", hidden)
    bert_layers(weights, n_layers, hidden, ffn)
    weights.rename(prefix, gamma_beta)
    config = dict(
        model_type=model_type, num_hidden_layers=n_layers, num_attention_heads=n_heads, hidden_size=hidden,
        intermediate_size=ffn, hidden_act=activation, layer_norm_eps=1e-5, max_position_embeddings=positions,
        type_vocab_size=types, vocab_size=vocab, pad_token_id=padding, bos_token_id=0, eos_token_id=2,
    )
    return save(folder, config, weights, dtype, n_shards)


def forward(folder, ids, types):
    config, weights = read(folder, "roberta.")
    eps = config["layer_norm_eps"]
    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][padded_positions(ids, config["pad_token_id"])]
    x = x + weights["embeddings.token_type_embeddings.weight"][types]
    x = layer_norm(weights, "embeddings.LayerNorm", x, eps)

    def layer(number, y):
        return bert_layer(weights, f"encoder.layer.{number}.", y, config["num_attention_heads"], eps,
                          config["hidden_act"])

    return run_layers(x, config["num_hidden_layers"], layer)
