/* residual.h - the way from a head's coordinates to the hidden state, for lengths and inner products there.
 *
 * A head writes o W_O of its output o, d numbers, into the hidden state. With G = W_O W_O', [d][d], and a
 * factor of it, G = C C', inner products there are inner products of z = o C, as short as o:
 *
 *     (a W_O) (b W_O)' = a G b' = (a C) (b C)'
 *
 * C is the lower triangle of Cholesky, packed for the kernels' product. Factors are made when first wanted,
 * layer by layer, and kept: 2.4 MB of a BERT-base. Any thread. */
#pragma once

#include "engine/kernels/kernels.h"
#include "model/status.h"

typedef struct hs__residual hs__residual;

HS_MUST_USE hs_status hs__residual_create(const hs_recipe *recipe, const hs__kernels *kernels,
                                          hs__residual **ret_residual, hs_error *err);
void hs__residual_destroy(hs__residual *residual); /* NULL is fine */

/* Those of a layer, unless they are there. */
HS_MUST_USE hs_status hs__residual_make(hs__residual *residual, size_t layer, hs_error *err);
/* After that: C in panels. */
const float *hs__residual_at(const hs__residual *residual, size_t layer, size_t head);
