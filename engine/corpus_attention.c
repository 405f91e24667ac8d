/* corpus_attention.c - sums of attention maps over texts. */
#include "engine/corpus_add.h"

#include "engine/clones.h"

#include <string.h>

/* A in units of 2^-HS__ATTENTION_BITS. What a broken checkpoint gives instead is clipped to [0, 1]. */
static inline uint32_t fixed_of(float a)
{
    const float above = a > 0 ? a : 0.0f;
    const float clipped = above < 1 ? above : 1.0f;
    return (uint32_t)(int32_t)(clipped * (float)(1 << HS__ATTENTION_BITS) + 0.5f);
}

/* The sums of a row over the texts of a batch fit 32 bits: HS__BATCH << HS__ATTENTION_BITS. */
HS_CLONES
void hs__corpus_attention_add(const float *const *attentions, const hs__corpus_facts *facts, size_t n_texts,
                              size_t window, uint32_t *rows, int64_t *sums, int64_t *high_columns)
{
    uint32_t *row_sums = rows, *row_high = rows + hs__corpus_stride(window);
    for (size_t i = 0; i < window; i++) {
        size_t width = 0;
        for (size_t k = 0; k < n_texts; k++) {
            const size_t T = facts[k].n_tokens;
            if (i >= T)
                continue;
            if (T > width) {
                memset(row_sums + width, 0, (T - width) * sizeof *row_sums);
                memset(row_high + width, 0, (T - width) * sizeof *row_high);
                width = T;
            }
            const float *row = attentions[k] + i * T;
            const uint32_t *mask = facts[k].high_mask;
            for (size_t j = 0; j < T; j++) {
                const uint32_t fixed = fixed_of(row[j]);
                row_sums[j] += fixed;
                row_high[j] += fixed & mask[j];
            }
        }
        for (size_t j = 0; j < width; j++) {
            sums[i * window + j] += row_sums[j];
            high_columns[i * window + j] += row_high[j];
        }
    }
}
_Static_assert(((int64_t)HS__BATCH << HS__ATTENTION_BITS) <= INT64_C(1) << 31,
               "a batch of attentions fits 32 bits");
