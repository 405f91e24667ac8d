/* linear.c - products with packed weights in fp32, int24, bf16 and int8, and those of a BLAS library. */
#include "engine/linear/linear.h"

#include "engine/kernels/int8.h"
#include "model/base/library.h"

#include <assert.h>
#include <cblas.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { CACHE_BYTES = 512 << 10 }; /* of a second-level cache of unknown size */

/* ---- all kinds ----
 *
 * Functions that all implementations share: reading weights from the model's file. */

/* Sets the common members from the source. */
static void linear_init(hs__linear *linear, const hs__linear_kind *kind, const hs__linear_source *source,
                        const hs__kernels *kernels)
{
    *linear = (hs__linear){.kind = kind, .kernels = kernels, .activate = source->activate};
    linear->n_in = source->parts[0]->weight.n_columns;
    for (size_t p = 0; p < source->n_parts; p++)
        linear->n_out += source->parts[p]->weight.n_rows;
    linear->x_step = source->x_step > 0 ? source->x_step : linear->n_in;
    linear->y_step = source->y_step > 0 ? source->y_step : linear->n_out;
}

/* Creates a copy of plan, with its arrays in the same block of memory. panel is the number of weight rows
 * that fill reads at a time, or 0. Fails with HS_NO_MEMORY. */
static hs_status linear_build(hs__linear *plan, size_t panel, const hs__linear_source *source,
                              hs__linear **ret_linear, hs_error *err)
{
    const hs__linear_kind *kind = plan->kind;
    hs__arena arena = {0};
    hs__arena_take(&arena, kind->bytes);
    kind->layout(plan, &arena);
    if (source->measured) {
        atomic_fetch_add(source->measured, arena.used);
        return HS_OK;
    }
    arena = (hs__arena){.base = hs_memory_create(arena.used)};
    float *rows = malloc((panel * plan->n_in + 1) * sizeof *rows); /* of one panel, as in the file */
    if (!arena.base || !rows) {
        free(arena.base);
        free(rows);
        return hs_fail(err, HS_NO_MEMORY, "out of memory for weights of %zu x %zu", plan->n_out, plan->n_in);
    }
    hs__linear *linear = *ret_linear = hs__arena_take(&arena, kind->bytes);
    memcpy(linear, plan, kind->bytes);
    kind->layout(linear, &arena);
    kind->fill(linear, source, rows);
    free(rows);
    return HS_OK;
}

/* Reads rows [first, first + n_rows) of the stacked weights to ret [n_rows][n_in]. */
static void linear_read_weights(const hs__linear_source *source, size_t first, size_t n_rows, float *ret)
{
    for (size_t p = 0; p < source->n_parts && n_rows > 0; p++) {
        const hs_tensor *weight = &source->parts[p]->weight;
        if (first < weight->n_rows) {
            const size_t n = n_rows < weight->n_rows - first ? n_rows : weight->n_rows - first;
            hs_tensor_read(weight, first, n, ret);
            ret += n * weight->n_columns;
            n_rows -= n;
            first = 0;
        } else {
            first -= weight->n_rows;
        }
    }
}

/* Reads the stacked biases to ret [n_out]; 0 for a missing bias. */
static void linear_read_biases(const hs__linear_source *source, float *ret)
{
    for (size_t p = 0; p < source->n_parts; p++) {
        const hs_tensor *bias = &source->parts[p]->bias;
        const size_t n = source->parts[p]->weight.n_rows;
        if (bias->data)
            hs_tensor_read(bias, 0, 1, ret);
        else
            memset(ret, 0, n * sizeof *ret);
        ret += n;
    }
}

/* Divides products that read panels: one panel a task. Rows are divided too if there are too few panels
 * to share evenly. */
static hs__linear_split linear_split_panels(size_t n_out, size_t panel, size_t tile_rows, size_t n_rows,
                                            size_t n_threads)
{
    const size_t n_tasks_target = 12 * n_threads, rows_min = 2 * tile_rows;
    const size_t n_panels = (n_out + panel - 1) / panel;
    size_t n_row_chunks = n_threads > 1 ? (n_tasks_target + n_panels - 1) / n_panels : 1;
    if (n_row_chunks > n_rows / rows_min)
        n_row_chunks = n_rows / rows_min;
    if (n_row_chunks == 0)
        n_row_chunks = 1;
    return (hs__linear_split){.n_row_chunks = n_row_chunks,
                              .n_column_chunks = n_panels,
                              .n_ahead = n_threads > n_row_chunks ? n_threads / n_row_chunks : 1};
}

