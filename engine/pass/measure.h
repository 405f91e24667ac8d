/* measure.h - what this machine could do at best, and the plain products of a pass: what `headscope bench`
 * holds passes against.
 *
 *     floor = hs_measure_flops(recipe, T) / hs_measure_peak(n_threads, seconds)
 *
 * is the time below which no fp32 pass of T tokens can be. Everything here is measured on the calling thread
 * and the helpers that a pass would have (engine/pass/team.h), so it shares cores as a pass does. */
#pragma once

#include "engine/engine.h"

/* Floating-point operations a second (a fused multiply-add is two) of n_threads threads with the widest
 * instructions that the kernels use, on numbers in registers: what no product can exceed. Takes about
 * `seconds`. */
double hs_measure_peak(hs_runtime *runtime, size_t n_threads, double seconds);

/* Operations that the complete analysis of T tokens cannot do without, all layers and heads:
 *     query, key, value        L   * 6 T H^2
 *     Q K' and A V             L   * 4 T^2 H                 pairs of tokens within its window, where a layer
 * has one S = O O', one half       L   *   T (T - 1) H output, feed-forward   (L-1) * (2 T H^2 + 4 T H F) the
 * last layer's change no head; 6 T H F with a gate Softmax, activations, norms, rotations and thresholds are
 * left out: a floor is what is certain. */
double hs_measure_flops(const hs_recipe *recipe, size_t n_tokens);

/* Those of them that are products with weights: over the seconds of hs_measure_products, what they do a
 * second.
 */
double hs_measure_product_flops(const hs_recipe *recipe, size_t n_tokens);

/* Does the products with weights of such a pass and nothing between them (biases and gelu are part of them),
 * and returns the seconds they took, NAN when a product failed. The workspace must have served a pass of
 * n_tokens before, whose numbers are used again. */
double hs_measure_products(const hs_engine *engine, hs_workspace *ws, size_t n_tokens, size_t n_threads);
