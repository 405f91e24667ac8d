/* output_structures.h - outputs that are more than an array, each in a file of its own. */
#pragma once

#include "api/outputs.h"

extern const hs__structure hs__structure_pairs, hs__structure_regions, hs__structure_segments,
    hs__structure_summary, hs__structure_changes, hs__structure_predictions, hs__structure_profiles,
    hs__structure_effects, hs__structure_head_distances;

/* Where the request wants predictions: positions of the text, ascending; owned by the caller. Those listed
 * are known to be of the text. */
HS_MUST_USE hs_status hs__positions_choose(const hs__answer *answer, size_t **ret_positions, size_t *ret_n,
                                           hs_error *err);

/* The predictions of the pass without interventions: a result of hs__structure_predictions, also on failure,
 * when it may be NULL, which that structure's destroy takes as well. Its arrays are named
 * changes_predictions_*. */
HS_MUST_USE hs_status hs__baseline_predict(const hs__answer *answer, void **ret_predictions, hs_error *err);

/* Effects are passes, so they are computed before the answer: of the layers and heads asked for, beside the
 * answer's capture. ret [n_layers][n_heads]. */
HS_MUST_USE hs_status hs__effects_run(const hs__answer *answer, hs_workspace *ws,
                                      const hs_run_control *control, hs_effect *ret_effects, hs_error *err);
/* What that takes, at most; the capture is not looked at. */
size_t hs__effects_bytes(const hs__answer *answer);

/* Of head_distances: what the distance asked for looks at. */
unsigned hs__head_distances_taps(const hs__analysis_request *wanted);

/* `[l][h]` lists with what write makes of head l * n_heads + h of the result. */
void hs__json_heads(hs__buffer *buffer, const hs__answer *answer, const void *result,
                    void (*write)(hs__buffer *buffer, const hs__answer *answer, const void *result,
                                  size_t at));
/* The token at a position. */
void hs__json_token(hs__buffer *buffer, const hs__answer *answer, size_t i);
