/* output_pairs.c - pairs of tokens and what is found from them: pairs, regions and segments. */
#include "api/outputs/structures.h"

#include <stdlib.h>
#include <string.h>

/* ==== pairs ==== */

/* Pairs of tokens whose similarity is high: a list in JSON, columns in arrays. */

typedef struct pair_list {
    hs_pair *items;
    size_t n;
    uint64_t total;     /* before max_pairs */
    hs_pair_pool *pool; /* while maps are added; else NULL */
} pair_list;

/* hs_pairs_find searches whole captures. If more was captured than requested, it searches a copy of the
 * requested maps. */
static hs_status find_pairs(const hs__answer *a, pair_list *ret_pairs, hs_error *err)
{
    const hs__analysis_request *analysis = a->analysis;
    const hs_tap tap = hs__answer_similarity(a);
    const hs_capture *whole = a->capture;
    hs_capture *part = NULL;
    hs_status st = HS_OK;
    if (whole->n_layers != analysis->n_layers || whole->n_heads != analysis->n_heads) {
        const size_t T = whole->n_tokens;
        const hs_selection selection = {analysis->layers,  analysis->n_layers, analysis->heads,
                                        analysis->n_heads, 1u << tap,          0};
        st = hs_capture_create(hs_engine_runtime(a->model->engine), a->model->shape, &selection, T, &part,
                               err);
        if (st)
            return st;
        for (size_t l = 0; l < analysis->n_layers; l++) {
            for (size_t h = 0; h < analysis->n_heads; h++)
                memcpy(hs_capture_at(part, tap, l, h), hs__answer_at(a, tap, l, h), T * T * sizeof(float));
        }
    }
    st = hs_pairs_find(part ? part : whole, tap, a->masked, analysis->threshold, analysis->max_pairs,
                       a->request->n_threads, &ret_pairs->items, &ret_pairs->n, &ret_pairs->total, err);
    hs_capture_destroy(part);
    return st;
}

static hs_status pairs_compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    pair_list *pairs = calloc(1, sizeof *pairs);
    *ret_result = pairs;
    return pairs ? find_pairs(a, pairs, err) : hs_fail(err, HS_NO_MEMORY, "no memory for pairs");
}

static hs_status pairs_begin(const hs__answer *a, void **ret_result, hs_error *err)
{
    const hs__analysis_request *analysis = a->analysis;
    pair_list *pairs = calloc(1, sizeof *pairs);
    *ret_result = pairs;
    if (!pairs)
        return hs_fail(err, HS_NO_MEMORY, "no memory for pairs");
    return hs_pair_pool_create(analysis->n_layers * analysis->n_heads, a->text->rows.n_tokens, a->masked,
                               analysis->threshold, analysis->max_pairs, &pairs->pool, err);
}

static hs_status pairs_add_head(const hs__answer *a, void *result, size_t at, const hs_observed_head *maps,
                                hs_error *err)
{
    const hs__analysis_request *analysis = a->analysis;
    return hs_pair_pool_add(((pair_list *)result)->pool, at, analysis->layers[at / analysis->n_heads],
                            analysis->heads[at % analysis->n_heads], maps->similarity, err);
}

static hs_status pairs_end(const hs__answer *a, void *result, hs_error *err)
{
    pair_list *pairs = result;
    (void)a;
    return hs_pair_pool_take(pairs->pool, &pairs->items, &pairs->n, &pairs->total, err);
}

static void pairs_destroy(void *result)
{
    pair_list *pairs = result;
    hs_pair_pool_destroy(pairs->pool);
    free(pairs->items);
    free(pairs);
}

/* ---- columns ---- */

static void token_i(const hs__table_row *row, hs__cell *ret)
{
    ret->text = hs__answer_token_bytes(row->answer, ((const hs_pair *)row->item)->i);
}

static void token_j(const hs__table_row *row, hs__cell *ret)
{
    ret->text = hs__answer_token_bytes(row->answer, ((const hs_pair *)row->item)->j);
}

static void pair_distance(const hs__table_row *row, hs__cell *ret)
{
    const hs_pair *pair = row->item;
    ret->integer = pair->j - pair->i;
}

static void same_token(const hs__table_row *row, hs__cell *ret)
{
    const hs_pair *pair = row->item;
    ret->integer = row->answer->text->rows.ids[pair->i] == row->answer->text->rows.ids[pair->j];
}

