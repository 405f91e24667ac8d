/* output_reduced.c - maps made smaller: means and maxima over blocks, words in place of tokens, and slices.
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

/* How blocks become numbers. SPREAD is attention from a block to a block: a mean over rows, as a word
 * attends, and a sum over columns, as it is attended to (Clark et al. 2019). */
typedef enum way { MEANS, MAXIMA, SPREAD, SLICES } way;

/* Where the blocks of an axis begin, and behind the last one its length. */
typedef struct cuts {
    size_t n, *starts; /* [n + 1] */
} cuts;

/* The columns of a block of rows: sums, or maxima in float. */
typedef struct pooling {
    way way;
    const cuts *down, *across;
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
    if (p->way == MAXIMA)
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
    for (size_t j = from; j < to && p->way == MAXIMA; j++)
        largest = p->largest[j] > largest ? p->largest[j] : largest;
    for (size_t j = from; j < to && p->way != MAXIMA; j++)
        sum += p->sums[j];
    const size_t n_columns = p->way == SPREAD ? 1 : to - from;
    return p->way == MAXIMA ? largest
                            : (float)((diagonal ? 2 * sum : sum) / ((double)n_rows * (double)n_columns));
}

/* Writes a number for each block of rows and of columns: [p->down->n][p->across->n]. */
static void map_pool(const map *m, const pooling *p, float *ret)
{
    const size_t n_across = p->across->n;
    for (size_t row = 0; row < p->down->n; row++) {
        const size_t first = p->down->starts[row], end = p->down->starts[row + 1];
        for (size_t j = 0; j < m->n; j++) {
            p->sums[j] = 0;
            p->largest[j] = -INFINITY;
        }
        for (size_t i = first; i < end; i++)
            row_pool(m, i, p);
        for (size_t column = m->similarity ? row : 0; column < n_across; column++) {
            const size_t from = p->across->starts[column], to = p->across->starts[column + 1];
            const float figure = block_figure(p, end - first, from, to, m->similarity && column == row);
            ret[row * n_across + column] = figure;
            if (m->similarity)
                ret[column * n_across + row] = figure;
        }
    }
}

/* Sets the diagonal of [n][n] to 0: a word is not compared with itself. */
static void diagonal_clear(size_t n, float *ret)
{
    for (size_t i = 0; i < n; i++)
        ret[i * n + i] = 0;
}

/* ==== outputs ==== */

/* The kind of map that an output has. */
typedef struct reduction {
    bool similarity, words; /* words: its blocks are those of words, else of the request's size */
    way way;
} reduction;

/* The maps of an output. */
typedef struct reduced {
    reduction how;
    size_t n;          /* numbers of a head */
    cuts down, across; /* none of slices */
    float *values;     /* [heads][n] */
    size_t starts[];   /* of down, then of across */
} reduced;

static const hs_tokenizer *tokenizer_of(const hs__analysis_request *analysis)
{
    return hs_model_tokenizer(analysis->model->model);
}

/* Returns the blocks of an axis. */
static size_t blocks_count(const hs__analysis_request *analysis, reduction how, const hs_encoding *side)
{
    const size_t size = hs__pool_size(analysis);
    return how.words ? hs__words_count(tokenizer_of(analysis), side) : (side->n_tokens + size - 1) / size;
}

/* Finds the blocks of an axis, whose starts are set. The last one is as small as the map's edge leaves it. */
static void blocks_find(const hs__analysis_request *analysis, reduction how, const hs_encoding *side,
                        cuts *ret)
{
    const size_t size = hs__pool_size(analysis);
    if (how.words) {
        hs__words_find(tokenizer_of(analysis), side, ret->starts);
        return;
    }
    for (size_t i = 0; i < ret->n; i++)
        ret->starts[i] = i * size;
    ret->starts[ret->n] = side->n_tokens;
}

static const hs_encoding *columns_of(const hs__text_read *text, reduction how)
{
    return how.similarity ? &text->rows : text->keys;
}

/* Returns the numbers of a head: the product of the output's last two lengths. */
static size_t numbers_of(const hs__analysis_request *analysis, reduction how, const hs__text_read *text)
{
    const hs_encoding *columns = columns_of(text, how);
    if (how.way == SLICES)
        return hs__slice_length(&analysis->rows, text->rows.n_tokens) *
               hs__slice_length(&analysis->columns, columns->n_tokens);
    return blocks_count(analysis, how, &text->rows) * blocks_count(analysis, how, columns);
}

/* Returns the starts of both axes: at most one for each token, and two ends. */
static size_t starts_count(reduction how, const hs__text_read *text)
{
    return how.way == SLICES ? 0 : text->rows.n_tokens + columns_of(text, how)->n_tokens + 2;
}

static hs_status reduced_begin(const hs__answer *a, reduction how, void **ret_result, hs_error *err)
{
    const hs_encoding *rows = &a->text->rows, *columns = columns_of(a->text, how);
    const size_t n = numbers_of(a->analysis, how, a->text), n_starts = starts_count(how, a->text);
    const size_t n_heads = a->analysis->n_layers * a->analysis->n_heads;
    reduced *r = *ret_result =
        malloc(sizeof *r + n_starts * sizeof *r->starts + n_heads * n * sizeof *r->values);
    if (!r)
        return hs_fail(err, HS_NO_MEMORY, "no memory for reduced maps");
    *r = (reduced){.how = how, .n = n, .values = (void *)(r->starts + n_starts)};
    if (how.way == SLICES)
        return HS_OK;
    r->down = (cuts){blocks_count(a->analysis, how, rows), r->starts};
    r->across = (cuts){blocks_count(a->analysis, how, columns), r->starts + r->down.n + 1};
    blocks_find(a->analysis, how, rows, &r->down);
    blocks_find(a->analysis, how, columns, &r->across);
    return HS_OK;
}

