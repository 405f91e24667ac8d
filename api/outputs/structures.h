/* structures.h - outputs that are more than an array or run passes of their own: inside of api/outputs. */
#pragma once

#include "api/outputs/outputs.h"

extern const hs__structure hs__structure_pairs, hs__structure_regions, hs__structure_segments,
    hs__structure_summary, hs__structure_changes, hs__structure_predictions, hs__structure_profiles,
    hs__structure_effects, hs__structure_head_distances, hs__structure_classes, hs__structure_next_sentence,
    hs__structure_answer, hs__structure_loss, hs__structure_embedding, hs__structure_head_scores;

/* Those that `changes` has of the baseline, too. */
extern const hs__table hs__table_of_predictions, hs__table_of_classes, hs__table_of_next_sentence,
    hs__table_of_answer, hs__table_of_loss, hs__table_of_embedding;

/* The makers of arrays of reduced maps. */
extern const hs__structure hs__structure_mean_pooled_attentions, hs__structure_max_pooled_attentions,
    hs__structure_sliced_attentions, hs__structure_mean_pooled_similarities,
    hs__structure_max_pooled_similarities, hs__structure_sliced_similarities;

/* Finds the positions to predict, ascending. The caller owns *ret_positions. */
HS_MUST_USE hs_status hs__positions_choose(const hs__answer *answer, size_t **ret_positions, size_t *ret_n,
                                           hs_error *err);

extern const hs__own_passes hs__own_effects, hs__own_head_scores, hs__own_patch_map, hs__own_value_zeroing,
    hs__own_cross_rollout;

/* The again_bytes of outputs. */
size_t hs__effects_again_bytes(const hs__measures *measures);
size_t hs__changes_again_bytes(const hs__measures *measures);
size_t hs__segments_again_bytes(const hs__measures *measures);
size_t hs__distances_again_bytes(const hs__measures *measures);

/* Returns true if the request has a target: a named one, or a class. */
static inline bool hs__has_target(const hs__analysis_request *analysis)
{
    return hs__target_exists(analysis, hs__target_model(analysis)->architecture);
}
