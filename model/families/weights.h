/* weights.h - names of tensors -> weights. */
#pragma once

#include "model/families/config.h"
#include "model/files/shards.h"

/* Fills layers[n_layers] and the recipe's weights with tensors that point into the shards, each of the shape
 * that the recipe promises. */
HS_MUST_USE hs_status hs__weights_bind(const hs__shards *shards, hs__family family, hs_layer *layers,
                                       hs_recipe *recipe, hs_error *err);
