/* cpu.c - the cpu backend: weights packed once, scratch in one block, passes of forward.c. */
#include "engine/pass/cpu.h"
#include "engine/arena.h"
#include "engine/pass/runtime_parts.h"

#include <stdlib.h>

static void norm_layout(hs__packed_norm *norm, size_t H, hs__arena *arena)
{
    norm->gamma = hs__arena_floats(arena, H);
    norm->beta = hs__arena_floats(arena, H);
}

static void norm_read(const hs_norm *source, hs__packed_norm *norm)
{
    hs_tensor_read(&source->gamma, 0, 1, norm->gamma);
    hs_tensor_read(&source->beta, 0, 1, norm->beta);
}

static void norms_layout(hs__cpu_engine *engine, hs__arena *arena)
{
    const size_t H = engine->shape.hidden;
    norm_layout(&engine->embedding_norm, H, arena);
    for (size_t l = 0; l < engine->shape.n_layers; l++) {
        norm_layout(&engine->layers[l].attention_norm, H, arena);
        norm_layout(&engine->layers[l].ffn_norm, H, arena);
    }
}

static hs_status engine_allocate(hs__cpu_engine *engine, hs_error *err)
{
    engine->layers = calloc(engine->shape.n_layers, sizeof *engine->layers);
    if (!engine->layers)
        goto none;
    hs__arena arena = {0};
    norms_layout(engine, &arena);
    engine->norms = hs_memory_create(arena.used);
    if (!engine->norms)
        goto none;
    arena = (hs__arena){.base = engine->norms};
    norms_layout(engine, &arena);
    return HS_OK;
none:
    hs_fail(err, HS_NO_MEMORY, "out of memory for an engine");
    return HS_NO_MEMORY;
}

/* One product of one layer to pack; a task. */
typedef struct packings {
    const hs__cpu_engine *engine;
    atomic_int status; /* the first failure */
} packings;

enum { PRODUCTS = 4 }; /* per layer */

static void task_pack(void *context, size_t task, size_t slot)
{
    (void)slot;
    packings *all = context;
    const hs__cpu_engine *engine = all->engine;
    const hs_layer *source = &engine->base.recipe->layers[task / PRODUCTS];
    hs__packed_layer *layer = &engine->layers[task / PRODUCTS];
    const hs_dense *qkv[] = {&source->query, &source->key, &source->value};
    const hs_dense *output = &source->output, *ffn_in = &source->ffn_in, *ffn_out = &source->ffn_out;
    const struct {
        hs__linear_source source;
        hs__linear **ret_linear;
    } products[PRODUCTS] = {
        {{&ffn_in, 1, engine->kernels->activate[engine->base.recipe->activation]}, &layer->ffn_in},
        {{&ffn_out, 1, NULL}, &layer->ffn_out},
        {{qkv, 3, NULL}, &layer->qkv},
        {{&output, 1, NULL}, &layer->output},
    };
    const size_t i = task % PRODUCTS;
    if (atomic_load(&all->status))
        return;
    const hs_status st = engine->linear->create(&products[i].source, engine->kernels, engine->base.precision,
                                                products[i].ret_linear, NULL);
    if (st)
        atomic_store(&all->status, (int)st);
}

static hs_status engine_pack(hs__cpu_engine *engine, hs_error *err)
{
    const hs_recipe *recipe = engine->base.recipe;
    norm_read(&recipe->embedding.norm, &engine->embedding_norm);
    for (size_t l = 0; l < engine->shape.n_layers; l++) {
        norm_read(&recipe->layers[l].attention_norm, &engine->layers[l].attention_norm);
        norm_read(&recipe->layers[l].ffn_norm, &engine->layers[l].ffn_norm);
    }
    packings all = {.engine = engine};
    hs__team team;
    hs__team_start(&team, engine->base.runtime, engine->n_threads);
    hs__team_share(&team, PRODUCTS * engine->shape.n_layers, task_pack, &all);
    hs__team_finish(&team);
    const hs_status st = (hs_status)atomic_load(&all.status);
    return st ? hs_fail(err, st, "packing the weights: %s", hs_status_text(st)) : HS_OK;
}

/* NULL when it was not built in. */
static const hs__linear_kind *linear_find(hs_products products)
{
    switch (products) {
    case HS_PRODUCTS_DEFAULT:
    case HS_PRODUCTS_NATIVE:
        return &hs__linear_native;
    case HS_PRODUCTS_OPENBLAS:
        return &hs__linear_openblas;
    case HS_PRODUCTS_ONEDNN:
#if defined HS_WITH_ONEDNN
        return &hs__linear_onednn;
#else
        return NULL;
#endif
    }
    return NULL;
}

