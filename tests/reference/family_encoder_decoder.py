"""Two models that EncoderDecoderModel joins (Rothe et al. 2020): BERT, RoBERTa or BertGeneration as encoder, and the same as decoder,
whose layers have cross attention between their own attention and the feed-forward part."""

import numpy as np
from causal import causal_mask
from checkpoint import Weights, bert_layers, read, save
from encoder import (
    ACTIVATIONS,
    attend,
    bert_layer,
    dense,
    join_heads,
    layer_norm,
    padded_positions,
    run_decoder,
    run_layers,
    split_heads,
)

# Settings that differ from two BERTs of 3 layers, 4 heads, hidden 48, whose words and stacks are not shared.
VARIANTS = {
    "bert": dict(),
    "bert_relu_bf16": dict(activation="relu", types=3, n_layers=1, dtype="BF16", n_shards=2),
    "roberta": dict(kind="roberta", padding=1),
    "camembert": dict(kind="camembert", padding=5, types=1, n_heads=5, hidden=35),
    "generation": dict(kind="bert-generation"),
    "of_the_decoder": dict(shared="decoder"),
}


def write_random(folder, seed=0, kind="bert", n_layers=3, n_heads=4, hidden=48, ffn=70, vocab=300, positions=170, types=2, padding=0,
                 activation="gelu", shared=None, tied=True, causal=True, dtype="F32", n_shards=1):
    """shared: the stack that has the tensors of both, as older files of tied stacks have them. tied: words and logits."""
    types = 0 if kind == "bert-generation" else types
    stacks = {"encoder.": Weights(seed), prefix_of(kind): Weights(seed if shared else seed + 100)}
    for prefix, weights in stacks.items():
        for name, rows in (("word", vocab), ("position", positions), *([("token_type", types)] if types else [])):
            weights.table(f"embeddings.{name}_embeddings", rows, hidden)
        weights.norm("embeddings.LayerNorm", hidden)
        bert_layers(weights, n_layers, hidden, ffn)
        for number in range(n_layers) if prefix != "encoder." else ():
            name = f"encoder.layer.{number}.crossattention."
            for part, scale in (("query", 2), ("key", 2), ("value", 1)):
                weights.dense(f"{name}self.{part}", hidden, hidden, scale)
            weights.dense(name + "output.dense", hidden, hidden, 0.3)
            weights.norm(name + "output.LayerNorm", hidden)
    left_out = {None: (), "encoder": [prefix_of(kind) + name for name in stacks["encoder."]],
                "decoder": ["encoder." + name for name in stacks["encoder."]]}[shared]
    whole = {prefix + name: values for prefix, weights in stacks.items() for name, values in weights.items()
             if prefix + name not in left_out}
    whole |= head_of(kind, hidden, vocab, seed, tied)
    sizes = dict(model_type=kind, num_hidden_layers=n_layers, num_attention_heads=n_heads, hidden_size=hidden, intermediate_size=ffn,
                 hidden_act=activation, layer_norm_eps=1e-5, max_position_embeddings=positions, vocab_size=vocab, pad_token_id=padding,
                 **({"type_vocab_size": types} if types else {}))
    decoder = {**sizes, "is_decoder": True, "add_cross_attention": True, "tie_word_embeddings": tied}
    decoder |= {} if causal else {"is_causal": False}
    config = dict(model_type="encoder-decoder", is_encoder_decoder=True, encoder=sizes, decoder=decoder, vocab_size=vocab, pad_token_id=padding,
                  decoder_start_token_id=2, eos_token_id=3, tie_encoder_decoder=bool(shared))
    return save(folder, config, whole, dtype, n_shards)


def prefix_of(kind):
    return "decoder.bert." if kind.startswith("bert") else "decoder.roberta."


def head_names(kind):
    """dense, norm, decoder and bias of the logits."""
    if kind == "bert":
        return [f"decoder.cls.predictions{part}" for part in (".transform.dense", ".transform.LayerNorm", ".decoder", "")]
    return [f"decoder.lm_head{part}" for part in (".dense", ".layer_norm", ".decoder", "")]


