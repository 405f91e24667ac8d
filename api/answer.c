#include "api/answer.h"

#include "api/formats/number.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool hs__answer_cancelled(const hs__answer *answer)
{
    const atomic_int *cancelled = answer->request->cancelled;
    return cancelled && atomic_load_explicit(cancelled, memory_order_relaxed);
}

size_t hs__answer_map_heads(const hs__ask *ask)
{
    return ask->reduce == HS__REDUCE_NONE ? ask->n_heads : 1;
}

/* Where the numbers asked for lie among the captured ones; both ascending, the former among the latter. */
static void locate(const uint16_t *asked, size_t n_asked, const uint16_t *captured, uint16_t *ret_at)
{
    uint16_t at = 0;
    for (size_t i = 0; i < n_asked; i++) {
        while (captured[at] != asked[i])
            at++;
        ret_at[i] = at;
    }
}

static const float *attention(const hs__answer *a, size_t l, size_t h)
{
    return hs_capture_at(a->capture, HS_TAP_ATTENTION, a->layer_at[l], a->head_at[h]);
}

static const float *similarity(const hs__answer *a, size_t l, size_t h)
{
    return hs_capture_at(a->capture, HS_TAP_SIMILARITY, a->layer_at[l], a->head_at[h]);
}

/* hs_pairs_find looks at whole captures: where more was captured than asked for, at a copy of the part. */
static hs_status find_pairs(hs__answer *a, hs_error *err)
{
    const hs__ask *ask = a->ask;
    const hs_capture *whole = a->capture;
    hs_capture *part = NULL;
    hs_status st = HS_OK;
    if (whole->n_layers != ask->n_layers || whole->n_heads != ask->n_heads) {
        const size_t T = whole->n_tokens;
        const hs_selection selection = {ask->layers, ask->n_layers, ask->heads, ask->n_heads,
                                        HS_KEEP(SIMILARITY)};
        st = hs_capture_create(hs_engine_runtime(a->model->engine), a->model->shape, &selection, T, &part,
                               err);
        if (st)
            return st;
        for (size_t l = 0; l < ask->n_layers; l++) {
            for (size_t h = 0; h < ask->n_heads; h++)
                memcpy(hs_capture_at(part, HS_TAP_SIMILARITY, l, h), similarity(a, l, h),
                       T * T * sizeof(float));
        }
    }
    st = hs_pairs_find(part ? part : whole, a->masked, ask->threshold, ask->max_pairs, a->request->n_threads,
                       &a->pairs, &a->n_pairs, &a->pairs_total, err);
    hs_capture_destroy(part);
    return st;
}

static hs_status find_regions(hs__answer *a, hs_error *err)
{
    const size_t T = a->encoding->n_tokens, n = a->ask->n_layers * a->ask->n_heads;
    assert(n > 0);
    uint16_t *high = malloc(T * sizeof *high);
    hs_span *runs = malloc(T * sizeof *runs);
    a->regions = calloc(n, sizeof *a->regions);
    bool failed = !high || !runs || !a->regions;
    for (size_t i = 0; i < n && !failed && !hs__answer_cancelled(a); i++) {
        const size_t l = i / a->ask->n_heads, h = i % a->ask->n_heads;
        hs__regions *r = &a->regions[i];
        hs_column_profile(attention(a, l, h), T, a->masked, a->scratch);
        r->n_high = hs_high_tokens(a->scratch, T, a->ask->attention_threshold, high);
        r->n_runs = hs_runs_cut(high, r->n_high, T, runs);
        const size_t n_means = r->n_runs * r->n_runs;
        r->means = malloc(n_means * sizeof(float) + r->n_runs * sizeof *runs + r->n_high * sizeof *high + 1);
        failed = !r->means;
        if (failed)
            break;
        r->runs = (hs_span *)(r->means + n_means);
        r->high = (uint16_t *)(r->runs + r->n_runs);
        memcpy(r->runs, runs, r->n_runs * sizeof *runs);
        memcpy(r->high, high, r->n_high * sizeof *high);
        hs_region_means(similarity(a, l, h), T, a->masked, runs, r->n_runs, r->means);
    }
    free(high);
    free(runs);
    return failed ? hs_fail(err, HS_NO_MEMORY, "no memory for regions") : HS_OK;
}