static void same_sentence(const hs__table_row *row, hs__cell *ret)
{
    const hs_pair *pair = row->item;
    const hs__text_read *text = row->answer->text;
    ret->integer = !text->rows.special[pair->i] && !text->rows.special[pair->j] &&
                   text->sentences[pair->i] == text->sentences[pair->j];
}

static const hs__table_column pair_columns[] = {
    {"layer", .type = HS__CELL_POSITION, HS__MEMBER(hs_pair, layer)},
    {"head", .type = HS__CELL_POSITION, HS__MEMBER(hs_pair, head)},
    {"i", .type = HS__CELL_POSITION, HS__MEMBER(hs_pair, i)},
    {"j", .type = HS__CELL_POSITION, HS__MEMBER(hs_pair, j)},
    {"token_i", .type = HS__CELL_TOKEN, .get = token_i},
    {"token_j", .type = HS__CELL_TOKEN, .get = token_j},
    {"similarity", .type = HS__CELL_NUMBER, HS__MEMBER(hs_pair, similarity)},
    {"normalized", .type = HS__CELL_NUMBER, HS__MEMBER(hs_pair, normalized)},
    {"distance", .type = HS__CELL_POSITION, .get = pair_distance},
    {"same_token", .type = HS__CELL_FLAG, .get = same_token},
    {"same_sentence", .type = HS__CELL_FLAG, .get = same_sentence},
    {0},
};

static hs__table_rows pair_rows(const hs__table_row *outer, size_t l)
{
    const pair_list *pairs = outer->item;
    (void)l;
    return (hs__table_rows){pairs->items, pairs->n, sizeof *pairs->items};
}

static size_t pairs_n_max(const hs__measures *m)
{
    const size_t n = m->n_heads * (m->n_tokens * (m->n_tokens - 1) / 2);
    return n < m->analysis->max_pairs ? n : m->analysis->max_pairs;
}

static const hs__table pair_table = {.kind = HS__TABLE_LIST,
                                     .arrays = "pairs_",
                                     .columns = pair_columns,
                                     .rows = pair_rows,
                                     .rows_max = pairs_n_max};

/* hs_pair_pool keeps up to twice as many as are answered. */
static size_t pairs_bytes(const hs__measures *m)
{
    const size_t n = m->n_heads * (m->n_tokens * (m->n_tokens - 1) / 2), most = 2 * m->analysis->max_pairs;
    return (n < most ? n : most) * sizeof(hs_pair);
}

static uint64_t pairs_total(const void *result)
{
    return ((const pair_list *)result)->total;
}

static const hs__structure pairs_structure = {
    .compute = pairs_compute,
    .begin = pairs_begin,
    .add_head = pairs_add_head,
    .end = pairs_end,
    .destroy = pairs_destroy,
    .table = &pair_table,
    .total_name = "pairs_total",
    .total = pairs_total,
};

const hs__output hs__output_row_pairs = {
    .taps = HS_KEEP(SIMILARITY), .structure = &pairs_structure, .bytes = pairs_bytes};

/* ==== regions ==== */

/* High-attention tokens, the runs between them, and the mean similarity of each pair of
 * runs. */

/* The regions of one head, in one block that starts at means. */
typedef struct regions {
    float *means; /* [n_runs][n_runs]; start of the block */
    hs_span *runs;
    uint16_t *high;
    size_t n_runs, n_high;
} regions;

typedef struct regions_of_heads {
    size_t n;        /* heads of all layers */
    regions heads[]; /* [l][h] */
} regions_of_heads;

/* Arrays of T elements each, in one block that starts at sums. */
typedef struct region_scratch {
    double *sums;
    float *profile;
    hs_span *runs;
    uint16_t *high;
} region_scratch;

