/* past.c - the keys and values of a text's first tokens, which passes over the tokens behind them read. */
#include "engine/arena.h"
#include "engine/pass/pass.h"

#include <stdlib.h>

static size_t rows_of_layer(const hs_past *past)
{
    return past->n_tokens_max + (past->crosses ? past->n_memory : 0);
}

static void past_layout(hs_past *past, const hs_architecture *architecture, hs__arena *arena)
{
    past->rows = hs__arena_floats(arena, architecture->shape.n_layers * rows_of_layer(past) * past->step);
}

static hs_past past_describe(const hs_architecture *architecture, size_t n_tokens_max, size_t n_memory)
{
    return (hs_past){.n_tokens_max = n_tokens_max,
                     .n_memory = n_memory,
                     .step = 2 * hs_shape_kv_width(&architecture->shape),
                     .crosses = architecture->crosses};
}

size_t hs_past_bytes(const hs_architecture *architecture, size_t n_tokens_max, size_t n_memory)
{
    hs_past past = past_describe(architecture, n_tokens_max, n_memory);
    hs__arena arena = {0};
    hs__arena_take(&arena, sizeof past);
    past_layout(&past, architecture, &arena);
    return arena.used;
}

hs_status hs_past_create(const hs_architecture *architecture, size_t n_tokens_max, size_t n_memory,
                         hs_past **ret_past, hs_error *err)
{
    if (n_tokens_max > architecture->shape.n_positions || n_memory > HS_POSITIONS_MAX)
        return hs_fail(err, HS_TOO_LARGE, "%zu tokens are more than the model's %zu", n_tokens_max,
                       architecture->shape.n_positions);
    hs__arena arena = {.base = hs_memory_create(hs_past_bytes(architecture, n_tokens_max, n_memory))};
    if (!arena.base)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for the keys and values of %zu tokens",
                       n_tokens_max);
    hs_past *past = hs__arena_take(&arena, sizeof *past);
    *past = past_describe(architecture, n_tokens_max, n_memory);
    past_layout(past, architecture, &arena);
    *ret_past = past;
    return HS_OK;
}

void hs_past_destroy(hs_past *past)
{
    free(past);
}

float *hs__past_rows(const hs_past *past, size_t block)
{
    const size_t n_blocks = past->crosses ? 2 : 1; /* of a layer: hs_architecture_layer_blocks */
    const size_t first = block / n_blocks * rows_of_layer(past) + block % n_blocks * past->n_tokens_max;
    return past->rows + first * past->step;
}
