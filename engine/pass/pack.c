/* pack.c - packs an architecture's tensors: products once each, norms and tables into one block. */
#include "engine/arena.h"
#include "engine/pass/cpu.h"
#include "engine/pass/team.h"

#include <assert.h>
#include <string.h>

/* ---- norms, rotations, biases ---- */

static void norm_layout(const hs_norm *source, hs__packed_norm *norm, hs__arena *arena)
{
    *norm = (hs__packed_norm){0};
    if (!source->gamma.data)
        return;
    norm->gamma = hs__arena_floats(arena, source->gamma.n_columns);
    norm->beta = hs__arena_floats(arena, source->gamma.n_columns);
}

static void norm_read(const hs_norm *source, hs__packed_norm *norm)
{
    if (!norm->gamma || !norm->beta) /* the identity has neither */
        return;
    hs_tensor_read(&source->gamma, 0, 1, norm->gamma);
    if (source->beta.data)
        hs_tensor_read(&source->beta, 0, 1, norm->beta);
    else
        memset(norm->beta, 0, source->gamma.n_columns * sizeof *norm->beta);
}

static bool is_biased(const hs_architecture *architecture)
{
    return architecture->score_bias.data || architecture->alibi;
}

/* Reserves the tables of relative positions. Layers with the same weights share theirs. */
static void relative_layout(hs__cpu_engine *engine, hs__arena *arena)
{
    const hs_shape *shape = &engine->shape;
    const size_t R = engine->relative.n_rows,
                 panels = hs__panels_floats(engine->kernels, shape->head_width, R);
    engine->relative.rows =
        hs__arena_take(arena, (2 * shape->n_positions - 1) * sizeof *engine->relative.rows);
    for (size_t l = 0; l < shape->n_layers; l++) {
        const hs_layer *source = &engine->base.architecture->layers[l];
        if (source->same_as == l && source->position_key.weight.data)
            engine->layers[l].position_keys = hs__arena_floats(arena, shape->n_heads * panels);
        if (source->same_as == l && source->position_query.weight.data)
            engine->layers[l].position_queries = hs__arena_floats(arena, R * shape->hidden);
    }
}

static void block_layout(hs__cpu_engine *engine, hs__arena *arena)
{
    const hs_architecture *architecture = engine->base.architecture;
    const hs_shape *shape = &engine->shape;
    norm_layout(&architecture->embedding.norm, &engine->embedding_norm, arena);
    norm_layout(&architecture->final_norm, &engine->final_norm, arena);
    for (size_t l = 0; l < shape->n_layers; l++) {
        norm_layout(&architecture->layers[l].attention_norm, &engine->layers[l].attention_norm, arena);
        norm_layout(&architecture->layers[l].ffn_norm, &engine->layers[l].ffn_norm, arena);
        norm_layout(&architecture->layers[l].query_norm, &engine->layers[l].query_norm, arena);
        norm_layout(&architecture->layers[l].key_norm, &engine->layers[l].key_norm, arena);
    }
    for (size_t r = 0; r < engine->n_rotations; r++) {
        engine->rotations[r].cosines = hs__arena_floats(arena, shape->n_positions * engine->rotary_half);
        engine->rotations[r].sines = hs__arena_floats(arena, shape->n_positions * engine->rotary_half);
    }
    if (architecture->predictor.decoder.data) {
        norm_layout(&architecture->predictor.norm, &engine->predictor.norm, arena);
        engine->predictor.bias = hs__arena_floats(arena, shape->vocab_size);
    }
    norm_layout(&architecture->task_head.norm, &engine->task_head.norm, arena);
    norm_layout(&architecture->convolution.norm, &engine->convolution_norm, arena);
    if (engine->relative.n_rows > 0)
        relative_layout(engine, arena);
    if (is_biased(architecture))
        engine->score_bias = hs__arena_floats(arena, shape->n_heads * (2 * shape->n_positions - 1));
}

static void block_fill(hs__cpu_engine *engine)
{
    const hs_architecture *architecture = engine->base.architecture;
    norm_read(&architecture->embedding.norm, &engine->embedding_norm);
    norm_read(&architecture->final_norm, &engine->final_norm);
    for (size_t l = 0; l < engine->shape.n_layers; l++) {
        norm_read(&architecture->layers[l].attention_norm, &engine->layers[l].attention_norm);
        norm_read(&architecture->layers[l].ffn_norm, &engine->layers[l].ffn_norm);
        norm_read(&architecture->layers[l].query_norm, &engine->layers[l].query_norm);
        norm_read(&architecture->layers[l].key_norm, &engine->layers[l].key_norm);
    }
    if (architecture->predictor.decoder.data) {
        norm_read(&architecture->predictor.norm, &engine->predictor.norm);
        if (architecture->predictor.bias.data)
            hs_tensor_read(&architecture->predictor.bias, 0, 1, engine->predictor.bias);
        else
            memset(engine->predictor.bias, 0, engine->shape.vocab_size * sizeof *engine->predictor.bias);
    }
    for (size_t r = 0; r < engine->n_rotations; r++)
        hs__rotation_fill(&engine->rotations[r], &architecture->rotary, engine->shape.n_positions,
                          2 * engine->rotary_half);
    norm_read(&architecture->task_head.norm, &engine->task_head.norm);
    norm_read(&architecture->convolution.norm, &engine->convolution_norm);
    if (engine->relative.n_rows > 0)
        hs__relative_rows_fill(architecture, engine->relative.rows);
    if (is_biased(architecture))
        hs__score_bias_fill(architecture, engine->score_bias);
}

