"""Llama, SmolLM3, Mistral, Ministral, Qwen2, Qwen3, Phi-3, Granite, Seed-OSS, Helium, GLM 4, OLMo 2, OLMo 3 and EuroBERT: RMS norms, rotary
positions, grouped heads, a gated feed-forward part; a causal mask for all but EuroBERT."""

import numpy as np
from causal import block, causal_mask, frequencies, next_logits, rms_norm, rotate, rotate_pairs
from checkpoint import Weights, read, save
from encoder import ACTIVATIONS, attend, dense, join_heads, run_layers, split_heads

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
# Settings that differ from 3 layers, 4 heads, 2 of keys, hidden 48, theta 10000, prefix "model.", lm_head of its own.
VARIANTS = {
    "llama": dict(),
    "llama_ungrouped_tied": dict(n_kv=4, tied=True, prefix="model."),
    "llama_scaled": dict(scaling=LLAMA3, theta=500000.0, n_kv=1),
    "llama_scaled_old_keys": dict(scaling=LLAMA3, old=True),
    "llama_linear": dict(scaling={"rope_type": "linear", "factor": 4.0}),
    "llama_wide_heads_f16": dict(head_dim=20, n_heads=6, n_kv=3, dtype="F16"),
    "llama_biased": dict(attention_bias=True, mlp_bias=True),
    "llama_base_only": dict(prefix="", headless=True),
    "smollm3": dict(kind="smollm3", n_layers=4, tied=True),
    "smollm3_listed_f16": dict(kind="smollm3", rotated=[0, 1, 0], dtype="F16"),
    "mistral": dict(kind="mistral", window=9),
    "mistral_whole_bf16": dict(kind="mistral", window=None, head_dim=8, dtype="BF16", n_shards=3),
    "mistral_layer_types": dict(kind="mistral", window=5, kinds=["full_attention", "sliding_attention", "full_attention"]),
    "qwen2": dict(kind="qwen2"),
    "qwen2_window": dict(kind="qwen2", window=5, first=1),
    "qwen2_layer_types": dict(kind="qwen2", window=7, kinds=["sliding_attention", "full_attention", "sliding_attention"]),
    "qwen3": dict(kind="qwen3", head_dim=16, n_heads=4, tied=True),
    "phi3": dict(kind="phi3", window=9, fraction=0.75, n_heads=6),
    "phi3_old_keys_bf16": dict(kind="phi3", n_kv=4, tied=True, fraction=0.5, old=True, dtype="BF16", n_shards=2),
    "olmo2": dict(kind="olmo2"),
    "olmo2_ungrouped_f16": dict(kind="olmo2", n_kv=6, n_heads=6, head_dim=12, theta=500000.0, dtype="F16"),
    "ministral": dict(kind="ministral", window=9, kinds=["full_attention", "sliding_attention", "full_attention"]),
    "ministral_all_f16": dict(kind="ministral", window=5, dtype="F16"),
    "granite": dict(kind="granite", multipliers=(3.0, 0.2, 0.4, 5.0)),
    "granite_biased_tied_bf16": dict(kind="granite", multipliers=(0.5, 0.4, 2.0, 0.25), attention_bias=True, mlp_bias=True, tied=True,
                                     dtype="BF16"),
    "seed_oss": dict(kind="seed_oss", attention_bias=True),
    "seed_oss_out_bias_f16": dict(kind="seed_oss", out_bias=True, mlp_bias=True, head_dim=20, dtype="F16"),
    "helium": dict(kind="helium", n_kv=4),
    "helium_biased_bf16": dict(kind="helium", attention_bias=True, mlp_bias=True, tied=True, dtype="BF16"),
    "glm": dict(kind="glm", attention_bias=True, fraction=0.5),
    "glm_unbiased_f16": dict(kind="glm", fraction=0.5, old=True, head_dim=16, dtype="F16"),
    "glm4": dict(kind="glm4", fraction=0.5),
    "glm4_biased_bf16": dict(kind="glm4", fraction=0.75, attention_bias=True, head_dim=8, dtype="BF16", n_shards=2),
    "olmo3": dict(kind="olmo3", window=9, n_layers=4, local=10000.0),
    "olmo3_old_keys": dict(kind="olmo3", window=7, old=True, theta=2000.0),
    "olmo3_scaled_f16": dict(kind="olmo3", window=5, kinds=["sliding_attention", "full_attention", "sliding_attention"], local=700.0,
                             scaling={"rope_type": "linear", "factor": 4.0}, dtype="F16"),
    "eurobert": dict(kind="eurobert", n_kv=2, theta=250000.0),
}


