/* output_maps.h - outputs that are arrays of the pass, as they are or nearly so. These functions are the
 * `part` and `prepare` of rows of api/outputs.h. */
#pragma once

#include "api/outputs.h"

/* [T][T], by the field normalize. */
const float *hs__part_similarities(const hs__answer *answer, size_t l, size_t h, float *into);
/* [T][H] of state l. */
const float *hs__part_hidden_states(const hs__answer *answer, size_t l, size_t h, float *into);

/* Norms of what a head would write into the hidden state, f(x) = v W_O. */
const float *hs__part_value_norms(const hs__answer *answer, size_t l, size_t h, float *into);
const float *hs__part_weighted_norms(const hs__answer *answer, size_t l, size_t h, float *into);

/* The patch map, which the job owns. */
const float *hs__part_patch_map(const hs__answer *answer, size_t l, size_t h, float *into);

/* output_flows.c. */
const float *hs__part_effective_attentions(const hs__answer *answer, size_t l, size_t h, float *into);
hs_status hs__prepare_rollout(hs__answer *answer, hs_error *err);
const float *hs__part_rollout(const hs__answer *answer, size_t l, size_t h, float *into);

/* output_attributions.c. */
hs_status hs__prepare_contributions(hs__answer *answer, hs_error *err);
const float *hs__part_contributions(const hs__answer *answer, size_t l, size_t h, float *into);
const float *hs__part_alti(const hs__answer *answer, size_t l, size_t h, float *into);
const float *hs__part_value_zeroing(const hs__answer *answer, size_t l, size_t h, float *into);
