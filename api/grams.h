/* grams.h - a model's Gram matrices G = W_O W_O' of its heads, [d][d] each: made when first wanted, layer by
 * layer, and kept: 2.4 MB of a BERT-base. Any thread. */
#pragma once

#include "model/model.h"

typedef struct hs__grams hs__grams;

HS_MUST_USE hs_status hs__grams_create(const hs_recipe *recipe, hs__grams **ret_grams, hs_error *err);
void hs__grams_destroy(hs__grams *grams); /* NULL is fine */

/* Those of a layer, unless they are there. */
HS_MUST_USE hs_status hs__grams_make(hs__grams *grams, size_t layer, hs_error *err);
/* After that. */
const float *hs__grams_at(hs__grams *grams, size_t layer, size_t head);