static hs_status products_choose(hs__cpu_engine *engine, const hs_engine_options *options, hs_error *err)
{
    engine->linear = linear_find(options->products);
    if (!engine->linear)
        return hs_fail(err, HS_UNSUPPORTED, "this build has no onednn backend");
    engine->base.products = engine->linear->name;
    if (options->precision != HS_PRECISION_BF16)
        return HS_OK;
    engine->bf16 = hs__bf16_kernels_select();
    if (!engine->bf16)
        return hs_fail(err, HS_UNSUPPORTED, "this CPU has no AVX512_BF16, which bf16 needs: use fp32");
    return engine->linear != &hs__linear_openblas
               ? HS_OK
               : hs_fail(err, HS_UNSUPPORTED, "the openblas backend computes in fp32 only");
}

static void cpu_destroy(hs_engine *base)
{
    hs__cpu_engine *engine = (hs__cpu_engine *)base;
    for (size_t l = 0; engine->layers && l < engine->shape.n_layers; l++) {
        hs__packed_layer *layer = &engine->layers[l];
        hs__linear_destroy(layer->qkv);
        hs__linear_destroy(layer->output);
        hs__linear_destroy(layer->ffn_in);
        hs__linear_destroy(layer->ffn_out);
    }
    free(engine->norms);
    free(engine->layers);
    free(engine);
}

static hs_status cpu_create(hs_runtime *runtime, const hs_model *model, const hs_engine_options *options,
                            hs_engine **ret_engine, hs_error *err)
{
    hs__cpu_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for an engine");
    engine->base = (hs_engine){.backend = &hs__backend_cpu,
                               .runtime = runtime,
                               .recipe = hs_model_recipe(model),
                               .precision = options->precision};
    engine->n_threads = hs_runtime_cores(runtime);
    engine->shape = *hs_model_shape(model);
    engine->kernels = runtime->kernels;
    hs_status st = products_choose(engine, options, err);
    if (!st)
        st = engine_allocate(engine, err);
    if (!st)
        st = engine_pack(engine, err);
    if (st)
        cpu_destroy(&engine->base);
    else
        *ret_engine = &engine->base;
    return st;
}

static void workspace_layout(hs__cpu_workspace *ws, hs__arena *arena)
{
    const hs__cpu_engine *engine = (const hs__cpu_engine *)ws->base.engine;
    const hs_shape *shape = &engine->shape;
    const size_t N = ws->base.tokens_max, H = shape->hidden, D = shape->head_width, F = shape->ffn;
    const size_t T = N < shape->n_positions ? N : shape->n_positions;
    size_t rows_floats = 0; /* the largest product of a text's length and the rows done at once for it */
    for (size_t t = 1; t <= T; t++)
        if (hs__attention_rows(engine->kernels, t) * t > rows_floats)
            rows_floats = hs__attention_rows(engine->kernels, t) * t;
    ws->x = hs__arena_floats(arena, N * H);
    ws->qkv = hs__arena_floats(arena, N * 3 * H);
    ws->context = hs__arena_floats(arena, N * H);
    ws->inner = hs__arena_floats(arena, N * F);
    ws->update = hs__arena_floats(arena, N * H);
    if (engine->bf16)
        ws->operand = hs__arena_take(arena, N * hs__bf16_width(H > F ? H : F) * sizeof(uint16_t));
    hs__attention_scratch unused = {0};
    ws->attention = hs__arena_take(arena, engine->n_threads * sizeof *ws->attention);
    for (size_t slot = 0; slot < engine->n_threads; slot++) {
        hs__attention_scratch *scratch = ws->attention ? &ws->attention[slot] : &unused;
        scratch->keys = hs__arena_floats(arena, hs__panels_floats(engine->kernels, D, T));
        scratch->values = hs__arena_floats(arena, hs__panels_floats(engine->kernels, T, D));
        scratch->rows = hs__arena_floats(arena, rows_floats);
    }
}

static hs_status cpu_workspace_create(const hs_engine *engine, size_t tokens_max, hs_workspace **ret_ws,
                                      hs_error *err)
{
    hs__cpu_workspace measured = {.base = {.engine = engine, .tokens_max = tokens_max}};
    hs__arena arena = {0};
    hs__arena_take(&arena, sizeof measured);
    workspace_layout(&measured, &arena);
    arena = (hs__arena){.base = hs_memory_create(arena.used)};
    if (!arena.base)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for a workspace of %zu tokens", tokens_max);
    hs__cpu_workspace *ws = hs__arena_take(&arena, sizeof *ws);
    *ws = measured;
    workspace_layout(ws, &arena);
    *ret_ws = &ws->base;
    return HS_OK;
}

static void cpu_workspace_destroy(hs_workspace *ws)
{
    free(ws);
}

const hs_backend hs__backend_cpu = {
    .name = "cpu",
    .create = cpu_create,
    .destroy = cpu_destroy,
    .workspace_create = cpu_workspace_create,
    .workspace_destroy = cpu_workspace_destroy,
    .run = hs__cpu_run,
};
