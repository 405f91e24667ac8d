"""Gemma, Gemma 2 and Gemma 3 of text. Embeddings are multiplied by the root of their width. RMS norms around weights of 1 are
before each block and, but for Gemma, of what it adds. In Gemma 2 and 3 heads are grouped, some layers have windows, and the feed-forward part is gated. Gemma 2 caps
scores and logits. Gemma 3 norms each head's queries and keys, and rotates layers with a window by a base of their own."""

import numpy as np
from causal import block, causal_mask, frequencies, next_logits, rms_norm, rotate
from checkpoint import Weights, read, save
from encoder import ACTIVATIONS, dense, join_heads, run_layers, softmax, split_heads

# Settings that differ from a Gemma 2 of 4 layers, 4 heads, 2 of keys, hidden 48, a window of 9 in layers 0 and 2, tied.
VARIANTS = {
    "gemma2": dict(),
    "gemma2_caps": dict(caps=(0.8, 3.0), scalar=5),
    "gemma2_untied_f16": dict(caps=(None, None), tied=False, n_heads=3, n_kv=3, kinds="fffs", dtype="F16"),
    "gemma2_base_bf16": dict(prefix="", theta=500.0, dtype="BF16", n_shards=3),
    "gemma": dict(kind="gemma", n_kv=1),
    "gemma_untied_bf16": dict(kind="gemma", n_kv=4, tied=False, theta=500.0, activation="gelu_pytorch_tanh", dtype="BF16"),
    "gemma3": dict(kind="gemma3_text"),
    "gemma3_pattern": dict(kind="gemma3_text", pattern=3, scalar=7, caps=(None, 4.0)),
    "gemma3_scaled": dict(kind="gemma3_text", kinds="sfsf", factor=8.0),
    "gemma3_scaled_old_keys": dict(kind="gemma3_text", pattern=2, factor=8.0, old=True, theta=2000.0, local=300.0),
    "gemma3_both_ways": dict(kind="gemma3_text", kinds="sfsf", both_ways=True),
}
NORMS = ("input", "post_attention", "pre_feedforward", "post_feedforward")
KINDS = {"s": "sliding_attention", "f": "full_attention"}


def write_random(folder, seed=0, kind="gemma2", n_layers=4, n_heads=4, n_kv=2, head_dim=14, hidden=48, ffn=70, vocab=300,
                 positions=200, caps=(50.0, 30.0), scalar=14, window=9, kinds=None, pattern=None, theta=10000.0, local=10000.0,
                 factor=None, old=False, both_ways=False, tied=True, prefix="model.", activation="gelu", dtype="F32", n_shards=1):
    weights, third = Weights(seed), kind == "gemma3_text"
    weights.table("embed_tokens", vocab, hidden)
    weights["embed_tokens.weight"] /= 4
    for number in range(n_layers):
        layer = f"layers.{number}."
        for name, n in (("q", n_heads), ("k", n_kv), ("v", n_kv)):
            weights.dense(f"{layer}self_attn.{name}_proj", n * head_dim, hidden, bias=False)
        weights.dense(layer + "self_attn.o_proj", hidden, n_heads * head_dim, 0.3, bias=False)
        for name in "qk" if third else "":
            weights.norm(f"{layer}self_attn.{name}_norm", head_dim, bias=False)
        for name in NORMS[:2] if kind == "gemma" else NORMS:
            weights.norm(f"{layer}{name}_layernorm", hidden, bias=False)
        for name in ("gate", "up"):
            weights.dense(f"{layer}mlp.{name}_proj", ffn, hidden, bias=False)
        weights.dense(layer + "mlp.down_proj", hidden, ffn, 0.3, bias=False)
    weights.norm("norm", hidden, bias=False)
    for name in weights:
        if name.endswith("norm.weight"):
            weights[name] -= 1
    weights.rename(prefix)
    if not tied:
        weights.table("lm_head", vocab, hidden)
    config = dict(
        model_type=kind, num_hidden_layers=n_layers, num_attention_heads=n_heads, num_key_value_heads=n_kv, head_dim=head_dim,
        hidden_size=hidden, intermediate_size=ffn, hidden_activation="gelu_pytorch_tanh", rms_norm_eps=1e-6,
        max_position_embeddings=positions, vocab_size=vocab, tie_word_embeddings=tied, query_pre_attn_scalar=scalar,
        sliding_window=window, final_logit_softcapping=caps[1], bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )
    config["attn_logit_softcapping"] = None if third else caps[0]
    if kind == "gemma":
        for key in ("hidden_activation", "query_pre_attn_scalar", "sliding_window", "final_logit_softcapping", "attn_logit_softcapping"):
            del config[key]
        config["hidden_act"] = activation
    if kinds:
        config["layer_types"] = [KINDS[letter] for letter in kinds]
    if pattern:
        config["sliding_window_pattern"] = pattern
    if both_ways:
        config["use_bidirectional_attention"] = True
    scaling = {"rope_type": "linear", "factor": factor} if factor else {"rope_type": "default"}
    if not third:
        config["rope_parameters"] = {"rope_type": "default", "rope_theta": theta}
    elif old:
        config |= dict(rope_theta=theta, rope_local_base_freq=local, rope_scaling=scaling)
    else:
        config["rope_parameters"] = {KINDS["f"]: {**scaling, "rope_theta": theta},
                                     KINDS["s"]: {"rope_type": "default", "rope_theta": local}}
    return save(folder, config, weights, dtype, n_shards)


