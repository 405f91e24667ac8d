"""An answer as an xarray.Dataset: every array with its axes named. Needs xarray."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray

    from .answer import Analysis

_MAP = ("layer", "head", "query", "key")
_LAYER_MAP = ("layer", "query", "key")
_STATES = ("state", "token", "feature")  # state 0 is the embeddings, state l + 1 the output of layer l
# The axes of docs/reference/arrays.md. Where "layer" and "head" are all, the names before the first _ say it.
_AXES = {
    **dict.fromkeys(("attentions", "similarities", "scores", "scores_c2c", "scores_c2p", "scores_p2c", "weighted_norms",
                     "effective_attentions", "attention_gradients"), _MAP),
    **dict.fromkeys(("mean_pooled_attentions", "max_pooled_attentions", "mean_pooled_similarities",
                     "max_pooled_similarities"), ("layer", "head", "query_block", "key_block")),
    **dict.fromkeys(("sliced_attentions", "sliced_similarities"), ("layer", "head", "row", "column")),
    "word_attentions": ("layer", "head", "query_word", "key_word"), "word_similarities": ("layer", "head", "query_word", "key_word"),
    "word_tokens": ("query_word", "bound"), "source_word_tokens": ("key_word", "bound"),
    **dict.fromkeys(("rollout", "contributions", "alti", "value_zeroing"), _LAYER_MAP),
    **dict.fromkeys(("head_outputs", "head_output_gradients", "queries"), ("layer", "head", "token", "head_feature")),
    **dict.fromkeys(("keys", "values"), ("layer", "key_value_head", "token", "head_feature")),
    **dict.fromkeys(("input_ids", "token_type_ids", "special_tokens_mask", "sentence_ids", "word_ids", "tokens"), ("token",)),
    "offset_mapping": ("token", "bound"), "hidden_states": _STATES, "hidden_state_gradients": _STATES, "value_norms": ("layer", "head", "token"),
    "source_tokens": ("source",), "patch_map": ("state", "token"),
    "head_attributions": ("layer", "head", "token"), "token_attributions": ("token",),
    "source_token_attributions": ("source",), "relevance": ("query", "key"),
    "contacts": ("residue", "other_residue"),
    "sparse_embedding_ids": ("entry",), "sparse_embedding_weights": ("entry",),
    "logit_attributions_heads": ("layer", "head"), "logit_attributions_feed_forward": ("layer",),
    "changes_hidden": ("state", "token"), "changes_attentions": ("layer", "head"), "changes_similarities": ("layer", "head"),
    "profiles_offsets": ("layer", "head", "offset"), "embedding": ("feature",), "changes_embedding": ("feature",),
}
# Where they differ for cross heads, whose keys are the tokens of another text.
_CROSS_AXES = {"similarities": ("layer", "head", "query", "token"), "sliced_similarities": ("layer", "head", "row", "token_column"),
               **dict.fromkeys(("mean_pooled_similarities", "max_pooled_similarities"), ("layer", "head", "query_block", "token_block")),
               "word_similarities": ("layer", "head", "query_word", "word"),
               "source_tokens": ("key",), "source_token_attributions": ("key",),
               "value_norms": ("layer", "head", "key"),
               **dict.fromkeys(("keys", "values"), ("layer", "key_value_head", "key", "head_feature"))}
_OF_HEADS = ("summary_", "profiles_", "effects_", "head_scores_")


def dataset_of(answer: Analysis) -> xarray.Dataset:
    """Returns the arrays of an answer under their names. layer and head are coordinates with the model's own numbers;
    token, query and key are positions, with the tokens beside them. One number, and the request, are attributes, which
    netCDF can hold: true is 1."""
    import xarray
    arrays = answer.arrays
    n_heads = len(arrays["heads"])
    crossed = _CROSS_AXES if arrays.get("stack") == "cross" else {}
    variables: dict[str, Any] = {}
    attributes: dict[str, Any] = {}
    for name, array in arrays.items():
        if array.ndim == 0:
            attributes[name] = int(array) if array.dtype == bool else array.item()
        elif name not in ("layers", "heads"):
            axes = crossed.get(name) or _axes(name, array)
            if axes[:2] == ("layer", "head") and array.shape[1] != n_heads:  # summed up by the request
                axes, array = (axes[0], *axes[2:]), array[:, 0]
            variables[name] = (axes, array)
    tokens = {"query": np.array(answer.tokens), "key": np.array(answer.source_tokens if crossed else answer.tokens)}
    used = {axis for axes, _ in variables.values() for axis in axes}
    beside = {f"{axis}_token": (axis, texts) for axis, texts in tokens.items() if axis in used}
    offsets = {"offset": np.arange(-8, 9)} if "offset" in used else {}
    return xarray.Dataset(variables, {"layer": arrays["layers"], "head": arrays["heads"], **offsets, **beside}, attributes)


def _axes(name: str, array: np.ndarray) -> tuple[str, ...]:
    """The names of an array's axes; axes that no other array has are named after the array."""
    if name in _AXES:
        return _AXES[name]
    if array.ndim == 2 and name.startswith(_OF_HEADS):
        return ("layer", "head")
    if array.ndim == 1 and name.startswith("pairs_"):
        return ("pair",)
    return tuple(f"{name}_{axis}" for axis in range(array.ndim))
