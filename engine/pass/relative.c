/* relative.c - each layer's keys and queries of DeBERTa's relative positions (hs_relative).
 *
 * They depend on weights only, so they are computed when the engine is created, in fp32 for every
 * precision: two rows of H floats a layer for each bucket. */
#include "engine/pass/cpu.h"
#include "engine/pass/team.h"

#include <stdlib.h>
#include <string.h>

/* Tasks, one for each layer. */
typedef struct filling {
    hs__cpu_engine *engine;
    const float *table; /* [R][H]: normed, in the engine's order */
    atomic_int status;  /* the first failure */
} filling;

/* Computes y [R][H] = table W' + b. */
static hs_status project(const filling *f, const hs_dense *dense, float *y)
{
    const hs__linear_source source = {.parts = &dense, .n_parts = 1};
    const size_t R = f->engine->relative.n_rows;
    hs__linear *linear = NULL;
    hs_status st = hs__linear_native.create(&source, f->engine->kernels, HS_PRECISION_FP32, &linear, NULL);
    for (size_t task = 0; !st && task < hs__linear_tasks(linear, R, 1); task++)
        hs__linear_run(linear, R, 1, f->table, y, task);
    hs__linear_destroy(linear);
    return st;
}

static hs_status layer_fill(const filling *f, const hs_layer *source, hs__packed_layer *layer, float *y)
{
    const hs__kernels *kernels = f->engine->kernels;
    const size_t R = f->engine->relative.n_rows, H = f->engine->shape.hidden, D = f->engine->shape.head_width;
    hs_status st = layer->position_keys ? project(f, &source->position_key, y) : HS_OK;
    for (size_t h = 0; !st && layer->position_keys && h < H / D; h++)
        kernels->pack(D, R, y + h * D, 1, H, layer->position_keys + h * hs__panels_floats(kernels, D, R));
    if (!st && layer->position_queries)
        st = project(f, &source->position_query, y);
    for (size_t at = 0; !st && layer->position_queries && at < R * (H / D); at++) {
        const size_t h = at / R, row = at % R;
        memcpy(layer->position_queries + at * D, y + row * H + h * D, D * sizeof *y);
    }
    return st;
}

static void task_fill(void *context, size_t task, size_t slot)
{
    (void)slot;
    filling *f = context;
    const hs_layer *source = &f->engine->base.architecture->layers[task];
    if (source->same_as != task || atomic_load(&f->status))
        return;
    float *y = malloc(f->engine->relative.n_rows * f->engine->shape.hidden * sizeof *y);
    const hs_status st = y ? layer_fill(f, source, &f->engine->layers[task], y) : HS_NO_MEMORY;
    free(y);
    if (st)
        atomic_store(&f->status, (int)st);
}

/* Reads the table's rows from the last to the first, and applies the norm if there is one. */
static void table_read(const hs__cpu_engine *engine, float *table, float *norm)
{
    const hs_architecture *architecture = engine->base.architecture;
    const hs_relative *relative = &architecture->relative;
    const size_t R = engine->relative.n_rows, H = engine->shape.hidden;
    for (size_t row = 0; row < R; row++)
        hs_tensor_read(&relative->table, R - 1 - row, 1, table + row * H);
    if (!relative->norm.gamma.data)
        return;
    memset(norm, 0, 2 * H * sizeof *norm);
    hs_tensor_read(&relative->norm.gamma, 0, 1, norm);
    if (relative->norm.beta.data)
        hs_tensor_read(&relative->norm.beta, 0, 1, norm + H);
    engine->add_norm(R, H, table, NULL, norm, norm + H, architecture->norm_eps, table);
}

hs_status hs__relative_fill(hs__cpu_engine *engine, hs_error *err)
{
    const size_t R = engine->relative.n_rows, H = engine->shape.hidden;
    if (R == 0)
        return HS_OK;
    float *table = malloc((R + 2) * H * sizeof *table);
    if (!table)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for relative positions");
    table_read(engine, table, table + R * H);
    filling f = {.engine = engine, .table = table};
    hs__team team;
    hs__team_start(&team, engine->base.runtime, engine->n_threads);
    hs__team_share(&team, engine->shape.n_layers, task_fill, &f);
    hs__team_finish(&team);
    free(table);
    const hs_status st = (hs_status)atomic_load(&f.status);
    return st ? hs_fail(err, st, "relative positions: %s", hs_status_text(st)) : HS_OK;
}
