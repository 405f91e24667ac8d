"""The inputs and outputs of the heads of BERT's layers, in float64, from the state below a layer.

Arrays are [h][T][d] or [h][T][T]. `model` is what checkpoint.load gives, of a family whose norms come after.
"""

import math
from collections import namedtuple

import family_bert
import numpy as np
from encoder import ACTIVATIONS, Heads, dense, join_heads, layer_norm, softmax, split_heads


def projections(model, number, state):
    """Queries, keys and values of one layer, from its input [T][H]."""
    layer = f"encoder.layer.{number}.attention.self."
    return [split_heads(dense(model.weights, layer + name, state), model.n_heads) for name in ("query", "key", "value")]


def scores(queries, keys):
    """The input of the softmax."""
    return queries @ keys.transpose(0, 2, 1) / math.sqrt(queries.shape[-1])


# layers and heads: lists of numbers; kind as in a request.
Intervention = namedtuple("Intervention", "layers heads kind factor distance", defaults=[None, None])


def change_map(attention, changes):
    """Cuts first: an even map is even over what a cut leaves."""
    position = np.arange(attention.shape[-1])
    sees = np.ones_like(attention, bool)
    for change in changes:
        if change.kind == "cut":
            sees[change.heads] &= abs(position[:, None] - position) <= change.distance
    attention = np.where(sees, attention, 0)
    attention /= attention.sum(-1, keepdims=True)
    for change in changes:
        if change.kind == "uniform":
            attention[change.heads] = (sees / sees.sum(-1, keepdims=True))[change.heads]
        if change.kind == "identity":
            attention[change.heads] = np.eye(attention.shape[-1])
    return attention


def change_output(output, changes):
    for change in changes:
        if change.kind == "mean":
            output[change.heads] = output[change.heads].mean(1, keepdims=True)
    for change in changes:
        if change.kind in ("zero", "scale"):
            output[change.heads] *= change.factor or 0
    return output


def forward(model, ids, types, interventions):
    """family_bert.forward with interventions."""
    x = family_bert.embed(model, np.asarray(ids), np.asarray(types))
    states, attentions, outputs = [x], [], []
    for number in range(model.n_layers):
        changes = [change for change in interventions if number in change.layers]
        layer = f"encoder.layer.{number}."
        queries, keys, values = projections(model, number, x)
        attention = change_map(softmax(scores(queries, keys)), changes)
        output = change_output(attention @ values, changes)
        x = layer_norm(model.weights, layer + "attention.output.LayerNorm",
                       x + dense(model.weights, layer + "attention.output.dense", join_heads(output)), model.eps)
        wide = ACTIVATIONS[model.activation](dense(model.weights, layer + "intermediate.dense", x))
        x = layer_norm(model.weights, layer + "output.LayerNorm",
                       x + dense(model.weights, layer + "output.dense", wide), model.eps)
        states.append(x)
        attentions.append(attention)
        outputs.append(output)
    return Heads(np.array(attentions), np.array(outputs), np.array(states))


def value_norms(model, number, values):
    """[h][T]: of f(x) = v W_O of each head."""
    return np.linalg.norm(written(model, number, values), axis=-1)


def written(model, number, vectors):
    """[h][T][hidden]: the heads' outputs or values times each head's part of W_O."""
    weight = model.weights[f"encoder.layer.{number}.attention.output.dense.weight"]
    return np.einsum("htd,ohd->hto", vectors, weight.reshape(len(weight), len(vectors), -1))


def residual_similarity(model, number, outputs):
    """[h][T][T] of what the heads write, diagonal 0."""
    vectors = written(model, number, outputs)
    similarity = vectors @ vectors.transpose(0, 2, 1)
    return similarity * (1 - np.eye(outputs.shape[1]))


def effective_attention(attention, values):
    """A Q Q' of one head, by the singular vectors of V that count."""
    left, lengths, _ = np.linalg.svd(values, full_matrices=False)
    basis = left[:, lengths > 1e-6 * lengths[0]]
    return attention @ basis @ basis.T


def rollout(attentions):
    """[l][T][T] of [l][h][T][T]."""
    product, steps = np.eye(attentions.shape[-1]), []
    for attention in attentions:
        product = (attention.mean(0) + np.eye(len(product))) / 2 @ product
        steps.append(product)
    return np.array(steps)


def hsic(first, second):
    """Song et al. 2012, of two kernels without their diagonals."""
    n, ones = len(first), np.ones(len(first))
    if n < 4:
        return np.nan
    return (np.trace(first @ second)
            + ones @ first @ ones * (ones @ second @ ones) / ((n - 1) * (n - 2))
            - 2 / (n - 2) * (ones @ first @ second @ ones)) / (n * (n - 3))


def cka_distances(similarities):
    """[heads][heads] of [heads][T][T]."""
    cross = np.array([[hsic(first, second) for second in similarities] for first in similarities])
    return 1 - cross / np.sqrt(np.outer(cross.diagonal(), cross.diagonal()))


def entropy(rows):
    return -np.where(rows > 0, rows * np.log(np.where(rows > 0, rows, 1)), 0).sum(-1)


def js_distances(attentions):
    """[heads][heads] of [heads][T][T], in nats."""
    own = entropy(attentions)
    return np.array([(entropy((attentions + one) / 2) - (own + entropy(one)) / 2).mean(-1) for one in attentions])


def profile(attention, ids, first, separator, punctuation, own):
    """name -> figure of one map [T][T]; three are [T] of bool. own [T][T]: in one sentence, neither token special."""
    n = len(attention)
    rows, columns = np.indices(attention.shape)
    information = -np.where(attention > 0, attention * np.log(np.where(attention > 0, attention, 1)), 0).sum(1)
    ids = np.asarray(ids)
    figures = {
        "self": np.trace(attention) / n,
        "previous": np.trace(attention, -1) / n,
        "next": np.trace(attention, 1) / n,
        "first": attention[:, first].sum() / n,
        "separator": attention[:, separator].sum() / n,
        "punctuation": attention[:, punctuation].sum() / n,
        "same_token": attention[(ids[:, None] == ids) & (rows != columns)].sum() / n,
        "same_sentence": attention[own].sum() / n,
        "entropy": information.mean(),
        "entropy_first": information[0],
        "confidence": attention.max(1).mean(),
        "mean_distance": (attention * abs(rows - columns)).sum() / n,
        "offsets": np.array([np.trace(attention, k) / (n - abs(k)) if abs(k) < n else 0 for k in range(-8, 9)]),
    }
    special = max(figures["first"], figures["separator"], figures["punctuation"]) > 0.6
    position = max(figures["previous"], figures["next"]) > 0.5
    return figures, 1 if special else 2 if figures["entropy"] > 3.8 else 0 if position else 3


def divergence(p, q):
    """Sum of p ln(p / q) over the last axis."""
    return (p * np.log(p / q)).sum(-1)