# Norms of a layer before its blocks, and of what these add.
BEFORE = dict.fromkeys(("olmo2", "olmo3"), (None, None))
BEHIND = {**dict.fromkeys(("olmo2", "olmo3"), ("post_attention", "post_feedforward")), "glm4": ("post_self_attn", "post_mlp")}
PACKED = {"phi3": ("qkv", "gate_up"), "glm": ("gate_up",), "glm4": ("gate_up",)}
PAIRED = ("helium", "glm", "glm4")  # neighbouring columns rotate together
MULTIPLIERS = ("embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling")


def norms(kind):
    """Names of the norms before attention, behind it, before the feed-forward part and behind it; None: there is none."""
    (first, second), (third, fourth) = BEFORE.get(kind, ("input", "post_attention")), BEHIND.get(kind, (None, None))
    return first, third, second, fourth


def write_random(folder, seed=0, kind="llama", n_layers=3, n_heads=4, n_kv=2, head_dim=None, hidden=48, ffn=70,
                 vocab=300, positions=200, theta=10000.0, scaling=None, old=False, window=None, first=0, kinds=None,
                 fraction=1, rotated=None, tied=False, headless=False, prefix="model.", dtype="F32", n_shards=1,
                 attention_bias=False, out_bias=False, mlp_bias=False, multipliers=(), local=None):
    weights, width = Weights(seed), head_dim or hidden // n_heads
    out_bias = out_bias or (attention_bias and kind not in ("seed_oss", "helium", "glm", "glm4"))
    weights.table("embed_tokens", vocab, hidden)
    for number in range(n_layers):
        layer = f"layers.{number}."
        for name, n in (("q", n_heads), ("k", n_kv), ("v", n_kv)):
            weights.dense(f"{layer}self_attn.{name}_proj", n * width, hidden, 1.5, bias=attention_bias or kind == "qwen2")
        weights.dense(layer + "self_attn.o_proj", hidden, n_heads * width, 0.3, bias=out_bias)
        if kind == "qwen3":
            for name in "qk":
                weights.norm(f"{layer}self_attn.{name}_norm", width, bias=False)
        if kind in ("olmo2", "olmo3"):
            weights.norm(layer + "self_attn.q_norm", n_heads * width, bias=False)
            weights.norm(layer + "self_attn.k_norm", n_kv * width, bias=False)
        for name in filter(None, norms(kind)):
            weights.norm(f"{layer}{name}_layernorm", hidden, bias=False)
        weights.dense(layer + "mlp.gate_proj", ffn, hidden, bias=mlp_bias)
        weights.dense(layer + "mlp.up_proj", ffn, hidden, bias=mlp_bias)
        weights.dense(layer + "mlp.down_proj", hidden, ffn, 0.3, bias=mlp_bias)
        if "qkv" in PACKED.get(kind, ()):
            pack(weights, layer + "self_attn.qkv_proj", *(f"{layer}self_attn.{name}_proj" for name in "qkv"))
        if kind in PACKED:
            pack(weights, layer + "mlp.gate_up_proj", layer + "mlp.gate_proj", layer + "mlp.up_proj")
    weights.norm("norm", hidden, bias=False)
    weights.rename(prefix)
    if not tied and not headless:
        weights.table("lm_head", vocab, hidden)
    config = dict(
        model_type=kind, num_hidden_layers=n_layers, num_attention_heads=n_heads, num_key_value_heads=n_kv,
        head_dim=width, hidden_size=hidden, intermediate_size=ffn, hidden_act="silu", rms_norm_eps=1e-5,
        max_position_embeddings=positions, vocab_size=vocab, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )
    if attention_bias or mlp_bias or kind in ("glm", "glm4", "seed_oss"):
        config |= dict(attention_bias=attention_bias, mlp_bias=mlp_bias, attention_out_bias=out_bias and kind == "seed_oss")
    config |= dict(zip(MULTIPLIERS, multipliers))
    if not headless:
        config["tie_word_embeddings"] = tied
    if old:
        config |= dict(rope_theta=theta, rope_scaling=scaling, partial_rotary_factor=fraction)
    else:
        config["rope_parameters"] = {"rope_type": "default", **(scaling or {}), "rope_theta": theta,
                                     "partial_rotary_factor": fraction}
    if local:
        config["rope_parameters"] = {"full_attention": config["rope_parameters"],
                                     "sliding_attention": {"rope_type": "default", "rope_theta": local}}
    if kind in ("mistral", "ministral", "qwen2", "qwen3", "phi3", "olmo3"):
        config["sliding_window"] = window
    if kind in ("qwen2", "qwen3"):
        config |= dict(use_sliding_window=window is not None, max_window_layers=first)
    if kinds:
        config["layer_types"] = kinds
    if rotated:
        config["no_rope_layers"] = rotated
    return save(folder, config, weights, dtype, n_shards)


def pack(weights, name, *parts):
    """Puts the rows of several matrices into one."""
    weights[name + ".weight"] = np.concatenate([weights.pop(part + ".weight") for part in parts])


