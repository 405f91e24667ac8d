/* output_structures.h - outputs that are more than an array, each in a file of its own. */
#pragma once

#include "api/outputs.h"

#include <string.h>

extern const hs__structure hs__structure_pairs, hs__structure_regions, hs__structure_segments,
    hs__structure_summary, hs__structure_changes, hs__structure_predictions, hs__structure_profiles,
    hs__structure_effects, hs__structure_head_distances, hs__structure_classes, hs__structure_next_sentence,
    hs__structure_answer, hs__structure_loss, hs__structure_embedding, hs__structure_head_scores;

/* Finds the positions to predict, ascending. The caller owns *ret_positions. */
HS_MUST_USE hs_status hs__positions_choose(const hs__answer *answer, size_t **ret_positions, size_t *ret_n,
                                           hs_error *err);

/* Returns how many positions' logits are held at a time, each read from n_states states; at least 1. */
size_t hs__positions_at_once(const hs__answer *answer, size_t n_states);

extern const hs__own_passes hs__own_effects, hs__own_head_scores, hs__own_patch_map, hs__own_value_zeroing;

/* Returns the taps that the requested head distance needs. */
unsigned hs__head_distances_taps(const hs__analysis_request *analysis);

/* Writes the token at position i. */
static inline void hs__json_token(hs_buffer *buffer, const hs__answer *answer, size_t i)
{
    const char *token = hs__answer_token(answer, i);
    hs__json_string(buffer, token, strlen(token));
}
