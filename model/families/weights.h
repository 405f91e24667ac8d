/* weights.h - names of tensors -> weights. */
#pragma once

#include "model/families/family.h"

/* Fills in the recipe's weights with tensors that point into the shards, each of the shape that the recipe
 * promises and without a NaN or an infinity. */
HS_MUST_USE hs_status hs__weights_bind(const hs__shards *shards, const hs__family *family, hs_recipe *recipe,
                                       hs_error *err);
