/* capture.c - captures: one layout function measures and carves the block, the runtime's pool gives the
 * memory. */
#include "engine/capture.h"

#include "engine/arena.h"
#include "engine/pass/lists.h"
#include "engine/pass/runtime_parts.h"

#include <string.h>

/* The start of a capture's block. */
typedef struct capture_store {
    hs_capture capture;
    size_t block_bytes;
} capture_store;

static const hs_axis tap_axes[HS_N_TAPS][HS_AXES_MAX + 1] = {
    [HS_TAP_QUERY] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_HEAD_WIDTH},
    [HS_TAP_KEY] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_HEAD_WIDTH},
    [HS_TAP_VALUE] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_HEAD_WIDTH},
    [HS_TAP_VALUE_NORMS] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN},
    [HS_TAP_SCORES] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_TOKEN},
    [HS_TAP_SCORES_C2C] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_TOKEN},
    [HS_TAP_SCORES_C2P] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_TOKEN},
    [HS_TAP_SCORES_P2C] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_TOKEN},
    [HS_TAP_ATTENTION] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_TOKEN},
    [HS_TAP_COLUMNS] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN},
    [HS_TAP_HEAD_OUTPUT] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_HEAD_WIDTH},
    [HS_TAP_SIMILARITY] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_TOKEN},
    [HS_TAP_RESIDUAL_SIMILARITY] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_TOKEN},
    [HS_TAP_HIDDEN_STATE] = {HS_AXIS_STATE, HS_AXIS_TOKEN, HS_AXIS_HIDDEN},
    [HS_TAP_LAST_STATE] = {HS_AXIS_TOKEN, HS_AXIS_HIDDEN},
    [HS_TAP_EVERY_STATE] = {HS_AXIS_DEPTH, HS_AXIS_TOKEN, HS_AXIS_HIDDEN},
};

/* clang-format off */
#define FOUR(n)    (n), (n) + 1, (n) + 2, (n) + 3
#define SIXTEEN(n) FOUR(n), FOUR((n) + 4), FOUR((n) + 8), FOUR((n) + 12)
#define QUARTER(n) SIXTEEN(n), SIXTEEN((n) + 16), SIXTEEN((n) + 32), SIXTEEN((n) + 48)
const uint16_t hs_all_numbers[HS_LAYERS_MAX] = {QUARTER(0), QUARTER(64), QUARTER(128), QUARTER(192)};
/* clang-format on */
_Static_assert(HS_LAYERS_MAX == 256 && HS_HEADS_MAX <= HS_LAYERS_MAX, "the numbers are all");

hs_selection hs_select_all(const hs_shape *shape, unsigned taps)
{
    return (hs_selection){hs_all_numbers, shape->n_layers, hs_all_numbers, shape->n_heads, taps};
}

const hs_axis *hs_tap_axes(hs_tap tap)
{
    return tap_axes[tap];
}

size_t hs_capture_length(const hs_capture *capture, hs_axis axis)
{
    const size_t lengths[] = {
        [HS_AXIS_NONE] = 1,
        [HS_AXIS_LAYER] = capture->n_layers,
        [HS_AXIS_STATE] = 1 + capture->n_layers,
        [HS_AXIS_DEPTH] = 1 + capture->depth,
        [HS_AXIS_HEAD] = capture->n_heads,
        [HS_AXIS_KV_HEAD] = capture->n_heads,
        [HS_AXIS_TOKEN] = capture->n_tokens,
        [HS_AXIS_HEAD_WIDTH] = capture->head_width,
        [HS_AXIS_HIDDEN] = capture->hidden,
    };
    return lengths[axis];
}

/* Returns the number of elements of a tap, from its axis `from` on. */
static size_t tap_floats(const hs_capture *capture, hs_tap tap, size_t from)
{
    size_t n = 1;
    for (const hs_axis *axis = tap_axes[tap] + from; *axis; axis++)
        n *= hs_capture_length(capture, *axis);
    return n;
}

/* Measures (base NULL) or carves the block after the struct: layers, heads, then the taps in order. */
static void capture_layout(hs_capture *capture, const hs_selection *selection, hs__arena *arena)
{
    capture->layers = hs__arena_take(arena, selection->n_layers * sizeof *selection->layers);
    capture->heads = hs__arena_take(arena, selection->n_heads * sizeof *selection->heads);
    for (size_t tap = 0; tap < HS_N_TAPS; tap++)
        if (capture->taps >> tap & 1)
            capture->arrays[tap] = hs__arena_floats(arena, tap_floats(capture, tap, 0));
}

static hs_capture capture_describe(hs_runtime *runtime, const hs_shape *shape, const hs_selection *selection,
                                   size_t n_tokens)
{
    return (hs_capture){
        .runtime = runtime,
        .n_tokens = n_tokens,
        .n_layers = selection->n_layers,
        .n_heads = selection->n_heads,
        .head_width = shape->head_width,
        .hidden = shape->hidden,
        .depth = shape->n_layers,
        .taps = selection->taps | (selection->taps & HS_KEEP(ATTENTION) ? HS_KEEP(COLUMNS) : 0),
    };
}

