/* output_structures.h - outputs that are more than an array, each in a file of its own. */
#pragma once

#include "api/outputs.h"

extern const hs__structure hs__structure_pairs, hs__structure_regions, hs__structure_segments,
    hs__structure_summary, hs__structure_changes, hs__structure_predictions, hs__structure_profiles;

/* `[l][h]` lists with what write makes of head l * n_heads + h of the result. */
void hs__json_heads(hs__buffer *buffer, const hs__answer *answer, const void *result,
                    void (*write)(hs__buffer *buffer, const hs__answer *answer, const void *result,
                                  size_t at));
/* The token at a position. */
void hs__json_token(hs__buffer *buffer, const hs__answer *answer, size_t i);
