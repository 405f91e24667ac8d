"""What the heads of BERT's layers read and write, in float64, from the state below a layer.

Arrays are [h][T][d] or [h][T][T]. `model` is what checkpoint.load gives, of a family whose norms come after.
"""

import math

from encoder import dense, split_heads


def projections(model, number, state):
    """Queries, keys and values of one layer, from its input [T][H]."""
    layer = f"encoder.layer.{number}.attention.self."
    return [split_heads(dense(model.weights, layer + name, state), model.n_heads) for name in ("query", "key", "value")]


def scores(queries, keys):
    """What the softmax is taken of."""
    return queries @ keys.transpose(0, 2, 1) / math.sqrt(queries.shape[-1])
