"""Command R (Cohere), Command R7B (Cohere 2), Phi 1 and 2, StableLM 2 and StarCoder 2: LayerNorms before, rotary positions, a causal
mask. The blocks of Cohere and Phi, and of some StableLM, are parallel behind one norm."""

import numpy as np
from causal import block, causal_mask, frequencies, next_logits, rotate, rotate_pairs
from checkpoint import Weights, read, save
from encoder import ACTIVATIONS, attend, dense, join_heads, layer_norm, run_layers, split_heads

# Settings that differ from 3 layers, 4 heads, 2 of keys, hidden 48, theta 10000, prefix "model.", the kind's own activation.
VARIANTS = {
    "cohere": dict(),
    "cohere_biased_f16": dict(biased=True, n_kv=4, logit_scale=0.5, tied=False, dtype="F16"),
    "cohere_normed": dict(normed=True),
    "cohere2": dict(kind="cohere2", n_layers=4, window=9),
    "cohere2_listed_bf16": dict(kind="cohere2", kinds="fsf", window=5, dtype="BF16"),
    "phi": dict(kind="phi", n_kv=4),
    "phi_grouped_f16": dict(kind="phi", fraction=0.25, n_heads=3, n_kv=1, activation="gelu", dtype="F16"),
    "phi_normed": dict(kind="phi", n_kv=2, normed=True),
    "stablelm": dict(kind="stablelm", n_heads=3, n_kv=1),
    "stablelm_parallel_bf16": dict(kind="stablelm", biased=True, parallel=True, fraction=0.5, dtype="BF16", n_shards=2),
    "stablelm_normed": dict(kind="stablelm", n_heads=6, n_kv=3, normed=True),
    "starcoder2": dict(kind="starcoder2", window=9),
    "starcoder2_whole_f16": dict(kind="starcoder2", biased=False, tied=False, prefix="", headless=True, dtype="F16"),
}
KINDS = {"s": "sliding_attention", "f": "full_attention"}
FEED = {"phi": ("fc1", "fc2"), "starcoder2": ("c_fc", "c_proj")}  # names without a gate
ACTIVATION = {"phi": "gelu_new", "starcoder2": "gelu_pytorch_tanh"}
NORM = {"phi": "final_layernorm"}
FRACTION = {"phi": 0.5, "stablelm": 0.25}


def write_random(folder, seed=0, kind="cohere", n_layers=3, n_heads=4, n_kv=2, hidden=48, ffn=70, vocab=300, positions=200,
                 theta=10000.0, fraction=None, biased=None, parallel=None, window=None, kinds=None, logit_scale=None, tied=None,
                 headless=False, activation=None, normed=False, prefix="model.", dtype="F32", n_shards=1):
    weights, width, cohere = Weights(seed), hidden // n_heads, kind.startswith("cohere")
    parallel = kind != "starcoder2" if parallel is None and kind != "stablelm" else bool(parallel)
    tied = (cohere or kind == "starcoder2") if tied is None else tied
    biased = kind in ("phi", "starcoder2") if biased is None else biased
    out_biased, activation = biased and kind != "stablelm", activation or ACTIVATION.get(kind, "silu")
    weights.table("embed_tokens", vocab, hidden)
    for number in range(n_layers):
        layer = f"layers.{number}."
        for name, n in (("q", n_heads), ("k", n_kv), ("v", n_kv)):
            weights.dense(f"{layer}self_attn.{name}_proj", n * width, hidden, 1.5, bias=biased)
        weights.dense(layer + ("self_attn.dense" if kind == "phi" else "self_attn.o_proj"), hidden, n_heads * width, 0.3, bias=out_biased)
        for name, n in (("q", n_heads), ("k", n_kv)) if normed else ():
            if kind == "stablelm":
                for head in range(n):
                    weights.norm(f"{layer}self_attn.{name}_layernorm.norms.{head}", width, bias=False)
            elif cohere:
                weights.table(f"{layer}self_attn.{name}_norm", n, width)
            else:
                weights.norm(f"{layer}self_attn.{name}_layernorm", width)
        for name in ("input",) if parallel else ("input", "post_attention"):
            weights.norm(f"{layer}{name}_layernorm", hidden, bias=not cohere)
        if kind in FEED:
            weights.dense(f"{layer}mlp.{FEED[kind][0]}", ffn, hidden, bias=biased)
            weights.dense(f"{layer}mlp.{FEED[kind][1]}", hidden, ffn, 0.3, bias=biased)
        else:
            weights.dense(layer + "mlp.gate_proj", ffn, hidden, bias=False)
            weights.dense(layer + "mlp.up_proj", ffn, hidden, bias=False)
            weights.dense(layer + "mlp.down_proj", hidden, ffn, 0.3, bias=False)
    weights.norm(NORM.get(kind, "norm"), hidden, bias=not cohere)
    weights.rename(prefix)
    if not tied and not headless:
        weights.dense("lm_head", vocab, hidden, bias=kind == "phi")
    config = dict(
        model_type=kind, num_hidden_layers=n_layers, num_attention_heads=n_heads, num_key_value_heads=n_kv, hidden_size=hidden,
        intermediate_size=ffn, hidden_act=activation, max_position_embeddings=positions, vocab_size=vocab, tie_word_embeddings=tied,
        bos_token_id=1, eos_token_id=2, pad_token_id=0, rope_parameters={"rope_type": "default", "rope_theta": theta},
    )
    if normed:
        config["use_qk_norm" if cohere else "qk_layernorm"] = True
    config["norm_epsilon" if kind == "starcoder2" else "layer_norm_eps"] = 1e-5
    config[{"stablelm": "use_qkv_bias", "starcoder2": "use_bias"}.get(kind, "attention_bias")] = biased
    if kind == "phi":
        del config["attention_bias"]  # it has no such key
    if kind == "stablelm":
        config["use_parallel_residual"] = parallel
    if kind in FRACTION:
        config["rope_parameters"]["partial_rotary_factor"] = fraction or FRACTION[kind]
    if kind in ("cohere2", "starcoder2"):
        config["sliding_window"] = window
    if kinds:
        config["layer_types"] = [KINDS[letter] for letter in kinds]
    if logit_scale:
        config["logit_scale"] = logit_scale
    return save(folder, config, weights, dtype, n_shards)


