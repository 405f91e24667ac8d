/* tape.c - records a forward pass for its backward pass. */
#include "engine/pass/tape.h"

#include "engine/pass/team.h"
#include "model/base/sizes.h"

#include <stdlib.h>
#include <string.h>

/* Returns true if q and k of any block are normed. */
static bool operands_normed(const hs_engine *engine)
{
    bool normed = false;
    for (size_t b = 0; b < engine->n_blocks; b++)
        normed |= engine->layers[b].query_norm.gamma != NULL;
    return normed;
}

/* Lays out what is kept of a block. Blocks of all layers have the same layout. */
static void kept_layout(const hs_tape *tape, size_t block, hs__arena *arena, hs__kept *kept)
{
    const hs_engine *engine = tape->engine;
    const hs__packed_layer *layer = &engine->layers[block];
    const size_t T = tape->text.n_tokens, H = engine->shape.hidden, n = T * engine->inner_step;
    const size_t n_memory = tape->text.n_memory, n_kv = 2 * n_memory * hs_shape_kv_width(&engine->shape);
    const bool normed = operands_normed(engine);
    *kept = (hs__kept){0};
    kept->qkv = hs__arena_floats(arena, T * layer->qkv->n_out);
    if (normed)
        kept->raw = hs__arena_floats(arena, T * layer->qkv->n_out);
    if (layer->memory)
        kept->memory_kv = hs__arena_floats(arena, n_kv);
    if (layer->memory && normed)
        kept->raw_memory = hs__arena_floats(arena, n_kv);
    kept->attention = hs__arena_floats(arena, engine->shape.n_heads * T * (layer->memory ? n_memory : T));
    kept->context = hs__arena_floats(arena, T * engine->attention_width);
    kept->attended = hs__arena_floats(arena, T * H);
    if (!layer->ffn_in)
        return;
    kept->inner = hs__arena_floats(arena, n);
    if (engine->gated)
        kept->gate = hs__arena_floats(arena, n);
    kept->fed = hs__arena_floats(arena, T * H);
}

static void scratch_layout(const hs_tape *tape, hs__arena *arena, hs__back_scratch *s)
{
    const hs_engine *engine = tape->engine;
    const hs_architecture *architecture = engine->architecture;
    const size_t T = tape->text.n_tokens, M = tape->text.n_memory, H = engine->shape.hidden;
    const size_t E = architecture->embedding.width, n = T * engine->inner_step;
    s->g = hs__arena_floats(arena, T * H);
    s->sum = hs__arena_floats(arena, T * H);
    s->normed = hs__arena_floats(arena, T * H);
    s->middle = hs__arena_floats(arena, T * H);
    s->part = hs__arena_floats(arena, hs_max(T, M) * H);
    s->qkv = hs__arena_floats(arena, T * engine->qkv_width);
    if (architecture->crosses) {
        s->memory_kv = hs__arena_floats(arena, M * 2 * hs_shape_kv_width(&engine->shape));
        s->memory = hs__arena_floats(arena, M * H);
    }
    s->context = hs__arena_floats(arena, T * engine->attention_width);
    s->inner = hs__arena_floats(arena, n);
    s->slope = hs__arena_floats(arena, n);
    if (engine->gated)
        s->gate = hs__arena_floats(arena, n);
    if (architecture->convolution.width > 0) {
        s->convolved = hs__arena_floats(arena, T * H);
        s->unfolded = hs__arena_floats(arena, T * H * architecture->convolution.width);
    }
    s->words = hs__arena_floats(arena, T * E);
    s->embedded = hs__arena_floats(arena, T * E);
    s->row = hs__arena_floats(arena, hs_max(H, E));
    s->heads = hs__arena_take(arena, tape->n_threads * sizeof *s->heads);
    hs__head_back_scratch unused = {0};
    for (size_t i = 0; i < tape->n_threads; i++)
        hs__head_back_layout(engine, T, hs_max(T, M), arena, s->heads ? &s->heads[i] : &unused);
}

static void tape_layout(hs_tape *tape, hs__arena *arena)
{
    const hs_engine *engine = tape->engine;
    const size_t n = tape->text.n_tokens * engine->shape.hidden, n_blocks = engine->n_blocks;
    const size_t n_layer = hs_architecture_layer_blocks(engine->architecture);
    tape->x = hs__arena_take(arena, n_blocks * sizeof *tape->x);
    tape->kept = hs__arena_take(arena, n_blocks * sizeof *tape->kept);
    hs__kept unused;
    for (size_t b = 0; b < n_blocks; b++) {
        float *x = hs__arena_floats(arena, n);
        if (tape->x)
            tape->x[b] = x;
        if (tape->complete || b < n_layer)
            kept_layout(tape, b, arena, tape->kept ? &tape->kept[b] : &unused);
        else if (tape->kept)
            tape->kept[b] = tape->kept[b % n_layer];
    }
    tape->convolved = engine->convolution ? hs__arena_floats(arena, n) : NULL;
    tape->unnormed = hs__arena_floats(arena, n);
    tape->last = hs__arena_floats(arena, n);
    scratch_layout(tape, arena, &tape->scratch);
}

/* Measures a tape that keeps all, or only one layer if that takes more than bytes_max. Returns its bytes. */
static size_t tape_measure(hs_tape *tape, size_t bytes_max)
{
    hs__arena arena = {0};
    tape->complete = true;
    for (int attempt = 0; attempt < 2; attempt++) {
        arena = (hs__arena){0};
        hs__arena_take(&arena, sizeof *tape);
        tape_layout(tape, &arena);
        if (arena.used <= bytes_max)
            break;
        tape->complete = false;
    }
    return arena.used;
}