def unpack(config, weights):
    """Gives packed weights the names of Llama's."""
    sizes = np.array([config["num_attention_heads"]] + 2 * [config["num_key_value_heads"]]) * config["head_dim"]
    for name in [name for name in weights if name.endswith("qkv_proj.weight")]:
        for part, rows in zip("qkv", np.split(weights[name], np.cumsum(sizes)[:-1])):
            weights[name.replace("qkv", part)] = rows
    for name in [name for name in weights if name.endswith("gate_up_proj.weight")]:
        for part, rows in zip(("gate", "up"), np.split(weights[name], 2)):
            weights[name.replace("gate_up", part)] = rows


def windows(config):
    """The keys that a query of each layer sees, itself included; None: all before it."""
    n, window = config["num_hidden_layers"], config.get("sliding_window")
    if config["model_type"] == "olmo3" and "layer_types" not in config:
        return [window if (i + 1) % 4 else None for i in range(n)]
    if "layer_types" in config and config["model_type"] != "phi3":  # which ignores the key
        return [window if kind == "sliding_attention" else None for kind in config["layer_types"]]
    return [window if i >= config.get("max_window_layers", 0) else None for i in range(n)]


def rotations(config):
    """The rotary frequencies of each layer; None: it has no positions."""
    n, rope = config["num_hidden_layers"], config.get("rope_parameters") or config["rope_scaling"] or {}
    full = rope.get("full_attention", rope)
    fraction = full.get("partial_rotary_factor") or config["partial_rotary_factor"]
    whole = frequencies(int(config["head_dim"] * fraction), full.get("rope_theta") or config["rope_theta"], full)
    if config["model_type"] == "smollm3":
        every_fourth = [int((i + 1) % 4 > 0) for i in range(n)]
        return [whole if rotated else None for rotated in config.get("no_rope_layers", every_fourth)]
    if config["model_type"] != "olmo3":
        return [whole] * n
    local = rope.get("sliding_attention", {}).get("rope_theta", 500000.0)
    return [whole if window is None else frequencies(config["head_dim"], local) for window in windows(config)]


def forward(folder, ids, types=None):
    config, weights = read(folder)
    unpack(config, weights)
    kind, eps, n_heads, n_kv = (config[key] for key in ("model_type", "rms_norm_eps", "num_attention_heads", "num_key_value_heads"))
    embedding_scale, score_scale, residual_scale, _ = (config.get(key, 1) for key in MULTIPLIERS)
    if kind == "granite":
        score_scale *= np.sqrt(config["head_dim"])  # in place of attend's division
    inverses, turn = rotations(config), rotate_pairs if kind in PAIRED else rotate

    def turned(name, x, n, inverse):
        norm = weights.get(name + "_norm.weight")
        if kind in ("olmo2", "olmo3"):
            x = rms_norm(norm, x, eps)
        x = split_heads(x, n)
        if kind == "qwen3":
            x = rms_norm(norm, x, eps)
        return np.repeat(x if inverse is None else turn(x, inverse), n_heads // n, axis=0)

    def layer(number, x):
        name = f"layers.{number}."
        first, second, third, fourth = (
            (lambda x, part=part: rms_norm(weights[f"{name}{part}_layernorm.weight"], x, eps)) if part else (lambda x: x)
            for part in norms(kind))
        y = first(x)
        q, k = (turned(f"{name}self_attn.{part}", dense(weights, f"{name}self_attn.{part}_proj", y), n, inverses[number])
                for part, n in (("q", n_heads), ("k", n_kv)))
        v = np.repeat(split_heads(dense(weights, name + "self_attn.v_proj", y), n_kv), n_heads // n_kv, axis=0)
        mask = 0.0 if kind == "eurobert" else causal_mask(len(x), windows(config)[number], config)
        attention, output = attend(q * score_scale, k, v, mask)
        x = x + residual_scale * second(dense(weights, name + "self_attn.o_proj", join_heads(output)))
        y = third(x)
        wide = ACTIVATIONS[config["hidden_act"]](dense(weights, name + "mlp.gate_proj", y)) * dense(weights, name + "mlp.up_proj", y)
        return x + residual_scale * fourth(dense(weights, name + "mlp.down_proj", wide)), attention, output

    heads = run_layers(weights["embed_tokens.weight"][ids] * embedding_scale, config["num_hidden_layers"], layer)
    return block(heads, lambda x: rms_norm(weights["norm.weight"], x, eps))


def logits(folder, states):
    config, weights = read(folder)
    table = weights.get("lm_head.weight", weights["embed_tokens.weight"]) / config.get("logits_scaling", 1)
    return next_logits(states, lambda x: rms_norm(weights["norm.weight"], x, config["rms_norm_eps"]), table)