static hs_status find_regions(const hs__answer *a, const hs_observed_head *maps,
                              const region_scratch *scratch, regions *ret, hs_error *err)
{
    const size_t T = a->text->rows.n_tokens;
    hs_column_profile(maps->attention, T, T, a->masked, scratch->profile);
    ret->n_high = hs_high_tokens(scratch->profile, T, a->analysis->attention_threshold, scratch->high);
    ret->n_runs = hs_runs_cut(scratch->high, ret->n_high, T, scratch->runs);
    const size_t n_means = ret->n_runs * ret->n_runs;
    ret->means = malloc(n_means * sizeof(float) + ret->n_runs * sizeof *ret->runs +
                        ret->n_high * sizeof *ret->high + 1);
    if (!ret->means)
        return hs_fail(err, HS_NO_MEMORY, "no memory for regions");
    ret->runs = (hs_span *)(ret->means + n_means);
    ret->high = (uint16_t *)(ret->runs + ret->n_runs);
    memcpy(ret->runs, scratch->runs, ret->n_runs * sizeof *ret->runs);
    memcpy(ret->high, scratch->high, ret->n_high * sizeof *ret->high);
    hs_region_means(maps->similarity, T, a->masked, ret->runs, ret->n_runs, scratch->sums, ret->means);
    return HS_OK;
}

static hs_status regions_begin(const hs__answer *a, void **ret_result, hs_error *err)
{
    const size_t n = a->analysis->n_layers * a->analysis->n_heads;
    regions_of_heads *table = calloc(1, sizeof *table + n * sizeof *table->heads);
    *ret_result = table;
    if (!table)
        return hs_fail(err, HS_NO_MEMORY, "no memory for regions");
    table->n = n;
    return HS_OK;
}

static hs_status regions_add_head(const hs__answer *a, void *result, size_t at, const hs_observed_head *maps,
                                  hs_error *err)
{
    const size_t T = a->text->rows.n_tokens;
    region_scratch scratch;
    scratch.sums = malloc(
        T * (sizeof *scratch.sums + sizeof *scratch.profile + sizeof *scratch.runs + sizeof *scratch.high));
    if (!scratch.sums)
        return hs_fail(err, HS_NO_MEMORY, "no memory for regions");
    scratch.profile = (void *)(scratch.sums + T);
    scratch.runs = (hs_span *)(scratch.profile + T);
    scratch.high = (uint16_t *)(scratch.runs + T);
    const hs_status st = find_regions(a, maps, &scratch, &((regions_of_heads *)result)->heads[at], err);
    free(scratch.sums);
    return st;
}

static void regions_destroy(void *result)
{
    regions_of_heads *table = result;
    for (size_t i = 0; i < table->n; i++)
        free(table->heads[i].means);
    free(table);
}

/* ---- columns ---- */

static hs__table_rows high_rows(const hs__table_row *outer, size_t l)
{
    const regions *r = outer->item;
    (void)l;
    return (hs__table_rows){r->high, r->n_high, sizeof *r->high};
}

static hs__table_rows run_rows(const hs__table_row *outer, size_t l)
{
    const regions *r = outer->item;
    (void)l;
    return (hs__table_rows){r->runs, r->n_runs, sizeof *r->runs};
}

static void run_range(const hs__table_row *row, hs__cell *ret)
{
    const hs_span *run = row->item;
    ret->range[0] = run->start;
    ret->range[1] = run->end;
}

static void region_means(const hs__table_row *row, hs__cell *ret)
{
    const regions *r = row->item;
    ret->block = (hs__cell_block){r->means, 2, {r->n_runs, r->n_runs}};
}

static size_t runs_max(const hs__measures *m)
{
    return m->n_tokens;
}

static void means_most(const hs__measures *m, size_t ret_lengths[2])
{
    ret_lengths[0] = ret_lengths[1] = m->n_tokens;
}

static const hs__table high_table = {
    .kind = HS__TABLE_LIST,
    .arrays = "high_attention",
    .columns = (const hs__table_column[]){{"", .type = HS__CELL_POSITION, .member = HS__MEMBER_U16}, {0}},
    .rows = high_rows,
    .rows_max = runs_max};

static const hs__table run_table = {
    .kind = HS__TABLE_LIST,
    .arrays = "runs",
    .columns = (const hs__table_column[]){{"", .type = HS__CELL_RANGE, .get = run_range}, {0}},
    .rows = run_rows,
    .rows_max = runs_max};

static const hs__table_column region_columns[] = {
    {"high_attention", .type = HS__CELL_TABLE, .table = &high_table, .ragged = true},
    {"runs", .type = HS__CELL_TABLE, .table = &run_table, .ragged = true},
    {"means", .type = HS__CELL_BLOCK, .get = region_means, .most = means_most, .ragged = true},
    {0},
};

