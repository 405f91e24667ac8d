/* engine.c - engines and workspaces. Weights are packed once (pack.c), scratch is one block, forward.c
 * runs passes. */
#include "engine/arena.h"
#include "engine/kernels/int8.h"
#include "engine/pass/pass.h"
#include "engine/pass/team.h"

#include <stdio.h>
#include <stdlib.h>

static hs_status bf16_choose(hs_engine *engine, hs_error *err)
{
    const hs__bf16_kernels *bf16 = hs__bf16_kernels_select();
    if (!bf16)
        return hs_fail(err, HS_UNSUPPORTED, "this CPU has no AVX512_BF16, which bf16 needs: use fp32");
    if (engine->linear == &hs__linear_cblas)
        return hs_fail(err, HS_UNSUPPORTED, "the cblas backend computes in fp32 only: use native");
    engine->conversion = &bf16->conversion;
    engine->products_by = bf16->name;
    return HS_OK;
}

/* Chooses int8 or int24. */
static hs_status bytes_choose(hs_engine *engine, const char *precision, const hs__int8_kernels *int8,
                              const char *needs, hs_error *err)
{
    if (!int8)
        return hs_fail(err, HS_UNSUPPORTED, "%s needs %s or HEADSCOPE_KERNELS forbids it: use fp32",
                       precision, needs);
    if (engine->linear != &hs__linear_native)
        return hs_fail(err, HS_UNSUPPORTED, "the %s backend does not compute in %s: use native",
                       engine->linear->name, precision);
    engine->linear = &hs__linear_int8;
    engine->conversion = &int8->conversion;
    engine->products_by = int8->name;
    return HS_OK;
}

static hs_status products_choose(hs_engine *engine, const hs_engine_options *options, hs_error *err)
{
    engine->linear = options->products == HS_PRODUCTS_CBLAS ? &hs__linear_cblas : &hs__linear_native;
    engine->products = engine->linear->name;
    engine->products_by = engine->kernels->name;
    if (options->precision == HS_PRECISION_BF16)
        return bf16_choose(engine, err);
    if (options->precision == HS_PRECISION_INT24)
        return bytes_choose(engine, "int24", hs__int24_kernels_select(),
                            "AMX, and this CPU has none, the system does not permit it", err);
    if (options->precision == HS_PRECISION_INT8)
        return bytes_choose(engine, "int8", hs__int8_kernels_select(),
                            "AVX512_VNNI or AVX-VNNI, and this CPU has neither", err);
    return HS_OK;
}

void hs_products_prepare(void)
{
    hs__cblas_prepare(hs__kernels_select());
}

void hs_cblas_describe(char *ret_text, size_t n_bytes)
{
    hs__cblas_describe(ret_text, n_bytes);
}

void hs_kernels_describe(char *ret_text, size_t n_bytes)
{
    const hs__kernels *kernels = hs__kernels_select();
    const hs__bf16_kernels *bf16 = hs__bf16_kernels_select();
    const hs__int8_kernels *int8 = hs__int8_kernels_select();
    snprintf(ret_text, n_bytes, "%s%s%s%s%s%s", kernels ? kernels->name : "none",
             hs__int24_kernels_select() ? ", int24 by amx" : "", bf16 ? ", bf16 by " : "",
             bf16 ? bf16->name : "", int8 ? ", int8 by " : "", int8 ? int8->name : "");
}

const char *hs_engine_kernels(const hs_engine *engine)
{
    return engine->products_by;
}

void hs_engine_destroy(hs_engine *engine)
{
    if (engine)
        hs__weights_finish(engine);
    free(engine);
}

/* Creates an engine, or with `measured` one without weights, whose size in bytes is added there. */
static hs_status engine_build(hs_runtime *runtime, const hs_architecture *architecture,
                              const hs_engine_options *options, atomic_size_t *measured,
                              hs_engine **ret_engine, hs_error *err)
{
    hs_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for an engine");
    *engine = (hs_engine){.runtime = runtime,
                          .architecture = architecture,
                          .precision = options->precision,
                          .measured = measured};
    engine->n_threads = options->alone ? 1 : hs_runtime_cores(runtime);
    engine->shape = architecture->shape;
    engine->n_blocks = hs_architecture_blocks(architecture);
    engine->kernels = runtime->kernels;
    engine->add_norm =
        architecture->norm_kind == HS_NORM_RMS ? engine->kernels->add_rms_norm : engine->kernels->add_norm;
    engine->attention_width = hs_shape_attention_width(&engine->shape);
    engine->qkv_width = engine->attention_width + 2 * hs_shape_kv_width(&engine->shape);
    engine->rotary_half =
        (architecture->rotary.width > 0 ? architecture->rotary.width : engine->shape.head_width) / 2;
    hs_status st = products_choose(engine, options, err);
    const bool padded = engine->linear != &hs__linear_cblas;
    engine->inner_step = padded ? hs__row_step(architecture->shape.ffn) : architecture->shape.ffn;
    if (!st)
        st = hs__weights_init(engine, err);
    if (st)
        hs_engine_destroy(engine);
    else
        *ret_engine = engine;
    return st;
}

hs_status hs_engine_create(hs_runtime *runtime, const hs_architecture *architecture,
                           const hs_engine_options *options, hs_engine **ret_engine, hs_error *err)
{
    return engine_build(runtime, architecture, options, NULL, ret_engine, err);
}