def slides(config, layer):
    """Returns true if a layer's window slides."""
    if config["model_type"] == "gemma":
        return False
    every = 2 if config["model_type"] == "gemma2" else config.get("sliding_window_pattern", 6)
    return config["layer_types"][layer] == KINDS["s"] if "layer_types" in config else (layer + 1) % every != 0


def mask(config, layer, n):
    if not config.get("use_bidirectional_attention"):
        return causal_mask(n, config["sliding_window"] if slides(config, layer) else None, config)
    distance = np.abs(np.arange(n)[:, None] - np.arange(n))
    return np.where((distance <= config["sliding_window"] // 2) | (not slides(config, layer)), 0.0, -np.inf)


def rotation(config, layer):
    """Frequencies of a layer."""
    if config["model_type"] in ("gemma", "gemma2"):
        return frequencies(config["head_dim"], config["rope_parameters"]["rope_theta"])
    if "rope_parameters" in config:
        rope = config["rope_parameters"][KINDS["s" if slides(config, layer) else "f"]]
        return frequencies(config["head_dim"], rope["rope_theta"], rope)
    if slides(config, layer):
        return frequencies(config["head_dim"], config["rope_local_base_freq"])
    return frequencies(config["head_dim"], config["rope_theta"], config["rope_scaling"])


def cap(x, limit):
    return np.tanh(x / limit) * limit if limit else x


def forward(folder, ids, types=None):
    config, weights = read(folder)
    eps, n_heads, n_kv = config["rms_norm_eps"], config["num_attention_heads"], config["num_key_value_heads"]
    first, divisor = config["model_type"] == "gemma", np.sqrt(config.get("query_pre_attn_scalar", config["head_dim"]))

    def norm(name, x):
        return rms_norm(1 + weights[name + ".weight"], x, eps)

    def operand(name, number, x, n):
        x = split_heads(dense(weights, name + "_proj", x), n)
        if name + "_norm.weight" in weights:
            x = norm(name + "_norm", x)
        return np.repeat(rotate(x, rotation(config, number)), n_heads // n, axis=0)

    def layer(number, x):
        name = f"layers.{number}."
        y = norm(name + "input_layernorm", x)
        q, k = operand(name + "self_attn.q", number, y, n_heads), operand(name + "self_attn.k", number, y, n_kv)
        v = np.repeat(split_heads(dense(weights, name + "self_attn.v_proj", y), n_kv), n_heads // n_kv, axis=0)
        scores = cap(q @ k.transpose(0, 2, 1) / divisor, config.get("attn_logit_softcapping"))
        attention = softmax(scores + mask(config, number, len(x)))
        output = attention @ v
        written = dense(weights, name + "self_attn.o_proj", join_heads(output))
        x = x + (written if first else norm(name + "post_attention_layernorm", written))
        y = norm(name + ("post_attention_layernorm" if first else "pre_feedforward_layernorm"), x)
        wide = ACTIVATIONS["gelu_pytorch_tanh"](dense(weights, name + "mlp.gate_proj", y)) * dense(weights, name + "mlp.up_proj", y)
        written = dense(weights, name + "mlp.down_proj", wide)
        return x + (written if first else norm(name + "post_feedforward_layernorm", written)), attention, output

    heads = run_layers(weights["embed_tokens.weight"][ids] * np.sqrt(config["hidden_size"]), config["num_hidden_layers"], layer)
    return block(heads, lambda x: norm("norm", x))


def logits(folder, states):
    """Logits of hidden states [L + 1][T][H]; the last ones are behind the final norm."""
    config, weights = read(folder)
    table = weights.get("lm_head.weight", weights["embed_tokens.weight"])
    return cap(next_logits(states, lambda x: rms_norm(1 + weights["norm.weight"], x, config["rms_norm_eps"]), table),
               config.get("final_logit_softcapping"))
