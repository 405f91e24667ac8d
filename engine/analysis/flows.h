/* flows.h - how much tokens pass on to tokens: effective attention (Brunner et al. 2020, arXiv 1908.04211),
 * attention rollout (Abnar and Zuidema 2020, arXiv 2005.00928), contributions and value zeroing.
 *
 * Maps are row-major float [T][T], or of cross heads [T][K] (engine/plan.h). Contributions and value zeroing
 * allocate; the other functions do not. */
#pragma once

#include "engine/engine.h"
#include "engine/plan.h"

#include <stddef.h>

/* Returns the bytes of scratch that hs_effective_attention needs, for both counts at most n_tokens. */
size_t hs_effective_attention_bytes(size_t n_tokens, size_t head_width);

/* Computes A Q Q' with Q an orthonormal basis of the columns of V: the part of A that A V, and so O O',
 * depends on. Columns of V count if they are independent of the others by more than 1e-6 of the longest
 * one. If V has as many such columns as there are keys, the result is A. Rows need not sum to 1. attention is
 * [n_tokens][n_keys], values is [n_keys][d]. */
void hs_effective_attention(const float *attention, const float *values, size_t n_tokens, size_t n_keys,
                            size_t head_width, void *scratch, float *ret_attention);

/* Adds head h's map of n numbers to the mean of n_heads, in the order of heads; the last one divides it. */
void hs_attention_mean_add(const float *attention, size_t h, size_t n_heads, size_t n, float *mean);

/* Computes the mean of n_heads maps of n numbers that lie one after another. */
void hs_attention_mean(const float *attentions, size_t n_heads, size_t n, float *ret_mean);

/* Returns the floats of scratch that hs_flow_step needs. */
size_t hs_flow_scratch_floats(size_t n_tokens);

/* Computes map times the result of the layers below, which is I for the first layer (NULL), on n_threads
 * threads. ret_after is none of the other arrays. */
void hs_flow_step(hs_runtime *runtime, size_t n_threads, const float *map, const float *before,
                  size_t n_tokens, float *scratch, float *ret_after);

/* Replaces the mean of a layer's maps by its factor in attention rollout, (mean + I) / 2. */
void hs_rollout_weights(float *mean, size_t n_tokens);

/* ---- rollout through a decoder. Each layer mixes the states of the target with M, the mean of its own
 * heads' maps, and then with C, that of its cross heads'. E[l][i][j] is the weight of the j-th of the
 * memory's states in the i-th state after layer l:
 *
 *     E[l] = ((M + I) / 2 E[l - 1] + C) / 2, E[-1] = 0
 *
 * A row sums to less than 1: the rest is the weight of the target's own embeddings. */

/* Returns the bytes that a call allocates for a text of n_tokens tokens and a memory of n_keys. */
size_t hs_cross_rollout_bytes(const hs_shape *shape, size_t n_tokens, size_t n_keys);

/* Computes E of the listed layers: ret [n_layers][T][K]. text->capture keeps ATTENTION of all cross heads; a
 * pass computes the maps of the other ones. Fails with HS_NO_MEMORY, and as hs_engine_run. */
HS_MUST_USE hs_status hs_cross_rollout_compute(const hs_engine *engine, hs_workspace *ws,
                                               const hs_sequence *text, const uint16_t *layers,
                                               size_t n_layers, const hs_run_control *control, float *ret,
                                               hs_error *err);

/* ---- how much each token contributes to each token in the attention block of a layer (ALTI,
 * Ferrando et al. 2022, arXiv 2203.04212).
 *
 * x is the input of the block, and y_i its output, residual and norm included. F[i][j] = sum over heads of
 * A[i][j] v_j W_O, plus x_i where i = j:
 *
 *     T[i][j] = F[i][j] through the norm's weights, its mean and deviation those of row i
 *     C[i][j] = max(0, |y_i| - |y_i - T[i][j]|), 1-norms, divided by the row's sum
 *
 * Models with norms before their blocks have none here: T is F. Biases belong to no token.
 *
 * In the block of a decoder's cross heads, x_i belongs to no key j. It contributes as a term of its own,
 * which counts in the row's sum and has no column (Ferrando et al. 2022, arXiv 2205.11631). */

/* Taps that the capture must keep, of all layers and heads of a pass without interventions; of cross heads
 * CROSS_STATE, too. */
#define HS_CONTRIBUTIONS_TAPS                                                                                \
    (HS_KEEP(ATTENTION) | HS_KEEP(VALUE) | HS_KEEP(HEAD_OUTPUT) | HS_KEEP(EVERY_STATE))

/* Computes C of the capture's l-th layer on n_threads threads: ret [T][K]. A row is NAN if no token
 * contributes. A capture that keeps QUERY and KEY in place of ATTENTION gives the same bits: maps are
 * computed again, some columns of all heads at a time. Cross heads need ATTENTION. Fails with HS_NO_MEMORY.
 */
HS_MUST_USE hs_status hs_contributions_compute(const hs_engine *engine, size_t n_threads,
                                               const hs_capture *capture, size_t l, float *ret_contributions,
                                               hs_error *err);

/* Returns the bytes of the parts of maps that a call computes again. */
size_t hs_contributions_again_bytes(const hs_shape *shape, size_t n_tokens, size_t n_threads);

/* ---- value zeroing (Mohebbi et al. 2023, arXiv 2301.12971): how much the state of each token
 * after a layer changes if another token's value is 0 in all heads of the layer.
 *
 *     Z[i][j] = 1 - cos(y_i, y_i without v_j), divided by the row's sum
 *
 * W_O is linear: without v_j, the heads write O W_O' + b less the sum over heads of A[:,j] (v_j W_O'). A
 * variant starts there, so a layer costs the feed-forward products of T layers. Variants share passes, as
 * many as the workspace holds. */

/* Taps that the capture must keep, of all layers and heads of a pass without interventions; of cross heads
 * CROSS_STATE, too. */
#define HS_VALUE_ZEROING_TAPS                                                                                \
    (HS_KEEP(ATTENTION) | HS_KEEP(VALUE) | HS_KEEP(HEAD_OUTPUT) | HS_KEEP(EVERY_STATE))

/* Returns the bytes that a call allocates beside the workspace, for a text of n_tokens tokens whose heads
 * read n_keys. */
size_t hs_value_zeroing_bytes(const hs_engine *engine, size_t n_tokens, size_t n_keys);

/* Computes Z of each listed layer: ret [n_layers][T][K]. text->capture is filled; text->start is not read. A
 * row is NAN if nothing changes it. Fails with HS_NO_MEMORY, and with HS_CANCELLED soon after control says
 * so.
 */
HS_MUST_USE hs_status hs_value_zeroing_compute(const hs_engine *engine, hs_workspace *ws,
                                               const hs_sequence *text, const uint16_t *layers,
                                               size_t n_layers, const hs_run_control *control, float *ret,
                                               hs_error *err);