static size_t divide_up(size_t n, size_t by)
{
    return (n + by - 1) / by;
}

/* Divides rows further if they exceed the cache: row_bytes for a row of x or a column of B. Rows of x that
 * are not in the cache would be fetched again for each n_columns, so as many rows as fit beside twice these
 * go through all columns. If only a few rows fit, all rows go together, because panels would be fetched too
 * often otherwise. */
static hs__linear_split linear_split_rows(hs__linear_split split, size_t n_columns, size_t row_bytes,
                                          size_t cache_bytes, size_t n_rows, size_t n_threads)
{
    enum { ROWS_MIN = 64 };
    const size_t n_fitting = cache_bytes / 4 * 3 / row_bytes; /* rows of x and columns of B */
    if (n_fitting < 2 * n_columns + ROWS_MIN || n_rows / split.n_row_chunks <= n_fitting - 2 * n_columns)
        return split;
    split.n_row_chunks = divide_up(n_rows, n_fitting - 2 * n_columns);
    split.rows_outside = true;
    split.n_ahead = n_threads;
    return split;
}

size_t hs__linear_tasks(const hs__linear *linear, size_t n_rows, size_t n_threads)
{
    const hs__linear_split split = linear->kind->split(linear, n_rows, n_threads);
    return split.n_row_chunks * split.n_column_chunks;
}

void hs__linear_run(const hs__linear *linear, size_t n_rows, size_t n_threads, const void *x, float *y,
                    size_t task)
{
    const hs__linear_split split = linear->kind->split(linear, n_rows, n_threads);
    const size_t row_chunk = split.rows_outside ? task / split.n_column_chunks : task % split.n_row_chunks;
    const size_t column_chunk = split.rows_outside ? task % split.n_column_chunks : task / split.n_row_chunks;
    linear->kind->run(linear, split, n_rows, x, y, row_chunk, column_chunk);
}

hs_status hs__linear_bare(const hs__linear *linear, hs__linear **ret_linear, hs_error *err)
{
    hs__linear *bare = malloc(linear->kind->bytes);
    if (!bare)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for a product");
    memcpy(bare, linear, linear->kind->bytes);
    bare->activate = NULL;
    *ret_linear = bare;
    return HS_OK;
}

void hs__linear_destroy(hs__linear *linear)
{
    free(linear);
}

/* ---- native: fp32 and bf16 ----
 *
 * Linear with our own kernels (product_body.h).
 *
 * Weights are packed in panels. Sums begin with the bias, and the activation is applied to a task's
 * output while it is in the first-level cache. A row has the same bits alone, in a batch, on one thread
 * or on many.
 *
 * If the rows of x and two panels exceed the second-level cache, some rows go through all panels before
 * the next rows do. */
typedef struct native_linear {
    hs__linear base;
    const hs__bf16_kernels *bf16; /* NULL: fp32 */
    size_t depth;                 /* operands in a column: n_in, or pairs */
    void *panels;                 /* of floats, or of pairs of bfloat16: 4 bytes each */
    float *bias;                  /* [n_out], zeros up to the last panel's end */
    size_t cache_bytes;           /* of the second level */
    size_t x_step;                /* operands from a row to the next */
} native_linear;

static void native_layout(hs__linear *base, hs__arena *arena)
{
    native_linear *linear = (native_linear *)base;
    linear->panels = hs__arena_floats(arena, hs__panels_floats(base->kernels, linear->depth, base->n_out));
    linear->bias = hs__arena_floats(arena, hs__panels_floats(base->kernels, 1, base->n_out));
}

