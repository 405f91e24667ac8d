/* residual.h - factors of output weights, for lengths and inner products of heads' outputs in the hidden
 * state.
 *
 * A head writes o W_O into the hidden state, with o its output of d numbers. With G = W_O W_O' [d][d] and
 * G = C C', inner products there are inner products of z = o C, which is as short as o:
 *
 *     (a W_O) (b W_O)' = a G b' = (a C) (b C)'
 *
 * C is the lower Cholesky factor, packed for the kernels' product. Factors are computed layer by layer
 * for the plans that need them, and kept: 2.4 MB for BERT-base. Any thread may call these functions. */
#pragma once

#include "engine/kernels/kernels.h"
#include "model/status.h"

#include <stdbool.h>

typedef struct hs__residual hs__residual;

/* Creates factors of an architecture, which must outlive them; none is computed yet. Fails with HS_NO_MEMORY.
 * The caller destroys *ret_residual. */
HS_MUST_USE hs_status hs__residual_create(const hs_architecture *architecture, const hs__kernels *kernels,
                                          hs__residual **ret_residual, hs_error *err);
void hs__residual_destroy(hs__residual *residual); /* NULL is fine */

/* Computes the factors of a layer unless they are there. Allocates, and waits for a thread that computes
 * some. Fails with HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__residual_make(hs__residual *residual, size_t layer, hs_error *err);
/* Returns true once hs__residual_make has succeeded for the layer. */
bool hs__residual_is_made(const hs__residual *residual, size_t layer);
/* Returns C of a head in panels. hs__residual_make must have succeeded for the layer. */
const float *hs__residual_at(const hs__residual *residual, size_t layer, size_t head);
