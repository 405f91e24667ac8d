/* output_summary.c - figures of one head: its pairs, their tokens and distances, and its attention. */
#include "api/head_figures.h"
#include "api/output_structures.h"

#include <assert.h>
#include <stdlib.h>

/* The figures by name, in the order of the answer. The number of high pairs follows the first one, the focal
 * token the next N_OF_PAIRS. */
static const hs__head_figure figures[] = {
#define FIGURE(name) HS__HEAD_FIGURE("summary", hs_head_summary, name, NULL)
    FIGURE(max_similarity),      FIGURE(repeated_share),
    FIGURE(same_sentence_share), FIGURE(repeated_same_sentence_share),
    FIGURE(mean_distance),       FIGURE(focal_share),
    FIGURE(attention_entropy),   FIGURE(separator_attention),
    FIGURE(snr_dprime),
#undef FIGURE
};
enum { N_FIGURES = sizeof figures / sizeof *figures, N_OF_PAIRS = 4, N_LAST = N_FIGURES - 1 - N_OF_PAIRS };

/* Marks [CLS], [SEP] and sentence ends with 1. */
static void mark_separators(const hs__answer *a, uint8_t *ret_separators)
{
    const hs_encoding *e = a->encoding;
    for (size_t i = 0; i < e->n_tokens; i++)
        ret_separators[i] =
            e->special[i] || e->roles[i] == HS_ROLE_FIRST || e->roles[i] == HS_ROLE_SEPARATOR || a->ends[i];
}

static hs_status compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    const size_t T = a->encoding->n_tokens, n = a->analysis->n_layers * a->analysis->n_heads;
    assert(n > 0);
    int32_t *first = malloc(T * sizeof *first);
    uint8_t *separators = malloc(T);
    hs_head_summary *summaries = calloc(n, sizeof *summaries);
    *ret_result = summaries;
    hs_status st = HS_OK;
    if (!first || !separators || !summaries) {
        st = hs_fail(err, HS_NO_MEMORY, "no memory for summaries");
        goto out;
    }
    hs_repeats_find(a->encoding->ids, T, first);
    mark_separators(a, separators);
    const hs_text_facts facts = {T, first, a->sentences, separators, a->masked};
    for (size_t i = 0; i < n && !st && !hs__answer_cancelled(a); i++) {
        const size_t l = i / a->analysis->n_heads, h = i % a->analysis->n_heads;
        st = hs_head_summarize(hs__answer_at(a, HS_TAP_ATTENTION, l, h),
                               hs__answer_at(a, hs__answer_similarity(a), l, h), &facts,
                               a->analysis->threshold, &summaries[i], err);
    }
out:
    free(first);
    free(separators);
    return st;
}

static void write_head(hs_buffer *b, const hs__answer *a, const void *result, size_t at)
{
    const hs_head_summary *s = &((const hs_head_summary *)result)[at];
    hs_buffer_text(b, "{");
    hs__head_figures_write(b, a, figures, 1, s);
    hs__json_key(b, "high_pairs");
    hs__json_integer(b, (int64_t)s->high_pairs);
    hs_buffer_text(b, ",");
    hs__head_figures_write(b, a, figures + 1, N_OF_PAIRS, s);
    hs__json_key(b, "focal_token");
    if (s->focal_token < 0)
        hs_buffer_text(b, "null,\"focal_position\":null");
    else {
        hs__json_token(b, a, (size_t)s->focal_token);
        hs__json_key(b, "focal_position");
        hs__json_integer(b, s->focal_token);
    }
    hs_buffer_text(b, ",");
    hs__head_figures_write(b, a, figures + 1 + N_OF_PAIRS, N_LAST, s);
    hs_buffer_add(b, "}", 1);
}

static void add_arrays(hs_arrays *arrays, const hs__answer *a, const void *result)
{
    const hs_head_summary *summaries = result;
    hs__head_figures_add(arrays, a, figures, N_FIGURES, summaries, sizeof *summaries);
    const size_t n_layers = a->analysis->n_layers, n_heads = a->analysis->n_heads;
    int64_t *high = hs_arrays_add(arrays, "summary_high_pairs", HS_ELEMENT_I8, 2, n_layers, n_heads);
    int32_t *focal = hs_arrays_add(arrays, "summary_focal_position", HS_ELEMENT_I4, 2, n_layers, n_heads);
    for (size_t i = 0; i < n_layers * n_heads && !arrays->failed; i++) {
        high[i] = (int64_t)summaries[i].high_pairs;
        focal[i] = summaries[i].focal_token;
    }
}

static size_t json_bytes_max(const hs__measures *m)
{
    return m->n_heads * (400 + m->token + 9 * m->number);
}

static size_t array_bytes_max(const hs__measures *m)
{
    return m->n_heads * 64;
}

const hs__structure hs__structure_summary = {
    .compute = compute,
    .destroy = free,
    .write_head = write_head,
    .add_arrays = add_arrays,
    .json_bytes_max = json_bytes_max,
    .array_bytes_max = array_bytes_max,
};