static void native_fill(hs__linear *base, const hs__linear_source *source, float *rows)
{
    native_linear *linear = (native_linear *)base;
    const hs__kernels *kernels = base->kernels;
    const size_t K = base->n_in, n_out = base->n_out;
    for (size_t first = 0; first < n_out; first += kernels->panel) {
        const size_t n = n_out - first < kernels->panel ? n_out - first : kernels->panel;
        linear_read_weights(source, first, n, rows);
        if (linear->bf16) /* B = W' */
            hs__bf16_pack(linear->bf16, kernels, K, n, rows,
                          (uint32_t *)linear->panels + first * linear->depth);
        else
            kernels->pack(K, n, rows, 1, K, (float *)linear->panels + first * linear->depth);
    }
    linear_read_biases(source, linear->bias);
    for (size_t j = n_out; j < hs__panels_floats(kernels, 1, n_out); j++)
        linear->bias[j] = 0;
}

static hs_status native_create(const hs__linear_source *source, const hs__kernels *kernels,
                               hs_precision precision, hs__linear **ret_linear, hs_error *err)
{
    native_linear plan = {0};
    linear_init(&plan.base, &hs__linear_native, source, kernels);
    plan.bf16 = precision == HS_PRECISION_BF16 ? hs__bf16_kernels_select() : NULL;
    plan.depth = plan.bf16 ? plan.bf16->depth(plan.base.n_in) : plan.base.n_in;
    plan.cache_bytes = source->cache_bytes > 0 ? source->cache_bytes : CACHE_BYTES;
    plan.x_step = plan.bf16 ? plan.bf16->conversion.words(plan.base.n_in) : plan.base.x_step;
    return linear_build(&plan.base, kernels->panel, source, ret_linear, err);
}

static hs__linear_split native_split(const hs__linear *base, size_t n_rows, size_t n_threads)
{
    const native_linear *linear = (const native_linear *)base;
    const size_t panel = base->kernels->panel;
    const size_t tile_rows = linear->bf16 ? linear->bf16->tile_rows : base->kernels->tile_rows;
    const size_t row_bytes = (linear->bf16 ? linear->x_step : linear->depth) * sizeof(float);
    const hs__linear_split split = linear_split_panels(base->n_out, panel, tile_rows, n_rows, n_threads);
    return linear_split_rows(split, panel, row_bytes, linear->cache_bytes, n_rows, n_threads);
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
    float *out = y + row * base->y_step + column;

    if (linear->bf16) {
        const uint32_t *panels = linear->panels;
        linear->bf16->product(rows, K, (const uint32_t *)x + row * linear->x_step, linear->x_step,
                              panels + at, n, bias, panels + next, out, base->y_step);
    } else {
        const float *panels = linear->panels;
        kernels->product(rows, K, (const float *)x + row * linear->x_step, linear->x_step, panels + at, n,
                         bias, panels + next, out, base->y_step);
    }
    if (base->activate)
        base->activate(rows, n, out, base->y_step);
}

const hs__linear_kind hs__linear_native = {
    .name = "native",
    .create = native_create,
    .bytes = sizeof(native_linear),
    .layout = native_layout,
    .fill = native_fill,
    .split = native_split,
    .run = native_run,
};

/* ---- native products the other way ----
 *
 * B is W itself, stacked over the parts: row k of B is row k of W. A panel of B is in order of k, so that
 * some rows of W fill the same rows of all panels. */

static void transposed_fill(hs__linear *base, const hs__linear_source *source, float *rows)
{
    native_linear *linear = (native_linear *)base;
    const hs__kernels *kernels = base->kernels;
    const size_t K = base->n_in, n_out = base->n_out, panel = kernels->panel;
    for (size_t first = 0; first < K; first += panel) {
        const size_t n = K - first < panel ? K - first : panel;
        linear_read_weights(source, first, n, rows);
        for (size_t c = 0; c < n_out; c += panel) {
            const size_t width = n_out - c < panel ? n_out - c : panel;
            float *to = (float *)linear->panels + K * c + hs__panels_floats(kernels, first, width);
            kernels->pack(n, width, rows + c, n_out, 1, to);
        }
    }
    memset(linear->bias, 0, hs__panels_floats(kernels, 1, n_out) * sizeof *linear->bias);
}

