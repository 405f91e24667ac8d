/* corpus_attention.c - sums of attention maps over texts. Those of a batch fit 32 bits, and the cache. */
#include "engine/corpus_add.h"

#include "model/clones.h"

#include <string.h>

/* A in units of 2^-HS__ATTENTION_BITS. What a broken checkpoint gives instead is clipped to [0, 1]. */
static inline uint32_t fixed_of(float a)
{
    const float above = a > 0 ? a : 0.0f;
    const float clipped = above < 1 ? above : 1.0f;
    return (uint32_t)(int32_t)(clipped * (float)(1 << HS__ATTENTION_BITS) + 0.5f);
}

/* sums[j] += A_ij, high[j] += A_ij where j is in H. */
static inline __attribute__((always_inline)) void row_add(size_t n_tokens, const float *restrict row,
                                                          const uint32_t *restrict mask,
                                                          uint32_t *restrict sums, uint32_t *restrict high)
{
    for (size_t j = 0; j < n_tokens; j++) {
        const uint32_t fixed = fixed_of(row[j]);
        sums[j] += fixed;
        high[j] += fixed & mask[j];
    }
}

static inline __attribute__((always_inline)) void batch_move(size_t n, uint32_t *restrict batch,
                                                             int64_t *restrict sums)
{
    for (size_t j = 0; j < n; j++)
        sums[j] += batch[j];
    memset(batch, 0, n * sizeof *batch);
}

HS_CLONES
void hs__corpus_attention_add(const float *attention, const hs__corpus_facts *facts, size_t window,
                              uint32_t *batch)
{
    const size_t T = facts->n_tokens;
    uint32_t *batch_high = batch + window * window;
    for (size_t i = 0; i < T; i++)
        row_add(T, attention + i * T, facts->high_mask, batch + i * window, batch_high + i * window);
}

HS_CLONES
void hs__corpus_attention_move(uint32_t *batch, size_t window, int64_t *sums, int64_t *high_columns)
{
    batch_move(window * window, batch, sums);
    batch_move(window * window, batch + window * window, high_columns);
}
_Static_assert(((int64_t)HS_CORPUS_BATCH << HS__ATTENTION_BITS) <= INT64_C(1) << 31,
               "a batch of attentions fits 32 bits");
