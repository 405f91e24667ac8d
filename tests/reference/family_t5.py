"""T5's encoder and decoder (Raffel et al. 2020): RMS norms before, scores that are not scaled, a bias by distance that all layers
share, a feed-forward part with or without a gate, and no biases."""

import numpy as np
from causal import block, causal_mask, rms_norm
from checkpoint import Weights, read, save
from encoder import ACTIVATIONS, attend, dense, join_heads, run_decoder, run_layers, split_heads

# Settings that differ from 3 layers, 4 heads of width 10, hidden 48, one "shared" table, "relu".
VARIANTS = {
    "base": dict(),
    "gated": dict(kind="mt5", feed="gated-gelu"),
    "whole_bf16": dict(decoder=True, feed="gated-silu", dtype="BF16", n_shards=2),
    "own_words_f16": dict(words="encoder.embed_tokens", n_heads=5, d_kv=3, hidden=35, dtype="F16"),
    "few_buckets": dict(buckets=10, distances=20, feed="gelu_new", prefix="transformer.", n_layers=1),
}


def write_random(folder, seed=0, kind="t5", n_layers=3, n_heads=4, d_kv=10, hidden=48, ffn=70, vocab=300, feed="relu",
                 words="shared", buckets=32, distances=128, decoder=False, prefix="", dtype="F32", n_shards=1, own=(), causal=True):
    """own: stacks with a table of words of their own, beside the shared one."""
    weights, wide = Weights(seed), n_heads * d_kv
    for table in (words, *(f"{stack}.embed_tokens" for stack in own)):
        weights.table(table, vocab, hidden)
    for stack in ("encoder", "decoder") if decoder else ("encoder",):
        for number in range(n_layers):
            name = f"{stack}.block.{number}.layer."
            attentions = ("SelfAttention", "EncDecAttention") if stack == "decoder" else ("SelfAttention",)
            for index, attention in enumerate(attentions):
                for part, scale in (("q", 0.5), ("k", 0.5), ("v", 1)):
                    weights.dense(f"{name}{index}.{attention}.{part}", wide, hidden, scale, bias=False)
                weights.dense(f"{name}{index}.{attention}.o", hidden, wide, 0.3, bias=False)
                weights.norm(f"{name}{index}.layer_norm", hidden, bias=False)
            if number == 0:
                weights.table(f"{name}0.SelfAttention.relative_attention_bias", buckets, n_heads)
                weights[f"{name}0.SelfAttention.relative_attention_bias.weight"] *= 4
            index = len(attentions)
            for part in ("wi_0", "wi_1") if feed.startswith("gated-") else ("wi",):
                weights.dense(f"{name}{index}.DenseReluDense.{part}", ffn, hidden, bias=False)
            weights.dense(f"{name}{index}.DenseReluDense.wo", hidden, ffn, 0.3, bias=False)
            weights.norm(f"{name}{index}.layer_norm", hidden, bias=False)
        weights.norm(f"{stack}.final_layer_norm", hidden, bias=False)
    weights.rename(prefix)
    config = dict(model_type=kind, num_layers=n_layers, num_decoder_layers=n_layers, num_heads=n_heads, d_model=hidden,
                  d_kv=d_kv, d_ff=ffn, vocab_size=vocab, feed_forward_proj=feed, is_encoder_decoder=decoder,
                  layer_norm_epsilon=1e-6, relative_attention_num_buckets=buckets,
                  relative_attention_max_distance=distances, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)
    config |= {} if causal else {"is_causal": False}
    return save(folder, config, weights, dtype, n_shards)


def buckets(n_queries, n_keys, n_buckets, n_distances, both_ways):
    """The bucket of each key's distance from each query, with the logarithm in float32 as in transformers."""
    distance = np.arange(n_keys) - np.arange(n_queries)[:, None]
    side = np.zeros_like(distance)
    if both_ways:
        n_buckets //= 2
        side = (distance > 0) * n_buckets
    m = np.abs(distance) if both_ways else np.maximum(-distance, 0)
    exact = n_buckets // 2
    far = np.log(np.maximum(m, exact).astype(np.float32) / np.float32(exact)) / np.float32(np.log(n_distances / exact))
    large = np.minimum(exact + (far * np.float32(n_buckets - exact)).astype(int), n_buckets - 1)
    return side + np.where(m < exact, m, large)


