/* sentence_vector.c - one vector of a text, as sentence-transformers makes it: pooling, dense layers, norm.
 */
#include "engine/backend.h"

#include <math.h>
#include <stdlib.h>

/* Returns the sum of a column over tokens first to n_tokens - 1, each times its number from 1 if weighted. */
static double sum_of(const float *column, size_t first, size_t n_tokens, size_t step, bool weighted)
{
    double sum = 0;
    for (size_t t = first; t < n_tokens; t++)
        sum += (double)column[t * step] * (weighted ? (double)(t + 1) : 1);
    return sum;
}

static float largest(const float *column, size_t first, size_t n_tokens, size_t step)
{
    float most = column[first * step];
    for (size_t t = first + 1; t < n_tokens; t++)
        most = column[t * step] > most ? column[t * step] : most;
    return most;
}

static float pool_column(hs_pool way, const float *column, size_t first, size_t n_tokens, size_t step)
{
    const double n = (double)n_tokens, n_left_out = (double)first;
    switch (way) {
    case HS_POOL_CLS:
        return column[first * step];
    case HS_POOL_LAST:
        return column[(n_tokens - 1) * step];
    case HS_POOL_MAX:
        return largest(column, first, n_tokens, step);
    case HS_POOL_MEAN:
        return (float)(sum_of(column, first, n_tokens, step, false) / (n - n_left_out));
    case HS_POOL_MEAN_SQRT:
        return (float)(sum_of(column, first, n_tokens, step, false) / sqrt(n - n_left_out));
    default: /* HS_POOL_WEIGHTED */
        return (float)(sum_of(column, first, n_tokens, step, true) /
                       ((n * (n + 1) - n_left_out * (n_left_out + 1)) / 2));
    }
}

void hs_states_pool(hs_pool way, const float *states, size_t first, size_t n_tokens, size_t hidden,
                    float *ret_row)
{
    for (size_t i = 0; i < hidden; i++)
        ret_row[i] = pool_column(way, states + i, first, n_tokens, hidden);
}

const hs_pooling *hs_sentence_pooling(const hs_architecture *architecture, const hs_pooling *requested)
{
    static const hs_pooling mean = {.n = 1, .ways = {HS_POOL_MEAN}};
    if (requested->n > 0)
        return requested;
    return architecture->sentence.pooling.n > 0 ? &architecture->sentence.pooling : &mean;
}

size_t hs_sentence_width(const hs_architecture *architecture, const hs_pooling *pooling)
{
    const hs_sentence_head *head = &architecture->sentence;
    const size_t width = pooling->n * architecture->shape.hidden;
    if (head->n_dense == 0)
        return width;
    return head->dense[0].dense.weight.n_columns == width ? head->dense[head->n_dense - 1].dense.weight.n_rows
                                                          : 0;
}

static void pool(const hs_pooling *pooling, const float *states, size_t n_tokens, size_t hidden,
                 float *ret_row)
{
    for (size_t i = 0; i < pooling->n; i++)
        hs_states_pool(pooling->ways[i], states, pooling->first, n_tokens, hidden, ret_row + i * hidden);
}

static void normalize(float *vector, size_t n)
{
    const double least = 1e-12; /* as in torch.nn.functional.normalize */
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += (double)vector[i] * (double)vector[i];
    const double length = sqrt(squares) > least ? sqrt(squares) : least;
    for (size_t i = 0; i < n; i++)
        vector[i] = (float)((double)vector[i] / length);
}

/* Pools the states and runs them through the dense layers. */
static hs_status embed_dense(const hs_engine *engine, const hs_pooling *pooling, const float *states,
                             size_t n_tokens, size_t n_threads, float *ret_vector, hs_error *err)
{
    const size_t hidden = engine->architecture->shape.hidden;
    float *row = malloc(pooling->n * hidden * sizeof *row);
    if (!row)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for a sentence vector");
    pool(pooling, states, n_tokens, hidden, row);
    const hs_status st = engine->backend->embed(engine, row, n_threads, ret_vector, err);
    free(row);
    return st;
}

hs_status hs_engine_embed(const hs_engine *engine, const hs_pooling *pooling, const float *states,
                          size_t n_tokens, size_t n_threads, float *ret_vector, hs_error *err)
{
    const hs_architecture *architecture = engine->architecture;
    hs_status st = HS_OK;
    if (architecture->sentence.n_dense > 0)
        st = embed_dense(engine, pooling, states, n_tokens, n_threads, ret_vector, err);
    else
        pool(pooling, states, n_tokens, architecture->shape.hidden, ret_vector);
    if (architecture->sentence.normalized && !st)
        normalize(ret_vector, hs_sentence_width(architecture, pooling));
    return st;
}
