"""The fields of POST /analyze, for type checkers and editors. openapi.json describes them; the server checks values."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

Output = Literal[
    "attentions", "similarities", "head_outputs", "hidden_states", "queries", "keys", "values", "scores",
    "scores_c2c", "scores_c2p", "scores_p2c", "value_norms", "weighted_norms", "effective_attentions", "rollout",
    "contributions", "alti", "value_zeroing", "pairs", "regions", "segments", "summary", "profiles", "effects",
    "patch_map", "head_scores", "head_distances", "classes", "next_sentence", "answer", "loss", "embedding",
    "predictions"
]


class AnalyzeFields(TypedDict, total=False):
    """Keyword arguments of Client.analyze."""

    text_pair: str
    prompt_name: str
    words: Sequence[str]
    input_ids: Sequence[int]
    token_type_ids: Sequence[int]
    model: str
    max_tokens: int
    split_special_tokens: bool
    sentence_ends: Sequence[str]
    layers: Literal["last", "all"] | Sequence[int]
    heads: Literal["all"] | Sequence[int]
    outputs: Sequence[Output]
    interventions: Sequence[Mapping[str, Any]]
    predictions: Mapping[str, Any]
    pooling: Literal["mean", "cls", "max"]
    head_scores: Mapping[str, int]
    target: Mapping[str, Any]
    effects_of: Mapping[str, Any]
    similarity_space: Literal["head", "residual"]
    center: Literal["none", "text"]
    head_distance: Literal["cka", "js"]
    normalize: Literal["none", "max"]
    threshold: float
    attention_threshold: float
    max_pairs: int
    reduce: Literal["none", "sum", "mean"]
    special_tokens: Literal["keep", "mask"]
    digits: int
    dtype: Literal["f4", "f2", "u1"]