def activation(config):
    feed = config["feed_forward_proj"]
    return ACTIVATIONS["gelu_new" if feed == "gated-gelu" else feed.removeprefix("gated-")]


def feed_forward(config, weights, name, y):
    act = activation(config)
    if config["feed_forward_proj"].startswith("gated-"):
        wide = act(dense(weights, name + "wi_0", y)) * dense(weights, name + "wi_1", y)
    else:
        wide = act(dense(weights, name + "wi", y))
    return dense(weights, name + "wo", wide)


def distance_bias(config, weights, stack, n):
    table = weights[f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
    return table[buckets(n, n, config["relative_attention_num_buckets"], config["relative_attention_max_distance"],
                         stack == "encoder")].transpose(2, 0, 1)


def table_of(weights, stack):
    """The words of a stack: its own table, or the one that all share."""
    own = f"{stack}.embed_tokens.weight"
    return weights[own if own in weights else "shared.weight"]


def attention_of(config, weights, name, x, memory=None, bias=0.0, without=None):
    """x after a block's attention to itself or to a memory, its maps and its heads' outputs. The value of token `without` is 0."""
    y = rms_norm(weights[name.rsplit(".", 2)[0] + ".layer_norm.weight"], x, config["layer_norm_epsilon"])
    read = y if memory is None else memory
    q, k, v = (split_heads(dense(weights, name + part, y if part == "q" else read), config["num_heads"]) for part in "qkv")
    if without is not None:
        v[:, without] = 0
    attention, output = attend(q * np.sqrt(config["d_kv"]), k, v, bias)
    return x + dense(weights, name + "o", join_heads(output)), attention, output


def forward(folder, ids, types=None):
    config, weights = read(folder, "transformer.")
    eps, bias = config["layer_norm_epsilon"], distance_bias(config, weights, "encoder", len(ids))

    def layer(number, x):
        name = f"encoder.block.{number}.layer."
        x, attention, output = attention_of(config, weights, name + "0.SelfAttention.", x, bias=bias)
        y = rms_norm(weights[name + "1.layer_norm.weight"], x, eps)
        return x + feed_forward(config, weights, name + "1.DenseReluDense.", y), attention, output

    heads = run_layers(table_of(weights, "encoder")[ids], config["num_layers"], layer)
    return block(heads, lambda x: rms_norm(weights["encoder.final_layer_norm.weight"], x, eps))


def decode(folder, memory, ids, without=(None, None, None)):
    """The decoder's own heads, its cross heads, and the logits [T][V]; memory are the encoder's last states. without: layer,
    stack and token of a value that is 0."""
    config, weights = read(folder, "transformer.")
    eps = config["layer_norm_epsilon"]
    mask = causal_mask(len(ids)) if config.get("is_causal", True) else 0
    bias = distance_bias(config, weights, "decoder", len(ids)) + mask

    def layer(number, x):
        name = f"decoder.block.{number}.layer."
        zeroed = {without[1]: without[2]} if without[0] == number else {}
        x, own, own_output = attention_of(config, weights, name + "0.SelfAttention.", x, bias=bias, without=zeroed.get("decoder"))
        x, cross, cross_output = attention_of(config, weights, name + "1.EncDecAttention.", x, memory, without=zeroed.get("cross"))
        y = rms_norm(weights[name + "2.layer_norm.weight"], x, eps)
        x = x + feed_forward(config, weights, name + "2.DenseReluDense.", y)
        return x, (own, cross), (own_output, cross_output)

    stacks = [block(heads, lambda x: rms_norm(weights["decoder.final_layer_norm.weight"], x, eps))
              for heads in run_decoder(table_of(weights, "decoder")[ids], config["num_decoder_layers"], layer)]
    scale = config["d_model"] ** -0.5 if config["model_type"] == "t5" else 1
    return *stacks, stacks[0].hidden_states[-1] * scale @ weights["shared.weight"].T
