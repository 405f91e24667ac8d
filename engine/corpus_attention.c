/* corpus_attention.c - sums of attention maps over texts. */
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

/* How many rows ahead of its use a row is called for. The maps of a batch are larger than the caches, and the
 * CPU's own prefetching ends at each 4 KB page. */
#define ROWS_AHEAD 12

static inline void row_prefetch(const float *row, size_t n)
{
    for (size_t j = 0; j < n; j += 16)
        __builtin_prefetch(row + j);
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

/* Text after text, so that each map is read as one stream; the sums of a batch fit 32 bits and the cache. */
HS_CLONES
void hs__corpus_attention_add(const float *const *attentions, const hs__corpus_facts *facts, size_t n_texts,
                              size_t window, uint32_t *batch, int64_t *sums, int64_t *high_columns)
{
    uint32_t *batch_high = batch + window * window;
    for (size_t k = 0; k < n_texts; k++) {
        const size_t T = facts[k].n_tokens;
        for (size_t i = 0; i < T; i++) {
            if (i + ROWS_AHEAD < T)
                row_prefetch(attentions[k] + (i + ROWS_AHEAD) * T, T);
            row_add(T, attentions[k] + i * T, facts[k].high_mask, batch + i * window,
                    batch_high + i * window);
        }
    }
    batch_move(window * window, batch, sums);
    batch_move(window * window, batch_high, high_columns);
}
_Static_assert(((int64_t)HS__BATCH << HS__ATTENTION_BITS) <= INT64_C(1) << 31,
               "a batch of attentions fits 32 bits");
