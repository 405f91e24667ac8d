/* output_maps.h - outputs that are arrays of the pass, as they are or nearly so. */
#pragma once

#include "api/outputs.h"

const float *hs__part_scores(const hs__answer *answer, size_t l, size_t h, float *into);
const float *hs__part_attentions(const hs__answer *answer, size_t l, size_t h, float *into);
const float *hs__part_similarities(const hs__answer *answer, size_t l, size_t h, float *into);
const float *hs__part_head_outputs(const hs__answer *answer, size_t l, size_t h, float *into);
const float *hs__part_hidden_states(const hs__answer *answer, size_t l, size_t h, float *into);
