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
    return hs_pair_pool_create(analysis->n_layers * analysis->n_heads, a->encoding->n_tokens, a->masked,
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

static bool is_same_token(const hs__answer *a, const hs_pair *pair)
{
    return a->encoding->ids[pair->i] == a->encoding->ids[pair->j];
}

static bool is_same_sentence(const hs__answer *a, const hs_pair *pair)
{
    return a->sentences[pair->i] == a->sentences[pair->j];
}

static void write_pair(hs_buffer *b, const hs__answer *a, const hs_pair *pair)
{
    hs_buffer_text(b, "{\"layer\":");
    hs__json_integer(b, pair->layer);
    hs__json_key(b, "head");
    hs__json_integer(b, pair->head);
    hs__json_key(b, "i");
    hs__json_integer(b, pair->i);
    hs__json_key(b, "j");
    hs__json_integer(b, pair->j);
    hs__json_key(b, "token_i");
    hs__json_token(b, a, pair->i);
    hs__json_key(b, "token_j");
    hs__json_token(b, a, pair->j);
    hs__json_key(b, "similarity");
    hs__json_float(b, pair->similarity, (int)a->analysis->digits);
    hs__json_key(b, "normalized");
    hs__json_float(b, pair->normalized, (int)a->analysis->digits);
    hs__json_key(b, "distance");
    hs__json_integer(b, pair->j - pair->i);
    hs__json_key(b, "same_token");
    hs__json_bool(b, is_same_token(a, pair));
    hs__json_key(b, "same_sentence");
    hs__json_bool(b, is_same_sentence(a, pair));
    hs_buffer_add(b, "}", 1);
}

static void pairs_write_json(hs_buffer *b, const hs__answer *a, const void *result)
{
    const pair_list *pairs = result;
    hs_buffer_add(b, "[", 1);
    for (size_t p = 0; p < pairs->n; p++) {
        hs__json_comma(b, p);
        write_pair(b, a, &pairs->items[p]);
    }
    hs_buffer_add(b, "]", 1);
}

static void pairs_add_arrays(hs_arrays *arrays, const hs__answer *a, const void *result)
{
    const pair_list *pairs = result;
    const size_t n = pairs->n;
    int32_t *layer = hs_arrays_add(arrays, "pairs_layer", HS_ELEMENT_I4, 1, n, 0);
    int32_t *head = hs_arrays_add(arrays, "pairs_head", HS_ELEMENT_I4, 1, n, 0);
    int32_t *i = hs_arrays_add(arrays, "pairs_i", HS_ELEMENT_I4, 1, n, 0);
    int32_t *j = hs_arrays_add(arrays, "pairs_j", HS_ELEMENT_I4, 1, n, 0);
    float *similarity = hs_arrays_add(arrays, "pairs_similarity", HS_ELEMENT_F4, 1, n, 0);
    float *normalized = hs_arrays_add(arrays, "pairs_normalized", HS_ELEMENT_F4, 1, n, 0);
    int32_t *distance = hs_arrays_add(arrays, "pairs_distance", HS_ELEMENT_I4, 1, n, 0);
    uint8_t *same_token = hs_arrays_add(arrays, "pairs_same_token", HS_ELEMENT_BOOL, 1, n, 0);
    uint8_t *same_sentence = hs_arrays_add(arrays, "pairs_same_sentence", HS_ELEMENT_BOOL, 1, n, 0);
    for (size_t p = 0; p < n && !arrays->failed; p++) {
        const hs_pair *pair = &pairs->items[p];
        layer[p] = pair->layer;
        head[p] = pair->head;
        i[p] = pair->i;
        j[p] = pair->j;
        similarity[p] = pair->similarity;
        normalized[p] = pair->normalized;
        distance[p] = pair->j - pair->i;
        same_token[p] = is_same_token(a, pair);
        same_sentence[p] = is_same_sentence(a, pair);
    }
}

static size_t pairs_n_max(const hs__measures *m)
{
    const size_t n = m->n_heads * (m->n_tokens * (m->n_tokens - 1) / 2);
    return n < m->analysis->max_pairs ? n : m->analysis->max_pairs;
}

static size_t pairs_json_bytes_max(const hs__measures *m)
{
    return pairs_n_max(m) * (170 + 2 * m->token + 2 * m->number);
}

static size_t pairs_array_bytes_max(const hs__measures *m)
{
    return pairs_n_max(m) * 32;
}

/* hs_pair_pool keeps up to twice as many as are answered. */
static size_t pairs_result_bytes(const hs__measures *m)
{
    const size_t n = m->n_heads * (m->n_tokens * (m->n_tokens - 1) / 2), most = 2 * m->analysis->max_pairs;
    return (n < most ? n : most) * sizeof(hs_pair);
}

static uint64_t pairs_total(const void *result)
{
    return ((const pair_list *)result)->total;
}

const hs__structure hs__structure_pairs = {
    .compute = pairs_compute,
    .begin = pairs_begin,
    .add_head = pairs_add_head,
    .end = pairs_end,
    .result_bytes = pairs_result_bytes,
    .destroy = pairs_destroy,
    .write_json = pairs_write_json,
    .add_arrays = pairs_add_arrays,
    .json_bytes_max = pairs_json_bytes_max,
    .array_bytes_max = pairs_array_bytes_max,
    .total_name = "pairs_total",
    .total = pairs_total,
};

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

typedef struct region_table {
    size_t n;        /* heads of all layers */
    regions heads[]; /* [l][h] */
} region_table;

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
    const size_t T = a->encoding->n_tokens;
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
    region_table *table = calloc(1, sizeof *table + n * sizeof *table->heads);
    *ret_result = table;
    if (!table)
        return hs_fail(err, HS_NO_MEMORY, "no memory for regions");
    table->n = n;
    return HS_OK;
}

