/* statistics_attention.c - adds attention maps to the sums.
 *
 * The sums of a batch fit in 32 bits and in the cache. A long text comes alone: its rows go straight to the
 * cells, since a batch of it would take half a gigabyte at 8,192 tokens. */
#include "engine/statistics/statistics_add.h"

#include "model/base/clones.h"

#include <string.h>

_Static_assert(((int64_t)HS_CORPUS_BATCH << HS__ATTENTION_BITS) <= INT64_C(1) << 31,
               "a batch of attentions fits 32 bits");

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

static inline __attribute__((always_inline)) void map_add(const float *attention, size_t n_tokens,
                                                          const hs__stats_facts *keys, size_t window,
                                                          bool first, uint32_t *batch)
{
    const size_t T = n_tokens, K = keys->n_tokens;
    uint32_t *high = batch + window * window;
    for (size_t i = 0; i < T; i++)
        row_add(K, window, attention + i * K, keys->high_mask, first, batch + i * window, high + i * window);
    if (first) {
        memset(batch + T * window, 0, (window - T) * window * sizeof *batch);
        memset(high + T * window, 0, (window - T) * window * sizeof *high);
    }
}

/* Adds one text's map to a head's sums over a batch, or begins them with it: A to batch, A in the columns of
 * H to what follows it; each [window][window]. */
static HS_CLONES void batch_begin_or_add(const float *attention, size_t n_tokens, const hs__stats_facts *keys,
                                         size_t window, bool first, uint32_t *batch)
{
    if (first)
        map_add(attention, n_tokens, keys, window, true, batch);
    else
        map_add(attention, n_tokens, keys, window, false, batch);
}

/* Adds the sums of n positions to a field of as many cells. */
static HS_CLONES void batch_add(const uint32_t *restrict batch, size_t n, int64_t *restrict sums)
{
    for (size_t j = 0; j < n; j++)
        sums[j] += batch[j];
}

/* Adds the sums of a batch to a field's cells. */
static void sums_move(const uint32_t *batch, const hs__cells *cells, int64_t *field)
{
    const size_t window = cells->window;
    if (cells->step == 1) {
        batch_add(batch, window * window, field);
        return;
    }
    for (size_t i = 0; i < window; i++) {
        batch_add(batch + i * window, window, cells->strips[0]);
        if ((i + 1) % cells->step == 0 || i + 1 == window)
            hs__cells_fold(cells, cells->strips[0], field + i / cells->step * cells->n);
    }
}

/* Adds the diagonal of A, less the columns of H, to a head's cells. */
static void diagonal_move(const uint32_t *batch, const hs__cells *cells, int64_t *diagonal)
{
    const size_t window = cells->window;
    const uint32_t *high = batch + window * window;
    for (size_t i = 0; i < window; i++)
        diagonal[i / cells->step] += (int64_t)batch[i * (window + 1)] - (int64_t)high[i * (window + 1)];
}

bool hs__stats_attention_folds(const hs__cells *cells, size_t n_texts_max)
{
    return n_texts_max == 1 && cells->step > 1;
}

size_t hs__stats_attention_rows(const hs__cells *cells, size_t n_texts_max)
{
    return hs__stats_attention_folds(cells, n_texts_max) ? 1 : cells->window;
}

void hs__stats_attention_add(const float *attention, size_t n_tokens, const hs__stats_facts *keys,
                             const hs__cells *cells, bool first, uint32_t *batch)
{
    batch_begin_or_add(attention, n_tokens, keys, cells->window, first, batch);
}

void hs__stats_attention_move(const uint32_t *batch, const hs__cells *cells,
                              const hs__attention_fields *fields)
{
    sums_move(batch, cells, fields->attention);
    sums_move(batch + cells->window * cells->window, cells, fields->high);
    if (fields->diagonal)
        diagonal_move(batch, cells, fields->diagonal);
}

/* Adds a row to both strips. rows: [2][window], for its elements. */
static HS_CLONES void row_fold(const float *row, size_t n_keys, const uint32_t *mask, const hs__cells *cells,
                               uint32_t *rows)
{
    const size_t window = cells->window;
    row_add(n_keys, n_keys, row, mask, true, rows, rows + window);
    int64_t *restrict all = cells->strips[0], *restrict high = cells->strips[1];
    for (size_t j = 0; j < n_keys; j++) {
        all[j] += rows[j];
        high[j] += rows[window + j];
    }
}

void hs__stats_attention_fold(const float *attention, size_t n_tokens, const hs__stats_facts *keys,
                              const hs__cells *cells, uint32_t *rows, const hs__attention_fields *fields)
{
    const size_t T = n_tokens, K = keys->n_tokens;
    for (size_t i = 0; i < T; i++) {
        const size_t cell = i / cells->step;
        row_fold(attention + i * K, K, keys->high_mask, cells, rows);
        if (fields->diagonal)
            fields->diagonal[cell] += (int64_t)rows[i] - (int64_t)rows[cells->window + i];
        if ((i + 1) % cells->step && i + 1 < T)
            continue;
        hs__cells_fold(cells, cells->strips[0], fields->attention + cell * cells->n);
        hs__cells_fold(cells, cells->strips[1], fields->high + cell * cells->n);
    }
}
