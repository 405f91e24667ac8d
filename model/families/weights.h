/* weights.h - binds tensors by name to the weights of an architecture. */
#pragma once

#include "model/families/family.h"

/* Fills in the architecture's weights. The tensors point into the shards. Fails with HS_BAD_MODEL if a tensor
 * is missing, has another shape or an unsupported dtype, or holds a NaN or an infinity. */
HS_MUST_USE hs_status hs__weights_bind(const hs__shards *shards, const hs__family *family,
                                       hs_architecture *architecture, hs_error *err);

/* Binds <module>.weight [n_out][n_in] and, with has_bias, <module>.bias. Fails like hs__weights_bind. */
HS_MUST_USE hs_status hs__dense_bind(const hs__shards *shards, const char *module, size_t n_out, size_t n_in,
                                     bool has_bias, hs_dense *ret_dense, hs_error *err);
