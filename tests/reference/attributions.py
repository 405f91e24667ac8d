"""ALTI (Ferrando et al. 2022) and value zeroing (Mohebbi et al. 2023) of BERT's layers, in float64 from the papers.

`model` is what checkpoint.load gives, of a family whose norms come after. Maps are [T][T].
"""
import numpy as np
from encoder import ACTIVATIONS, dense, join_heads, layer_norm
from experiments import projections, scores, softmax


def heads_of(model, number, state):
    queries, keys, values = projections(model, number, state)
    return softmax(scores(queries, keys)), values


def block(model, number, state, outputs):
    """The output of the attention block: [T][H]."""
    layer = f"encoder.layer.{number}.attention.output."
    return layer_norm(model.weights, layer + "LayerNorm", state + dense(model.weights, layer + "dense", join_heads(outputs)),
                      model.eps)


def contributions(model, number, state):
    layer = f"encoder.layer.{number}.attention.output."
    attention, values = heads_of(model, number, state)
    weight = model.weights[layer + "dense.weight"]
    written = np.einsum("htd,ohd->hto", values, weight.reshape(len(weight), len(values), -1))
    parts = np.einsum("hij,hjo->ijo", attention, written)
    parts[np.arange(len(state)), np.arange(len(state))] += state
    whole = state + dense(model.weights, layer + "dense", join_heads(attention @ values))
    deviation = np.sqrt(whole.var(-1) + model.eps)
    parts = (parts - parts.mean(-1, keepdims=True)) * model.weights[layer + "LayerNorm.weight"] / deviation[:, None, None]
    output = block(model, number, state, attention @ values)
    found = np.abs(output).sum(-1)[:, None] - np.abs(output[:, None] - parts).sum(-1)
    found = np.maximum(found, 0)
    return found / found.sum(-1, keepdims=True)


def after_layer(model, number, state, outputs):
    layer = f"encoder.layer.{number}."
    x = block(model, number, state, outputs)
    wide = ACTIVATIONS[model.activation](dense(model.weights, layer + "intermediate.dense", x))
    return layer_norm(model.weights, layer + "output.LayerNorm", x + dense(model.weights, layer + "output.dense", wide), model.eps)


def value_zeroing(model, number, state):
    attention, values = heads_of(model, number, state)
    before = after_layer(model, number, state, attention @ values)
    columns = []
    for j in range(len(state)):
        without = values.copy()
        without[:, j] = 0
        after = after_layer(model, number, state, attention @ without)
        columns.append(1 - (before * after).sum(-1) / np.linalg.norm(before, axis=-1) / np.linalg.norm(after, axis=-1))
    found = np.array(columns).T
    return found / found.sum(-1, keepdims=True)
