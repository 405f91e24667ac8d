/* contributions.h - how much each token contributes to each token in the attention block of a layer (ALTI,
 * Ferrando et al. 2022, arXiv 2203.04212).
 *
 * x is the input of the block, and y_i its output, residual and norm included. F[i][j] = sum over heads of
 * A[i][j] v_j W_O, plus x_i where i = j:
 *
 *     T[i][j] = F[i][j] through the norm's weights, its mean and deviation those of row i
 *     C[i][j] = max(0, |y_i| - |y_i - T[i][j]|), 1-norms, divided by the row's sum
 *
 * Models with norms before their blocks have none here: T is F. Biases belong to no token. */
#pragma once

#include "engine/capture.h"

/* Taps that the capture must keep, of all layers and heads of a pass without interventions. */
#define HS_CONTRIBUTIONS_TAPS                                                                                \
    (HS_KEEP(ATTENTION) | HS_KEEP(VALUE) | HS_KEEP(HEAD_OUTPUT) | HS_KEEP(EVERY_STATE))

/* Computes C of a layer: ret [T][T]. A row is NAN if no token contributes. Fails with HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_contributions_compute(const hs_architecture *architecture, const hs_capture *capture,
                                               size_t layer, float *ret_contributions, hs_error *err);
