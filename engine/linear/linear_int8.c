/* linear_int8.c - linear with 8-bit products (kernels/int8.h).
 *
 * Weights are quantised per output when they are packed, rows of x when a pass converts them. Otherwise
 * it is as linear_native.c and has the same name, "native": the precision differs, not the
 * implementation. */
#include "engine/kernels/int8.h"
#include "engine/linear/linear.h"

typedef struct int8_linear {
    hs__linear base;
    const hs__int8_kernels *int8;
    size_t depth;     /* words of a column */
    uint32_t *panels; /* as in int8.h, one after the other */
    float *scales;    /* [n_out], these three with zeros up to the last panel's end */
    float *bias;
    int32_t *sums;
} int8_linear;

/* Returns n_out rounded up to whole vectors: the end of the last panel. */
static size_t columns_end(const int8_linear *linear)
{
    const size_t lanes = linear->int8->lanes;
    return (linear->base.n_out + lanes - 1) / lanes * lanes;
}

static void layout(hs__linear *base, hs__arena *arena)
{
    int8_linear *linear = (int8_linear *)base;
    const size_t n = columns_end(linear);
    linear->panels = hs__arena_take(arena, linear->depth * n * sizeof *linear->panels);
    linear->scales = hs__arena_floats(arena, n);
    linear->bias = hs__arena_floats(arena, n);
    linear->sums = hs__arena_take(arena, n * sizeof *linear->sums);
}

static void fill(hs__linear *base, const hs__linear_source *source, float *rows)
{
    int8_linear *linear = (int8_linear *)base;
    const size_t K = base->n_in, n_out = base->n_out, panel = linear->int8->panel;
    for (size_t first = 0; first < n_out; first += panel) {
        const size_t n = n_out - first < panel ? n_out - first : panel;
        hs__linear_read_weights(source, first, n, rows);
        hs__int8_pack(linear->int8, K, n, rows, linear->panels + first * linear->depth,
                      linear->scales + first, linear->sums + first);
    }
    hs__linear_read_biases(source, linear->bias);
    for (size_t j = n_out; j < columns_end(linear); j++)
        linear->bias[j] = 0;
}

static hs_status int8_create(const hs__linear_source *source, const hs__kernels *kernels,
                             hs_precision precision, hs__linear **ret_linear, hs_error *err)
{
    (void)precision; /* always int8 here */
    int8_linear plan = {.int8 = hs__int8_kernels_select()};
    hs__linear_init(&plan.base, &hs__linear_int8, source, kernels);
    plan.depth = hs__int8_depth(plan.base.n_in);
    if (plan.base.n_in > HS_INT8_DEPTH_MAX)
        return hs_fail(err, HS_UNSUPPORTED, "sums of %zu products are too long for int8: use fp32",
                       plan.base.n_in);
    return hs__linear_build(&plan.base, plan.int8->panel, source, ret_linear, err);
}

static hs__linear_split int8_split(const hs__linear *base, size_t n_rows, size_t n_threads)
{
    const hs__int8_kernels *int8 = ((const int8_linear *)base)->int8;
    return hs__linear_split_panels(base->n_out, int8->panel, int8->tile_rows, n_rows, n_threads);
}

static void int8_run(const hs__linear *base, hs__linear_split split, size_t n_rows, const void *x, float *y,
                     size_t row_chunk, size_t column_chunk)
{
    const int8_linear *linear = (const int8_linear *)base;
    const size_t panel = linear->int8->panel, n_out = base->n_out, column = column_chunk * panel;
    const size_t n = n_out - column < panel ? n_out - column : panel;
    const size_t row = hs__chunk_start(n_rows, split.n_row_chunks, row_chunk);
    const size_t rows = hs__chunk_start(n_rows, split.n_row_chunks, row_chunk + 1) - row;
    const size_t next = column + split.n_ahead * panel;
    float *out = y + row * n_out + column;

    linear->int8->product(rows, linear->depth, (const uint32_t *)x + row * hs__int8_words(base->n_in),
                          linear->panels + column * linear->depth, n, linear->scales + column,
                          linear->sums + column, linear->bias + column,
                          next < n_out ? linear->panels + next * linear->depth : NULL, out, n_out);
    if (base->activate)
        base->activate(rows, n, out, n_out);
}

const hs__linear_kind hs__linear_int8 = {
    .name = "native",
    .create = int8_create,
    .bytes = sizeof(int8_linear),
    .layout = layout,
    .fill = fill,
    .split = int8_split,
    .run = int8_run,
};