def head_of(kind, hidden, vocab, seed, tied):
    weights = Weights(seed + 7)
    transform, norm, decoder, bias = head_names(kind)
    if kind != "bert-generation":
        weights.dense(transform, hidden, hidden)
        weights.norm(norm, hidden)
    weights.dense(decoder, vocab, hidden, bias=False)
    if tied:
        del weights[decoder + ".weight"]
    weights[(bias if tied else decoder) + ".bias"] = np.random.default_rng(seed).normal(0, 0.1, vocab)
    return weights


def stack_of(folder, stack):
    """Config and weights of a stack, by the names of its model; those of the other stack where it has none."""
    config, weights = read(folder)
    prefixes = {"encoder": "encoder.", "decoder": prefix_of(config["decoder"]["model_type"])}
    other = "encoder" if stack == "decoder" else "decoder"
    named = {name.removeprefix(prefixes[each]): values for each in (other, stack) for name, values in weights.items()
             if name.startswith(prefixes[each])}
    return config[stack], named, weights


def embed(config, weights, ids, types):
    x = weights["embeddings.word_embeddings.weight"][ids]
    padded = not config["model_type"].startswith("bert")
    positions = padded_positions(ids, config["pad_token_id"]) if padded else np.arange(len(ids))
    x = x + weights["embeddings.position_embeddings.weight"][positions]
    if "embeddings.token_type_embeddings.weight" in weights:
        x = x + weights["embeddings.token_type_embeddings.weight"][types]
    return layer_norm(weights, "embeddings.LayerNorm", x, config["layer_norm_eps"])


def forward(folder, ids, types=None):
    config, weights, _ = stack_of(folder, "encoder")
    types = np.zeros(len(ids), int) if types is None else types

    def layer(number, x):
        return bert_layer(weights, f"encoder.layer.{number}.", x, config["num_attention_heads"], config["layer_norm_eps"], config["hidden_act"])

    return run_layers(embed(config, weights, ids, types), config["num_hidden_layers"], layer)


def attention_of(config, weights, name, x, memory=None, bias=0.0, without=None):
    """x after a block's attention to itself or to a memory, its maps and its heads' outputs. The value of token `without` is 0."""
    q, k, v = (split_heads(dense(weights, f"{name}.self.{part}", x if part == "query" or memory is None else memory),
                           config["num_attention_heads"]) for part in ("query", "key", "value"))
    if without is not None:
        v[:, without] = 0
    attention, output = attend(q, k, v, bias)
    x = x + dense(weights, name + ".output.dense", join_heads(output))
    return layer_norm(weights, name + ".output.LayerNorm", x, config["layer_norm_eps"]), attention, output


def decode(folder, memory, ids, without=(None, None, None)):
    """The decoder's own heads, its cross heads, and the logits [T][V]; memory are the encoder's last states. without: layer,
    stack and token of a value that is 0."""
    config, weights, whole = stack_of(folder, "decoder")
    mask = causal_mask(len(ids)) if config.get("is_causal", True) else 0

    def layer(number, x):
        name = f"encoder.layer.{number}."
        zeroed = {without[1]: without[2]} if without[0] == number else {}
        x, own, own_output = attention_of(config, weights, name + "attention", x, bias=mask, without=zeroed.get("decoder"))
        x, cross, cross_output = attention_of(config, weights, name + "crossattention", x, memory, without=zeroed.get("cross"))
        wide = ACTIVATIONS[config["hidden_act"]](dense(weights, name + "intermediate.dense", x))
        x = layer_norm(weights, name + "output.LayerNorm", x + dense(weights, name + "output.dense", wide), config["layer_norm_eps"])
        return x, (own, cross), (own_output, cross_output)

    stacks = run_decoder(embed(config, weights, ids, np.zeros(len(ids), int)), config["num_hidden_layers"], layer)
    return *stacks, logits_of(config, weights, whole, stacks[0].hidden_states[-1])


def logits_of(config, weights, whole, x):
    transform, norm, decoder, bias = head_names(config["model_type"])
    if config["model_type"] != "bert-generation":
        activation = config["hidden_act"] if config["model_type"] == "bert" else "gelu"
        x = layer_norm(whole, norm, ACTIVATIONS[activation](dense(whole, transform, x)), config["layer_norm_eps"])
    table = whole.get(decoder + ".weight", weights["embeddings.word_embeddings.weight"])
    return x @ table.T + whole.get(decoder + ".bias", whole.get(bias + ".bias"))
