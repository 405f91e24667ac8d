/* output_distances.c - distances between all requested heads, as one matrix over layers and heads in
 * row-major order. Includes special tokens regardless of special_tokens. */
#include "api/output_structures.h"
#include "engine/analysis/distances.h"

#include <math.h>
#include <stdlib.h>

typedef struct distances {
    size_t n;
    double *values; /* [n][n], owned */
} distances;

unsigned hs__head_distances_taps(const hs__analysis_request *analysis)
{
    return analysis->head_distance == HS__DISTANCE_JS ? HS_KEEP(ATTENTION) : HS_KEEP(SIMILARITY);
}

/* maps and entropies are scratch of n elements. */
static hs_status measure_js(const hs__answer *a, const float **maps, double *entropies, distances *d)
{
    const size_t n = d->n;
    for (size_t i = 0; i < n; i++)
        maps[i] = hs__answer_at(a, HS_TAP_ATTENTION, i / a->analysis->n_heads, i % a->analysis->n_heads);
    for (size_t row = 0; row < a->capture->n_tokens && !hs__answer_cancelled(a); row++)
        hs_heads_js_add(maps, n, a->capture->n_tokens, row, entropies, d->values);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            d->values[i * n + j] = d->values[j * n + i];
    return HS_OK;
}

static hs_status measure_cka(const hs__answer *a, const float **maps, distances *d, hs_error *err)
{
    for (size_t i = 0; i < d->n; i++)
        maps[i] =
            hs__answer_at(a, hs__answer_similarity(a), i / a->analysis->n_heads, i % a->analysis->n_heads);
    void *scratch = malloc(hs_heads_hsic_bytes(d->n, a->capture->n_tokens));
    if (!scratch)
        return hs_fail(err, HS_NO_MEMORY, "no memory for distances of heads");
    hs_heads_hsic_add(maps, d->n, a->capture->n_tokens, scratch, d->values);
    hs_heads_cka_distance(d->values, d->n);
    free(scratch);
    return HS_OK;
}

static hs_status measure(const hs__answer *a, distances *d, hs_error *err)
{
    const float **maps = malloc(d->n * sizeof *maps);
    double *entropies = malloc(d->n * sizeof *entropies);
    hs_status st = HS_NO_MEMORY;
    if (maps && entropies)
        st = a->analysis->head_distance == HS__DISTANCE_JS ? measure_js(a, maps, entropies, d)
                                                           : measure_cka(a, maps, d, err);
    free(maps);
    free(entropies);
    return st ? hs_fail(err, st, "no memory for distances of heads") : HS_OK;
}

static void destroy(void *result)
{
    distances *d = result;
    free(d->values);
    free(d);
}

static hs_status compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    distances *d = calloc(1, sizeof *d);
    if (!d)
        return hs_fail(err, HS_NO_MEMORY, "no memory for distances of heads");
    *ret_result = d;
    d->n = a->analysis->n_layers * a->analysis->n_heads;
    d->values = calloc(d->n * d->n, sizeof *d->values);
    return d->values ? measure(a, d, err) : hs_fail(err, HS_NO_MEMORY, "no memory for distances of heads");
}

static void write_json(hs_buffer *b, const hs__answer *a, const void *result)
{
    const distances *d = result;
    hs_buffer_text(b, "[");
    for (size_t i = 0; i < d->n; i++) {
        hs_buffer_text(b, i ? ",[" : "[");
        for (size_t j = 0; j < d->n; j++) {
            hs__json_comma(b, j);
            hs__json_float(b, (float)d->values[i * d->n + j], (int)a->analysis->digits);
        }
        hs_buffer_text(b, "]");
    }
    hs_buffer_text(b, "]");
}

static void add_arrays(hs_arrays *arrays, const hs__answer *a, const void *result)
{
    const distances *d = result;
    (void)a;
    float *to = hs_arrays_add(arrays, "head_distances", HS_ELEMENT_F4, 2, d->n, d->n);
    for (size_t i = 0; i < d->n * d->n && to; i++)
        to[i] = (float)d->values[i];
}

static size_t json_bytes_max(const hs__measures *m)
{
    return 64 + m->n_heads * (3 + m->n_heads * m->number);
}

static size_t array_bytes_max(const hs__measures *m)
{
    return 4 * m->n_heads * m->n_heads;
}

const hs__structure hs__structure_head_distances = {
    .compute = compute,
    .destroy = destroy,
    .write_json = write_json,
    .add_arrays = add_arrays,
    .json_bytes_max = json_bytes_max,
    .array_bytes_max = array_bytes_max,
};
