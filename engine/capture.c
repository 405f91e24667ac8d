#include "engine/capture.h"
#include "engine/arena.h"

#include <string.h>

/* Measures (arena over NULL) or carves the block behind the struct; the comment in capture.h draws it. */
static void capture_layout(hs_capture *capture, const hs_selection *selection, hs__arena *arena)
{
    const size_t T = capture->n_tokens, D = capture->head_width, H = capture->hidden;
    const size_t n_maps = capture->n_layers * capture->n_heads;

    capture->layers = hs__arena_take(arena, selection->n_layers * sizeof *selection->layers);
    capture->heads = hs__arena_take(arena, selection->n_heads * sizeof *selection->heads);
    if (capture->keep & HS_KEEP_ATTENTIONS) {
        capture->attentions = hs__arena_floats(arena, n_maps * T * T);
        capture->columns = hs__arena_floats(arena, n_maps * T);
    }
    if (capture->keep & HS_KEEP_SIMILARITIES)
        capture->similarities = hs__arena_floats(arena, n_maps * T * T);
    if (capture->keep & HS_KEEP_HEAD_OUTPUTS)
        capture->head_outputs = hs__arena_floats(arena, n_maps * T * D);
    if (capture->keep & HS_KEEP_HIDDEN_STATES)
        capture->hidden_states = hs__arena_floats(arena, (1 + capture->n_layers) * T * H);
}

static hs_capture capture_describe(const hs_shape *shape, const hs_selection *selection, size_t n_tokens)
{
    return (hs_capture){
        .n_tokens = n_tokens,
        .n_layers = selection->n_layers,
        .n_heads = selection->n_heads,
        .head_width = shape->head_width,
        .hidden = shape->hidden,
        .keep = selection->keep,
    };
}

size_t hs_capture_bytes(const hs_shape *shape, const hs_selection *selection, size_t n_tokens)
{
    hs_capture capture = capture_describe(shape, selection, n_tokens);
    hs__arena arena = {0};
    hs__arena_take(&arena, sizeof capture);
    capture_layout(&capture, selection, &arena);
    return arena.used;
}

static int selection_is_sound(const uint16_t *items, size_t n_items, size_t limit)
{
    for (size_t i = 0; i < n_items; i++)
        if (items[i] >= limit || (i > 0 && items[i] <= items[i - 1]))
            return 0;
    return 1;
}

hs_status hs_capture_create(const hs_shape *shape, const hs_selection *selection, size_t n_tokens,
                            hs_capture **ret_capture, hs_error *err)
{
    if (!selection_is_sound(selection->layers, selection->n_layers, shape->n_layers))
        return hs_fail(err, HS_INVALID, "layers must be ascending and below %zu", shape->n_layers);
    if (!selection_is_sound(selection->heads, selection->n_heads, shape->n_heads))
        return hs_fail(err, HS_INVALID, "heads must be ascending and below %zu", shape->n_heads);
    if (n_tokens < 1 || n_tokens > shape->n_positions)
        return hs_fail(err, HS_TOO_LARGE, "%zu tokens are not within 1 and %zu", n_tokens,
                       shape->n_positions);

    const size_t bytes = hs_capture_bytes(shape, selection, n_tokens);
    void *block = hs__block_create(bytes);
    if (!block)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for the heads of %zu tokens (%zu bytes)", n_tokens,
                       bytes);

    hs__arena arena = {.base = block};
    hs_capture *capture = hs__arena_take(&arena, sizeof *capture);
    *capture = capture_describe(shape, selection, n_tokens);
    capture->bytes = bytes;
    capture_layout(capture, selection, &arena);
    if (selection->n_layers > 0)
        memcpy((void *)capture->layers, selection->layers, selection->n_layers * sizeof *selection->layers);
    if (selection->n_heads > 0)
        memcpy((void *)capture->heads, selection->heads, selection->n_heads * sizeof *selection->heads);
    *ret_capture = capture;
    return HS_OK;
}

void hs_capture_destroy(hs_capture *capture)
{
    free(capture);
}

float *hs_capture_attention(const hs_capture *capture, size_t l, size_t h)
{
    return capture->attentions + (l * capture->n_heads + h) * capture->n_tokens * capture->n_tokens;
}

float *hs_capture_similarity(const hs_capture *capture, size_t l, size_t h)
{
    return capture->similarities + (l * capture->n_heads + h) * capture->n_tokens * capture->n_tokens;
}

float *hs_capture_head_output(const hs_capture *capture, size_t l, size_t h)
{
    return capture->head_outputs + (l * capture->n_heads + h) * capture->n_tokens * capture->head_width;
}

float *hs_capture_columns(const hs_capture *capture, size_t l, size_t h)
{
    return capture->columns + (l * capture->n_heads + h) * capture->n_tokens;
}
