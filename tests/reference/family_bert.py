"""BERT and DistilBERT (Devlin et al. 2018; Sanh et al. 2019). checkpoint.py reads and writes them."""

import checkpoint
import numpy as np
from encoder import bert_layer, layer_norm, run_layers

# Settings that differ from a BERT of 3 layers, 4 heads, hidden 48; more layouts are in checkpoint.VARIANTS.
VARIANTS = {
    **{name: dict(activation=name) for name in ("gelu_new", "gelu_pytorch_tanh", "quick_gelu", "relu", "silu")},
    "distilbert_relu": dict(distil=True, prefix="distilbert.", activation="relu"),
}
write_random = checkpoint.write_random


def embed(model, ids, types):
    x = model["embeddings.word_embeddings.weight"][ids]
    x = x + model["embeddings.position_embeddings.weight"][: len(ids)]
    if "embeddings.token_type_embeddings.weight" in model.weights:
        x = x + model["embeddings.token_type_embeddings.weight"][types]
    return layer_norm(model.weights, "embeddings.LayerNorm", x, model.eps)


def forward(model, ids, types=None, mask=None):
    """model: a folder, or what checkpoint.load gave; mask: True for tokens, False for padding; None: none is padded."""
    model = model if isinstance(model, checkpoint.Checkpoint) else checkpoint.load(model)
    ids = np.asarray(ids)
    types = np.zeros_like(ids) if types is None else np.asarray(types)
    mask = np.ones(len(ids), bool) if mask is None else np.asarray(mask, bool)
    bias = np.where(mask, 0, np.finfo(np.float32).min)

    def layer(number, x):
        return bert_layer(model.weights, f"encoder.layer.{number}.", x, model.n_heads, model.eps, model.activation, bias)

    return run_layers(embed(model, ids, types), model.n_layers, layer)