static hs_status find_segments(hs__answer *a, hs_error *err)
{
    const size_t T = a->encoding->n_tokens, n_heads = a->capture->n_heads;
    assert(a->ask->n_layers > 0);
    a->segments = calloc(a->ask->n_layers, sizeof *a->segments);
    bool failed = !a->segments;
    for (size_t l = 0; l < a->ask->n_layers && !failed && !hs__answer_cancelled(a); l++) {
        hs__segments *s = &a->segments[l];
        s->items = malloc(T * sizeof *s->items);
        if (s->items)
            s->n =
                hs_segments_find(hs_capture_at(a->capture, HS_TAP_ATTENTION, a->layer_at[l], 0),
                                 hs_capture_at(a->capture, HS_TAP_SIMILARITY, a->layer_at[l], 0), n_heads, T,
                                 a->encoding->special, a->masked, a->ask->attention_threshold, s->items);
        failed = !s->items || s->n == SIZE_MAX;
        if (failed)
            s->n = 0;
    }
    return failed ? hs_fail(err, HS_NO_MEMORY, "no memory for segments") : HS_OK;
}

/* 1 for [CLS], [SEP] and sentence ends, wherever they stand. */
static void mark_separators(const hs__answer *a, uint8_t *ret_separators)
{
    const hs_encoding *e = a->encoding;
    for (size_t i = 0; i < e->n_tokens; i++)
        ret_separators[i] = e->special[i] || e->roles[i] == HS_ROLE_FIRST ||
                            e->roles[i] == HS_ROLE_SEPARATOR || hs__ask_ends_sentence(a->ask, e, i);
}

static hs_status summarize(hs__answer *a, hs_error *err)
{
    const size_t T = a->encoding->n_tokens, n = a->ask->n_layers * a->ask->n_heads;
    assert(n > 0);
    int32_t *first = malloc(T * sizeof *first);
    uint8_t *separators = malloc(T);
    a->summaries = calloc(n, sizeof *a->summaries);
    hs_status st = HS_OK;
    if (!first || !separators || !a->summaries) {
        st = hs_fail(err, HS_NO_MEMORY, "no memory for summaries");
        goto out;
    }
    hs_repeats_find(a->encoding->ids, T, first);
    mark_separators(a, separators);
    const hs_text_facts facts = {T, first, a->sentences, separators, a->masked};
    for (size_t i = 0; i < n && !st && !hs__answer_cancelled(a); i++) {
        const size_t l = i / a->ask->n_heads, h = i % a->ask->n_heads;
        st = hs_head_summarize(attention(a, l, h), similarity(a, l, h), &facts, a->ask->threshold,
                               &a->summaries[i], err);
    }
out:
    free(first);
    free(separators);
    return st;
}

hs_status hs__answer_analyze(hs__answer *a, hs_error *err)
{
    const unsigned outputs = a->ask->outputs;
    if (!a->capture)
        return HS_OK;
    locate(a->ask->layers, a->ask->n_layers, a->capture->layers, a->layer_at);
    locate(a->ask->heads, a->ask->n_heads, a->capture->heads, a->head_at);
    const size_t T = a->capture->n_tokens, d = a->capture->head_width;
    a->scratch = malloc(2 * T * (T > d ? T : d) * sizeof(float));
    hs_status st = a->scratch ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for the answer's maps");
    if (!st && (outputs & HS__PAIRS))
        st = find_pairs(a, err);
    if (!st && (outputs & HS__REGIONS))
        st = find_regions(a, err);
    if (!st && (outputs & HS__SEGMENTS))
        st = find_segments(a, err);
    if (!st && (outputs & HS__SUMMARY))
        st = summarize(a, err);
    if (!st && hs__answer_cancelled(a))
        st = hs_fail(err, HS_CANCELLED, "cancelled");
    return st;
}

