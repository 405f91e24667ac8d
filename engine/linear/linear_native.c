/* linear_native.c - linear with our own kernels (product_body.h).
 *
 * Weights are packed in panels. Sums begin with the bias, and the activation is applied to a task's
 * output while it is in the first-level cache. A row has the same bits alone, in a batch, on one thread
 * or on many.
 *
 * If the rows of x and two panels exceed the second-level cache, some rows go through all panels before
 * the next rows do. */
#include "engine/linear/linear.h"

typedef struct native_linear {
    hs__linear base;
    const hs__bf16_kernels *bf16; /* NULL: fp32 */
    size_t depth;                 /* operands in a column: n_in, or half of it in pairs */
    void *panels;                 /* of floats, or of pairs of bfloat16: 4 bytes each */
    float *bias;                  /* [n_out], zeros up to the last panel's end */
    size_t cache_bytes;           /* of the second level */
    size_t x_step, y_step;        /* operands and floats from a row to the next */
} native_linear;

static void layout(hs__linear *base, hs__arena *arena)
{
    native_linear *linear = (native_linear *)base;
    linear->panels = hs__arena_floats(arena, hs__panels_floats(base->kernels, linear->depth, base->n_out));
    linear->bias = hs__arena_floats(arena, hs__panels_floats(base->kernels, 1, base->n_out));
}

static void fill(hs__linear *base, const hs__linear_source *source, float *rows)
{
    native_linear *linear = (native_linear *)base;
    const hs__kernels *kernels = base->kernels;
    const size_t K = base->n_in, n_out = base->n_out;
    for (size_t first = 0; first < n_out; first += kernels->panel) {
        const size_t n = n_out - first < kernels->panel ? n_out - first : kernels->panel;
        hs__linear_read_weights(source, first, n, rows);
        if (linear->bf16) /* B = W' */
            linear->bf16->pack(K, n, rows, 1, K, (uint32_t *)linear->panels + first * linear->depth);
        else
            kernels->pack(K, n, rows, 1, K, (float *)linear->panels + first * linear->depth);
    }
    hs__linear_read_biases(source, linear->bias);
    for (size_t j = n_out; j < hs__panels_floats(kernels, 1, n_out); j++)
        linear->bias[j] = 0;
}

static hs_status native_create(const hs__linear_source *source, const hs__kernels *kernels,
                               hs_precision precision, hs__linear **ret_linear, hs_error *err)
{
    native_linear plan = {0};
    hs__linear_init(&plan.base, &hs__linear_native, source, kernels);
    plan.bf16 = precision == HS_PRECISION_BF16 ? hs__bf16_kernels_select() : NULL;
    plan.depth = plan.bf16 ? hs__bf16_width(plan.base.n_in) / 2 : plan.base.n_in;
    plan.cache_bytes = source->cache_bytes > 0 ? source->cache_bytes : 512 << 10;
    plan.x_step = source->x_step > 0 ? source->x_step : plan.depth;
    plan.y_step = source->y_step > 0 ? source->y_step : plan.base.n_out;
    return hs__linear_build(&plan.base, kernels->panel, source, ret_linear, err);
}

static size_t divide_up(size_t n, size_t by)
{
    return (n + by - 1) / by;
}

/* Divides a product into one panel a task. Rows of x that are not in the cache would be fetched again for
 * each panel, so as many rows as fit beside two panels go through all of them. If only a few rows fit,
 * all rows go together, because panels would be fetched too often otherwise. */
static hs__linear_split native_split(const hs__linear *base, size_t n_rows, size_t n_threads)
{
    enum { ROWS_MIN = 64 };
    const native_linear *linear = (const native_linear *)base;
    const size_t panel = base->kernels->panel, row_bytes = linear->depth * sizeof(float);
    const size_t n_fitting = linear->cache_bytes / 4 * 3 / row_bytes; /* rows of x and columns of B */
    hs__linear_split split =
        hs__linear_split_panels(base->n_out, panel, base->kernels->tile_rows, n_rows, n_threads);
    if (n_fitting < 2 * panel + ROWS_MIN || n_rows / split.n_row_chunks <= n_fitting - 2 * panel)
        return split;
    split.n_row_chunks = divide_up(n_rows, n_fitting - 2 * panel);
    split.rows_outside = true;
    split.n_ahead = n_threads;
    return split;
}

static void native_run(const hs__linear *base, hs__linear_split split, size_t n_rows, const void *x, float *y,
                       size_t row_chunk, size_t column_chunk)
{
    const native_linear *linear = (const native_linear *)base;
    const hs__kernels *kernels = base->kernels;
    const size_t K = linear->depth, n_out = base->n_out, panel = kernels->panel;
    const size_t column = column_chunk * panel, n = n_out - column < panel ? n_out - column : panel;
    const size_t row = hs__chunk_start(n_rows, split.n_row_chunks, row_chunk);
    const size_t rows = hs__chunk_start(n_rows, split.n_row_chunks, row_chunk + 1) - row;
    const size_t following = column + split.n_ahead * panel;
    const size_t at = column * K, next = following < n_out ? following * K : at;
    const float *bias = linear->bias + column;
    float *out = y + row * linear->y_step + column;

    if (linear->bf16) {
        const uint32_t *panels = linear->panels;
        linear->bf16->product(rows, K, (const uint32_t *)x + row * K, K, panels + at, n, bias, panels + next,
                              out, linear->y_step);
    } else {
        const float *panels = linear->panels;
        kernels->product(rows, K, (const float *)x + row * linear->x_step, linear->x_step, panels + at, n,
                         bias, panels + next, out, linear->y_step);
    }
    if (base->activate)
        base->activate(rows, n, out, linear->y_step);
}

const hs__linear_kind hs__linear_native = {
    .name = "native",
    .create = native_create,
    .bytes = sizeof(native_linear),
    .layout = layout,
    .fill = fill,
    .split = native_split,
    .run = native_run,
};