static hs_status transposed_create(const hs__linear_source *source, const hs__kernels *kernels,
                                   hs_precision precision, hs__linear **ret_linear, hs_error *err)
{
    (void)precision; /* gradients are in fp32 */
    native_linear plan = {0};
    linear_init(&plan.base, &hs__linear_transposed, source, kernels);
    const size_t n_out = plan.base.n_in;
    plan.base.n_in = plan.base.n_out;
    plan.base.n_out = n_out;
    plan.base.activate = NULL;
    plan.base.x_step = source->x_step > 0 ? source->x_step : plan.base.n_in;
    plan.base.y_step = source->y_step > 0 ? source->y_step : plan.base.n_out;
    plan.depth = plan.base.n_in;
    plan.cache_bytes = source->cache_bytes > 0 ? source->cache_bytes : CACHE_BYTES;
    plan.x_step = plan.base.x_step;
    return linear_build(&plan.base, (kernels->panel * n_out + plan.base.n_in - 1) / plan.base.n_in, source,
                        ret_linear, err);
}

const hs__linear_kind hs__linear_transposed = {
    .name = "native",
    .create = transposed_create,
    .bytes = sizeof(native_linear),
    .layout = native_layout,
    .fill = transposed_fill,
    .split = native_split,
    .run = native_run,
};

/* ---- int8 and int24 ----
 *
 * Linear with 8-bit products (kernels/int8.h).
 *
 * Weights are quantised per output when they are packed, rows of x when a pass converts them. Otherwise
 * it is as the native kind and has the same name: the precision differs, not the implementation. */
typedef struct int8_linear {
    hs__linear base;
    const hs__int8_kernels *int8;
    bool is_int24;
    size_t depth;     /* words of a column */
    size_t x_step;    /* words from a row of x to the next */
    uint32_t *panels; /* as in int8.h, one after the other */
    float *scales;    /* [n_out], these three with zeros up to the last panel's end */
    float *bias;
    int32_t *sums;
    size_t cache_bytes; /* of the second level */
} int8_linear;

/* Returns n_out rounded up to whole vectors: the end of the last panel. */
static size_t columns_end(const int8_linear *linear)
{
    const size_t lanes = linear->int8->lanes;
    return (linear->base.n_out + lanes - 1) / lanes * lanes;
}

static void int8_layout(hs__linear *base, hs__arena *arena)
{
    int8_linear *linear = (int8_linear *)base;
    const size_t n = columns_end(linear);
    linear->panels = hs__arena_take(arena, linear->depth * n * sizeof *linear->panels);
    linear->scales = hs__arena_floats(arena, n);
    linear->bias = hs__arena_floats(arena, n);
    linear->sums = hs__arena_take(arena, n * sizeof *linear->sums);
    if (linear->is_int24)
        base->factors = hs__arena_floats(arena, base->n_in);
}

/* Finds the factors of int24: powers of two near the root mean square of what each input is multiplied by.
 * The smallest and largest keep quotients finite. */
static void factors_fill(hs__linear *base, const hs__linear_source *source, size_t panel, float *rows)
{
    enum { EXPONENT_MAX = 60 };
    const size_t K = base->n_in, n_out = base->n_out;
    memset(base->factors, 0, K * sizeof *base->factors);
    for (size_t first = 0; first < n_out; first += panel) {
        const size_t n = n_out - first < panel ? n_out - first : panel;
        linear_read_weights(source, first, n, rows);
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < K; k++)
                base->factors[k] += rows[i * K + k] * rows[i * K + k];
    }
    for (size_t k = 0; k < K; k++) {
        const float mean = base->factors[k] / (float)n_out;
        const int e = mean > 0 && mean <= FLT_MAX ? ilogbf(mean) / 2 : 0;
        base->factors[k] = ldexpf(1, e < -EXPONENT_MAX ? -EXPONENT_MAX : e);
    }
}

static void int8_fill(hs__linear *base, const hs__linear_source *source, float *rows)
{
    int8_linear *linear = (int8_linear *)base;
    const size_t K = base->n_in, n_out = base->n_out, panel = linear->int8->panel;
    if (linear->is_int24)
        factors_fill(base, source, panel, rows);
    for (size_t first = 0; first < n_out; first += panel) {
        const size_t n = n_out - first < panel ? n_out - first : panel;
        uint32_t *to = linear->panels + first * linear->depth;
        linear_read_weights(source, first, n, rows);
        if (linear->is_int24)
            hs__int24_pack(K, n, rows, base->factors, to, linear->scales + first);
        else
            hs__int8_pack(linear->int8, K, n, rows, to, linear->scales + first, linear->sums + first);
    }
    linear_read_biases(source, linear->bias);
    for (size_t j = n_out; j < columns_end(linear); j++)
        linear->bias[j] = 0;
}