static hs_status regions_add_head(const hs__answer *a, void *result, size_t at, const hs_observed_head *maps,
                                  hs_error *err)
{
    const size_t T = a->encoding->n_tokens;
    region_scratch scratch;
    scratch.sums = malloc(
        T * (sizeof *scratch.sums + sizeof *scratch.profile + sizeof *scratch.runs + sizeof *scratch.high));
    if (!scratch.sums)
        return hs_fail(err, HS_NO_MEMORY, "no memory for regions");
    scratch.profile = (void *)(scratch.sums + T);
    scratch.runs = (hs_span *)(scratch.profile + T);
    scratch.high = (uint16_t *)(scratch.runs + T);
    const hs_status st = find_regions(a, maps, &scratch, &((region_table *)result)->heads[at], err);
    free(scratch.sums);
    return st;
}

static void regions_destroy(void *result)
{
    region_table *table = result;
    for (size_t i = 0; i < table->n; i++)
        free(table->heads[i].means);
    free(table);
}

static void regions_write_head(hs_buffer *b, const hs__answer *a, const void *result, size_t at)
{
    const regions *r = &((const region_table *)result)->heads[at];
    hs_buffer_text(b, "{\"high_attention\":[");
    for (size_t i = 0; i < r->n_high; i++) {
        hs__json_comma(b, i);
        hs__json_integer(b, r->high[i]);
    }
    hs_buffer_text(b, "],\"runs\":[");
    for (size_t i = 0; i < r->n_runs; i++) {
        hs__json_comma(b, i);
        hs__json_range(b, r->runs[i].start, r->runs[i].end);
    }
    hs_buffer_text(b, "],\"means\":");
    hs__json_block(b, r->means, 2, (size_t[]){r->n_runs, r->n_runs}, (int)a->analysis->digits);
    hs_buffer_add(b, "}", 1);
}

/* Adds flat arrays, each with offsets: the part of head l * n_heads + h starts at its offset. A last offset
 * is the end. */
static void regions_add_arrays(hs_arrays *arrays, const hs__answer *a, const void *result)
{
    const region_table *table = result;
    const size_t n = table->n;
    (void)a;
    size_t n_high = 0, n_runs = 0, n_means = 0;
    for (size_t k = 0; k < n; k++) {
        n_high += table->heads[k].n_high;
        n_runs += table->heads[k].n_runs;
        n_means += table->heads[k].n_runs * table->heads[k].n_runs;
    }
    int32_t *high = hs_arrays_add(arrays, "regions_high_attention", HS_ELEMENT_I4, 1, n_high, 0);
    int64_t *high_at = hs_arrays_add(arrays, "regions_high_attention_offsets", HS_ELEMENT_I8, 1, n + 1, 0);
    int32_t *runs = hs_arrays_add(arrays, "regions_runs", HS_ELEMENT_I4, 2, n_runs, 2);
    int64_t *runs_at = hs_arrays_add(arrays, "regions_runs_offsets", HS_ELEMENT_I8, 1, n + 1, 0);
    float *means = hs_arrays_add(arrays, "regions_means", HS_ELEMENT_F4, 1, n_means, 0);
    int64_t *means_at = hs_arrays_add(arrays, "regions_means_offsets", HS_ELEMENT_I8, 1, n + 1, 0);
    for (size_t k = 0; k < n && !arrays->failed; k++) {
        const regions *r = &table->heads[k];
        high_at[k + 1] = high_at[k] + (int64_t)r->n_high;
        runs_at[k + 1] = runs_at[k] + (int64_t)r->n_runs;
        means_at[k + 1] = means_at[k] + (int64_t)(r->n_runs * r->n_runs);
        for (size_t i = 0; i < r->n_high; i++)
            high[high_at[k] + (int64_t)i] = r->high[i];
        for (size_t i = 0; i < r->n_runs; i++) {
            runs[2 * (runs_at[k] + (int64_t)i)] = r->runs[i].start;
            runs[2 * (runs_at[k] + (int64_t)i) + 1] = r->runs[i].end;
        }
        memcpy(means + means_at[k], r->means, r->n_runs * r->n_runs * sizeof(float));
    }
}

