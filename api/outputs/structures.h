/* structures.h - outputs that are more than an array or run passes of their own: inside of api/outputs. */
#pragma once

#include "api/outputs/outputs.h"

#include <string.h>

extern const hs__structure hs__structure_pairs, hs__structure_regions, hs__structure_segments,
    hs__structure_summary, hs__structure_changes, hs__structure_predictions, hs__structure_profiles,
    hs__structure_effects, hs__structure_head_distances, hs__structure_classes, hs__structure_next_sentence,
    hs__structure_answer, hs__structure_loss, hs__structure_embedding, hs__structure_head_scores;

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

/* Writes the token at position i. */
static inline void hs__json_token(hs_buffer *buffer, const hs__answer *answer, size_t i)
{
    const char *token = hs__answer_token(answer, i);
    hs__json_string(buffer, token, strlen(token));
}

/* ---- figures of heads ---- */

/* Figures of each requested head, one table for JSON and arrays. */

/* A float of a head's struct. */
typedef struct hs__head_figure {
    const char *name, *array;                      /* in JSON, and as an array */
    size_t offset;                                 /* in the struct */
    bool (*is_answered)(const hs__answer *answer); /* NULL: always */
} hs__head_figure;

/* A row for a member of a head's struct: `name` in JSON, `output`_`name` as an array. */
#define HS__HEAD_FIGURE(output, type, name, is_answered)                                                     \
    {                                                                                                        \
#name, output "_" #name, offsetof(type, name), is_answered                                           \
    }

/* Writes `"name":number` for each of n figures of a head, with commas between. */
void hs__head_figures_write(hs_buffer *buffer, const hs__answer *answer, const hs__head_figure *figures,
                            size_t n, const void *head);

/* Adds an array [layers][heads] for each of n figures. heads holds structs of `size` bytes. */
void hs__head_figures_add(hs_arrays *arrays, const hs__answer *answer, const hs__head_figure *figures,
                          size_t n, const void *heads, size_t size);
