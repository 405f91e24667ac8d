/* output_embedding.c - the sentence vector of a text. */
#include "api/output_structures.h"

#include <stdlib.h>

typedef struct embedding {
    size_t width;
    hs_pooling pooling;
    bool of_baseline;
    float vector[]; /* [width] */
} embedding;

static hs_status compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    const hs_architecture *architecture = hs_model_architecture(a->model->model);
    const hs_pooling pooling = hs__answer_pooling(a);
    const size_t width = hs_sentence_width(architecture, &pooling);
    embedding *e = malloc(sizeof *e + width * sizeof *e->vector);
    if (!e)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a sentence vector");
    e->width = width;
    e->pooling = pooling;
    e->of_baseline = a->capture == a->baseline;
    *ret_result = e;
    return hs_engine_embed(a->model->engine, &pooling, hs_capture_at(a->capture, HS_TAP_LAST_STATE, 0, 0),
                           a->capture->n_tokens, a->request->n_threads, e->vector, err);
}

static void write_json(hs_buffer *b, const hs__answer *a, const void *result)
{
    const embedding *e = result;
    const bool normalized = hs_model_architecture(a->model->model)->sentence.normalized;
    hs_buffer_text(b, "{\"pooling\":\"");
    for (size_t i = 0; i < e->pooling.n; i++) {
        hs_buffer_text(b, i > 0 ? "+" : "");
        hs_buffer_text(b, hs_pool_name(e->pooling.ways[i]));
    }
    hs_buffer_text(b, normalized ? "\",\"normalized\":true" : "\",\"normalized\":false");
    hs__json_key(b, "first_token");
    hs__json_integer(b, (int64_t)e->pooling.first);
    hs__json_key(b, "vector");
    hs__json_block(b, e->vector, 1, &e->width, (int)a->analysis->digits);
    hs_buffer_text(b, "}");
}

static void add_arrays(hs_arrays *arrays, const hs__answer *a, const void *result)
{
    const embedding *e = result;
    (void)a;
    hs_arrays_add_floats(arrays, e->of_baseline ? "changes_embedding" : "embedding", e->vector, 1, e->width,
                         0);
}

static size_t width_of(const hs__measures *m)
{
    return hs_sentence_width(m->architecture, hs_sentence_pooling(m->architecture, &m->analysis->pooling));
}

static size_t json_bytes_max(const hs__measures *m)
{
    return 256 + width_of(m) * m->number;
}

static size_t array_bytes_max(const hs__measures *m)
{
    return 4 * width_of(m);
}

const hs__structure hs__structure_embedding = {
    .compute = compute,
    .destroy = free,
    .write_json = write_json,
    .add_arrays = add_arrays,
    .json_bytes_max = json_bytes_max,
    .array_bytes_max = array_bytes_max,
};
