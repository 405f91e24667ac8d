/* output_pairs.c - pairs of tokens whose similarity is high: a list in JSON, columns in arrays. */
#include "api/output_structures.h"

#include <stdlib.h>
#include <string.h>

typedef struct pair_list {
    hs_pair *items;
    size_t n;
    uint64_t total; /* before max_pairs */
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
        const hs_selection selection = {analysis->layers, analysis->n_layers, analysis->heads,
                                        analysis->n_heads, 1u << tap};
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

static hs_status compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    pair_list *pairs = calloc(1, sizeof *pairs);
    *ret_result = pairs;
    return pairs ? find_pairs(a, pairs, err) : hs_fail(err, HS_NO_MEMORY, "no memory for pairs");
}

static void destroy(void *result)
{
    pair_list *pairs = result;
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

static void write_json(hs_buffer *b, const hs__answer *a, const void *result)
{
    const pair_list *pairs = result;
    hs_buffer_add(b, "[", 1);
    for (size_t p = 0; p < pairs->n; p++) {
        hs__json_comma(b, p);
        write_pair(b, a, &pairs->items[p]);
    }
    hs_buffer_add(b, "]", 1);
}

static void add_arrays(hs_arrays *arrays, const hs__answer *a, const void *result)
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

static size_t n_max(const hs__measures *m)
{
    const size_t n = m->n_heads * (m->n_tokens * (m->n_tokens - 1) / 2);
    return n < m->analysis->max_pairs ? n : m->analysis->max_pairs;
}

static size_t json_bytes_max(const hs__measures *m)
{
    return n_max(m) * (170 + 2 * m->token + 2 * m->number);
}

static size_t array_bytes_max(const hs__measures *m)
{
    return n_max(m) * 32;
}

static uint64_t total(const void *result)
{
    return ((const pair_list *)result)->total;
}

const hs__structure hs__structure_pairs = {
    .compute = compute,
    .destroy = destroy,
    .write_json = write_json,
    .add_arrays = add_arrays,
    .json_bytes_max = json_bytes_max,
    .array_bytes_max = array_bytes_max,
    .total_name = "pairs_total",
    .total = total,
};