static hs_status pool(const reduced *r, const map *m, float *ret, hs_error *err)
{
    pooling p = {.way = r->how.way, .down = &r->down, .across = &r->across};
    p.sums = calloc(m->n, sizeof *p.sums + 2 * sizeof *p.row);
    if (!p.sums)
        return hs_fail(err, HS_NO_MEMORY, "no memory to pool maps");
    p.largest = (void *)(p.sums + m->n);
    p.row = p.largest + m->n;
    map_pool(m, &p, ret);
    if (r->how.words && m->similarity)
        diagonal_clear(r->down.n, ret);
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
        return pool(r, &m, to, err);
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
    return starts_count(how, m->text) * sizeof(size_t) +
           m->n_heads * numbers_of(m->analysis, how, m->text) * sizeof(float);
}

/* The maps of a head have these last two axes. */
#define REDUCED(name, tap, rows, columns, of_range, ...)                                                     \
    static hs_status name##_begin(const hs__answer *a, void **ret_result, hs_error *err)                     \
    {                                                                                                        \
        return reduced_begin(a, (reduction){__VA_ARGS__}, ret_result, err);                                  \
    }                                                                                                        \
    static size_t name##_bytes(const hs__measures *m)                                                        \
    {                                                                                                        \
        return reduced_bytes(m, (reduction){__VA_ARGS__});                                                   \
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

REDUCED(mean_pooled_attentions, ATTENTION, BLOCK, KEY_BLOCK, UNIT, .way = MEANS)
REDUCED(max_pooled_attentions, ATTENTION, BLOCK, KEY_BLOCK, UNIT, .way = MAXIMA)
REDUCED(word_attentions, ATTENTION, WORD, KEY_WORD, UNIT, .way = SPREAD, .words = true)
REDUCED(sliced_attentions, ATTENTION, ROW, KEY_COLUMN, UNIT, .way = SLICES)
REDUCED(mean_pooled_similarities, SIMILARITY, BLOCK, BLOCK, UNIT_IF_NORMALIZED, .similarity = true,
        .way = MEANS)
REDUCED(max_pooled_similarities, SIMILARITY, BLOCK, BLOCK, UNIT_IF_NORMALIZED, .similarity = true,
        .way = MAXIMA)
REDUCED(word_similarities, SIMILARITY, WORD, WORD, UNIT_IF_NORMALIZED, .similarity = true, .way = MEANS,
        .words = true)
REDUCED(sliced_similarities, SIMILARITY, ROW, COLUMN, UNIT_IF_NORMALIZED, .similarity = true, .way = SLICES)

/* ==== the words of an axis ==== */

/* A row is the range of its tokens. */
typedef struct words {
    size_t n;
    int32_t ranges[][2];
} words;

static hs_status words_read(const hs__answer *a, const hs_encoding *side, void **ret_result, hs_error *err)
{
    const hs_tokenizer *tokenizer = tokenizer_of(a->analysis);
    const size_t n = hs__words_count(tokenizer, side);
    words *w = *ret_result = malloc(sizeof *w + n * sizeof *w->ranges);
    if (!w)
        return hs_fail(err, HS_NO_MEMORY, "no memory for words");
    w->n = n;
    for (size_t i = 0, first = 0; i < n; i++) {
        w->ranges[i][0] = (int32_t)first;
        first = hs__word_end(tokenizer, side, first);
        w->ranges[i][1] = (int32_t)first;
    }
    return HS_OK;
}

static hs_status words_compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    return words_read(a, &a->text->rows, ret_result, err);
}

static hs_status source_words_compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    return words_read(a, a->text->keys, ret_result, err);
}

static hs__table_rows word_rows(const hs__table_row *outer, size_t l)
{
    const words *w = outer->item;
    (void)l;
    return (hs__table_rows){w->ranges, w->n, sizeof *w->ranges};
}

static void word_range(const hs__table_row *row, hs__cell *ret)
{
    memcpy(ret->range, row->item, sizeof ret->range);
}

static size_t words_max(const hs__measures *m)
{
    return m->n_tokens;
}

static size_t source_words_max(const hs__measures *m)
{
    return m->n_keys;
}

static const hs__table_column word_columns[] = {{"", .type = HS__CELL_RANGE, .get = word_range}, {0}};

#define WORDS(name, compute_, rows_max_)                                                                     \
    static const hs__table name##_table = {.kind = HS__TABLE_LIST,                                           \
                                           .arrays = #name,                                                  \
                                           .columns = word_columns,                                          \
                                           .rows = word_rows,                                                \
                                           .rows_max = (rows_max_)};                                         \
    static const hs__structure name##_structure = {                                                          \
        .compute = (compute_), .destroy = free, .table = &name##_table};                                     \
    const hs__output hs__output_row_##name = {.structure = &name##_structure};

WORDS(word_tokens, words_compute, words_max)
WORDS(source_word_tokens, source_words_compute, source_words_max)
