/* statistics_attention.c - sums of attention maps over texts. The sums of a batch fit in 32 bits and in the
 * cache. */
#include "engine/statistics/statistics_add.h"

#include "model/clones.h"

#include <string.h>

/* A in units of 2^-HS__ATTENTION_BITS. Clips other values, which broken checkpoints give, to [0, 1]. */
static inline uint32_t fixed_of(float a)
{
    const float above = a > 0 ? a : 0.0f;
    const float clipped = above < 1 ? above : 1.0f;
    return (uint32_t)(int32_t)(clipped * (float)(1 << HS__ATTENTION_BITS) + 0.5f);
}

/* Computes sums[j] += A_ij, and high[j] += A_ij where j is in H. The first text begins the sums, also of
 * columns that it lacks. */
static inline __attribute__((always_inline)) void row_add(size_t n_tokens, size_t window,
                                                          const float *restrict row,
                                                          const uint32_t *restrict mask, bool first,
                                                          uint32_t *restrict sums, uint32_t *restrict high)
{
    for (size_t j = 0; j < n_tokens; j++) {
        const uint32_t fixed = fixed_of(row[j]);
        sums[j] = (first ? 0 : sums[j]) + fixed;
        high[j] = (first ? 0 : high[j]) + (fixed & mask[j]);
    }
    for (size_t j = n_tokens; first && j < window; j++)
        sums[j] = high[j] = 0;
}

static inline __attribute__((always_inline)) void
map_add(const float *attention, const hs__corpus_facts *facts, size_t window, bool first, uint32_t *batch)
{
    const size_t T = facts->n_tokens;
    uint32_t *high = batch + window * window;
    for (size_t i = 0; i < T; i++)
        row_add(T, window, attention + i * T, facts->high_mask, first, batch + i * window, high + i * window);
    if (first) {
        memset(batch + T * window, 0, (window - T) * window * sizeof *batch);
        memset(high + T * window, 0, (window - T) * window * sizeof *high);
    }
}

HS_CLONES
void hs__corpus_attention_add(const float *attention, const hs__corpus_facts *facts, size_t window,
                              bool first, uint32_t *batch)
{
    if (first)
        map_add(attention, facts, window, true, batch);
    else
        map_add(attention, facts, window, false, batch);
}

HS_CLONES
void hs__corpus_attention_move(const uint32_t *batch, size_t window, int64_t *restrict sums,
                               int64_t *restrict high_columns)
{
    const uint32_t *high = batch + window * window;
    for (size_t j = 0; j < window * window; j++) {
        sums[j] += batch[j];
        high_columns[j] += high[j];
    }
}
_Static_assert(((int64_t)HS_CORPUS_BATCH << HS__ATTENTION_BITS) <= INT64_C(1) << 31,
               "a batch of attentions fits 32 bits");