size_t hs_capture_bytes(const hs_shape *shape, const hs_selection *selection, size_t n_tokens)
{
    hs_capture capture = capture_describe(NULL, shape, selection, n_tokens);
    hs__arena arena = {0};
    hs__arena_take(&arena, sizeof(capture_store));
    capture_layout(&capture, selection, &arena);
    return arena.used;
}

static hs__block block_take(hs_runtime *runtime, size_t bytes)
{
    return runtime ? hs__block_take(&runtime->blocks, bytes) : (hs__block){hs_memory_create(bytes), bytes};
}

hs_status hs_capture_create(hs_runtime *runtime, const hs_shape *shape, const hs_selection *selection,
                            size_t n_tokens, hs_capture **ret_capture, hs_error *err)
{
    if (!hs__list_is_sound(selection->layers, selection->n_layers, shape->n_layers))
        return hs_fail(err, HS_INVALID, "layers must be ascending and below %zu", shape->n_layers);
    if (!hs__list_is_sound(selection->heads, selection->n_heads, shape->n_heads))
        return hs_fail(err, HS_INVALID, "heads must be ascending and below %zu", shape->n_heads);
    if (n_tokens < 1 || n_tokens > shape->n_positions)
        return hs_fail(err, HS_TOO_LARGE, "%zu tokens are not within 1 and %zu", n_tokens,
                       shape->n_positions);

    const size_t bytes = hs_capture_bytes(shape, selection, n_tokens);
    const hs__block taken = block_take(runtime, bytes);
    if (!taken.memory)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for the heads of %zu tokens (%zu bytes)", n_tokens,
                       bytes);

    hs__arena arena = {.base = taken.memory};
    capture_store *store = hs__arena_take(&arena, sizeof *store);
    *store = (capture_store){capture_describe(runtime, shape, selection, n_tokens), taken.bytes};
    hs_capture *capture = &store->capture;
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
    if (!capture)
        return;
    const hs__block block = {capture, ((capture_store *)capture)->block_bytes};
    if (capture->runtime)
        hs__block_return(&capture->runtime->blocks, block);
    else
        free(block.memory);
}

float *hs_capture_at(const hs_capture *capture, hs_tap tap, size_t l, size_t h)
{
    const bool heads = tap_axes[tap][1] == HS_AXIS_HEAD;
    const size_t index = heads ? l * capture->n_heads + h : l;
    return capture->arrays[tap] + index * tap_floats(capture, tap, heads ? 2 : 1);
}

static void copy_heads(const hs_capture *from, hs_capture *to, hs_tap tap, size_t l)
{
    const ptrdiff_t from_l = hs__list_find(from->layers, from->n_layers, to->layers[l]);
    for (size_t h = 0; h < to->n_heads; h++) {
        const ptrdiff_t from_h = hs__list_find(from->heads, from->n_heads, to->heads[h]);
        memcpy(hs_capture_at(to, tap, l, h), hs_capture_at(from, tap, (size_t)from_l, (size_t)from_h),
               tap_floats(to, tap, 2) * sizeof(float));
    }
}

/* Copies states; the state that enters a layer is the one after the layer below. */
static void copy_states(const hs_capture *from, hs_capture *to, size_t n_layers)
{
    const size_t n = to->n_tokens * to->hidden;
    if (to->arrays[HS_TAP_EVERY_STATE])
        memcpy(to->arrays[HS_TAP_EVERY_STATE], from->arrays[HS_TAP_EVERY_STATE],
               n_layers * n * sizeof(float));
    if (!to->arrays[HS_TAP_HIDDEN_STATE] || n_layers == 0)
        return;
    memcpy(to->arrays[HS_TAP_HIDDEN_STATE], from->arrays[HS_TAP_HIDDEN_STATE], n * sizeof(float));
    for (size_t l = 0; l < to->n_layers && to->layers[l] + 1U < n_layers; l++) {
        const ptrdiff_t from_l = hs__list_find(from->layers, from->n_layers, to->layers[l]);
        memcpy(hs_capture_at(to, HS_TAP_HIDDEN_STATE, l + 1, 0),
               hs_capture_at(from, HS_TAP_HIDDEN_STATE, (size_t)from_l + 1, 0), n * sizeof(float));
    }
}

void hs_capture_copy_below(const hs_capture *from, hs_capture *to, size_t n_layers)
{
    for (size_t tap = 0; tap < HS_N_TAPS; tap++)
        for (size_t l = 0; to->arrays[tap] && tap_axes[tap][1] == HS_AXIS_HEAD && l < to->n_layers; l++)
            if (to->layers[l] < n_layers)
                copy_heads(from, to, (hs_tap)tap, l);
    copy_states(from, to, n_layers);
}
