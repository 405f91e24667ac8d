"""NomicBERT (Nussbaum et al. 2024): BERT's order of norms, rotary positions, a gated feed-forward part, no biases."""

import numpy as np
from checkpoint import Weights, read, save
from encoder import ACTIVATIONS, attend, dense, join_heads, layer_norm, rotate, run_layers, split_heads

# Settings that differ from 3 layers, 4 heads, hidden 48, in the layout of transformers 5.
VARIANTS = {
    "transformers": dict(),
    "authors": dict(authors=True, prefix=""),
    "authors_pretraining": dict(authors=True, prefix="bert.", n_heads=3, hidden=30, ffn=300, base=10000.0, gate="geglu"),
    "authors_tensors": dict(authors_tensors=True, n_layers=2, n_heads=6),
    "one_head_f16": dict(n_layers=1, n_heads=1, hidden=6, ffn=5, dtype="F16", activation="gelu"),
    "authors_no_types": dict(authors=True, types=0, base=500.0),
    "shards_bf16": dict(dtype="BF16", n_shards=3, base=500.0),
    "base_beside": dict(base=500.0, beside=True),
}
AUTHORS = {
    "layers.": "encoder.layers.", "self_attn.o_proj": "attn.out_proj", "post_attention_layernorm": "norm1",
    "post_mlp_layernorm": "norm2", "mlp.up_proj": "mlp.fc11", "mlp.gate_proj": "mlp.fc12", "mlp.down_proj": "mlp.fc2",
    "embeddings.LayerNorm": "emb_ln",
}


def authors_layout(weights, n_layers):
    """The authors' names, q, k and v one below the other."""
    for number in range(n_layers):
        layer = f"layers.{number}."
        parts = [weights.pop(f"{layer}self_attn.{part}_proj.weight") for part in "qkv"]
        weights[layer + "attn.Wqkv.weight"] = np.concatenate(parts)
    for name in list(weights):
        renamed = name
        for new, old in AUTHORS.items():
            renamed = renamed.replace(new, old)
        weights[renamed] = weights.pop(name)


def transformers_layout(weights, n_layers):
    """And back."""
    weights = dict(weights)
    for name in list(weights):
        renamed = name
        for new, old in AUTHORS.items():
            renamed = renamed.replace(old, new)
        weights[renamed] = weights.pop(name)
    for number in range(n_layers):
        packed = weights.pop(f"layers.{number}.attn.Wqkv.weight", None)
        if packed is not None:
            for part, rows in zip("qkv", np.split(packed, 3)):
                weights[f"layers.{number}.self_attn.{part}_proj.weight"] = rows
    return weights


def write_random(folder, seed=0, n_layers=3, n_heads=4, hidden=48, ffn=100, vocab=300, positions=160, types=2,
                 base=1000.0, authors=False, authors_tensors=False, prefix="", gate="swiglu", activation="silu", dtype="F32", n_shards=1, beside=False):
    weights = Weights(seed)
    inner = -(-ffn // 256) * 256 if authors else ffn
    rows = -(-vocab // 64) * 64 if authors else vocab
    weights.table("embeddings.word_embeddings", rows, hidden)
    if types:
        weights.table("embeddings.token_type_embeddings", types, hidden)
    weights.norm("embeddings.LayerNorm", hidden)
    for number in range(n_layers):
        layer = f"layers.{number}."
        for name, scale in (("q", 2), ("k", 2), ("v", 1), ("o", 0.3)):
            weights.dense(f"{layer}self_attn.{name}_proj", hidden, hidden, scale, bias=False)
        weights.norm(layer + "post_attention_layernorm", hidden)
        weights.dense(layer + "mlp.up_proj", inner, hidden, bias=False)
        weights.dense(layer + "mlp.gate_proj", inner, hidden, bias=False)
        weights.dense(layer + "mlp.down_proj", hidden, inner, bias=False)
        weights.norm(layer + "post_mlp_layernorm", hidden)
    config = dict(
        model_type="nomic_bert", num_hidden_layers=n_layers, num_attention_heads=n_heads, hidden_size=hidden,
        intermediate_size=ffn, hidden_act=activation, layer_norm_eps=1e-12, max_position_embeddings=positions,
        type_vocab_size=types, vocab_size=vocab, head_dim=hidden // n_heads,
        rope_parameters={"rope_type": "default", "rope_theta": base},
    )
    if beside:
        config |= {"rope_parameters": {"rope_type": "default"}, "rope_theta": base}
    if authors or authors_tensors:
        authors_layout(weights, n_layers)
    if authors:
        config = dict(
            model_type="nomic_bert", n_layer=n_layers, n_head=n_heads, n_embd=hidden, n_inner=ffn,
            activation_function=gate, layer_norm_epsilon=1e-12, n_positions=positions, type_vocab_size=types,
            vocab_size=vocab, pad_vocab_size_multiple=64, rotary_emb_base=base, rotary_emb_fraction=1.0,
            rotary_emb_interleaved=False, rotary_emb_scale_base=None, rotary_scaling_factor=None, qkv_proj_bias=False,
            mlp_fc1_bias=False, mlp_fc2_bias=False, prenorm=False, causal=False,
        )
    weights.rename(prefix)
    return save(folder, config, weights, dtype, n_shards)


def forward(folder, ids, types):
    config, weights = read(folder, "bert.")
    authors = "n_layer" in config
    n_layers, n_heads = (config[key] for key in (("n_layer", "n_head") if authors
                                                 else ("num_hidden_layers", "num_attention_heads")))
    base = config["rotary_emb_base"] if authors else {**config, **config["rope_parameters"]}["rope_theta"]
    gate = {"swiglu": "silu", "geglu": "gelu"}[config["activation_function"]] if authors else config["hidden_act"]
    weights, eps = transformers_layout(weights, n_layers), 1e-12
    x = weights["embeddings.word_embeddings.weight"][ids]
    if config["type_vocab_size"]:
        x = x + weights["embeddings.token_type_embeddings.weight"][types]
    x = layer_norm(weights, "embeddings.LayerNorm", x, eps)

    def layer(number, y):
        name = f"layers.{number}."
        q, k, v = (split_heads(dense(weights, f"{name}self_attn.{part}_proj", y), n_heads) for part in "qkv")
        attention, output = attend(rotate(q, base), rotate(k, base), v)
        y = layer_norm(weights, name + "post_attention_layernorm",
                       y + dense(weights, name + "self_attn.o_proj", join_heads(output)), eps)
        wide = ACTIVATIONS[gate](dense(weights, name + "mlp.gate_proj", y)) * dense(weights, name + "mlp.up_proj", y)
        y = layer_norm(weights, name + "post_mlp_layernorm", y + dense(weights, name + "mlp.down_proj", wide), eps)
        return y, attention, output

    return run_layers(x, n_layers, layer)