static hs_status int8_create(const hs__linear_source *source, const hs__kernels *kernels,
                             hs_precision precision, hs__linear **ret_linear, hs_error *err)
{
    int8_linear plan = {.is_int24 = precision == HS_PRECISION_INT24};
    plan.int8 = plan.is_int24 ? hs__int24_kernels_select() : hs__int8_kernels_select();
    linear_init(&plan.base, &hs__linear_int8, source, kernels);
    plan.depth = plan.int8->depth(plan.base.n_in);
    plan.x_step = plan.int8->conversion.words(plan.base.n_in);
    plan.cache_bytes = source->cache_bytes > 0 ? source->cache_bytes : CACHE_BYTES;
    if (plan.base.n_in > (plan.is_int24 ? (size_t)HS_INT24_DEPTH_MAX : (size_t)HS_INT8_DEPTH_MAX))
        return hs_fail(err, HS_UNSUPPORTED, "sums of %zu products are too long for %s: use fp32",
                       plan.base.n_in, plan.is_int24 ? "int24" : "int8");
    return linear_build(&plan.base, plan.int8->panel, source, ret_linear, err);
}

static hs__linear_split int8_split(const hs__linear *base, size_t n_rows, size_t n_threads)
{
    const int8_linear *linear = (const int8_linear *)base;
    const hs__int8_kernels *int8 = linear->int8;
    const hs__linear_split split =
        linear_split_panels(base->n_out, int8->panel, int8->tile_rows, n_rows, n_threads);
    if (int8->columns_cached == 0)
        return split;
    return linear_split_rows(split, int8->columns_cached, linear->depth * sizeof(uint32_t),
                             linear->cache_bytes, n_rows, n_threads);
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
    float *out = y + row * base->y_step + column;

    linear->int8->product(rows, linear->depth, (const uint32_t *)x + row * linear->x_step, linear->x_step,
                          linear->panels + column * linear->depth, n, linear->scales + column,
                          linear->sums + column, linear->bias + column,
                          next < n_out ? linear->panels + next * linear->depth : NULL, out, base->y_step);
    if (base->activate)
        base->activate(rows, n, out, base->y_step);
}

const hs__linear_kind hs__linear_int8 = {
    .name = "native",
    .create = int8_create,
    .bytes = sizeof(int8_linear),
    .layout = int8_layout,
    .fill = int8_fill,
    .split = int8_split,
    .run = int8_run,
};

/* ---- CBLAS ----
 *
 * Weights are rows in our own memory, bias and activation a second loop. OpenBLAS is loaded when an engine
 * uses it and not before: it reserves 128 MiB of addresses or more. */

/* The library's functions that are used. */
typedef struct openblas {
    __typeof__(cblas_sgemm) *sgemm;
    __typeof__(openblas_get_num_threads) *get_num_threads;
    __typeof__(openblas_set_num_threads) *set_num_threads;
    __typeof__(openblas_get_config) *get_config;
    __typeof__(openblas_get_corename) *get_corename;
} openblas;

typedef struct cblas_linear {
    hs__linear base;
    openblas library;
    float *weight; /* [n_out][n_in] */
    float *bias;   /* [n_out] */
} cblas_linear;

void hs__cblas_prepare(const hs__kernels *kernels)
{
    static const struct {
        const char *instructions, *core;
    } list[] = {{"avx512", "SKYLAKEX"}, {"avx2", "HASWELL"}};
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    const char *chosen = getenv("OPENBLAS_CORETYPE");
    for (size_t i = 0; kernels && !(chosen && *chosen) && i < sizeof list / sizeof *list; i++)
        if (strcmp(kernels->name, list[i].instructions) == 0)
            setenv("OPENBLAS_CORETYPE", list[i].core, 1);
}

