/* output_reduced.c - maps made smaller: means and maxima over blocks, and slices.
 *
 * Each is made of one head's map at a time, so a pass may show the maps and keep none. They read only the
 * similarities above the diagonal: a shown map has no others. */
#include "api/outputs/structures.h"
#include "model/base/clones.h"

#include <math.h>
#include <stdlib.h>

/* ==== one map ==== */

/* A head's map, [T][n]. Similarities are normalised as the request says. */
typedef struct map {
    const float *values;
    size_t T, n;
    bool similarity, normalize;
    float maximum;         /* if normalize */
    const uint8_t *masked; /* or NULL */
} map;

static map map_of(const hs__answer *a, const hs_observed_head *maps, bool similarity)
{
    const size_t T = a->text->rows.n_tokens;
    map m = {.values = similarity ? maps->similarity : maps->attention,
             .T = T,
             .n = similarity ? T : a->text->keys->n_tokens,
             .similarity = similarity,
             .normalize = similarity && a->analysis->normalize,
             .masked = a->masked};
    if (m.normalize)
        m.maximum = hs_similarity_max(m.values, T, m.masked);
    return m;
}

/* Writes elements [from, to) of row i, as hs_similarity_normalize has them. */
static void row_normalize(const map *m, size_t i, size_t from, size_t to, float *row)
{
    const bool empty = !(m->maximum > 0) || (m->masked && m->masked[i]);
    for (size_t j = from; j < to; j++, row++)
        *row = empty || (m->masked && m->masked[j]) || i == j ? 0.0f : *row / m->maximum;
}

/* Copies elements [from, to) of row i. */
static void row_copy(const map *m, size_t i, size_t from, size_t to, float *ret)
{
    const size_t below = !m->similarity || i <= from ? from : i < to ? i : to;
    for (size_t j = from; j < below; j++)
        ret[j - from] = m->values[j * m->n + i];
    memcpy(ret + (below - from), m->values + i * m->n + below, (to - below) * sizeof *ret);
    if (m->similarity && i >= from && i < to)
        ret[i - from] = 0;
    if (m->normalize)
        row_normalize(m, i, from, to, ret);
}

/* ==== blocks ==== */

/* The columns of a block of rows: sums, or maxima in float. */
typedef struct pooling {
    size_t size;
    bool maxima;
    double *sums;   /* [n] */
    float *largest; /* [n] */
    float *row;     /* [n]: scratch */
} pooling;

static HS_CLONES void row_sum(const float *row, size_t n, double *sums)
{
    for (size_t j = 0; j < n; j++)
        sums[j] += (double)row[j];
}

static HS_CLONES void row_max(const float *row, size_t n, float *largest)
{
    for (size_t j = 0; j < n; j++)
        largest[j] = row[j] > largest[j] ? row[j] : largest[j];
}

/* Adds row i; of similarities, what is right of the diagonal. */
static void row_pool(const map *m, size_t i, const pooling *p)
{
    const size_t from = m->similarity ? i + 1 : 0;
    const float *row = m->values + i * m->n + from;
    if (m->normalize) {
        row_copy(m, i, from, m->n, p->row);
        row = p->row;
    }
    if (p->maxima)
        row_max(row, m->n - from, p->largest + from);
    else
        row_sum(row, m->n - from, p->sums + from);
}

/* Returns the figure of the block of n_rows rows and columns [from, to). A block on the diagonal of a
 * symmetric map has its lower half, and the diagonal of zeros, besides. */
static float block_figure(const pooling *p, size_t n_rows, size_t from, size_t to, bool diagonal)
{
    float largest = diagonal ? 0 : -INFINITY;
    double sum = 0;
    for (size_t j = from; j < to && p->maxima; j++)
        largest = p->largest[j] > largest ? p->largest[j] : largest;
    for (size_t j = from; j < to && !p->maxima; j++)
        sum += p->sums[j];
    return p->maxima ? largest : (float)((diagonal ? 2 * sum : sum) / ((double)n_rows * (double)(to - from)));
}

/* Writes [ceil(T / size)][ceil(n / size)]. The last blocks are as small as the map's edge leaves them. */
static void map_pool(const map *m, const pooling *p, float *ret)
{
    const size_t size = p->size, n_across = (m->n + size - 1) / size;
    for (size_t first = 0, row = 0; first < m->T; first += size, row++) {
        const size_t end = m->T - first < size ? m->T : first + size;
        for (size_t j = 0; j < m->n; j++) {
            p->sums[j] = 0;
            p->largest[j] = -INFINITY;
        }
        for (size_t i = first; i < end; i++)
            row_pool(m, i, p);
        for (size_t column = m->similarity ? row : 0; column < n_across; column++) {
            const size_t from = column * size, to = m->n - from < size ? m->n : from + size;
            const float figure = block_figure(p, end - first, from, to, m->similarity && column == row);
            ret[row * n_across + column] = figure;
            if (m->similarity)
                ret[column * n_across + row] = figure;
        }
    }
}

/* ==== outputs ==== */

typedef enum way { MEANS, MAXIMA, SLICES } way;

/* The kind of map that an output has. */
typedef struct reduction {
    bool similarity;
    way way;
} reduction;

