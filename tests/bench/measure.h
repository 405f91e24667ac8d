/* measure.h - the machine's peak, the operations of a pass, and its matrix products alone.
 *
 *     floor = hs_measure_flops(architecture, T) / hs_measure_peak(runtime, n_threads, seconds)
 *
 * No fp32 pass of T tokens can take less time than the floor. All measurements run on the calling thread and
 * the helpers that a pass would have (engine/pass/team.h), so they share cores as a pass does. */
#pragma once

#include "engine/engine.h"

/* Returns the floating-point operations a second (a fused multiply-add is two) of n_threads threads on
 * registers, with the widest instructions that the kernels use. Takes about `seconds`. */
double hs_measure_peak(hs_runtime *runtime, size_t n_threads, double seconds);

/* Returns the operations that the complete analysis of T tokens needs at least, all layers and heads:
 *
 *     query, key, value         L     * 6 T H^2
 *     Q K' and A V              L     * 4 T^2 H              with a window: only pairs of tokens within it;
 *                                                          causal: only keys up to the query
 *     S = O O', one half        L     * T (T - 1) H
 *     output, feed-forward      (L-1) * (2 T H^2 + 4 T H F)  with a gate: 6 T H F
 *
 * If all heads together are not as wide as the hidden state, or share keys and values, their widths count.
 * The last layer's output and feed-forward change no head. Softmax, activations, norms, rotations and
 * thresholds are not counted. */
double hs_measure_flops(const hs_architecture *architecture, size_t n_tokens);

/* Returns the operations that a decoder's complete analysis of T tokens needs at least, with the states of a
 * text of U tokens that its encoder reads first. The encoder's layers are all computed to their end and have
 * no S. A layer of the decoder has S of its own heads, or with `cross` of its cross heads:
 *
 *     its own heads     6 T H^2 + 2 T (T + 1) H         without S; causal
 *     output, cross     4 T H^2 + 4 U H^2 + 4 T U H     not in the last layer, unless `cross`
 *     output, feed-forward   2 T H^2 + 4 T H F          not in the last layer
 *     S                 T (T - 1) H */
double hs_measure_decoder_flops(const hs_architecture *encoder, const hs_architecture *decoder,
                                size_t n_tokens, size_t n_memory, bool cross);

/* Returns how many operations of hs_measure_flops belong to matrix products with weights. */
double hs_measure_product_flops(const hs_architecture *architecture, size_t n_tokens);

/* Runs the matrix products with weights of a pass, with their biases and activations, and nothing between
 * them. Returns the seconds they took. The workspace must have served a pass of n_tokens before; its numbers
 * are used again. */
double hs_measure_products(const hs_engine *engine, hs_workspace *ws, size_t n_tokens, size_t n_threads);
