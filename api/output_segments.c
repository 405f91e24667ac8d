/* output_segments.c - segments of the text, found from all heads of a layer, and their ranges in the text. */
#include "api/output_structures.h"

#include <stdlib.h>

typedef struct layer_segments {
    hs_segment *items;
    size_t n;
} layer_segments;

typedef struct segment_table {
    size_t n_layers;
    layer_segments layers[];
} segment_table;

static hs_status find_segments(const hs__answer *a, size_t l, layer_segments *ret, hs_error *err)
{
    const size_t T = a->encoding->n_tokens;
    const float *attention = hs_capture_at(a->capture, HS_TAP_ATTENTION, a->layer_at[l], 0);
    const float *similarity = hs_capture_at(a->capture, hs__answer_similarity(a), a->layer_at[l], 0);
    ret->items = malloc(T * sizeof *ret->items);
    const size_t n =
        ret->items ? hs_segments_find(attention, similarity, a->capture->n_heads, T, a->encoding->special,
                                      a->masked, a->analysis->attention_threshold, ret->items)
                   : SIZE_MAX;
    if (n == SIZE_MAX)
        return hs_fail(err, HS_NO_MEMORY, "no memory for segments");
    ret->n = n;
    return HS_OK;
}

static hs_status compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    const size_t n = a->analysis->n_layers;
    segment_table *table = calloc(1, sizeof *table + n * sizeof *table->layers);
    hs_status st = HS_OK;
    if (!table)
        return hs_fail(err, HS_NO_MEMORY, "no memory for segments");
    *ret_result = table;
    table->n_layers = n;
    for (size_t l = 0; l < n && !st && !hs__answer_cancelled(a); l++)
        st = find_segments(a, l, &table->layers[l], err);
    return st;
}

static void destroy(void *result)
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

static void write_json(hs_buffer *b, const hs__answer *a, const void *result)
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

static void add_arrays(hs_arrays *arrays, const hs__answer *a, const void *result)
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

static size_t json_bytes_max(const hs__measures *m)
{
    const size_t n_text = m->analysis->input.text.n_bytes + m->analysis->input.text_pair.n_bytes;
    return m->analysis->n_layers * (m->n_tokens * (160 + 2 * m->number) + 6 * n_text);
}

static size_t array_bytes_max(const hs__measures *m)
{
    return m->analysis->n_layers * m->n_tokens * 40;
}

const hs__structure hs__structure_segments = {
    .compute = compute,
    .destroy = destroy,
    .write_json = write_json,
    .add_arrays = add_arrays,
    .json_bytes_max = json_bytes_max,
    .array_bytes_max = array_bytes_max,
};