/* Loads the library, which stays until the program ends. HS_UNSUPPORTED says what to do. */
static hs_status library_load(openblas *ret, hs_error *err)
{
    struct rlimit addresses;
    if (getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY)
        return hs_fail(err, HS_UNSUPPORTED,
                       "OpenBLAS never ends if it gets no addresses, and ulimit -v limits them: use the "
                       "native backend, or lift the limit");
    const hs_library_function list[] = {{"cblas_sgemm", (void **)&ret->sgemm},
                                        {"openblas_get_num_threads", (void **)&ret->get_num_threads},
                                        {"openblas_set_num_threads", (void **)&ret->set_num_threads},
                                        {"openblas_get_config", (void **)&ret->get_config},
                                        {"openblas_get_corename", (void **)&ret->get_corename}};
    bool found = false;
    const char *missing = hs_library_load("libopenblas.so.0", list, sizeof list / sizeof *list, &found);
    if (missing)
        return hs_fail(err, HS_UNSUPPORTED,
                       "the cblas backend needs OpenBLAS (%s%s): install Debian's package "
                       "libopenblas0-pthread, or use native",
                       found ? "without " : "", missing);
    /* More BLAS threads are wrong, not only slow: concurrent calls of several threads can corrupt each
     * other (OpenBLAS issue 5836). Teams share the cores instead. */
    if (ret->get_num_threads() > 1)
        ret->set_num_threads(1);
    return HS_OK;
}

void hs__cblas_describe(char *ret_text, size_t n_bytes)
{
    openblas library = {0};
    hs_error err = {0};
    if (library_load(&library, &err)) {
        snprintf(ret_text, n_bytes, "%s", err.text);
        return;
    }
    assert(library.get_config && library.get_corename);
    /* The configuration begins "OpenBLAS 0.3.21 NO_LAPACKE ...". */
    const char *config = library.get_config(), *space = strchr(config, ' ');
    const int length = (int)(space ? strcspn(space + 1, " ") + (size_t)(space + 1 - config) : strlen(config));
    snprintf(ret_text, n_bytes, "%.*s, %s", length, config, library.get_corename());
}

static void cblas_layout(hs__linear *base, hs__arena *arena)
{
    cblas_linear *linear = (cblas_linear *)base;
    linear->weight = hs__arena_floats(arena, base->n_out * base->n_in);
    linear->bias = hs__arena_floats(arena, base->n_out);
}

static void cblas_fill(hs__linear *base, const hs__linear_source *source, float *rows)
{
    cblas_linear *linear = (cblas_linear *)base;
    (void)rows;
    linear_read_weights(source, 0, base->n_out, linear->weight);
    linear_read_biases(source, linear->bias);
}

static hs_status cblas_create(const hs__linear_source *source, const hs__kernels *kernels,
                              hs_precision precision, hs__linear **ret_linear, hs_error *err)
{
    (void)precision; /* always fp32 here: the engine checks it */
    cblas_linear plan = {0};
    const hs_status st = library_load(&plan.library, err);
    if (st)
        return st;
    linear_init(&plan.base, &hs__linear_cblas, source, kernels);
    return linear_build(&plan.base, 0, source, ret_linear, err);
}

/* Divides by rows only: the library blocks the rest. */
static hs__linear_split cblas_split(const hs__linear *linear, size_t n_rows, size_t n_threads)
{
    (void)linear;
    return (hs__linear_split){.n_row_chunks = n_threads < n_rows ? n_threads : n_rows, .n_column_chunks = 1};
}

static void cblas_run(const hs__linear *base, hs__linear_split split, size_t n_rows, const void *x, float *y,
                      size_t row_chunk, size_t column_chunk)
{
    (void)column_chunk;
    const cblas_linear *linear = (const cblas_linear *)base;
    const size_t n_out = base->n_out, row = hs__chunk_start(n_rows, split.n_row_chunks, row_chunk);
    const size_t rows = hs__chunk_start(n_rows, split.n_row_chunks, row_chunk + 1) - row;
    const int m = (int)rows, n = (int)n_out, k = (int)base->n_in;
    float *out = y + row * n_out;

    linear->library.sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1,
                          (const float *)x + row * base->n_in, k, linear->weight, k, 0, out, n); /* x W' */
    base->kernels->add_bias(rows, n_out, linear->bias, out, n_out);
    if (base->activate)
        base->activate(rows, n_out, out, n_out);
}

const hs__linear_kind hs__linear_cblas = {
    .name = "openblas",
    .create = cblas_create,
    .bytes = sizeof(cblas_linear),
    .layout = cblas_layout,
    .fill = cblas_fill,
    .split = cblas_split,
    .run = cblas_run,
};
