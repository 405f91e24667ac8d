/* value_zeroing.c - takes one token's value after the other out of a layer. */
#include "engine/analysis/value_zeroing.h"

#include "engine/analysis/analysis_maps.h"
#include "engine/arena.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TOGETHER_MAX 32 /* variants of a pass */

/* The data of a call. A variant is one token whose value is 0. */
typedef struct zeroing {
    const hs_engine *engine;
    hs_workspace *ws;
    const hs_sequence *text;
    size_t T, H, d, n_heads, capacity;
    uint16_t layer;
    float *outputs; /* [capacity][n_heads][T][d] */
    hs_capture *captures[TOGETHER_MAX];
} zeroing;

/* Computes O - A[:,j] v_j of all heads. */
static void outputs_compute(const zeroing *z, size_t j, float *to)
{
    const hs_capture *capture = z->text->capture;
    for (size_t h = 0; h < z->n_heads; h++) {
        const float *o = hs_capture_at(capture, HS_TAP_HEAD_OUTPUT, z->layer, h),
                    *v = hs_capture_at(capture, HS_TAP_VALUE, z->layer, h) + j * z->d,
                    *attention = hs_capture_at(capture, HS_TAP_ATTENTION, z->layer, h);
        for (size_t i = 0; i < z->T; i++)
            for (size_t k = 0; k < z->d; k++)
                *to++ = o[i * z->d + k] - attention[i * z->T + j] * v[k];
    }
}

static hs_status pass_run(zeroing *z, size_t first, size_t n, const hs_run_control *control, hs_error *err)
{
    hs_start starts[TOGETHER_MAX];
    hs_sequence sequences[TOGETHER_MAX];
    const size_t size = z->n_heads * z->T * z->d;
    for (size_t k = 0; k < n; k++) {
        outputs_compute(z, first + k, z->outputs + k * size);
        starts[k] = (hs_start){.layer = z->layer,
                               .state = hs_capture_at(z->text->capture, HS_TAP_EVERY_STATE, z->layer, 0),
                               .head_outputs = z->outputs + k * size,
                               .head_off = z->n_heads};
        sequences[k] = *z->text;
        sequences[k].capture = z->captures[k];
        sequences[k].start = &starts[k];
    }
    hs_plan plan;
    const hs_status st = hs_plan_make(hs_engine_architecture(z->engine), sequences, n, NULL, &plan, err);
    return st ? st : hs_engine_run(z->engine, z->ws, &plan, control, err);
}

static double cosine_distance(const float *a, const float *b, size_t n)
{
    double dot = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        dot += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    const double distance = 1 - dot / sqrt(aa * bb);
    return distance > 0 ? distance : 0; /* rounding may make it negative */
}

/* Fills columns [first, first + n) of the map. A causal model shows no token those after it. */
static void columns_compare(const zeroing *z, size_t first, size_t n, float *map)
{
    const bool causal = hs_engine_architecture(z->engine)->causal;
    const float *before = hs_capture_at(z->text->capture, HS_TAP_EVERY_STATE, z->layer + 1U, 0);
    for (size_t k = 0; k < n; k++) {
        const float *after = hs_capture_at(z->captures[k], HS_TAP_HIDDEN_STATE, 1, 0);
        for (size_t i = 0; i < z->T; i++)
            map[i * z->T + first + k] =
                causal && first + k > i ? 0
                                        : (float)cosine_distance(before + i * z->H, after + i * z->H, z->H);
    }
}

static hs_status layer_run(zeroing *z, const hs_run_control *control, float *map, hs_error *err)
{
    const hs_selection selection = {.layers = &z->layer, .n_layers = 1, .taps = HS_KEEP(HIDDEN_STATE)};
    hs_status st = HS_OK;
    for (size_t k = 0; k < z->capacity && !st; k++) {
        hs_capture_destroy(z->captures[k]);
        z->captures[k] = NULL;
        st = hs_capture_create(hs_engine_runtime(z->engine), hs_engine_shape(z->engine), &selection, z->T,
                               &z->captures[k], err);
    }
    for (size_t j = 0, n; j < z->T && !st; j += n) {
        n = hs__min(z->capacity, z->T - j);
        st = pass_run(z, j, n, control, err);
        if (!st)
            columns_compare(z, j, n, map);
    }
    if (!st)
        hs__rows_divide(map, z->T);
    return st;
}

static zeroing zeroing_describe(const hs_engine *engine, size_t n_tokens, size_t tokens_max)
{
    const hs_shape *shape = hs_engine_shape(engine);
    return (zeroing){.engine = engine,
                     .T = n_tokens,
                     .H = shape->hidden,
                     .d = shape->head_width,
                     .n_heads = shape->n_heads,
                     .capacity = hs__min(hs__min(hs__max(tokens_max / n_tokens, 1), n_tokens), TOGETHER_MAX)};
}

static size_t outputs_floats(const zeroing *z)
{
    return z->capacity * z->n_heads * z->T * z->d;
}

size_t hs_value_zeroing_bytes(const hs_engine *engine, size_t n_tokens)
{
    const zeroing z = zeroing_describe(engine, n_tokens, hs_engine_shape(engine)->n_positions);
    return (outputs_floats(&z) + z.capacity * 2 * z.T * z.H) * sizeof(float); /* and the captures */
}

hs_status hs_value_zeroing_compute(const hs_engine *engine, hs_workspace *ws, const hs_sequence *text,
                                   const uint16_t *layers, size_t n_layers, const hs_run_control *control,
                                   float *ret, hs_error *err)
{
    zeroing z = zeroing_describe(engine, text->n_tokens, hs_workspace_tokens(ws));
    hs_status st = HS_OK;
    z.ws = ws;
    z.text = text;
    z.outputs = hs_memory_create(outputs_floats(&z) * sizeof *z.outputs);
    if (!z.outputs)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for value zeroing");
    for (size_t l = 0; l < n_layers && !st; l++) {
        z.layer = layers[l];
        st = layer_run(&z, control, ret + l * z.T * z.T, err);
    }
    for (size_t k = 0; k < z.capacity; k++)
        hs_capture_destroy(z.captures[k]);
    free(z.outputs);
    return st;
}
