/* structures.h - outputs that are more than an array or run passes of their own: inside of api/outputs. */
#pragma once

#include "api/outputs/outputs.h"
#include "engine/analysis/attribution.h"

/* The rows of the table, each beside what makes the output. */
#define HS__DECLARE_ROW(name) extern const hs__output hs__output_row_##name;
HS__OUTPUT_NAMES(HS__DECLARE_ROW)
#undef HS__DECLARE_ROW

/* Reasons of refusals. */
#define HS__TWO_TEXTS "the rows of their maps are tokens of the target, and the columns tokens of the text"
#define HS__CUT_AT    "they are cut at tokens of the text, and similarity is between tokens of the target"

/* Those that `changes` has of the baseline, too. */
extern const hs__table hs__table_of_predictions, hs__table_of_classes, hs__table_of_next_sentence,
    hs__table_of_answer, hs__table_of_loss, hs__table_of_embedding;

/* Finds the positions to predict, ascending. The caller owns *ret_positions. */
HS_MUST_USE hs_status hs__positions_choose(const hs__answer *answer, size_t **ret_positions, size_t *ret_n,
                                           hs_error *err);

/* Returns how many positions' logits are held at a time, each read from n_states states; at least 1. */
size_t hs__positions_at_once(const hs__answer *answer, size_t n_states);

extern const hs__own_passes hs__own_effects, hs__own_head_scores, hs__own_patch_map, hs__own_value_zeroing,
    hs__own_cross_rollout, hs__own_gradients;

/* The result of logit_attributions: arrays of the requested layers and heads, and the sums. */
typedef struct hs__logit_attributions {
    float *heads;        /* [l][h] */
    float *feed_forward; /* [l] */
    hs_logit_attribution sums;
} hs__logit_attributions;

/* Returns row l of the estimated patch map. */
const float *hs__estimated_patch_map(const hs__answer *answer, size_t l);

/* The states that enter the requested heads are those of layers, or within a decoder's layers. */
static inline unsigned hs__input_taps(const hs__analysis_request *analysis)
{
    return analysis->stack == HS_STACK_CROSS ? HS_KEEP(EVERY_STATE) | HS_KEEP(CROSS_STATE)
                                             : HS_KEEP(EVERY_STATE);
}

/* Returns true if the request has a target: a named one, or a class. */
static inline bool hs__has_target(const hs__analysis_request *analysis)
{
    return hs__target_exists(analysis, hs__target_model(analysis)->architecture);
}
