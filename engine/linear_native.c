/* linear_native.c - linear on our own tiles (product_body.h): weights packed in panels, bias added as the
 * sums begin, gelu applied to what a task wrote while it is in the first-level cache. Nothing depends on how
 * many rows there are: a row has the same bits alone, in a batch, on one thread or on many. */
#include "engine/arena.h"
#include "engine/linear.h"

typedef struct native_linear {
    hs__linear base;
    float *panels;
    float *bias; /* [n_out], zeros up to the last panel's end */
} native_linear;

static void layout(native_linear *linear, hs__arena *arena)
{
    const hs__kernels *kernels = linear->base.kernels;
    linear->panels =
        hs__arena_floats(arena, hs__panels_floats(kernels, linear->base.n_in, linear->base.n_out));
    linear->bias = hs__arena_floats(arena, hs__panels_floats(kernels, 1, linear->base.n_out));
}

static hs_status native_create(const hs__linear_source *source, const hs__kernels *kernels,
                               hs_precision precision, hs__linear **ret_linear, hs_error *err)
{
    if (precision != HS_PRECISION_FP32)
        return hs_fail(err, HS_UNSUPPORTED, "the native backend computes in fp32 only");

    native_linear plan = {0};
    hs__linear_init(&plan.base, &hs__linear_native, source, kernels);
    const size_t K = plan.base.n_in, n_out = plan.base.n_out;
    hs__arena arena = {0};
    hs__arena_take(&arena, sizeof plan);
    layout(&plan, &arena);
    arena = (hs__arena){.base = hs__block_create(arena.used)};
    float *rows = malloc(kernels->panel * K * sizeof *rows); /* of one panel, as they lie in the file */
    if (!arena.base || !rows) {
        free(arena.base);
        free(rows);
        return hs_fail(err, HS_NO_MEMORY, "out of memory for weights of %zu x %zu", n_out, K);
    }
    native_linear *linear = hs__arena_take(&arena, sizeof plan);
    *linear = plan;
    layout(linear, &arena);

    for (size_t first = 0; first < n_out; first += kernels->panel) {
        const size_t n = n_out - first < kernels->panel ? n_out - first : kernels->panel;
        hs__linear_read_weights(source, first, n, rows);
        kernels->pack(K, n, rows, 1, K, linear->panels + first * K); /* B = W' */
    }
    hs__linear_read_biases(source, linear->bias);
    for (size_t j = n_out; j < hs__panels_floats(kernels, 1, n_out); j++)
        linear->bias[j] = 0;
    free(rows);
    *ret_linear = &linear->base;
    return HS_OK;
}

static void native_destroy(hs__linear *linear)
{
    free(linear);
}

/* One panel a task; rows are cut too where panels alone would be too few to share out evenly. */
static hs__linear_split native_split(const hs__linear *linear, size_t n_rows, size_t n_threads)
{
    const size_t tasks_wanted = 12 * n_threads, rows_min = 2 * linear->kernels->tile_rows;
    const size_t n_panels = (linear->n_out + linear->kernels->panel - 1) / linear->kernels->panel;
    size_t n_row_chunks = n_threads > 1 ? (tasks_wanted + n_panels - 1) / n_panels : 1;
    if (n_row_chunks > n_rows / rows_min)
        n_row_chunks = n_rows / rows_min;
    return (hs__linear_split){.n_row_chunks = n_row_chunks > 0 ? n_row_chunks : 1,
                              .n_column_chunks = n_panels};
}

static void native_run(const hs__linear *base, hs__linear_split split, size_t n_rows, const void *x, float *y,
                       size_t row_chunk, size_t column_chunk)
{
    const native_linear *linear = (const native_linear *)base;
    const hs__kernels *kernels = base->kernels;
    const size_t K = base->n_in, n_out = base->n_out, column = column_chunk * kernels->panel;
    const size_t n = n_out - column < kernels->panel ? n_out - column : kernels->panel;
    const size_t row = hs__chunk_start(n_rows, split.n_row_chunks, row_chunk);
    const size_t rows = hs__chunk_start(n_rows, split.n_row_chunks, row_chunk + 1) - row;
    float *out = y + row * n_out + column;

    kernels->product(
        rows, K, (const float *)x + row * K, K, linear->panels + column * K, n, linear->bias + column,
        column + kernels->panel < n_out ? linear->panels + (column + kernels->panel) * K : NULL, out, n_out);
    if (base->gelu)
        kernels->gelu(rows, n, out, n_out);
}

const hs__linear_kind hs__linear_native = {
    .name = "native",
    .create = native_create,
    .destroy = native_destroy,
    .split = native_split,
    .run = native_run,
};
