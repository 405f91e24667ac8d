"""RoBERTa, XLM-RoBERTa, CamemBERT and data2vec (Liu et al. 2019; Conneau et al. 2020; Martin et al. 2020; Baevski et al. 2022):
BERT's layers, positions that count from the id of padding on. RoBERTa-PreLayerNorm and XLM-RoBERTa XL have their norms before."""

from causal import block
from checkpoint import Weights, bert_layers, read, save
from encoder import (
    ACTIVATIONS,
    attend,
    bert_layer,
    dense,
    join_heads,
    layer_norm,
    padded_positions,
    run_layers,
    split_heads,
)

# Settings that differ from 3 layers, 4 heads, hidden 48, padding 1, prefix "roberta.".
VARIANTS = {
    "roberta": dict(types=2),
    "padding_0_bf16": dict(padding=0, dtype="BF16", n_shards=3),
    "xlm-roberta": dict(model_type="xlm-roberta", prefix="", n_layers=2, n_heads=1, hidden=9, ffn=5),
    "camembert": dict(model_type="camembert", n_layers=5, n_heads=5, hidden=60, activation="gelu_new"),
    "data2vec-text": dict(model_type="data2vec-text", prefix="data2vec_text."),
    "roberta-prelayernorm": dict(model_type="roberta-prelayernorm", prefix="roberta_prelayernorm.", types=2),
    "xlm-roberta-xl": dict(model_type="xlm-roberta-xl", n_heads=3, activation="relu", dtype="F16"),
    "padding_7": dict(padding=7, gamma_beta=True, dtype="F16", types=3),
}

# Names of the norms before attention and feed-forward and of the last one.
# AFTER: those of bert_layers.
BEFORE = {"roberta-prelayernorm": ("attention.LayerNorm", "intermediate.LayerNorm", "LayerNorm"),
          "xlm-roberta-xl": ("attention.self_attn_layer_norm", "LayerNorm", "encoder.LayerNorm")}
AFTER = ("attention.output.LayerNorm", "output.LayerNorm")


def write_random(folder, seed=0, model_type="roberta", n_layers=3, n_heads=4, hidden=48, ffn=100, vocab=300,
                 positions=170, types=1, padding=1, prefix="roberta.", gamma_beta=False, activation="gelu", dtype="F32",
                 n_shards=1):
    weights = Weights(seed)
    for name, rows in (("word", vocab), ("position", positions), ("token_type", types)):
        weights.table(f"embeddings.{name}_embeddings", rows, hidden)
    if model_type != "xlm-roberta-xl":
        weights.norm("embeddings.LayerNorm", hidden)
    bert_layers(weights, n_layers, hidden, ffn)
    if model_type in BEFORE:
        for number in range(n_layers):
            for old, new in zip(AFTER, BEFORE[model_type]):
                for part in ("weight", "bias"):
                    weights[f"encoder.layer.{number}.{new}.{part}"] = weights.pop(f"encoder.layer.{number}.{old}.{part}")
        weights.norm(BEFORE[model_type][2], hidden)
    weights.rename(prefix, gamma_beta)
    config = dict(
        model_type=model_type, num_hidden_layers=n_layers, num_attention_heads=n_heads, hidden_size=hidden,
        intermediate_size=ffn, hidden_act=activation, layer_norm_eps=1e-5, max_position_embeddings=positions,
        type_vocab_size=types, vocab_size=vocab, pad_token_id=padding, bos_token_id=0, eos_token_id=2,
    )
    return save(folder, config, weights, dtype, n_shards)


def norms_before(config, weights, x):
    eps, (attention_norm, ffn_norm, final_norm) = config["layer_norm_eps"], BEFORE[config["model_type"]]

    def layer(number, x):
        name = f"encoder.layer.{number}."
        y = layer_norm(weights, name + attention_norm, x, eps)
        q, k, v = (split_heads(dense(weights, f"{name}attention.self.{part}", y), config["num_attention_heads"])
                   for part in ("query", "key", "value"))
        attention, output = attend(q, k, v)
        x = x + dense(weights, name + "attention.output.dense", join_heads(output))
        wide = ACTIVATIONS[config["hidden_act"]](dense(weights, name + "intermediate.dense", layer_norm(weights, name + ffn_norm, x, eps)))
        return x + dense(weights, name + "output.dense", wide), attention, output

    return block(run_layers(x, config["num_hidden_layers"], layer), lambda x: layer_norm(weights, final_norm, x, eps))


def forward(folder, ids, types):
    config, weights = read(folder, "roberta.", "data2vec_text.", "roberta_prelayernorm.")
    eps = config["layer_norm_eps"]
    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][padded_positions(ids, config["pad_token_id"])]
    x = x + weights["embeddings.token_type_embeddings.weight"][types]
    if "embeddings.LayerNorm.weight" in weights:
        x = layer_norm(weights, "embeddings.LayerNorm", x, eps)
    if config["model_type"] in BEFORE:
        return norms_before(config, weights, x)

    def layer(number, y):
        return bert_layer(weights, f"encoder.layer.{number}.", y, config["num_attention_heads"], eps,
                          config["hidden_act"])

    return run_layers(x, config["num_hidden_layers"], layer)
