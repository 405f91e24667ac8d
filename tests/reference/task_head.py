"""Heads of fine-tuned checkpoints in float64: classes of texts and tokens, answers, and next sentence prediction."""

import json

import numpy as np
from checkpoint import read_safetensors, write_safetensors
from encoder import ACTIVATIONS, dense, layer_norm

# model_type -> first layer, its activation, output. "base." stands for the prefix of the base model.
SEQUENCE = {
    "bert": ("base.pooler.dense", "tanh", "classifier"),
    "nomic_bert": ("base.pooler.dense", "tanh", "classifier"),
    "albert": ("base.pooler", "tanh", "classifier"),
    "distilbert": ("pre_classifier", "relu", "classifier"),
    "roberta": ("classifier.dense", "tanh", "classifier.out_proj"),
    "mpnet": ("classifier.dense", "tanh", "classifier.out_proj"),
    "esm": ("classifier.dense", "tanh", "classifier.out_proj"),
    "electra": ("classifier.dense", "gelu", "classifier.out_proj"),
    **dict.fromkeys(("deberta", "deberta-v2"), ("pooler.dense", "gelu", "classifier")),
    "modernbert": ("head.dense", "gelu", "classifier"),
    "eurobert": ("dense", "gelu", "classifier"),
    **dict.fromkeys(("gpt2", "gpt_neo", "gptj", "opt", "gpt_neox", "falcon", "llama", "smollm3", "mistral", "qwen2", "qwen3", "phi3", "olmo2", "olmo3", "gemma", "gemma2", "gemma3_text",
                     "ministral", "seed_oss", "helium", "glm", "glm4", "phi", "stablelm", "starcoder2"), (None, None, "score")),
}
SCORE_TOKENS = ("llama", "smollm3", "mistral", "qwen2", "qwen3", "phi3", "gemma", "gemma2", "ministral", "seed_oss", "helium", "glm", "glm4", "phi", "stablelm", "starcoder2")
NEXT_SENTENCE = ("base.pooler.dense", "tanh", "cls.seq_relationship")


def _names(kind, task, prefix):
    if task == "NextSentencePrediction":
        first, activation, output = NEXT_SENTENCE
    elif task == "SequenceClassification" or kind == "modernbert":
        first, activation, output = SEQUENCE[kind]
    else:
        first, activation = None, None
        output = "qa_outputs" if task == "QuestionAnswering" else "score" if kind in SCORE_TOKENS else "classifier"
    return first and first.replace("base.", prefix), activation, output


def _prefix(weights):
    name = next((name for name in weights if name.endswith("embeddings.weight") and ("word_" in name or "tok_" in name)), "")
    return name.split("embeddings.", 1)[0]


def _activate(name, x):
    return np.tanh(x) if name == "tanh" else ACTIVATIONS[name](x)


def add(folder, task, n_classes, seed=11, **config_more):
    """Gives the checkpoint of one file in the folder a random head and names it in config.json."""
    config = json.loads((folder / "config.json").read_text())
    weights = read_safetensors(folder / "model.safetensors")
    first, _, output = _names(config["model_type"], task, _prefix(weights))
    hidden = config.get("hidden_size") or config.get("dim") or config["n_embd"]
    rng = np.random.default_rng(seed)
    if first:
        weights[first + ".weight"] = rng.normal(0, 1 / np.sqrt(hidden), (hidden, hidden))
        if config["model_type"] == "modernbert":
            weights["head.norm.weight"] = rng.normal(1, 0.1, hidden)
        else:
            weights[first + ".bias"] = rng.normal(0, 0.1, hidden)
    weights[output + ".weight"] = rng.normal(0, 1, (n_classes, hidden))
    if output != "score" or task != "SequenceClassification":
        weights[output + ".bias"] = rng.normal(0, 1, n_classes)
    write_safetensors(folder / "model.safetensors", weights)
    labels = {"id2label": {str(i): f"LABEL_{i}" for i in range(n_classes)}}
    config.update({"architectures": [f"AnyFor{task}"], **labels, **config_more})
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def logits(folder, states, task):
    """Logits of the last states [T][H]: [C], for tokens [T][C], for question answering [T][2]."""
    config = json.loads((folder / "config.json").read_text())
    weights = read_safetensors(folder / "model.safetensors")
    kind = config["model_type"]
    first, activation, output = _names(kind, task, _prefix(weights))
    x = np.asarray(states, np.float64)
    pooling = config.get("classifier_pooling", "late" if kind == "eurobert" else "last" if output == "score" else "cls")
    late = pooling == "late"
    if task not in ("TokenClassification", "QuestionAnswering") and not late:
        x = x.mean(0) if pooling == "mean" else x[-1] if pooling == "last" else x[0]
    if first and kind == "modernbert":
        x = _activate(activation, x @ weights[first + ".weight"].T)
        weights.setdefault("head.norm.bias", np.zeros(x.shape[-1]))
        x = layer_norm(weights, "head.norm", x, config["norm_eps"])
    elif first:
        x = _activate(config.get("pooler_hidden_act", activation), dense(weights, first, x))
    weights.setdefault(output + ".bias", np.zeros(len(weights[output + ".weight"])))
    x = dense(weights, output, x)
    return x.mean(0) if late and first else x