hs_status hs_engine_measure(hs_runtime *runtime, const hs_architecture *architecture,
                            const hs_engine_options *options, size_t tokens_max, size_t *ret_engine_bytes,
                            size_t *ret_workspace_bytes, hs_error *err)
{
    atomic_size_t measured = sizeof(hs_engine);
    hs_engine *engine = NULL;
    const hs_status st = engine_build(runtime, architecture, options, &measured, &engine, err);
    if (st)
        return st;
    *ret_engine_bytes = atomic_load(&measured);
    *ret_workspace_bytes = hs_workspace_bytes(engine, tokens_max);
    hs_engine_destroy(engine);
    return HS_OK;
}

hs_runtime *hs_engine_runtime(const hs_engine *engine)
{
    return engine->runtime;
}

const hs_architecture *hs_engine_architecture(const hs_engine *engine)
{
    return engine->architecture;
}

const hs_shape *hs_engine_shape(const hs_engine *engine)
{
    return &engine->architecture->shape;
}

hs_engine_options hs_engine_options_of(const hs_engine *engine)
{
    const bool library = engine->linear == &hs__linear_cblas;
    return (hs_engine_options){.products = library ? HS_PRODUCTS_CBLAS : HS_PRODUCTS_NATIVE,
                               .precision = engine->precision};
}

const char *hs_engine_products(const hs_engine *engine)
{
    return engine->products;
}

const char *hs_engine_precision(const hs_engine *engine)
{
    static const char *const names[] = {[HS_PRECISION_FP32] = "fp32",
                                        [HS_PRECISION_INT24] = "int24",
                                        [HS_PRECISION_BF16] = "bf16",
                                        [HS_PRECISION_INT8] = "int8"};
    return names[engine->precision];
}

static void workspace_layout(hs_workspace *ws, hs__arena *arena)
{
    const hs_engine *engine = ws->engine;
    const hs_shape *shape = &engine->shape;
    const size_t N = ws->tokens_max, H = shape->hidden, F = shape->ffn;
    const size_t T = N < shape->n_positions ? N : shape->n_positions;
    const size_t E = engine->architecture->embedding.width, W = H > E ? H : E;
    ws->x = hs__arena_floats(arena, N * H);
    const size_t A = engine->attention_width, qkv = engine->qkv_width;
    ws->qkv = hs__arena_floats(arena, N * (qkv > E ? qkv : E)); /* holds one row of E during embedding */
    if (engine->architecture->crosses) {
        ws->memory = hs__arena_floats(arena, N * H);
        ws->memory_kv = hs__arena_floats(arena, N * (qkv - A));
    }
    ws->context = hs__arena_floats(arena, N * A);
    ws->inner = hs__arena_floats(arena, N * engine->inner_step);
    ws->update = hs__arena_floats(arena, N * W);
    if (engine->architecture->norms_before)
        ws->normed = hs__arena_floats(arena, N * H);
    if (engine->gated)
        ws->gate = hs__arena_floats(arena, N * engine->inner_step);
    const size_t unfolded = H * engine->architecture->convolution.width;
    if (unfolded > 0)
        ws->unfolded = hs__arena_floats(arena, N * unfolded);
    const size_t inner = A > F ? A : F, wide = W > inner ? W : inner;
    const size_t widest = wide > unfolded ? wide : unfolded;
    if (engine->conversion) {
        ws->operand_bytes = N * engine->conversion->words(widest) * sizeof *ws->operand;
        ws->operand = hs__arena_take(arena, ws->operand_bytes);
    }
    hs__attention_scratch unused = {0};
    ws->attention = hs__arena_take(arena, engine->n_threads * sizeof *ws->attention);
    for (size_t slot = 0; slot < engine->n_threads; slot++)
        hs__attention_layout(engine, T, arena, ws->attention ? &ws->attention[slot] : &unused);
}

size_t hs_workspace_bytes(const hs_engine *engine, size_t tokens_max)
{
    hs_workspace measured = {.engine = engine, .tokens_max = tokens_max};
    hs__arena arena = {0};
    hs__arena_take(&arena, sizeof measured);
    workspace_layout(&measured, &arena);
    return arena.used;
}

hs_status hs_workspace_create(const hs_engine *engine, size_t tokens_max, hs_workspace **ret_ws,
                              hs_error *err)
{
    const size_t limit = (size_t)1 << 22; /* far below any overflow of sizes */
    if (tokens_max < 1 || tokens_max > limit)
        return hs_fail(err, HS_INVALID, "a workspace serves 1 to %zu tokens, not %zu", limit, tokens_max);
    hs__arena arena = {.base = hs_memory_create(hs_workspace_bytes(engine, tokens_max))};
    if (!arena.base)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for a workspace of %zu tokens", tokens_max);
    hs_workspace *ws = hs__arena_take(&arena, sizeof *ws);
    *ws = (hs_workspace){.engine = engine, .tokens_max = tokens_max};
    workspace_layout(ws, &arena);
    *ret_ws = ws;
    return HS_OK;
}

void hs_workspace_destroy(hs_workspace *ws)
{
    free(ws);
}

size_t hs_workspace_tokens(const hs_workspace *ws)
{
    return ws->tokens_max;
}
