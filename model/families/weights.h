/* weights.h - names of tensors -> weights. */
#pragma once

#include "model/families/config.h"
#include "model/files/shards.h"

/* Fills ret_weights and layers[shape->n_layers] with tensors that point into the shards, each of the shape
 * that the config promises. */
HS_MUST_USE hs_status hs__weights_bind(const hs__shards *shards, hs__family family, const hs_shape *shape,
                                       hs_layer *layers, hs_weights *ret_weights, hs_error *err);
