/* output_structures.h - outputs that are more than an array, each in a file of its own. */
#pragma once

#include "api/outputs.h"

extern const hs__structure hs__structure_pairs, hs__structure_regions, hs__structure_segments,
    hs__structure_summary, hs__structure_changes, hs__structure_predictions, hs__structure_profiles,
    hs__structure_effects, hs__structure_head_distances, hs__structure_classes, hs__structure_next_sentence,
    hs__structure_answer, hs__structure_loss, hs__structure_embedding, hs__structure_head_scores;

/* Finds the positions to predict, ascending. The caller owns *ret_positions. */
HS_MUST_USE hs_status hs__positions_choose(const hs__answer *answer, size_t **ret_positions, size_t *ret_n,
                                           hs_error *err);

/* Returns how many positions' logits are held at a time, each read from n_states states; at least 1. */
size_t hs__positions_at_once(const hs__answer *answer, size_t n_states);

/* Computes the predictions of the baseline pass: a result of hs__structure_predictions, which its destroy
 * releases. On failure the result may be partial or NULL; release it too. Its arrays are named
 * changes_predictions_*. */
HS_MUST_USE hs_status hs__baseline_predict(const hs__answer *answer, void **ret_predictions, hs_error *err);

/* Computes the effects of the requested heads by passes of their own, before the answer's other outputs.
 * ret_effects is [n_layers][n_heads]. */
HS_MUST_USE hs_status hs__effects_run(const hs__answer *answer, hs_workspace *ws,
                                      const hs_run_control *control, hs_effect *ret_effects, hs_error *err);
/* Returns an upper bound of the memory that hs__effects_run takes. Does not read the capture. */
size_t hs__effects_bytes(const hs__answer *answer);

/* Computes the patch map in the same way; ret_map is [L + 1][T]. */
HS_MUST_USE hs_status hs__patch_map_run(const hs__answer *answer, hs_workspace *ws,
                                        const hs_run_control *control, float *ret_map, hs_error *err);
size_t hs__patch_map_bytes(const hs__answer *answer);

/* Computes value zeroing in the same way; ret_maps is [n_layers][T][T]. */
HS_MUST_USE hs_status hs__value_zeroing_run(const hs__answer *answer, hs_workspace *ws,
                                            const hs_run_control *control, float *ret_maps, hs_error *err);
size_t hs__value_zeroing_bytes(const hs__answer *answer);

/* Computes the scores of the requested heads in the same way; ret_scores is [n_layers][n_heads]. */
HS_MUST_USE hs_status hs__head_scores_run(const hs__answer *answer, hs_workspace *ws,
                                          const hs_run_control *control, hs_head_score *ret_scores,
                                          hs_error *err);
size_t hs__head_scores_bytes(const hs__answer *answer);
/* Returns the largest length of the sequences that the model can read repeated. */
size_t hs__head_scores_length_max(const hs__served_model *model);

/* Computes a structure of the baseline pass; the structure's destroy releases it, also after a failure. */
HS_MUST_USE hs_status hs__baseline_compute(const hs__answer *answer, const hs__structure *structure,
                                           void **ret_result, hs_error *err);

/* Returns the taps that the requested head distance needs. */
unsigned hs__head_distances_taps(const hs__analysis_request *analysis);

/* Writes `[l][h]` lists; write appends the element of head l * n_heads + h. */
void hs__json_heads(hs__buffer *buffer, const hs__answer *answer, const void *result,
                    void (*write)(hs__buffer *buffer, const hs__answer *answer, const void *result,
                                  size_t at));
/* Writes the token at position i. */
void hs__json_token(hs__buffer *buffer, const hs__answer *answer, size_t i);
