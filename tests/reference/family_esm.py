"""ESM-2 (Lin et al. 2023): norms before, rotary positions, rows of masks left out and the others scaled for it."""

import numpy as np
from checkpoint import Weights, read, save
from encoder import attend, dense, gelu, join_heads, layer_norm, padded_positions, rotate, run_layers, split_heads

OF_LAYER = "encoder.layer.%s.attention.self.rotary_embeddings.inv_freq"

# Settings that differ from 3 layers, 4 heads, hidden 48, prefix "esm.".
VARIANTS = {
    "esm2": dict(),
    "no_prefix_f16": dict(prefix="", n_layers=1, n_heads=5, hidden=70, ffn=3, dtype="F16"),
    "no_dropout_bf16": dict(token_dropout=False, dtype="BF16", n_shards=4, n_layers=6),
    "frequencies": dict(frequencies=("rotary_embeddings.inv_freq",)),
    "frequencies_of_layers_f16": dict(frequencies=("rotary_embeddings.inv_freq", OF_LAYER % 2, OF_LAYER % 1, OF_LAYER % "*"), dtype="F16"),
    "frequencies_of_any_layer": dict(frequencies=("rotary_embeddings.inv_freq", OF_LAYER % "*"), prefix=""),
    "base": dict(base=77.0),
    "esm1b": dict(rotary=False, normed=True),
    "esm1v_no_dropout_f16": dict(rotary=False, token_dropout=False, prefix="", dtype="F16"),
    "rotary_normed": dict(normed=True, n_layers=2),
}


def write_random(folder, seed=0, n_layers=3, n_heads=4, hidden=48, ffn=100, vocab=300, positions=160,
                 token_dropout=True, prefix="esm.", dtype="F32", n_shards=1, frequencies=(), base=10000.0,
                 rotary=True, normed=False, contacts=False):
    """frequencies: names of tensors with frequencies of rotation, each with others. contacts: with a contact head."""
    weights = Weights(seed)
    weights.table("embeddings.word_embeddings", vocab, hidden)
    weights.table("embeddings.position_embeddings", positions, hidden)  # there, and of no use with rotary positions
    if normed:
        weights.norm("embeddings.layer_norm", hidden)
    for number in range(n_layers):
        layer = f"encoder.layer.{number}."
        for name, scale in (("query", 1.5), ("key", 1.5), ("value", 1)):
            weights.dense(f"{layer}attention.self.{name}", hidden, hidden, scale)
        weights.dense(layer + "attention.output.dense", hidden, hidden, scale=0.3)
        weights.norm(layer + "attention.LayerNorm", hidden)
        weights.dense(layer + "intermediate.dense", ffn, hidden)
        weights.dense(layer + "output.dense", hidden, ffn, scale=0.3)
        weights.norm(layer + "LayerNorm", hidden)
    weights.norm("encoder.emb_layer_norm_after", hidden)
    for name in frequencies:
        weights[name] = weights.rng.uniform(0.001, 1, hidden // n_heads // 2)
    if contacts:
        weights.dense("contact_head.regression", 1, n_layers * n_heads, 3)
    weights.rename(prefix)
    config = dict(
        model_type="esm", num_hidden_layers=n_layers, num_attention_heads=n_heads, hidden_size=hidden,
        intermediate_size=ffn, hidden_act="gelu", layer_norm_eps=1e-5, max_position_embeddings=positions,
        vocab_size=vocab, position_embedding_type="rotary" if rotary else "absolute", emb_layer_norm_before=normed, is_folding_model=False,
        token_dropout=token_dropout, mask_token_id=4, pad_token_id=0, rope_theta=base,
    )
    return save(folder, config, weights, dtype, n_shards)


def forward(folder, ids, types=None):
    config, weights = read(folder, "esm.")
    eps, n_heads = config["layer_norm_eps"], config["num_attention_heads"]
    x = weights["embeddings.word_embeddings.weight"][ids]
    if config["token_dropout"]:
        masked = np.asarray(ids) == config["mask_token_id"]
        x = np.where(masked[:, None], 0, x) * (1 - 0.15 * 0.8) / (1 - masked.mean())

    if config["position_embedding_type"] == "absolute":
        x = x + weights["embeddings.position_embeddings.weight"][padded_positions(ids, config["pad_token_id"])]
    if config["emb_layer_norm_before"]:
        x = layer_norm(weights, "embeddings.layer_norm", x, eps)

    named = [*(OF_LAYER % number for number in (*range(config["num_hidden_layers"]), "*")), "rotary_embeddings.inv_freq"]
    rotation = config["rope_theta"], next((weights[name] for name in named if name in weights), None)

    def layer(number, y):
        name = f"encoder.layer.{number}."
        normed = layer_norm(weights, name + "attention.LayerNorm", y, eps)
        q, k, v = (split_heads(dense(weights, f"{name}attention.self.{part}", normed), n_heads)
                   for part in ("query", "key", "value"))
        if config["position_embedding_type"] == "rotary":
            q, k = rotate(q, *rotation), rotate(k, *rotation)
        attention, output = attend(q, k, v)
        y = y + dense(weights, name + "attention.output.dense", join_heads(output))
        wide = gelu(dense(weights, name + "intermediate.dense", layer_norm(weights, name + "LayerNorm", y, eps)))
        return y + dense(weights, name + "output.dense", wide), attention, output

    heads = run_layers(x, config["num_hidden_layers"], layer)
    heads.hidden_states[-1] = layer_norm(weights, "encoder.emb_layer_norm_after", heads.hidden_states[-1], eps)
    return heads


def contacts(folder, ids, attentions):
    """Probabilities of contacts [T - 2][T - 2], of maps [L][H][T][T]: the logistic regression of Rao et al. 2021."""
    _, weights = read(folder, "esm.")
    is_end = np.asarray(ids) == 2
    maps = np.where(is_end[:, None] | is_end, 0, attentions)[:, :, 1:-1, 1:-1].reshape(-1, len(ids) - 2, len(ids) - 2)
    maps = maps + maps.transpose(0, 2, 1)
    sums = maps.sum(-1)
    total = sums.sum(-1)[:, None, None]
    maps = maps - np.divide(sums[:, :, None] * sums[:, None], total, out=np.zeros_like(maps), where=total > 0)
    logits = np.tensordot(weights["contact_head.regression.weight"][0], maps, 1) + weights["contact_head.regression.bias"]
    return 1 / (1 + np.exp(-logits))