static const hs__table region_table = {.kind = HS__TABLE_HEADS,
                                       .arrays = "regions_",
                                       .columns = region_columns,
                                       .offset = offsetof(regions_of_heads, heads),
                                       .stride = sizeof(regions)};

static size_t regions_bytes(const hs__measures *m)
{
    return hs__table_arrays_max(&region_table, m);
}

static const hs__structure regions_structure = {
    .begin = regions_begin,
    .add_head = regions_add_head,
    .destroy = regions_destroy,
    .table = &region_table,
};

const hs__output hs__output_row_regions = {.taps = HS_KEEP(ATTENTION) | HS_KEEP(SIMILARITY),
                                           .structure = &regions_structure,
                                           .bytes = regions_bytes,
                                           .not_cross = HS__CUT_AT};

/* ==== segments ==== */

/* Segments of the text, found from all heads of a layer, and their ranges in the text. */

typedef struct layer_segments {
    hs_segment *items;
    size_t n;
} layer_segments;

typedef struct segments {
    size_t n_layers;
    layer_segments layers[];
} segments;

/* The maps of a layer: kept, or computed again in `map`. */
typedef struct layer_maps {
    const hs__answer *answer;
    size_t layer; /* its position in the capture */
    float *map;   /* [T][T]; NULL: they are kept */
    hs_error *err;
} layer_maps;

static const float *layer_attention(void *context, size_t head)
{
    const layer_maps *m = context;
    const hs__answer *a = m->answer;
    const float *map;
    return hs__answer_attention_rows(a, m->layer, head, 0, a->capture->n_tokens, m->map, &map, m->err) ||
                   hs__answer_cancelled(a)
               ? NULL
               : map;
}

static const float *layer_similarity(void *context, size_t head)
{
    const layer_maps *m = context;
    const float *map;
    return hs__answer_similarity_map(m->answer, m->layer, head, m->map, &map, m->err) ||
                   hs__answer_cancelled(m->answer)
               ? NULL
               : map;
}

static hs_status find_segments(const hs__answer *a, size_t l, float *map, layer_segments *ret, hs_error *err)
{
    const size_t T = a->text->rows.n_tokens;
    layer_maps layer = {.answer = a, .layer = a->layer_at[l], .map = map, .err = err};
    const hs_head_maps maps = {layer_attention, layer_similarity, &layer};
    ret->items = malloc(T * sizeof *ret->items);
    const size_t n = ret->items ? hs_segments_find_in(&maps, a->capture->n_heads, T, a->text->rows.special,
                                                      a->masked, a->analysis->attention_threshold, ret->items)
                                : SIZE_MAX;
    if (n == SIZE_MAX)
        return hs__answer_cancelled(a) ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for segments");
    ret->n = n;
    return HS_OK;
}

static size_t segments_bytes(const hs__measures *m)
{
    return m->again ? m->n_tokens * m->n_tokens * sizeof(float) : 0;
}

static hs_status segments_compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    const size_t n = a->analysis->n_layers, T = a->text->rows.n_tokens;
    const bool again = !a->capture->arrays[HS_TAP_ATTENTION] || !a->capture->arrays[hs__answer_similarity(a)];
    segments *table = calloc(1, sizeof *table + n * sizeof *table->layers);
    hs_status st = HS_OK;
    if (!table)
        return hs_fail(err, HS_NO_MEMORY, "no memory for segments");
    *ret_result = table;
    table->n_layers = n;
    float *map = again ? hs_memory_create(T * T * sizeof *map) : NULL;
    if (again && !map)
        return hs_fail(err, HS_NO_MEMORY, "no memory for segments");
    for (size_t l = 0; l < n && !st && !hs__answer_cancelled(a); l++)
        st = find_segments(a, l, map, &table->layers[l], err);
    free(map);
    return st;
}

static void segments_destroy(void *result)
{
    segments *table = result;
    for (size_t l = 0; l < table->n_layers; l++)
        free(table->layers[l].items);
    free(table);
}

/* ---- columns ---- */

/* Finds the range of a segment in the text or in its pair, in code points. Returns false if it has no token
 * there: a request of ids has no text. The range is then -1 -1. */
