"""The head for masked tokens of each family in float64: logits = LN(act(dense(h))) W' + b, and random heads to add to
random checkpoints."""
import json

import numpy as np
from checkpoint import read_safetensors, write_safetensors
from encoder import ACTIVATIONS, dense, layer_norm, softmax

# dense, norm, decoder, module of the bias, activation if it is not the config's
HEADS = {
    "bert": ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.decoder",
             "cls.predictions", None),
    "distilbert": ("vocab_transform", "vocab_layer_norm", "vocab_projector", "vocab_projector", None),
    "electra": ("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head",
                "generator_lm_head", "gelu"),
    "roberta": ("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head", "gelu"),
    "mpnet": ("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head", "gelu"),
    "esm": ("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head", "gelu"),
    "albert": ("predictions.dense", "predictions.LayerNorm", "predictions.decoder", "predictions", None),
    "deberta-v2": ("lm_predictions.lm_head.dense", "lm_predictions.lm_head.LayerNorm", None, "lm_predictions.lm_head", None),
    "deberta-v2 legacy": ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm",
                          "cls.predictions.decoder", "cls.predictions", None),
    "nomic_bert": ("cls.predictions.transform.dense", "cls.predictions.transform.layer_norm", "cls.predictions.decoder",
                   "cls.predictions", None),
    "modernbert": ("head.dense", "head.norm", "decoder", "decoder", "gelu"),
}
HEADS |= {kind.replace("-v2", ""): names for kind, names in HEADS.items() if kind.startswith("deberta")}
UNBIASED = {"modernbert"}  # in dense and norm
LAST_NORMS = {"modernbert": "model.final_norm", "esm": "esm.encoder.emb_layer_norm_after"}


def _word_embeddings(weights):
    return next(values for name, values in weights.items() if name.endswith(("embeddings.word_embeddings.weight", "embeddings.tok_embeddings.weight")))


def _names(config, weights):
    """DeBERTa's files may have a head of its own, BERT's, which older code of HuggingFace left random, or both."""
    kind = config["model_type"]
    own = HEADS[kind][0] + ".weight" in weights
    return HEADS[kind if own or f"{kind} legacy" not in HEADS else f"{kind} legacy"]


def add(folder, tied=True, dtype="F32", seed=7, legacy=False, biases=1):
    """Gives the checkpoint of one file in the folder a random head. With two biases, that of the decoder counts."""
    config = json.loads((folder / "config.json").read_text())
    dense_name, norm, decoder, bias, _ = HEADS[config["model_type"] + (" legacy" if legacy else "")]
    weights = read_safetensors(folder / "model.safetensors")
    words = _word_embeddings(weights)
    rng, width = np.random.default_rng(seed), words.shape[1]
    hidden = config.get("hidden_size") or config["dim"]
    weights[dense_name + ".weight"] = rng.normal(0, 1 / np.sqrt(hidden), (width, hidden))
    weights[dense_name + ".bias"] = rng.normal(0, 0.1, width)
    weights[norm + ".weight"], weights[norm + ".bias"] = rng.normal(1, 0.1, width), rng.normal(0, 0.1, width)
    if config["model_type"] in UNBIASED:
        del weights[dense_name + ".bias"], weights[norm + ".bias"]
    weights[bias + ".bias"] = rng.normal(0, 1, len(words))
    if biases > 1:
        weights[decoder + ".bias"] = rng.normal(0, 1, len(words))
    if not tied and decoder:
        weights[decoder + ".weight"] = rng.normal(0, 0.5, words.shape)
    write_safetensors(folder / "model.safetensors", weights, dtype)
    return folder


def logits(folder, states):
    """[L + 1][T][V] of hidden states [L + 1][T][H], of which a model with norms before has normed the last alone."""
    config = json.loads((folder / "config.json").read_text())
    weights = read_safetensors(folder / "model.safetensors")
    dense_name, norm, decoder, bias, activation = _names(config, weights)
    if last := LAST_NORMS.get(config["model_type"]):
        eps = config.get("norm_eps", config.get("layer_norm_eps"))
        states = np.concatenate([layer_norm(weights, last, states[:-1], eps), states[-1:]])
    x = ACTIVATIONS[activation or config.get("hidden_act") or config["activation"]](dense(weights, dense_name, states))
    x = layer_norm(weights, norm, x, config.get("layer_norm_eps", config.get("norm_eps", 1e-12)))
    table = weights.get(f"{decoder}.weight", _word_embeddings(weights))
    return x @ table.T + weights.get(f"{decoder}.bias", weights[bias + ".bias"])


def probabilities(folder, states):
    """The same of their logits."""
    return softmax(logits(folder, states))
