/* cpu.c - the cpu backend: weights packed once, scratch in one block, passes of forward.c. */
#include "engine/pass/cpu.h"
#include "engine/arena.h"
#include "engine/pass/runtime_parts.h"

#include <stdlib.h>
#include <string.h>

/* What a recipe can say and this backend does not do, by name; NULL: it does all of it. */
static const char *recipe_lacks(const hs_recipe *recipe)
{
    if (recipe->norms_before || recipe->final_norm.gamma.data)
        return "norms before its blocks";
    if (recipe->score_bias.data)
        return "a bias by distance";
    for (size_t l = 0; l < recipe->shape.n_layers; l++) {
        const hs_layer *layer = &recipe->layers[l];
        if (layer->same_as != l)
            return "layers that share weights";
        if (layer->ffn_gate.weight.data)
            return "a gated feed-forward part";
        if (layer->window > 0)
            return "windows of attention";
        if (layer->rotation_base > 0)
            return "rotary positions";
    }
    return NULL;
}

static void norm_layout(hs__packed_norm *norm, size_t width, hs__arena *arena)
{
    norm->gamma = hs__arena_floats(arena, width);
    norm->beta = hs__arena_floats(arena, width);
}

/* Of a norm that is the identity nothing is read. */
static void norm_read(const hs_norm *source, hs__packed_norm *norm)
{
    if (!source->gamma.data)
        return;
    hs_tensor_read(&source->gamma, 0, 1, norm->gamma);
    if (source->beta.data)
        hs_tensor_read(&source->beta, 0, 1, norm->beta);
    else
        memset(norm->beta, 0, source->gamma.n_columns * sizeof *norm->beta);
}

static void norms_layout(hs__cpu_engine *engine, hs__arena *arena)
{
    const size_t H = engine->shape.hidden;
    norm_layout(&engine->embedding_norm, engine->base.recipe->embedding.width, arena);
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

/* Products to pack, each a task: those of the layers, then the embedding's projection. */
typedef struct packings {
    hs__cpu_engine *engine;
    atomic_int status; /* the first failure */
} packings;

enum { PRODUCTS = 4 }; /* of a layer */

/* A product to pack, and where its packed form goes. */
typedef struct packing {
    const hs_dense *parts[3];
    size_t n_parts;
    hs__activate *activate;
    hs__linear **ret_linear;
} packing;

static packing packing_of(hs__cpu_engine *engine, size_t task)
{
    const hs_recipe *recipe = engine->base.recipe;
    if (task == PRODUCTS * engine->shape.n_layers)
        return (packing){{&recipe->embedding.projection}, 1, NULL, &engine->projection};
    const hs_layer *source = &recipe->layers[task / PRODUCTS];
    hs__packed_layer *layer = &engine->layers[task / PRODUCTS];
    const packing products[PRODUCTS] = {
        {{&source->ffn_in}, 1, engine->kernels->activate[recipe->activation], &layer->ffn_in},
        {{&source->ffn_out}, 1, NULL, &layer->ffn_out},
        {{&source->query, &source->key, &source->value}, 3, NULL, &layer->qkv},
        {{&source->output}, 1, NULL, &layer->output},
    };
    return products[task % PRODUCTS];
}

static void task_pack(void *context, size_t task, size_t slot)
{
    (void)slot;
    packings *all = context;
    const hs__cpu_engine *engine = all->engine;
    const packing product = packing_of(all->engine, task);
    const hs__linear_source source = {product.parts, product.n_parts, product.activate};
    if (atomic_load(&all->status))
        return;
    const hs_status st =
        engine->linear->create(&source, engine->kernels, engine->base.precision, product.ret_linear, NULL);
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
    const size_t n_tasks =
        PRODUCTS * engine->shape.n_layers + (recipe->embedding.projection.weight.data != NULL);
    hs__team team;
    hs__team_start(&team, engine->base.runtime, engine->n_threads);
    hs__team_share(&team, n_tasks, task_pack, &all);
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
    hs__linear_destroy(engine->projection);
    free(engine->norms);
    free(engine->layers);
    free(engine);
}

static hs_status cpu_create(hs_runtime *runtime, const hs_recipe *recipe, const hs_engine_options *options,
                            hs_engine **ret_engine, hs_error *err)
{
    const char *lacks = recipe_lacks(recipe);
    if (lacks)
        return hs_fail(err, HS_UNSUPPORTED, "this engine cannot compute a model with %s", lacks);
    hs__cpu_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for an engine");
    engine->base = (hs_engine){
        .backend = &hs__backend_cpu, .runtime = runtime, .recipe = recipe, .precision = options->precision};
    engine->n_threads = hs_runtime_cores(runtime);
    engine->shape = recipe->shape;
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
    const size_t E = engine->base.recipe->embedding.width, W = H > E ? H : E;
    size_t rows_floats = 0; /* the largest product of a text's length and the rows done at once for it */
    for (size_t t = 1; t <= T; t++)
        if (hs__attention_rows(engine->kernels, t) * t > rows_floats)
            rows_floats = hs__attention_rows(engine->kernels, t) * t;
    ws->x = hs__arena_floats(arena, N * H);
    ws->qkv = hs__arena_floats(arena, N * (3 * H > E ? 3 * H : E)); /* a row of E while embedding */
    ws->context = hs__arena_floats(arena, N * H);
    ws->inner = hs__arena_floats(arena, N * F);
    ws->update = hs__arena_floats(arena, N * W);
    if (engine->bf16)
        ws->operand = hs__arena_take(arena, N * hs__bf16_width(W > F ? W : F) * sizeof(uint16_t));
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
