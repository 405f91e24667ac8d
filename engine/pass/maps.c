/* maps.c - computes maps of a head again, from what a pass has kept of it.
 *
 * Queries, keys and outputs take T d floats and a map T T, so long texts keep the former. The maps have the
 * bits that the pass would have kept. */
#include "engine/pass/pass.h"

#include <stdlib.h>

void hs__positions_place(const hs_engine *engine, const hs__packed_layer *layer, bool cross, size_t index,
                         hs__head *head)
{
    const size_t last = engine->shape.n_positions - 1, R = engine->relative.n_rows, D = head->D;
    if (engine->score_bias && !cross)
        head->bias = engine->score_bias + index * (2 * last + 1) + last;
    if (R == 0)
        return;
    head->position_rows = engine->relative.rows + last;
    head->n_position_rows = R;
    if (layer->position_keys)
        head->position_keys = layer->position_keys + index * hs__panels_floats(engine->kernels, D, R);
    if (layer->position_queries)
        head->position_queries = layer->position_queries + index * R * D;
}

/* Returns the block of the capture's l-th layer. */
static size_t block_of(const hs_engine *engine, const hs_capture *capture, size_t l)
{
    return capture->layers[l] * hs_architecture_layer_blocks(engine->architecture) + capture->cross;
}

/* Creates scratch for the capture's text. The caller frees the block that it returns; NULL: no memory. */
static void *scratch_create(const hs_engine *engine, const hs_capture *capture,
                            hs__attention_scratch *ret_scratch, hs_error *err)
{
    const size_t n = capture->n_keys > capture->n_tokens ? capture->n_keys : capture->n_tokens;
    hs__arena arena = {0};
    hs__attention_layout(engine, n, &arena, ret_scratch);
    arena = (hs__arena){.base = hs_memory_create(arena.used)};
    if (arena.base)
        hs__attention_layout(engine, n, &arena, ret_scratch);
    else
        (void)hs_fail(err, HS_NO_MEMORY, "no memory to compute a map");
    return arena.base;
}

/* Sets the outputs of a head, and the factor that takes them to the hidden state. */
static hs_status outputs_place(const hs_engine *engine, const hs_capture *capture, size_t l, size_t h,
                               hs_similarity kind, hs__head *ret_head, hs_error *err)
{
    const size_t block = block_of(engine, capture, l), D = engine->shape.head_width;
    const hs_status st = kind.residual ? hs__residual_make(engine->residual, block, err) : HS_OK;
    if (st)
        return st;
    *ret_head = (hs__head){.T = capture->n_tokens,
                           .K = capture->n_keys,
                           .D = D,
                           .context = hs_capture_at(capture, HS_TAP_HEAD_OUTPUT, l, h),
                           .context_step = D};
    if (kind.residual)
        ret_head->residual = hs__residual_at(engine->residual, block, capture->heads[h]);
    return HS_OK;
}

hs_status hs_engine_similarity(const hs_engine *engine, const hs_capture *capture, size_t l, size_t h,
                               hs_similarity kind, size_t first, size_t n, float *ret_rows, hs_error *err)
{
    hs__head head;
    const hs_status st = outputs_place(engine, capture, l, h, kind, &head, err);
    if (st)
        return st;
    hs__attention_scratch scratch;
    void *memory = scratch_create(engine, capture, &scratch, err);
    if (!memory)
        return HS_NO_MEMORY;
    hs__similarity_rows(engine->kernels, &scratch, &head, kind, first, n, ret_rows);
    free(memory);
    return HS_OK;
}

hs_status hs_engine_lengths(const hs_engine *engine, const hs_capture *capture, size_t l, size_t h,
                            hs_similarity kind, float *ret_lengths, hs_error *err)
{
    hs__head head;
    const hs_status st = outputs_place(engine, capture, l, h, kind, &head, err);
    if (st)
        return st;
    hs__attention_scratch scratch = {0};
    const bool plain = !kind.residual && !kind.centered;
    void *memory = plain ? NULL : scratch_create(engine, capture, &scratch, err);
    if (!plain && !memory)
        return HS_NO_MEMORY;
    hs__similarity_lengths(engine->kernels, &scratch, &head, kind, ret_lengths);
    free(memory);
    return HS_OK;
}

hs_status hs_engine_attention(const hs_engine *engine, const hs_capture *capture, size_t l, size_t h,
                              size_t first, size_t n, float *ret_rows, hs_error *err)
{
    const hs_architecture *architecture = engine->architecture;
    const hs__packed_layer *layer = &engine->layers[block_of(engine, capture, l)];
    const size_t D = engine->shape.head_width;
    hs__attention_scratch scratch;
    void *memory = scratch_create(engine, capture, &scratch, err);
    if (!memory)
        return HS_NO_MEMORY;
    hs__head head = {.T = capture->n_tokens,
                     .K = capture->n_keys,
                     .D = D,
                     .q = hs_capture_at(capture, HS_TAP_QUERY, l, h),
                     .k = hs_capture_at(capture, HS_TAP_KEY, l, h),
                     .step = D,
                     .key_step = D,
                     .causal = architecture->causal && !capture->cross,
                     .scale = layer->score_scale,
                     .cap = (float)architecture->score_cap,
                     .window = layer->window};
    hs__positions_place(engine, layer, capture->cross, capture->heads[h], &head);
    hs__attention_rows(engine->kernels, &scratch, &head, first, n, ret_rows);
    free(memory);
    return HS_OK;
}