def windows(config):
    """The keys that a query of each layer sees, itself included; None: all before it."""
    n, window = config["num_hidden_layers"], config.get("sliding_window")
    if config["model_type"] != "cohere2":
        return [window] * n
    kinds = config.get("layer_types", ["full_attention" if i % 4 == 3 else "sliding_attention" for i in range(n)])
    return [window if kind == "sliding_attention" else None for kind in kinds]


def norm_heads(weights, name, x, eps):
    """Norms each row of [h][T][d]: with the gamma of its head, or with one of all heads and a beta."""
    rows = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
    if name + "_layernorm.weight" in weights:
        return rows * weights[name + "_layernorm.weight"] + weights[name + "_layernorm.bias"]
    if name + "_norm.weight" in weights:
        return rows * weights[name + "_norm.weight"][:, None]
    return rows * np.array([weights[f"{name}_layernorm.norms.{head}.weight"] for head in range(len(x))])[:, None]


def forward(folder, ids, types=None):
    config, weights = read(folder)
    kind, n_heads, n_kv = (config[key] for key in ("model_type", "num_attention_heads", "num_key_value_heads"))
    eps, act = config.get("norm_epsilon", config.get("layer_norm_eps")), ACTIVATIONS[config["hidden_act"]]
    rope, turn = config["rope_parameters"], rotate_pairs if kind.startswith("cohere") else rotate
    width = config["hidden_size"] // n_heads
    inverse = frequencies(int(width * rope.get("partial_rotary_factor", 1)), rope["rope_theta"])

    def feed(name, x):
        if kind in FEED:
            return dense(weights, name + FEED[kind][1], act(dense(weights, name + FEED[kind][0], x)))
        return dense(weights, name + "down_proj", act(dense(weights, name + "gate_proj", x)) * dense(weights, name + "up_proj", x))

    def layer(number, x):
        name, window = f"layers.{number}.", windows(config)[number]
        y = layer_norm(weights, name + "input_layernorm", x, eps)
        q, k, v = (split_heads(dense(weights, f"{name}self_attn.{part}_proj", y), n) for part, n in (("q", n_heads), ("k", n_kv), ("v", n_kv)))
        if config.get("use_qk_norm") or config.get("qk_layernorm"):
            q, k = (norm_heads(weights, f"{name}self_attn.{part}", x, eps) for part, x in (("q", q), ("k", k)))
        if kind != "cohere2" or window is not None:  # its layers without a window have no positions
            q, k = turn(q, inverse), turn(k, inverse)
        k, v = (np.repeat(part, n_heads // n_kv, axis=0) for part in (k, v))
        attention, output = attend(q, k, v, causal_mask(len(x), window, config))
        written = dense(weights, name + ("self_attn.dense" if kind == "phi" else "self_attn.o_proj"), join_heads(output))
        if name + "post_attention_layernorm.weight" not in weights:
            return x + written + feed(name + "mlp.", y), attention, output
        x = x + written
        return x + feed(name + "mlp.", layer_norm(weights, name + "post_attention_layernorm", x, eps)), attention, output

    heads = run_layers(weights["embed_tokens.weight"][ids], config["num_hidden_layers"], layer)
    return block(heads, lambda x: layer_norm(weights, NORM.get(kind, "norm"), x, eps))


def logits(folder, states):
    config, weights = read(folder)
    table = weights.get("lm_head.weight", weights["embed_tokens.weight"])
    if config["model_type"].startswith("cohere"):
        table = table * config.get("logit_scale", 0.0625)
    eps = config.get("norm_epsilon", config.get("layer_norm_eps"))
    found = next_logits(states, lambda x: layer_norm(weights, NORM.get(config["model_type"], "norm"), x, eps), table)
    return found + weights.get("lm_head.bias", 0)
