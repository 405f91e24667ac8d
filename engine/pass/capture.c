#include "engine/pass/capture.h"
#include "engine/pass/arena.h"

#include <pthread.h>
#include <string.h>

/* Large blocks are kept for the next capture of about their size: fresh pages from the system cost 4 % of a
 * pass of BERT-base at 128 tokens and 9 % at 256. Small ones malloc keeps itself. */
#define SHELF_BLOCKS    4
#define SHELF_BYTES_MAX ((size_t)384 << 20)
#define SHELVED_MIN     ((size_t)4 << 20)

typedef struct block {
    void *memory;
    size_t bytes;
} block;

static struct {
    pthread_mutex_t mutex;
    block blocks[SHELF_BLOCKS]; /* memory NULL: a free place */
    size_t bytes;
} shelf = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* How a capture lies at the start of its block. */
typedef struct capture_store {
    hs_capture capture;
    size_t block_bytes;
} capture_store;

/* A block of at least `bytes`, from the shelf when one fits with at most a quarter wasted. */
static block block_take(size_t bytes)
{
    block best = {NULL, bytes + bytes / 4};
    size_t place = 0;
    pthread_mutex_lock(&shelf.mutex);
    for (size_t b = 0; b < SHELF_BLOCKS; b++)
        if (shelf.blocks[b].memory && shelf.blocks[b].bytes >= bytes && shelf.blocks[b].bytes <= best.bytes) {
            best = shelf.blocks[b];
            place = b;
        }
    if (best.memory) {
        shelf.bytes -= best.bytes;
        shelf.blocks[place] = (block){0};
    }
    pthread_mutex_unlock(&shelf.mutex);
    return best.memory ? best : (block){hs__block_create(bytes), bytes};
}

/* Puts it on the shelf; what must make room, or does not fit at all, is freed. */
static void block_return(block returned)
{
    block evicted[SHELF_BLOCKS + 1] = {0};
    size_t n = 0;
    if (returned.bytes < SHELVED_MIN || returned.bytes > SHELF_BYTES_MAX) {
        free(returned.memory);
        return;
    }
    pthread_mutex_lock(&shelf.mutex);
    size_t place = SHELF_BLOCKS;
    for (size_t b = 0; b < SHELF_BLOCKS; b++)
        if (!shelf.blocks[b].memory)
            place = b;
    for (size_t b = 0; b < SHELF_BLOCKS; b++)
        if (shelf.blocks[b].memory &&
            (place == SHELF_BLOCKS || shelf.bytes + returned.bytes > SHELF_BYTES_MAX)) {
            evicted[n++] = shelf.blocks[b];
            shelf.bytes -= shelf.blocks[b].bytes;
            shelf.blocks[b] = (block){0};
            place = b;
        }
    shelf.blocks[place] = returned;
    shelf.bytes += returned.bytes;
    pthread_mutex_unlock(&shelf.mutex);
    while (n > 0)
        free(evicted[--n].memory);
}

static const hs_axis tap_axes[HS_N_TAPS][HS_AXES_MAX + 1] = {
    [HS_TAP_SCORES] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_TOKEN},
    [HS_TAP_ATTENTION] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_TOKEN},
    [HS_TAP_COLUMNS] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN},
    [HS_TAP_HEAD_OUTPUT] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_HEAD_WIDTH},
    [HS_TAP_SIMILARITY] = {HS_AXIS_LAYER, HS_AXIS_HEAD, HS_AXIS_TOKEN, HS_AXIS_TOKEN},
    [HS_TAP_HIDDEN_STATE] = {HS_AXIS_STATE, HS_AXIS_TOKEN, HS_AXIS_HIDDEN},
};

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
        [HS_AXIS_HEAD] = capture->n_heads,
        [HS_AXIS_TOKEN] = capture->n_tokens,
        [HS_AXIS_HEAD_WIDTH] = capture->head_width,
        [HS_AXIS_HIDDEN] = capture->hidden,
    };
    return lengths[axis];
}

/* Elements of a tap from its axis `from` on. */
static size_t tap_floats(const hs_capture *capture, hs_tap tap, size_t from)
{
    size_t n = 1;
    for (const hs_axis *axis = tap_axes[tap] + from; *axis; axis++)
        n *= hs_capture_length(capture, *axis);
    return n;
}

/* Measures (arena over NULL) or carves the block behind the struct: layers, heads, then tap after tap. */
static void capture_layout(hs_capture *capture, const hs_selection *selection, hs__arena *arena)
{
    capture->layers = hs__arena_take(arena, selection->n_layers * sizeof *selection->layers);
    capture->heads = hs__arena_take(arena, selection->n_heads * sizeof *selection->heads);
    for (size_t tap = 0; tap < HS_N_TAPS; tap++)
        if (capture->taps >> tap & 1)
            capture->arrays[tap] = hs__arena_floats(arena, tap_floats(capture, tap, 0));
}

static hs_capture capture_describe(const hs_shape *shape, const hs_selection *selection, size_t n_tokens)
{
    return (hs_capture){
        .n_tokens = n_tokens,
        .n_layers = selection->n_layers,
        .n_heads = selection->n_heads,
        .head_width = shape->head_width,
        .hidden = shape->hidden,
        .taps = selection->taps | (selection->taps & HS_KEEP(ATTENTION) ? HS_KEEP(COLUMNS) : 0),
    };
}

size_t hs_capture_bytes(const hs_shape *shape, const hs_selection *selection, size_t n_tokens)
{
    hs_capture capture = capture_describe(shape, selection, n_tokens);
    hs__arena arena = {0};
    hs__arena_take(&arena, sizeof(capture_store));
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
    const block taken = block_take(bytes);
    if (!taken.memory)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for the heads of %zu tokens (%zu bytes)", n_tokens,
                       bytes);

    hs__arena arena = {.base = taken.memory};
    capture_store *store = hs__arena_take(&arena, sizeof *store);
    *store = (capture_store){capture_describe(shape, selection, n_tokens), taken.bytes};
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
    if (capture)
        block_return((block){capture, ((capture_store *)capture)->block_bytes});
}

float *hs_capture_at(const hs_capture *capture, hs_tap tap, size_t l, size_t h)
{
    const bool heads = tap_axes[tap][1] == HS_AXIS_HEAD;
    const size_t index = heads ? l * capture->n_heads + h : l;
    return capture->arrays[tap] + index * tap_floats(capture, tap, heads ? 2 : 1);
}
