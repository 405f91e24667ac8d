"""The fields of POST /analyze and the arrays of its answers, for type checkers and editors. openapi.json and
docs/reference/arrays.md describe them; the server checks values."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

import numpy as np

Output = Literal[
    "attentions", "similarities", "mean_pooled_attentions", "max_pooled_attentions", "sliced_attentions", "word_attentions",
    "mean_pooled_similarities", "max_pooled_similarities", "sliced_similarities", "word_similarities",
    "head_outputs", "hidden_states", "attention_gradients", "head_output_gradients", "hidden_state_gradients",
    "queries", "keys", "values", "scores",
    "scores_c2c", "scores_c2p", "scores_p2c", "value_norms", "weighted_norms", "effective_attentions", "rollout",
    "contributions", "alti", "value_zeroing", "pairs", "regions", "segments", "summary", "profiles", "effects",
    "patch_map", "head_attributions", "token_attributions", "relevance", "logit_attributions", "head_scores", "head_distances",
    "contacts", "classes", "next_sentence", "answer", "loss", "embedding", "sparse_embedding",
    "predictions"
]


class AnalyzeFields(TypedDict, total=False):
    """Keyword arguments of Client.analyze."""

    text_pair: str
    prompt_name: str
    words: Sequence[str]
    input_ids: Sequence[int]
    token_type_ids: Sequence[int]
    stack: Literal["encoder", "decoder", "cross"]
    text_target: str
    target_ids: Sequence[int]
    source_language: str
    target_language: str
    model: str
    max_tokens: int
    max_new_tokens: int
    window: int
    stride: int
    split_special_tokens: bool
    sentence_ends: Sequence[str]
    layers: Literal["last", "all"] | Sequence[int]
    heads: Literal["all"] | Sequence[int]
    outputs: Sequence[Output]
    interventions: Sequence[Mapping[str, Any]]
    predictions: Mapping[str, Any]
    pooling: Literal["mean", "cls", "max"]
    truncate_dim: int
    normalize_embeddings: bool
    head_scores: Mapping[str, int]
    target: Mapping[str, Any]
    effects_of: Mapping[str, Any]
    attribution: Literal["gradient_x_input", "gradient", "integrated_gradients"]
    steps: int
    baseline: Literal["mask", "pad", "zero"]
    similarity_space: Literal["head", "residual"]
    center: Literal["none", "text"]
    head_distance: Literal["cka", "js"]
    normalize: Literal["none", "max"]
    threshold: float
    attention_threshold: float
    max_pairs: int
    pool: int
    rows: Sequence[int]
    columns: Sequence[int]
    reduce: Literal["none", "sum", "mean"]
    special_tokens: Literal["keep", "mask"]
    digits: int
    dtype: Literal["f4", "f2", "u1"]


class AnswerArrays:
    """Names what an answer may hold, besides tokens, source_tokens, word_ids and request. An answer lacks what was not requested."""

    model: str
    model_sha256: str
    truncated: bool
    window: int
    windows: int
    window_tokens: np.ndarray
    window_chars: np.ndarray
    stack: str
    prompt: str
    prompt_tokens: int
    pairs_total: int
    input_ids: np.ndarray
    token_type_ids: np.ndarray
    special_tokens_mask: np.ndarray
    generated: np.ndarray
    offset_mapping: np.ndarray
    sentence_ids: np.ndarray
    layers: np.ndarray
    heads: np.ndarray
    attentions: np.ndarray
    similarities: np.ndarray
    mean_pooled_attentions: np.ndarray
    max_pooled_attentions: np.ndarray
    sliced_attentions: np.ndarray
    word_attentions: np.ndarray
    mean_pooled_similarities: np.ndarray
    max_pooled_similarities: np.ndarray
    sliced_similarities: np.ndarray
    word_similarities: np.ndarray
    word_tokens: np.ndarray
    source_word_tokens: np.ndarray
    head_outputs: np.ndarray
    hidden_states: np.ndarray
    attention_gradients: np.ndarray
    head_output_gradients: np.ndarray
    hidden_state_gradients: np.ndarray
    queries: np.ndarray
    keys: np.ndarray
    values: np.ndarray
    scores: np.ndarray
    scores_c2c: np.ndarray
    scores_c2p: np.ndarray
    scores_p2c: np.ndarray
    value_norms: np.ndarray
    weighted_norms: np.ndarray
    effective_attentions: np.ndarray
    rollout: np.ndarray
    contributions: np.ndarray
    alti: np.ndarray
    value_zeroing: np.ndarray
    pairs_layer: np.ndarray
    pairs_head: np.ndarray
    pairs_i: np.ndarray
    pairs_j: np.ndarray
    pairs_similarity: np.ndarray
    pairs_normalized: np.ndarray
    pairs_distance: np.ndarray
    pairs_same_token: np.ndarray
    pairs_same_sentence: np.ndarray
    regions_high_attention: np.ndarray
    regions_high_attention_offsets: np.ndarray
    regions_runs: np.ndarray
    regions_runs_offsets: np.ndarray
    regions_means: np.ndarray
    regions_means_offsets: np.ndarray
    segments_layer: np.ndarray
    segments_tokens: np.ndarray
    segments_chars: np.ndarray
    segments_pair_chars: np.ndarray
    segments_cohesion: np.ndarray
    segments_contrast: np.ndarray
    summary_max_similarity: np.ndarray
    summary_repeated_share: np.ndarray
    summary_same_sentence_share: np.ndarray
    summary_repeated_same_sentence_share: np.ndarray
    summary_mean_distance: np.ndarray
    summary_focal_share: np.ndarray
    summary_attention_entropy: np.ndarray
    summary_separator_attention: np.ndarray
    summary_snr_dprime: np.ndarray
    summary_longest_overlap: np.ndarray
    summary_participation_ratio: np.ndarray
    summary_high_pairs: np.ndarray
    summary_focal_position: np.ndarray
    profiles_self: np.ndarray
    profiles_previous: np.ndarray
    profiles_next: np.ndarray
    profiles_first: np.ndarray
    profiles_separator: np.ndarray
    profiles_punctuation: np.ndarray
    profiles_same_token: np.ndarray
    profiles_same_sentence: np.ndarray
    profiles_entropy: np.ndarray
    profiles_entropy_first: np.ndarray
    profiles_confidence: np.ndarray
    profiles_mean_distance: np.ndarray
    profiles_offsets: np.ndarray
    profiles_label: np.ndarray
    effects_hidden_change: np.ndarray
    effects_similarity_change: np.ndarray
    effects_prediction_kl: np.ndarray
    effects_logprob_change: np.ndarray
    effects_target_change: np.ndarray
    effects_class_kl: np.ndarray
    effects_recovered: np.ndarray
    patch_map: np.ndarray
    head_attributions: np.ndarray
    token_attributions: np.ndarray
    source_token_attributions: np.ndarray
    relevance: np.ndarray
    logit_attributions_value: float
    logit_attributions_heads: np.ndarray
    logit_attributions_feed_forward: np.ndarray
    logit_attributions_embedding: float
    logit_attributions_bias: float
    logit_attributions_other: float
    logit_attributions_sum: float
    logit_attributions_rest: float
    head_scores_previous: np.ndarray
    head_scores_duplicate: np.ndarray
    head_scores_induction: np.ndarray
    head_distances: np.ndarray
    contacts: np.ndarray
    class_logits: np.ndarray
    class_probabilities: np.ndarray
    next_sentence_logits: np.ndarray
    start_logits: np.ndarray
    end_logits: np.ndarray
    answer_tokens: np.ndarray
    answer_chars: np.ndarray
    answer_probabilities: np.ndarray
    loss_mean: float
    loss: np.ndarray
    target_kind: int
    target_class: int
    target_token: int
    target_position: int
    target_value: float
    target_estimated: bool
    target_baseline: float
    target_completeness_gap: float
    target_source_baseline: float
    target_source_completeness_gap: float
    changes_target: np.ndarray
    changes_class_logits: np.ndarray
    changes_class_probabilities: np.ndarray
    changes_next_sentence_logits: np.ndarray
    changes_start_logits: np.ndarray
    changes_end_logits: np.ndarray
    changes_answer_tokens: np.ndarray
    changes_answer_chars: np.ndarray
    changes_answer_probabilities: np.ndarray
    embedding: np.ndarray
    sparse_embedding_ids: np.ndarray
    sparse_embedding_weights: np.ndarray
    changes_embedding: np.ndarray
    changes_loss_mean: float
    changes_loss: np.ndarray
    changes_hidden: np.ndarray
    changes_attentions: np.ndarray
    changes_similarities: np.ndarray
    predictions_position: np.ndarray
    predictions_probability: np.ndarray
    predictions_rank: np.ndarray
    predictions_entropy: np.ndarray
    predictions_top_ids: np.ndarray
    predictions_top_probability: np.ndarray
    predictions_layers_probability: np.ndarray
    predictions_layers_rank: np.ndarray
    predictions_layers_entropy: np.ndarray
    predictions_layers_top_ids: np.ndarray
    predictions_layers_top_probability: np.ndarray
    changes_predictions_position: np.ndarray
    changes_predictions_probability: np.ndarray
    changes_predictions_rank: np.ndarray
    changes_predictions_entropy: np.ndarray
    changes_predictions_top_ids: np.ndarray
    changes_predictions_top_probability: np.ndarray
    changes_predictions_layers_probability: np.ndarray
    changes_predictions_layers_rank: np.ndarray
    changes_predictions_layers_entropy: np.ndarray
    changes_predictions_layers_top_ids: np.ndarray
    changes_predictions_layers_top_probability: np.ndarray
