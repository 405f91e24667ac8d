/* flows.h - effective attention (Brunner et al. 2020, arXiv 1908.04211) and attention rollout (Abnar and
 * Zuidema 2020, arXiv 2005.00928).
 *
 * Maps are row-major float [T][T]. Nothing is allocated. */
#pragma once

#include <stddef.h>

/* Returns the bytes of scratch that hs_effective_attention needs. */
size_t hs_effective_attention_bytes(size_t n_tokens, size_t head_width);

/* Computes A Q Q' with Q an orthonormal basis of the columns of V: the part of A that A V, and so O O',
 * depends on. Columns of V count if they are independent of the others by more than 1e-6 of the longest
 * one. If V has as many such columns as there are tokens, the result is A. Rows need not sum to 1. values
 * is [T][d]. */
void hs_effective_attention(const float *attention, const float *values, size_t n_tokens, size_t head_width,
                            void *scratch, float *ret_attention);

/* Computes the mean of n_heads maps that lie one after another. */
void hs_attention_mean(const float *attentions, size_t n_heads, size_t n_tokens, float *ret_mean);

/* Computes map times the result of the layers below, which is I for the first layer (NULL). */
void hs_flow_step(const float *map, const float *before, size_t n_tokens, float *ret_after);

/* Computes one layer of attention rollout: (mean + I) / 2 times the result of the layers below, which is
 * I for the first layer (NULL). Replaces mean by its left factor. */
void hs_rollout_step(float *mean, const float *before, size_t n_tokens, float *ret_after);
