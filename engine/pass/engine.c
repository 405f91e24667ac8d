#include "engine/engine.h"
#include "engine/pass/arena.h"
#include "engine/pass/pass.h"
#include "engine/pass/team.h"

#include <cblas.h>
#include <stdlib.h>

static void norm_layout(hs__norm *norm, size_t H, hs__arena *arena)
{
    norm->gamma = hs__arena_floats(arena, H);
    norm->beta = hs__arena_floats(arena, H);
}

static void norm_read(const hs_norm *source, hs__norm *norm)
{
    hs_tensor_read(&source->gamma, 0, 1, norm->gamma);
    hs_tensor_read(&source->beta, 0, 1, norm->beta);
}

static void norms_layout(hs_engine *engine, hs__arena *arena)
{
    const size_t H = engine->shape.hidden;
    norm_layout(&engine->embedding_norm, H, arena);
    for (size_t l = 0; l < engine->shape.n_layers; l++) {
        norm_layout(&engine->layers[l].attention_norm, H, arena);
        norm_layout(&engine->layers[l].ffn_norm, H, arena);
    }
}

static hs_status engine_allocate(hs_engine *engine, hs_error *err)
{
    engine->layers = calloc(engine->shape.n_layers, sizeof *engine->layers);
    if (!engine->layers)
        goto none;
    hs__arena arena = {0};
    norms_layout(engine, &arena);
    engine->norms = hs__block_create(arena.used);
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
    const hs_engine *engine;
    atomic_int status; /* the first failure */
} packings;

enum { PRODUCTS = 4 }; /* per layer */

static void task_pack(void *context, size_t task, size_t slot)
{
    (void)slot;
    packings *all = context;
    const hs_engine *engine = all->engine;
    const hs_layer *source = &hs_model_recipe(engine->model)->layers[task / PRODUCTS];
    hs__layer *layer = &engine->layers[task / PRODUCTS];
    const hs_dense *qkv[] = {&source->query, &source->key, &source->value};
    const hs_dense *output = &source->output, *ffn_in = &source->ffn_in, *ffn_out = &source->ffn_out;
    const struct {
        hs__linear_source source;
        hs__linear **ret_linear;
    } products[PRODUCTS] = {
        {{&ffn_in, 1, true}, &layer->ffn_in},
        {{&ffn_out, 1, false}, &layer->ffn_out},
        {{qkv, 3, false}, &layer->qkv},
        {{&output, 1, false}, &layer->output},
    };
    const size_t i = task % PRODUCTS;
    if (atomic_load(&all->status))
        return;
    const hs_status st = engine->linear->create(&products[i].source, engine->kernels, engine->precision,
                                                products[i].ret_linear, NULL);
    if (st)
        atomic_store(&all->status, (int)st);
}

static hs_status engine_pack(hs_engine *engine, hs_error *err)
{
    const hs_recipe *recipe = hs_model_recipe(engine->model);
    norm_read(&recipe->embedding.norm, &engine->embedding_norm);
    for (size_t l = 0; l < engine->shape.n_layers; l++) {
        norm_read(&recipe->layers[l].attention_norm, &engine->layers[l].attention_norm);
        norm_read(&recipe->layers[l].ffn_norm, &engine->layers[l].ffn_norm);
    }
    packings all = {.engine = engine};
    hs__crew crew;
    hs__crew_start(&crew, engine->n_threads);
    hs__crew_share(&crew, PRODUCTS * engine->shape.n_layers, task_pack, &all);
    hs__crew_finish(&crew);
    const hs_status st = (hs_status)atomic_load(&all.status);
    return st ? hs_fail(err, st, "packing the weights: %s", hs_status_text(st)) : HS_OK;
}

/* NULL when it was not built in. */
static const hs__linear_kind *backend_find(hs_backend backend)
{
    switch (backend) {
    case HS_BACKEND_DEFAULT:
    case HS_BACKEND_NATIVE:
        return &hs__linear_native;
    case HS_BACKEND_OPENBLAS:
        return &hs__linear_openblas;
    case HS_BACKEND_ONEDNN:
#if defined HS_WITH_ONEDNN
        return &hs__linear_onednn;
#else
        return NULL;
#endif
    }
    return NULL;
}

hs_status hs_engine_create(const hs_model *model, const hs_engine_options *options, hs_engine **ret_engine,
                           hs_error *err)
{
    /* More BLAS threads would be wrong, not only slow: concurrent calls of several threads can corrupt each
     * other (OpenBLAS issue 5836). Cores are shared out by us. */
    openblas_set_num_threads(1);

    hs_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for an engine");
    engine->model = model;
    engine->n_threads = options->n_threads > 0 ? options->n_threads : hs__cores_allowed();
    hs__team_join(engine->n_threads);
    engine->shape = *hs_model_shape(model);
    engine->precision = options->precision;
    engine->kernels = hs__kernels_select();

    engine->linear = backend_find(options->backend);

    hs_status st = HS_UNSUPPORTED;
    if (!engine->linear) {
        hs_fail(err, st, "this build has no onednn backend");
        goto out;
    }
    if (options->precision == HS_PRECISION_BF16) {
        engine->bf16 = hs__bf16_kernels_select();
        if (!engine->bf16 || engine->linear == &hs__linear_openblas) {
            hs_fail(err, st,
                    engine->bf16 ? "the openblas backend computes in fp32 only"
                                 : "this CPU has no AVX512_BF16, which bf16 needs: use fp32");
            goto out;
        }
    }
    st = engine_allocate(engine, err);
    if (st)
        goto out;
    st = engine_pack(engine, err);
    if (st)
        goto out;
    hs_model_release_pages(model);
    *ret_engine = engine;
    engine = NULL;
out:
    hs_engine_destroy(engine);
    return st;
}