static bool range_in(const hs__table_row *row, uint8_t text, int32_t ret_range[2])
{
    const hs_segment *segment = row->item;
    const hs_encoding *e = &row->answer->text->rows;
    bool present = false;
    ret_range[0] = ret_range[1] = -1;
    for (size_t i = segment->start; i < segment->end && row->answer->analysis->input.text.bytes; i++) {
        if (e->special[i] || e->texts[i] != text)
            continue;
        if (!present)
            ret_range[0] = (int32_t)e->starts[i];
        present = true;
        ret_range[1] = (int32_t)e->ends[i];
    }
    return present;
}

static hs_bytes part_in(const hs__table_row *row, uint8_t number, const hs_text *text)
{
    int32_t range[2];
    if (!range_in(row, number, range))
        return (hs_bytes){"", 0};
    const hs_text part = hs__text_part(text, (size_t)range[0], (size_t)range[1]);
    return (hs_bytes){part.bytes, part.n_bytes};
}

static void segment_layer(const hs__table_row *row, hs__cell *ret)
{
    ret->integer = row->answer->analysis->layers[row->at];
}

static void segment_tokens(const hs__table_row *row, hs__cell *ret)
{
    const hs_segment *segment = row->item;
    ret->range[0] = segment->start;
    ret->range[1] = segment->end;
}

static void segment_chars(const hs__table_row *row, hs__cell *ret)
{
    ret->null = !range_in(row, 0, ret->range);
}

static void segment_text(const hs__table_row *row, hs__cell *ret)
{
    ret->text = part_in(row, 0, &row->answer->analysis->input.text);
}

static void segment_pair_chars(const hs__table_row *row, hs__cell *ret)
{
    ret->null = !range_in(row, 1, ret->range);
}

static void segment_pair_text(const hs__table_row *row, hs__cell *ret)
{
    ret->text = part_in(row, 1, &row->answer->analysis->input.text_pair);
}

static bool has_pair(const hs__analysis_request *analysis)
{
    return analysis->input.text_pair.bytes;
}

static const hs__table_column segment_columns[] = {
    {"layer", .type = HS__CELL_POSITION, .place = HS__IN_ARRAYS, .get = segment_layer},
    {"tokens", .type = HS__CELL_RANGE, .place = HS__IN_ARRAYS, .get = segment_tokens},
    {"start", .type = HS__CELL_POSITION, .place = HS__IN_JSON, HS__MEMBER(hs_segment, start)},
    {"end", .type = HS__CELL_POSITION, .place = HS__IN_JSON, HS__MEMBER(hs_segment, end)},
    {"chars", .type = HS__CELL_RANGE, .get = segment_chars, .nullable = true},
    {"text", .type = HS__CELL_TEXT, .get = segment_text},
    {"pair_chars", .type = HS__CELL_RANGE, .get = segment_pair_chars, .nullable = true,
     .is_answered = has_pair},
    {"pair_text", .type = HS__CELL_TEXT, .get = segment_pair_text, .is_answered = has_pair},
    {"cohesion", .type = HS__CELL_NUMBER, HS__MEMBER(hs_segment, cohesion)},
    {"contrast", .type = HS__CELL_NUMBER, HS__MEMBER(hs_segment, contrast)},
    {0},
};

static hs__table_rows segment_rows(const hs__table_row *outer, size_t l)
{
    const layer_segments *layer = &((const segments *)outer->item)->layers[l];
    return (hs__table_rows){layer->items, layer->n, sizeof *layer->items};
}

static size_t segments_max(const hs__measures *m)
{
    return m->analysis->n_layers * m->n_tokens;
}

/* The segments of a layer do not overlap. */
static size_t segment_texts_max(const hs__measures *m)
{
    const hs__input *input = &m->analysis->input;
    return m->analysis->n_layers * 6 * (input->text.n_bytes + input->text_pair.n_bytes);
}

static const hs__table segment_table = {.kind = HS__TABLE_BY_LAYER,
                                        .arrays = "segments_",
                                        .columns = segment_columns,
                                        .rows = segment_rows,
                                        .rows_max = segments_max,
                                        .texts_max = segment_texts_max};

static const hs__structure segments_structure = {
    .compute = segments_compute,
    .destroy = segments_destroy,
    .table = &segment_table,
};

const hs__output hs__output_row_segments = {.taps = HS_KEEP(ATTENTION) | HS_KEEP(SIMILARITY),
                                            .structure = &segments_structure,
                                            .every_head = true,
                                            .not_cross = HS__CUT_AT,
                                            .bytes = segments_bytes,
                                            .again = HS__AGAIN};