/* A run has two numbers; means have one for each pair of runs. */
static size_t regions_json_bytes_max(const hs__measures *m)
{
    return m->n_heads * (64 + m->n_tokens * (7 + 14 + 3) + m->n_tokens * m->n_tokens * m->number);
}

static size_t regions_array_bytes_max(const hs__measures *m)
{
    return m->n_heads * (32 + m->n_tokens * 12 + m->n_tokens * m->n_tokens * 4);
}

const hs__structure hs__structure_regions = {
    .begin = regions_begin,
    .add_head = regions_add_head,
    .result_bytes = regions_array_bytes_max,
    .destroy = regions_destroy,
    .write_head = regions_write_head,
    .add_arrays = regions_add_arrays,
    .json_bytes_max = regions_json_bytes_max,
    .array_bytes_max = regions_array_bytes_max,
};

/* ==== segments ==== */

/* Segments of the text, found from all heads of a layer, and their ranges in the text. */

typedef struct layer_segments {
    hs_segment *items;
    size_t n;
} layer_segments;

typedef struct segment_table {
    size_t n_layers;
    layer_segments layers[];
} segment_table;

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
    const size_t T = a->encoding->n_tokens;
    layer_maps layer = {.answer = a, .layer = a->layer_at[l], .map = map, .err = err};
    const hs_head_maps maps = {layer_attention, layer_similarity, &layer};
    ret->items = malloc(T * sizeof *ret->items);
    const size_t n = ret->items ? hs_segments_find_in(&maps, a->capture->n_heads, T, a->encoding->special,
                                                      a->masked, a->analysis->attention_threshold, ret->items)
                                : SIZE_MAX;
    if (n == SIZE_MAX)
        return hs__answer_cancelled(a) ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for segments");
    ret->n = n;
    return HS_OK;
}

size_t hs__segments_again_bytes(const hs__measures *m)
{
    return m->n_tokens * m->n_tokens * sizeof(float);
}

static hs_status segments_compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    const size_t n = a->analysis->n_layers, T = a->encoding->n_tokens;
    const bool again = a->again & HS__OUTPUT_BIT(segments);
    segment_table *table = calloc(1, sizeof *table + n * sizeof *table->layers);
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
    segment_table *table = result;
    for (size_t l = 0; l < table->n_layers; l++)
        free(table->layers[l].items);
    free(table);
}

/* A segment's range in the text or in its pair, in code points, and its bytes. */
typedef struct slice {
    bool present;
    uint32_t start, end;
    const char *bytes;
    size_t n_bytes;
} slice;

static void slice_text(slice *s, const hs_text *text)
{
    const hs_text part = hs__text_part(text, s->start, s->end);
    s->bytes = part.bytes;
    s->n_bytes = part.n_bytes;
}

static void find_slices(const hs__answer *a, const hs_segment *segment, slice ret_slices[2])
{
    const hs_encoding *e = a->encoding;
    ret_slices[0] = ret_slices[1] = (slice){.bytes = ""};
    for (size_t i = segment->start; i < segment->end; i++) {
        slice *s = &ret_slices[e->texts[i]];
        if (e->special[i] || !a->analysis->input.text.bytes)
            continue; /* requests of ids have no text */
        if (!s->present)
            s->start = e->starts[i];
        s->present = true;
        s->end = e->ends[i];
    }
    for (size_t t = 0; t < 2; t++)
        if (ret_slices[t].present)
            slice_text(&ret_slices[t], t == 0 ? &a->analysis->input.text : &a->analysis->input.text_pair);
}

static void write_chars(hs_buffer *b, const char *name, const slice *s)
{
    hs__json_key(b, name);
    if (s->present)
        hs__json_range(b, s->start, s->end);
    else
        hs_buffer_text(b, "null");
}

