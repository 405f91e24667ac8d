/* patch_map.c - what each state of a text does at each position: the map of patched states, state by state.
 */
#include "engine/analysis/effects.h"

#include "engine/analysis/analysis_maps.h"
#include "engine/analysis/decoder.h"
#include "engine/arena.h"

#include <stdlib.h>
#include <string.h>

/* The data of a call. A variant is one position patched. */
typedef struct walk {
    hs__variants variants;
    const hs_patch_map_options *options;
    size_t T, H, n_layers, n_target, n_threads;
    hs_effects_reader reader; /* the engine and text that the target is of: the decoder's if there is one */
    hs__decoder decoder;
    float *states;  /* [capacity][T][H]: patched */
    float *targets; /* [2 + T][n_target]: of the clean text, of each position, of the other text */
    double *values; /* [2 + T] */
} walk;

static const float *state_of(const hs_capture *capture, size_t state)
{
    return hs_capture_at(capture, HS_TAP_EVERY_STATE, state, 0);
}

/* Copies a state of the clean text with row `position` of the other's. */
static void state_patch(const walk *w, size_t state, size_t position, float *to)
{
    memcpy(to, state_of(w->options->clean->capture, state), w->T * w->H * sizeof *to);
    memcpy(to + position * w->H, state_of(w->options->other, state) + position * w->H, w->H * sizeof *to);
}

static hs_status target_keep(const walk *w, const hs_capture *text, const float *last, size_t row,
                             const hs_run_control *control, hs_error *err)
{
    const hs_status st = hs__decoder_read(&w->decoder, &last, control, err);
    return st ? st
              : hs_target_rows(w->reader.engine, &w->options->target, last,
                               w->decoder.capture ? w->decoder.capture : text, w->n_threads,
                               w->targets + row * w->n_target, err);
}

/* Keeps the targets of positions [first, first + n) patched in a state. Nothing is above the last state. */
static hs_status positions_run(walk *w, size_t state, size_t first, size_t n, const hs_run_control *control,
                               hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t i = 0; i < n; i++) {
        w->variants.starts[i] = (hs_start){.layer = state, .state = w->states + i * w->T * w->H};
        state_patch(w, state, first + i, w->states + i * w->T * w->H);
    }
    if (state < w->n_layers)
        st = hs__variants_run(&w->variants, n, NULL, control, err);
    for (size_t i = 0; i < n && !st; i++) {
        const float *last = state < w->n_layers
                                ? hs_capture_at(w->variants.captures[i], HS_TAP_LAST_STATE, 0, 0)
                                : w->states + i * w->T * w->H;
        st = target_keep(w, w->options->clean->capture, last, 1 + first + i, control, err);
    }
    return st;
}

static hs_status state_run(walk *w, size_t state, const hs_run_control *control, float *ret, hs_error *err)
{
    const hs_patch_map_options *options = w->options;
    hs_status st = HS_OK;
    for (size_t t = 0, n; t < w->T && !st; t += n) {
        n = hs_min(w->variants.capacity, w->T - t);
        st = positions_run(w, state, t, n, control, err);
    }
    if (!st)
        st = hs_target_values(w->reader.engine, &options->target, w->targets, 2 + w->T, w->reader.ids,
                              w->reader.n_tokens, w->n_threads, w->values, NULL, err);
    for (size_t t = 0; t < w->T && !st; t++)
        ret[t] = hs_recovered(w->values[0], w->values[1 + t], w->values[1 + w->T]);
    return st;
}

static hs_status map_run(walk *w, const hs_run_control *control, float *ret, hs_error *err)
{
    const hs_selection selection = {.taps = HS_KEEP(LAST_STATE)};
    hs_status st = hs__variants_select(&w->variants, &selection, err);
    if (!st)
        st = target_keep(w, w->options->clean->capture, state_of(w->options->clean->capture, w->n_layers), 0,
                         control, err);
    if (!st)
        st = target_keep(w, w->options->other, state_of(w->options->other, w->n_layers), 1 + w->T, control,
                         err);
    for (size_t state = 0; state <= w->n_layers && !st; state++)
        st = state_run(w, state, control, ret + state * w->T, err);
    return st;
}

/* Measures (base NULL) or carves the memory of a call. */
static void walk_layout(walk *w, hs__arena *arena)
{
    w->states = hs__arena_floats(arena, w->variants.capacity * w->T * w->H);
    w->targets = hs__arena_floats(arena, (2 + w->T) * w->n_target);
    w->values = hs__arena_take(arena, (2 + w->T) * sizeof *w->values);
}

static walk walk_describe(const hs_engine *engine, const hs_patch_map_options *options, size_t tokens_max)
{
    const hs_shape *shape = hs_engine_shape(engine);
    const size_t T = options->clean->n_tokens;
    const hs_effects_reader own = {engine, options->clean->ids, T},
                            reader = options->reader.engine ? options->reader : own;
    return (walk){.variants = {.engine = engine,
                               .text = options->clean,
                               .capacity = hs__variants_capacity(T, tokens_max, T)},
                  .options = options,
                  .T = T,
                  .H = shape->hidden,
                  .n_layers = shape->n_layers,
                  .reader = reader,
                  .n_target = hs_target_floats(hs_engine_architecture(reader.engine), &options->target,
                                               reader.n_tokens)};
}

static size_t walk_bytes(walk w)
{
    hs__arena measure = {0};
    walk_layout(&w, &measure);
    return measure.used;
}

size_t hs_patch_map_bytes(const hs_engine *engine, const hs_patch_map_options *options)
{
    const hs_shape *shape = hs_engine_shape(engine);
    const walk w = walk_describe(engine, options, shape->n_positions);
    return walk_bytes(w) + w.variants.capacity * w.T * w.H * sizeof(float) /* and the captures */
           + hs__decoder_bytes(&options->reader, w.T);
}

hs_status hs_patch_map_compute(const hs_engine *engine, hs_workspace *ws, const hs_patch_map_options *options,
                               const hs_run_control *control, float *ret_map, hs_error *err)
{
    walk w = walk_describe(engine, options, hs_workspace_tokens(ws));
    hs__arena arena = {.base = hs_memory_create(walk_bytes(w))};
    if (!arena.base)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for a patch map");
    w.variants.ws = ws;
    w.n_threads = hs_max(control->n_threads, 1);
    walk_layout(&w, &arena);
    hs_status st = hs__decoder_open(&w.decoder, &options->reader, w.T, err);
    if (!st)
        st = map_run(&w, control, ret_map, err);
    hs__variants_finish(&w.variants);
    hs__decoder_close(&w.decoder);
    free(arena.base);
    return st;
}
