/* value_zeroing.h - value zeroing (Mohebbi et al. 2023, arXiv 2301.12971): how much the state of each token
 * after a layer changes if another token's value is 0 in all heads of the layer.
 *
 *     Z[i][j] = 1 - cos(y_i, y_i without v_j), divided by the row's sum
 *
 * A variant starts behind the heads of the layer with O - A[:,j] v_j, so a layer costs the products of T
 * layers and no attention. Variants share passes, as many as the workspace holds. */
#pragma once

#include "engine/engine.h"

/* Taps that the capture must keep, of all layers and heads of a pass without interventions. */
#define HS_VALUE_ZEROING_TAPS                                                                                \
    (HS_KEEP(ATTENTION) | HS_KEEP(VALUE) | HS_KEEP(HEAD_OUTPUT) | HS_KEEP(EVERY_STATE))

/* Returns the bytes that a call allocates beside the workspace, for a text of n_tokens tokens. */
size_t hs_value_zeroing_bytes(const hs_engine *engine, size_t n_tokens);

/* Computes Z of each listed layer: ret [n_layers][T][T]. text->capture is filled; text->start is not read. A
 * row is NAN if nothing changes it. Fails with HS_NO_MEMORY, and with HS_CANCELLED soon after control says
 * so.
 */
HS_MUST_USE hs_status hs_value_zeroing_compute(const hs_engine *engine, hs_workspace *ws,
                                               const hs_sequence *text, const uint16_t *layers,
                                               size_t n_layers, const hs_run_control *control, float *ret,
                                               hs_error *err);