/* One head's map, normalised into `into` where that is asked for. */
static const float *head_map(const hs__answer *a, unsigned output, size_t l, size_t h, float *into)
{
    if (output == HS__ATTENTIONS)
        return attention(a, l, h);
    if (output == HS__HEAD_OUTPUTS)
        return hs_capture_at(a->capture, HS_TAP_HEAD_OUTPUT, a->layer_at[l], a->head_at[h]);
    const float *map = similarity(a, l, h);
    if (!a->ask->normalize)
        return map;
    const size_t T = a->capture->n_tokens;
    hs_similarity_normalize(map, T, a->masked, hs_similarity_max(map, T, a->masked), into);
    return into;
}

const float *hs__answer_map(const hs__answer *a, unsigned output, size_t l, size_t h)
{
    const size_t T = a->capture->n_tokens, d = a->capture->head_width;
    if (a->ask->reduce == HS__REDUCE_NONE)
        return head_map(a, output, l, h, a->scratch);
    const size_t n = T * (output == HS__HEAD_OUTPUTS ? d : T);
    float *sum = a->scratch, *one = a->scratch + T * (T > d ? T : d);
    const float weight = a->ask->reduce == HS__REDUCE_MEAN ? 1.0f / (float)a->ask->n_heads : 1.0f;
    memset(sum, 0, n * sizeof *sum);
    for (size_t head = 0; head < a->ask->n_heads; head++) {
        const float *map = head_map(a, output, l, head, one);
        for (size_t i = 0; i < n; i++)
            sum[i] += map[i] * weight;
    }
    return sum;
}

const float *hs__answer_hidden_state(const hs__answer *a, size_t s)
{
    const size_t at = s == 0 ? 0 : (size_t)a->layer_at[s - 1] + 1;
    return a->capture->arrays[HS_TAP_HIDDEN_STATE] + at * a->capture->n_tokens * a->capture->hidden;
}

/* The byte at which code point number `point` of valid UTF-8 begins. */
static const char *find_point(const hs_text *text, uint32_t point)
{
    const char *at = text->bytes, *end = text->bytes + text->n_bytes;
    for (; at < end; at++) {
        if (((unsigned char)*at & 0xc0) != 0x80 && point-- == 0)
            break;
    }
    return at;
}

void hs__answer_slices(const hs__answer *a, const hs_segment *segment, hs__slice ret_slices[2])
{
    const hs_encoding *e = a->encoding;
    ret_slices[0] = ret_slices[1] = (hs__slice){.bytes = ""};
    for (size_t i = segment->start; i < segment->end; i++) {
        hs__slice *slice = &ret_slices[e->types[i] != 0];
        if (e->special[i])
            continue;
        if (!slice->present)
            slice->start = e->starts[i];
        slice->present = true;
        slice->end = e->ends[i];
    }
    for (size_t t = 0; t < 2; t++) {
        hs__slice *slice = &ret_slices[t];
        const hs_text *text = t == 0 ? &a->ask->text : &a->ask->pair;
        if (!slice->present)
            continue;
        slice->bytes = find_point(text, slice->start);
        const hs_text rest = {slice->bytes, text->n_bytes - (size_t)(slice->bytes - text->bytes)};
        slice->n_bytes = (size_t)(find_point(&rest, slice->end - slice->start) - slice->bytes);
    }
}

void hs__answer_finish(hs__answer *a)
{
    for (size_t i = 0; a->regions && i < a->ask->n_layers * a->ask->n_heads; i++)
        free(a->regions[i].means);
    for (size_t l = 0; a->segments && l < a->ask->n_layers; l++)
        free(a->segments[l].items);
    free(a->regions);
    free(a->segments);
    free(a->pairs);
    free(a->summaries);
    free(a->scratch);
    *a = (hs__answer){0};
}