static void write_segment(hs_buffer *b, const hs__answer *a, const hs_segment *segment)
{
    slice slices[2];
    find_slices(a, segment, slices);
    hs_buffer_text(b, "{\"start\":");
    hs__json_integer(b, segment->start);
    hs__json_key(b, "end");
    hs__json_integer(b, segment->end);
    write_chars(b, "chars", &slices[0]);
    hs__json_key(b, "text");
    hs__json_string(b, slices[0].bytes, slices[0].n_bytes);
    if (a->analysis->input.text_pair.bytes) {
        write_chars(b, "pair_chars", &slices[1]);
        hs__json_key(b, "pair_text");
        hs__json_string(b, slices[1].bytes, slices[1].n_bytes);
    }
    hs__json_key(b, "cohesion");
    hs__json_float(b, segment->cohesion, (int)a->analysis->digits);
    hs__json_key(b, "contrast");
    hs__json_float(b, segment->contrast, (int)a->analysis->digits);
    hs_buffer_add(b, "}", 1);
}

static void segments_write_json(hs_buffer *b, const hs__answer *a, const void *result)
{
    const segment_table *table = result;
    hs_buffer_add(b, "[", 1);
    for (size_t l = 0; l < table->n_layers; l++) {
        hs__json_comma(b, l);
        hs_buffer_add(b, "[", 1);
        for (size_t i = 0; i < table->layers[l].n; i++) {
            hs__json_comma(b, i);
            write_segment(b, a, &table->layers[l].items[i]);
        }
        hs_buffer_add(b, "]", 1);
    }
    hs_buffer_add(b, "]", 1);
}

/* -1 where a segment has no token of the text, or of its pair. */
static void put_slice(int32_t *chars, size_t at, const slice *s)
{
    if (!chars)
        return;
    chars[2 * at] = s->present ? (int32_t)s->start : -1;
    chars[2 * at + 1] = s->present ? (int32_t)s->end : -1;
}

static void segments_add_arrays(hs_arrays *arrays, const hs__answer *a, const void *result)
{
    const segment_table *table = result;
    size_t n = 0;
    for (size_t l = 0; l < table->n_layers; l++)
        n += table->layers[l].n;
    int32_t *layer = hs_arrays_add(arrays, "segments_layer", HS_ELEMENT_I4, 1, n, 0);
    int32_t *tokens = hs_arrays_add(arrays, "segments_tokens", HS_ELEMENT_I4, 2, n, 2);
    int32_t *chars = hs_arrays_add(arrays, "segments_chars", HS_ELEMENT_I4, 2, n, 2);
    int32_t *pair_chars = a->analysis->input.text_pair.bytes
                              ? hs_arrays_add(arrays, "segments_pair_chars", HS_ELEMENT_I4, 2, n, 2)
                              : NULL;
    float *cohesion = hs_arrays_add(arrays, "segments_cohesion", HS_ELEMENT_F4, 1, n, 0);
    float *contrast = hs_arrays_add(arrays, "segments_contrast", HS_ELEMENT_F4, 1, n, 0);
    size_t at = 0;
    for (size_t l = 0; l < table->n_layers && !arrays->failed; l++) {
        for (size_t i = 0; i < table->layers[l].n; i++, at++) {
            const hs_segment *segment = &table->layers[l].items[i];
            slice slices[2];
            find_slices(a, segment, slices);
            layer[at] = a->analysis->layers[l];
            tokens[2 * at] = segment->start;
            tokens[2 * at + 1] = segment->end;
            put_slice(chars, at, &slices[0]);
            put_slice(pair_chars, at, &slices[1]);
            cohesion[at] = segment->cohesion;
            contrast[at] = segment->contrast;
        }
    }
}

static size_t segments_json_bytes_max(const hs__measures *m)
{
    const size_t n_text = m->analysis->input.text.n_bytes + m->analysis->input.text_pair.n_bytes;
    return m->analysis->n_layers * (m->n_tokens * (160 + 2 * m->number) + 6 * n_text);
}

static size_t segments_array_bytes_max(const hs__measures *m)
{
    return m->analysis->n_layers * m->n_tokens * 40;
}

const hs__structure hs__structure_segments = {
    .compute = segments_compute,
    .destroy = segments_destroy,
    .write_json = segments_write_json,
    .add_arrays = segments_add_arrays,
    .json_bytes_max = segments_json_bytes_max,
    .array_bytes_max = segments_array_bytes_max,
};
