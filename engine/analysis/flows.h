/* flows.h - attention maps put together: with the values that they weigh, and from layer to layer.
 *
 * Brunner et al. 2020 (arXiv 1908.04211) and Abnar & Zuidema 2020 (arXiv 2005.00928). Maps are row-major
 * float [T][T]; nothing is allocated. */
#pragma once

#include <stddef.h>

/* Bytes that hs_effective_attention works in. */
size_t hs_effective_attention_room(size_t n_tokens, size_t head_width);

/* A Q Q', Q an orthonormal basis of the columns of V: the part of A that A V, and so O O', depends on. Of the
 * columns of V those count that stand out of the others by more than 1e-6 of the longest one. Where V has as
 * many such columns as there are tokens it is A itself. Rows need not sum to 1. values is [T][d]. */
void hs_effective_attention(const float *attention, const float *values, size_t n_tokens, size_t head_width,
                            void *room, float *ret_attention);

/* The mean of n_heads maps that lie one after the other. */
void hs_attention_mean(const float *attentions, size_t n_heads, size_t n_tokens, float *ret_mean);

/* One layer of attention rollout: (mean + I) / 2 times what the layers before gave, which is I before the
 * first (NULL). Turns mean into its left factor. */
void hs_rollout_step(float *mean, const float *before, size_t n_tokens, float *ret_after);
