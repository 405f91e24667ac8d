/* value_zeroing.c - takes one token's value after the other out of a layer. */
#include "engine/analysis/value_zeroing.h"

#include "engine/analysis/analysis_maps.h"
#include "engine/analysis/variants.h"
#include "model/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The data of a call. A variant is one token whose value is 0. */
typedef struct zeroing {
    hs__variants variants;
    size_t T, H, d, n_heads;
    uint16_t layer;
    float *outputs; /* [capacity][n_heads][T][d] */
} zeroing;

/* Computes O - A[:,j] v_j of all heads. */
static void outputs_compute(const zeroing *z, size_t j, float *to)
{
    const hs_capture *capture = z->variants.text->capture;
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
    const size_t size = z->n_heads * z->T * z->d;
    for (size_t k = 0; k < n; k++) {
        outputs_compute(z, first + k, z->outputs + k * size);
        z->variants.starts[k] =
            (hs_start){.layer = z->layer,
                       .state = hs_capture_at(z->variants.text->capture, HS_TAP_EVERY_STATE, z->layer, 0),
                       .head_outputs = z->outputs + k * size,
                       .head_off = z->n_heads};
    }
    return hs__variants_run(&z->variants, n, NULL, control, err);
}

static double cosine_distance(const float *a, const float *b, size_t n)
{
    const double distance = 1 - hs__cosine(a, b, n);
    return distance > 0 ? distance : 0; /* rounding may make it negative */
}

/* Fills columns [first, first + n) of the map. A causal model shows no token those after it. */
static void columns_compare(const zeroing *z, size_t first, size_t n, float *map)
{
    const bool causal = hs_engine_architecture(z->variants.engine)->causal;
    const float *before = hs_capture_at(z->variants.text->capture, HS_TAP_EVERY_STATE, z->layer + 1U, 0);
    for (size_t k = 0; k < n; k++) {
        const float *after = hs_capture_at(z->variants.captures[k], HS_TAP_HIDDEN_STATE, 1, 0);
        for (size_t i = 0; i < z->T; i++)
            map[i * z->T + first + k] =
                causal && first + k > i ? 0
                                        : (float)cosine_distance(before + i * z->H, after + i * z->H, z->H);
    }
}

static hs_status layer_run(zeroing *z, const hs_run_control *control, float *map, hs_error *err)
{
    const hs_selection selection = {.layers = &z->layer, .n_layers = 1, .taps = HS_KEEP(HIDDEN_STATE)};
    hs_status st = hs__variants_select(&z->variants, &selection, err);
    for (size_t j = 0, n; j < z->T && !st; j += n) {
        n = hs__min(z->variants.capacity, z->T - j);
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
    return (zeroing){
        .variants = {.engine = engine, .capacity = hs__variants_capacity(n_tokens, tokens_max, n_tokens)},
        .T = n_tokens,
        .H = shape->hidden,
        .d = shape->head_width,
        .n_heads = shape->n_heads};
}

static size_t outputs_floats(const zeroing *z)
{
    return z->variants.capacity * z->n_heads * z->T * z->d;
}

size_t hs_value_zeroing_bytes(const hs_engine *engine, size_t n_tokens)
{
    const zeroing z = zeroing_describe(engine, n_tokens, hs_engine_shape(engine)->n_positions);
    return (outputs_floats(&z) + z.variants.capacity * 2 * z.T * z.H) * sizeof(float); /* and the captures */
}

hs_status hs_value_zeroing_compute(const hs_engine *engine, hs_workspace *ws, const hs_sequence *text,
                                   const uint16_t *layers, size_t n_layers, const hs_run_control *control,
                                   float *ret, hs_error *err)
{
    zeroing z = zeroing_describe(engine, text->n_tokens, hs_workspace_tokens(ws));
    hs_status st = HS_OK;
    z.variants.ws = ws;
    z.variants.text = text;
    z.outputs = hs_memory_create(outputs_floats(&z) * sizeof *z.outputs);
    if (!z.outputs)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for value zeroing");
    for (size_t l = 0; l < n_layers && !st; l++) {
        z.layer = layers[l];
        st = layer_run(&z, control, ret + l * z.T * z.T, err);
    }
    hs__variants_finish(&z.variants);
    free(z.outputs);
    return st;
}