void hs_engine_destroy(hs_engine *engine)
{
    if (!engine)
        return;
    for (size_t l = 0; engine->layers && l < engine->shape.n_layers; l++) {
        hs__layer *layer = &engine->layers[l];
        hs__linear_destroy(layer->qkv);
        hs__linear_destroy(layer->output);
        hs__linear_destroy(layer->ffn_in);
        hs__linear_destroy(layer->ffn_out);
    }
    hs__team_leave();
    free(engine->norms);
    free(engine->layers);
    free(engine);
}

const hs_shape *hs_engine_shape(const hs_engine *engine)
{
    return &engine->shape;
}

const char *hs_engine_backend(const hs_engine *engine)
{
    return engine->linear->name;
}

const char *hs_engine_precision(const hs_engine *engine)
{
    return engine->precision == HS_PRECISION_BF16 ? "bf16" : "fp32";
}

static void workspace_layout(hs_workspace *ws, hs__arena *arena)
{
    const hs_shape *shape = &ws->engine->shape;
    const hs__kernels *kernels = ws->engine->kernels;
    const size_t N = ws->tokens_max, H = shape->hidden, D = shape->head_width, F = shape->ffn;
    const size_t T = N < shape->n_positions ? N : shape->n_positions;
    size_t rows_floats = 0; /* the largest product of a text's length and the rows done at once for it */
    for (size_t t = 1; t <= T; t++)
        if (hs__attention_rows(kernels, t) * t > rows_floats)
            rows_floats = hs__attention_rows(kernels, t) * t;
    ws->x = hs__arena_floats(arena, N * H);
    ws->qkv = hs__arena_floats(arena, N * 3 * H);
    ws->context = hs__arena_floats(arena, N * H);
    ws->inner = hs__arena_floats(arena, N * F);
    ws->update = hs__arena_floats(arena, N * H);
    if (ws->engine->bf16)
        ws->operand = hs__arena_take(arena, N * hs__bf16_width(H > F ? H : F) * sizeof(uint16_t));
    hs__attention_scratch unused = {0};
    ws->attention = hs__arena_take(arena, ws->engine->n_threads * sizeof *ws->attention);
    for (size_t slot = 0; slot < ws->engine->n_threads; slot++) {
        hs__attention_scratch *scratch = ws->attention ? &ws->attention[slot] : &unused;
        scratch->keys = hs__arena_floats(arena, hs__panels_floats(kernels, D, T));
        scratch->values = hs__arena_floats(arena, hs__panels_floats(kernels, T, D));
        scratch->rows = hs__arena_floats(arena, rows_floats);
    }
}

hs_status hs_workspace_create(const hs_engine *engine, size_t tokens_max, hs_workspace **ret_ws,
                              hs_error *err)
{
    const size_t limit = (size_t)1 << 22; /* keeps every product below far from overflow */
    if (tokens_max < 1 || tokens_max > limit)
        return hs_fail(err, HS_INVALID, "a workspace serves 1 to %zu tokens, not %zu", limit, tokens_max);

    hs_workspace plan = {.engine = engine, .tokens_max = tokens_max};
    hs__arena arena = {0};
    hs__arena_take(&arena, sizeof plan);
    workspace_layout(&plan, &arena);
    arena = (hs__arena){.base = hs__block_create(arena.used)};
    if (!arena.base)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for a workspace of %zu tokens", tokens_max);
    hs_workspace *ws = hs__arena_take(&arena, sizeof plan);
    *ws = plan;
    workspace_layout(ws, &arena);
    *ret_ws = ws;
    return HS_OK;
}

void hs_workspace_destroy(hs_workspace *ws)
{
    free(ws);
}

static hs_status sequence_check(const hs_shape *shape, const hs_sequence *sequence, hs_error *err)
{
    const hs_capture *capture = sequence->capture;
    if (sequence->n_tokens < 1 || sequence->n_tokens > shape->n_positions)
        return hs_fail(err, HS_TOO_LARGE, "%zu tokens are not within 1 and the model's %zu",
                       sequence->n_tokens, shape->n_positions);
    if (!capture || capture->n_tokens != sequence->n_tokens || capture->hidden != shape->hidden ||
        capture->head_width != shape->head_width)
        return hs_fail(err, HS_INVALID, "the capture was made for another text or model");
    for (size_t i = 0; i < sequence->n_tokens; i++) {
        if (sequence->ids[i] < 0 || (size_t)sequence->ids[i] >= shape->vocab_size)
            return hs_fail(err, HS_INVALID, "token id %d is not within 0 and %zu", (int)sequence->ids[i],
                           shape->vocab_size - 1);
        if (shape->n_types > 0 && sequence->types && sequence->types[i] >= shape->n_types)
            return hs_fail(err, HS_INVALID, "token type %d is not below %zu", sequence->types[i],
                           shape->n_types);
    }
    return HS_OK;
}

hs_status hs_engine_run(const hs_engine *engine, hs_workspace *ws, const hs_sequence *sequences,
                        size_t n_sequences, const hs_run_control *control, hs_error *err)
{
    static const hs_run_control alone = {0};
    size_t n_tokens = 0;
    for (size_t s = 0; s < n_sequences; s++) {
        hs_status st = sequence_check(&engine->shape, &sequences[s], err);
        if (st)
            return st;
        n_tokens += sequences[s].n_tokens;
    }
    if (n_tokens > ws->tokens_max)
        return hs_fail(err, HS_TOO_LARGE, "%zu tokens are more than the workspace's %zu", n_tokens,
                       ws->tokens_max);
    return hs__forward(engine, ws, sequences, n_sequences, control ? control : &alone, err);
}
