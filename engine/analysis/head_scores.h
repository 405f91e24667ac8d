/* head_scores.h - scores of heads on random sequences of tokens that are repeated once (Olsson et al. 2022,
 * arXiv 2209.11895).
 *
 *     text       = before r r after, with r [length] different ids drawn at random
 *     previous   = mean over i > 0 of A[i, i - 1]
 *     duplicate  = mean over the tokens i of the second r of A[i, i - length]: the same token
 *     induction  = the same mean of A[i, i - length + 1]: the token after the same token
 *
 * The scores are means over texts. A head that attends evenly to n tokens has 1 / n. */
#pragma once

#include "engine/engine.h"

typedef struct hs_head_score {
    float previous, duplicate, induction;
} hs_head_score;

typedef struct hs_head_scores_options {
    const int32_t *before, *after; /* special tokens around the text */
    size_t n_before, n_after;
    const int32_t *choices; /* ids to draw from, unique */
    size_t n_choices;       /* at least length */
    size_t length;          /* of r, at least 2; the whole text fits the model and the workspace */
    size_t n_texts;         /* at least 1 */
    uint64_t seed;          /* the first texts do not depend on n_texts */
    const hs_intervention *interventions;
    size_t n_interventions;
    const uint16_t *layers, *heads; /* ascending, 0-based, unique */
    size_t n_layers, n_heads;
} hs_head_scores_options;

/* Returns the bytes that a call allocates beside the workspace. */
size_t hs_head_scores_bytes(const hs_engine *engine, const hs_head_scores_options *options, size_t n_threads);

/* Computes the scores, ret_scores [n_layers][n_heads]. Fails with HS_NO_MEMORY, and with HS_CANCELLED soon
 * after control says so. */
HS_MUST_USE hs_status hs_head_scores_compute(const hs_engine *engine, hs_workspace *ws,
                                             const hs_head_scores_options *options,
                                             const hs_run_control *control, hs_head_score *ret_scores,
                                             hs_error *err);