/* Returns the rotation of this base, adding it if it is new; NULL if the base is 0. */
static const hs__rotation *rotation_find(hs__cpu_engine *engine, double base)
{
    if (base <= 0)
        return NULL;
    for (size_t r = 0; r < engine->n_rotations; r++)
        if (engine->rotations[r].base == base)
            return &engine->rotations[r];
    engine->rotations[engine->n_rotations].base = base;
    return &engine->rotations[engine->n_rotations++];
}

static hs_status engine_allocate(hs__cpu_engine *engine, hs_error *err)
{
    const hs_architecture *architecture = engine->base.architecture;
    hs__arena arena = {0};
    engine->layers = calloc(engine->shape.n_layers, sizeof *engine->layers);
    engine->rotations = calloc(engine->shape.n_layers, sizeof *engine->rotations);
    if (!engine->layers || !engine->rotations)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for an engine");
    for (size_t l = 0; l < engine->shape.n_layers; l++) {
        const hs_layer *layer = &architecture->layers[l];
        assert(architecture->layers[layer->same_as].same_as == layer->same_as);
        engine->layers[l].window = layer->window;
        engine->layers[l].rotation = rotation_find(engine, layer->rotation_base);
        engine->windowed |= layer->window > 0;
        engine->gated |= layer->ffn_gate.weight.data != NULL;
    }
    engine->relative.n_rows = architecture->relative.table.data ? architecture->relative.table.n_rows : 0;
    block_layout(engine, &arena);
    engine->block = hs_memory_create(arena.used);
    if (!engine->block)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for an engine");
    arena = (hs__arena){.base = engine->block};
    block_layout(engine, &arena);
    return HS_OK;
}

/* ---- products ---- */

/* Products to pack, one task each: those of the layers, then the embedding's projection and the
 * convolution. */
typedef struct packings {
    hs__cpu_engine *engine;
    atomic_int status; /* the first failure */
    hs_error err;      /* and its message */
} packings;

enum { PRODUCTS = 5 }; /* of a layer */

/* A product to pack and the address of its packed form. */
typedef struct packing {
    const hs_dense *parts[3];
    size_t n_parts;
    hs__activate *activate;
    hs__linear **ret_linear;
    size_t x_step, y_step; /* as in hs__linear_source */
} packing;

/* Returns the product of a task, without parts if there is nothing to pack. The largest come first, so
 * that no thread starts one at the end. */
static packing packing_of(hs__cpu_engine *engine, size_t task)
{
    const hs_architecture *architecture = engine->base.architecture;
    const hs_dense *projection = &architecture->embedding.projection,
                   *convolution = &architecture->convolution.dense;
    if (task == PRODUCTS * engine->shape.n_layers)
        return (packing){{projection}, projection->weight.data != NULL, NULL, &engine->projection, 0, 0};
    if (task > PRODUCTS * engine->shape.n_layers)
        return (packing){{convolution},
                         convolution->weight.data != NULL,
                         engine->kernels->activate[architecture->convolution.activation],
                         &engine->convolution,
                         0,
                         0};
    const size_t l = task / PRODUCTS, step = engine->inner_step;
    const hs_layer *source = &architecture->layers[l];
    hs__packed_layer *layer = &engine->layers[l];
    hs__activate *activate = engine->kernels->activate[architecture->activation];
    const bool gated = source->ffn_gate.weight.data != NULL;
    const packing products[PRODUCTS] = {
        {{&source->ffn_in}, 1, gated ? NULL : activate, &layer->ffn_in, 0, step},
        {{&source->ffn_gate}, gated, activate, &layer->ffn_gate, 0, step},
        {{&source->ffn_out}, 1, NULL, &layer->ffn_out, step, 0},
        {{&source->query, &source->key, &source->value}, 3, NULL, &layer->qkv, 0, 0},
        {{&source->output}, 1, NULL, &layer->output, 0, 0},
    };
    return source->same_as == l ? products[task % PRODUCTS] : (packing){.n_parts = 0};
}

static void task_pack(void *context, size_t task, size_t slot)
{
    (void)slot;
    packings *all = context;
    const hs__cpu_engine *engine = all->engine;
    const packing product = packing_of(all->engine, task);
    const hs__linear_source source = {.parts = product.parts,
                                      .n_parts = product.n_parts,
                                      .activate = product.activate,
                                      .cache_bytes = hs_runtime_caches(engine->base.runtime).second,
                                      .x_step = product.x_step,
                                      .y_step = product.y_step};
    if (product.n_parts == 0 || atomic_load(&all->status))
        return;
    hs_error err = {0};
    const int st =
        engine->linear->create(&source, engine->kernels, engine->base.precision, product.ret_linear, &err);
    if (st && atomic_compare_exchange_strong(&all->status, &(int){HS_OK}, st))
        all->err = err;
}

