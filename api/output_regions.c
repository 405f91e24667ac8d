/* output_regions.c - high-attention tokens, the runs between them, and the mean similarity of each pair of
 * runs. */
#include "api/output_structures.h"

#include <stdlib.h>
#include <string.h>

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

/* runs and high are scratch of T elements each. */
static hs_status find_regions(const hs__answer *a, size_t l, size_t h, hs_span *runs, uint16_t *high,
                              regions *ret, hs_error *err)
{
    const size_t T = a->encoding->n_tokens;
    float *profile = hs__answer_scratch(a, 0);
    hs_column_profile(hs__answer_at(a, HS_TAP_ATTENTION, l, h), T, a->masked, profile);
    ret->n_high = hs_high_tokens(profile, T, a->analysis->attention_threshold, high);
    ret->n_runs = hs_runs_cut(high, ret->n_high, T, runs);
    const size_t n_means = ret->n_runs * ret->n_runs;
    ret->means =
        malloc(n_means * sizeof(float) + ret->n_runs * sizeof *runs + ret->n_high * sizeof *high + 1);
    if (!ret->means)
        return hs_fail(err, HS_NO_MEMORY, "no memory for regions");
    ret->runs = (hs_span *)(ret->means + n_means);
    ret->high = (uint16_t *)(ret->runs + ret->n_runs);
    memcpy(ret->runs, runs, ret->n_runs * sizeof *runs);
    memcpy(ret->high, high, ret->n_high * sizeof *high);
    hs_region_means(hs__answer_at(a, hs__answer_similarity(a), l, h), T, a->masked, runs, ret->n_runs,
                    ret->means);
    return HS_OK;
}

static hs_status compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    const size_t T = a->encoding->n_tokens, n = a->analysis->n_layers * a->analysis->n_heads;
    region_table *table = calloc(1, sizeof *table + n * sizeof *table->heads);
    uint16_t *high = malloc(T * sizeof *high);
    hs_span *runs = malloc(T * sizeof *runs);
    hs_status st = HS_OK;
    *ret_result = table;
    if (!table || !high || !runs) {
        st = hs_fail(err, HS_NO_MEMORY, "no memory for regions");
        goto out;
    }
    table->n = n;
    for (size_t i = 0; i < n && !st && !hs__answer_cancelled(a); i++)
        st = find_regions(a, i / a->analysis->n_heads, i % a->analysis->n_heads, runs, high, &table->heads[i],
                          err);
out:
    free(high);
    free(runs);
    return st;
}

static void destroy(void *result)
{
    region_table *table = result;
    for (size_t i = 0; i < table->n; i++)
        free(table->heads[i].means);
    free(table);
}

static void write_head(hs_buffer *b, const hs__answer *a, const void *result, size_t at)
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
static void add_arrays(hs_arrays *arrays, const hs__answer *a, const void *result)
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
static size_t json_bytes_max(const hs__measures *m)
{
    return m->n_heads * (64 + m->n_tokens * (7 + 14 + 3) + m->n_tokens * m->n_tokens * m->number);
}

static size_t array_bytes_max(const hs__measures *m)
{
    return m->n_heads * (32 + m->n_tokens * 12 + m->n_tokens * m->n_tokens * 4);
}

const hs__structure hs__structure_regions = {
    .compute = compute,
    .destroy = destroy,
    .write_head = write_head,
    .add_arrays = add_arrays,
    .json_bytes_max = json_bytes_max,
    .array_bytes_max = array_bytes_max,
};