/* The maps of an output. */
typedef struct reduced {
    reduction how;
    size_t n; /* numbers of a head */
    float values[];
} reduced;

/* Returns the numbers of a head: the product of the output's last two lengths. */
static size_t numbers_of(const hs__analysis_request *analysis, reduction how, size_t n_rows, size_t n_columns)
{
    const size_t size = hs__pool_size(analysis);
    if (how.way == SLICES)
        return hs__slice_length(&analysis->rows, n_rows) * hs__slice_length(&analysis->columns, n_columns);
    return ((n_rows + size - 1) / size) * ((n_columns + size - 1) / size);
}

static hs_status reduced_begin(const hs__answer *a, reduction how, void **ret_result, hs_error *err)
{
    const size_t T = a->text->rows.n_tokens, n_columns = how.similarity ? T : a->text->keys->n_tokens;
    const size_t n = numbers_of(a->analysis, how, T, n_columns);
    const size_t n_heads = a->analysis->n_layers * a->analysis->n_heads;
    reduced *r = *ret_result = malloc(sizeof *r + n_heads * n * sizeof *r->values);
    if (!r)
        return hs_fail(err, HS_NO_MEMORY, "no memory for reduced maps");
    r->how = how;
    r->n = n;
    return HS_OK;
}

static hs_status pool(const hs__answer *a, const map *m, bool maxima, float *ret, hs_error *err)
{
    pooling p = {.size = hs__pool_size(a->analysis), .maxima = maxima};
    p.sums = calloc(m->n, sizeof *p.sums + 2 * sizeof *p.row);
    if (!p.sums)
        return hs_fail(err, HS_NO_MEMORY, "no memory to pool maps");
    p.largest = (void *)(p.sums + m->n);
    p.row = p.largest + m->n;
    map_pool(m, &p, ret);
    free(p.sums);
    return HS_OK;
}

static hs_status reduced_add_head(const hs__answer *a, void *result, size_t at, const hs_observed_head *maps,
                                  hs_error *err)
{
    reduced *r = result;
    const map m = map_of(a, maps, r->how.similarity);
    float *to = r->values + at * r->n;
    if (r->how.way != SLICES)
        return pool(a, &m, r->how.way == MAXIMA, to, err);
    const hs__slice *rows = &a->analysis->rows, *columns = &a->analysis->columns;
    const size_t first = rows->from, n_rows = hs__slice_length(rows, m.T);
    const size_t from = columns->from, n = hs__slice_length(columns, m.n);
    for (size_t i = 0; i < n_rows; i++)
        row_copy(&m, first + i, from, from + n, to + i * n);
    return HS_OK;
}

static const float *reduced_part(const void *result, size_t at)
{
    const reduced *r = result;
    return r->values + at * r->n;
}

/* Returns the memory of reduced_begin. */
static size_t reduced_bytes(const hs__measures *m, reduction how)
{
    const size_t n_columns = how.similarity ? m->n_tokens : m->n_keys;
    return m->n_heads * numbers_of(m->analysis, how, m->n_tokens, n_columns) * sizeof(float);
}

/* The maps of a head have these last two axes. */
#define REDUCED(name, similarity, way, tap, rows, columns, of_range)                                         \
    static hs_status name##_begin(const hs__answer *a, void **ret_result, hs_error *err)                     \
    {                                                                                                        \
        return reduced_begin(a, (reduction){similarity, way}, ret_result, err);                              \
    }                                                                                                        \
    static size_t name##_bytes(const hs__measures *m)                                                        \
    {                                                                                                        \
        return reduced_bytes(m, (reduction){similarity, way});                                               \
    }                                                                                                        \
    static const hs__structure name##_structure = {                                                          \
        .begin = name##_begin,                                                                               \
        .add_head = reduced_add_head,                                                                        \
        .part = reduced_part,                                                                                \
        .destroy = free,                                                                                     \
    };                                                                                                       \
    const hs__output hs__output_row_##name = {                                                               \
        .number = HS__OUTPUT_##name,                                                                         \
        .taps = HS_KEEP(tap),                                                                                \
        .axes = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_##rows, HS_AXIS_##columns},                            \
        .range = HS__RANGE_##of_range,                                                                       \
        .maker = &name##_structure,                                                                          \
        .bytes = name##_bytes,                                                                               \
    };

REDUCED(mean_pooled_attentions, false, MEANS, ATTENTION, BLOCK, KEY_BLOCK, UNIT)
REDUCED(max_pooled_attentions, false, MAXIMA, ATTENTION, BLOCK, KEY_BLOCK, UNIT)
REDUCED(sliced_attentions, false, SLICES, ATTENTION, ROW, KEY_COLUMN, UNIT)
REDUCED(mean_pooled_similarities, true, MEANS, SIMILARITY, BLOCK, BLOCK, UNIT_IF_NORMALIZED)
REDUCED(max_pooled_similarities, true, MAXIMA, SIMILARITY, BLOCK, BLOCK, UNIT_IF_NORMALIZED)
REDUCED(sliced_similarities, true, SLICES, SIMILARITY, ROW, COLUMN, UNIT_IF_NORMALIZED)