static hs_tape tape_describe(const hs_engine *engine, const hs_sequence *text, size_t n_threads)
{
    hs_tape tape = {.engine = engine, .text = *text, .again = SIZE_MAX};
    tape.text.capture = NULL;
    tape.n_threads = hs__threads_for(engine, text->n_tokens, n_threads < 1 ? 1 : n_threads);
    return tape;
}

static const hs_selection nothing_selected = {0};

size_t hs_tape_bytes(const hs_engine *engine, size_t n_tokens, size_t n_memory, size_t n_threads)
{
    const hs_sequence text = {.n_tokens = n_tokens, .n_memory = n_memory};
    hs_tape tape = tape_describe(engine, &text, n_threads);
    return tape_measure(&tape, HS_TAPE_BYTES_MAX) +
           hs_capture_bytes(&engine->shape, &nothing_selected, n_tokens);
}

/* Creates a tape for a text, with a capture that keeps nothing. The caller destroys *ret_tape. */
static hs_status tape_create(const hs_engine *engine, const hs_sequence *text, size_t n_threads,
                             size_t bytes_max, hs_tape **ret_tape, hs_error *err)
{
    hs_tape described = tape_describe(engine, text, n_threads);
    hs_capture *nothing = NULL;
    const hs_status st =
        hs_capture_create(engine->runtime, &engine->shape, &nothing_selected, text->n_tokens, &nothing, err);
    if (st)
        return st;
    const size_t bytes = tape_measure(&described, bytes_max);
    hs__arena arena = {.base = hs_runtime_block_take(engine->runtime, bytes, &described.block_bytes)};
    if (!arena.base) {
        hs_capture_destroy(nothing);
        return hs_fail(err, HS_NO_MEMORY, "out of memory for the gradients of %zu tokens (%zu bytes)",
                       text->n_tokens, bytes);
    }
    hs_tape *tape = hs__arena_take(&arena, sizeof *tape);
    *tape = described;
    tape->nothing = nothing;
    tape_layout(tape, &arena);
    *ret_tape = tape;
    return HS_OK;
}

void hs_tape_destroy(hs_tape *tape)
{
    if (!tape)
        return;
    hs_capture_destroy(tape->nothing);
    hs_runtime_block_return(tape->engine->runtime, tape, tape->block_bytes);
}

const float *hs_tape_last(const hs_tape *tape)
{
    return tape->last;
}

hs_status hs_gradients_prepare(const hs_engine *engine, bool alone, hs_error *err)
{
    if (engine->precision != HS_PRECISION_FP32)
        return hs_fail(err, HS_UNSUPPORTED, "gradients of passes in %s: use fp32",
                       hs_engine_precision(engine));
    return hs__transposed_make(engine->transposed, alone, err);
}

void hs_gradients_release(const hs_engine *engine)
{
    hs__transposed_release(engine->transposed);
}

bool hs_gradients_are_prepared(const hs_engine *engine)
{
    return hs__transposed_at(engine->transposed, 0) != NULL;
}

/* Runs the blocks of layers up to `end`, whatever the sequence's capture asks for. */
static hs_status run(hs_tape *tape, hs_workspace *ws, const hs_sequence *sequence, size_t end,
                     const hs_run_control *control, hs_error *err)
{
    const hs_engine *engine = tape->engine;
    hs_plan plan;
    hs_status st = hs_plan_make(engine->architecture, sequence, 1, NULL, &plan, err);
    if (!st)
        st = hs_engine_prepare(engine, &plan, err);
    if (st)
        return st;
    plan.n_blocks = end * hs_architecture_layer_blocks(engine->architecture);
    plan.heads_only = false;
    return hs__engine_run_taped(engine, ws, &plan, control, tape, err);
}

hs_status hs_tape_record(const hs_engine *engine, hs_workspace *ws, const hs_sequence *sequence,
                         const hs_run_control *control, hs_tape **ret_tape, hs_error *err)
{
    return hs__tape_record(engine, ws, sequence, control, HS_TAPE_BYTES_MAX, ret_tape, err);
}

hs_status hs__tape_record(const hs_engine *engine, hs_workspace *ws, const hs_sequence *sequence,
                          const hs_run_control *control, size_t bytes_max, hs_tape **ret_tape, hs_error *err)
{
    if (sequence->start || sequence->past)
        return hs_fail(err, HS_INVALID, "gradients of a text that does not begin at its embeddings");
    if (!hs_gradients_are_prepared(engine))
        return hs_fail(err, HS_INVALID, "gradients need hs_gradients_prepare first");
    hs_tape *tape = NULL;
    hs_status st = tape_create(engine, sequence, control ? control->n_threads : 1, bytes_max, &tape, err);
    if (st || !tape)
        return st;
    hs_sequence text = *sequence;
    text.capture = sequence->capture ? sequence->capture : tape->nothing;
    st = run(tape, ws, &text, engine->shape.n_layers, control, err);
    if (st) {
        hs_tape_destroy(tape);
        return st;
    }
    tape->n_unpadded = text.capture->n_unpadded;
    *ret_tape = tape;
    return HS_OK;
}

hs_status hs__tape_layer_again(hs_tape *tape, hs_workspace *ws, size_t layer, const hs_run_control *control,
                               hs_error *err)
{
    const size_t n = hs_architecture_layer_blocks(tape->engine->architecture);
    const hs_start start = {.layer = layer, .state = tape->x[layer * n]};
    hs_sequence text = tape->text;
    text.capture = tape->nothing;
    text.start = &start;
    tape->again = layer;
    const hs_status st = run(tape, ws, &text, layer + 1, control, err);
    if (st)
        tape->again = SIZE_MAX;
    return st;
}