static hs_status products_pack(hs__cpu_engine *engine, hs_error *err)
{
    packings all = {.engine = engine};
    hs__team team;
    hs__team_start(&team, engine->base.runtime, engine->n_threads);
    hs__team_share(&team, PRODUCTS * engine->shape.n_layers + 2, task_pack, &all);
    hs__team_finish(&team);
    const hs_status st = (hs_status)atomic_load(&all.status);
    return st ? hs_fail(err, st, "packing the weights: %s", all.err.text) : HS_OK;
}

/* Packs the dense product of the head for tokens, if it has one, in fp32 for every precision: it computes few
 * rows. */
static hs_status predictor_pack(hs__cpu_engine *engine, hs_error *err)
{
    const hs_predictor *source = &engine->base.architecture->predictor;
    const hs_dense *dense = &source->dense;
    const hs__linear_source linear = {.parts = &dense,
                                      .n_parts = 1,
                                      .activate = engine->kernels->activate[source->activation],
                                      .cache_bytes = hs_runtime_caches(engine->base.runtime).second};
    if (!source->decoder.data || !dense->weight.data)
        return HS_OK;
    return hs__linear_native.create(&linear, engine->kernels, HS_PRECISION_FP32, &engine->predictor.dense,
                                    err);
}

/* Gives layers with the same weights the same products and norms. Windows and rotations stay each layer's
 * own. */
static void layers_share(hs__cpu_engine *engine)
{
    for (size_t l = 0; l < engine->shape.n_layers; l++) {
        hs__packed_layer *layer = &engine->layers[l];
        hs__packed_layer shared = engine->layers[engine->base.architecture->layers[l].same_as];
        shared.window = layer->window;
        shared.rotation = layer->rotation;
        *layer = shared;
    }
}

hs_status hs__weights_init(hs__cpu_engine *engine, hs_error *err)
{
    hs_status st = engine_allocate(engine, err);
    if (st)
        return st;
    if (engine->n_rotations > 0 && engine->shape.head_width % 2 != 0)
        return hs_fail(err, HS_UNSUPPORTED, "rotary positions need heads of an even width, not %zu",
                       engine->shape.head_width);
    if (engine->relative.n_rows > 0 && engine->windowed)
        return hs_fail(err, HS_UNSUPPORTED, "relative positions within windows");
    if (engine->relative.n_rows > 0 && engine->base.architecture->causal)
        return hs_fail(err, HS_UNSUPPORTED, "relative positions with a causal mask");
    if (engine->relative.n_rows > 0 && engine->attention_width != engine->shape.hidden)
        return hs_fail(err, HS_UNSUPPORTED,
                       "relative positions with heads that are not as wide as the state");
    if (engine->base.architecture->parallel_residual && !engine->base.architecture->norms_before)
        return hs_fail(err, HS_UNSUPPORTED, "a parallel residual where norms are behind the blocks");
    if (engine->base.architecture->convolution.width > 0 && engine->base.architecture->norms_before)
        return hs_fail(err, HS_UNSUPPORTED, "a convolution where norms are before the blocks");
    block_fill(engine);
    st = products_pack(engine, err);
    if (!st)
        st = hs__relative_fill(engine, err);
    if (!st)
        layers_share(engine);
    if (!st)
        st = hs__residual_create(engine->base.architecture, engine->kernels, &engine->residual, err);
    if (!st)
        st = hs__head_pack(engine, &engine->base.architecture->task_head, &engine->task_head, err);
    if (!st)
        st = hs__head_pack(engine, &engine->base.architecture->next_sentence, &engine->next_sentence, err);
    if (!st)
        st = hs__sentence_pack(engine, err);
    return st ? st : predictor_pack(engine, err);
}

void hs__weights_finish(hs__cpu_engine *engine)
{
    for (size_t l = 0; engine->layers && l < engine->shape.n_layers; l++) {
        hs__packed_layer *layer = &engine->layers[l];
        if (engine->base.architecture->layers[l].same_as != l)
            continue;
        hs__linear_destroy(layer->qkv);
        hs__linear_destroy(layer->output);
        hs__linear_destroy(layer->ffn_gate);
        hs__linear_destroy(layer->ffn_in);
        hs__linear_destroy(layer->ffn_out);
    }
    hs__linear_destroy(engine->projection);
    hs__linear_destroy(engine->convolution);
    hs__linear_destroy(engine->predictor.dense);
    hs__head_unpack(&engine->task_head);
    hs__head_unpack(&engine->next_sentence);
    hs__sentence_unpack(engine);
    hs__residual_destroy(engine->residual);
    free(engine->block);
    free(engine->rotations);
    free(engine->layers);
}
