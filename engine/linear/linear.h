/* linear.h - y = x W' + b, or an activation of it, with W known when the engine is made.
 *
 * One interface, four implementations: linear_native.c, our own tiles over packed panels; linear_int8.c,
 * those of bytes; linear_openblas.c; and linear_onednn.c where oneDNN was there at build time. An hs__linear
 * never changes once created. A product is done in tasks, each on the calling thread alone, in any order, by
 * any threads at the same time:
 *
 *     for (size_t t = 0; t < hs__linear_tasks(linear, n_rows, 1); t++)
 *         hs__linear_run(linear, n_rows, 1, x, y, t); */
#pragma once

#include "engine/engine.h"
#include "engine/kernels/kernels.h"

#include <stdbool.h>

typedef struct hs__linear hs__linear;

/* What a linear is made from: several weights one below the other, as if they were one [n_out][n_in], so that
 * query, key and value are one product. */
typedef struct hs__linear_source {
    const hs_dense *const *parts;
    size_t n_parts;
    hs__activate *activate; /* of kernels.h, or NULL: none */
    size_t cache_bytes;     /* of the second level, a core's own; 0: not known */
    size_t x_step,
        y_step; /* floats from a row to the next, 0: as wide as it is. For hs__linear_native only */
} hs__linear_source;

/* A cut of a product into n_row_chunks x n_column_chunks tasks. */
typedef struct hs__linear_split {
    size_t n_row_chunks, n_column_chunks;
    bool rows_outside; /* all column chunks of a row chunk come first; or all row chunks of a column chunk */
    size_t n_ahead;    /* column chunks from one task of a thread to its next, when all threads are as fast */
} hs__linear_split;

/* One implementation. */
typedef struct hs__linear_kind {
    const char *name;
    hs_status (*create)(const hs__linear_source *source, const hs__kernels *kernels, hs_precision precision,
                        hs__linear **ret_linear, hs_error *err);
    void (*destroy)(hs__linear *linear);
    hs__linear_split (*split)(const hs__linear *linear, size_t n_rows, size_t n_threads);
    hs_status (*run)(const hs__linear *linear, hs__linear_split split, size_t n_rows, const void *x, float *y,
                     size_t row_chunk, size_t column_chunk);
} hs__linear_kind;

extern const hs__linear_kind hs__linear_native, hs__linear_int8, hs__linear_openblas;
#if defined HS_WITH_ONEDNN
extern const hs__linear_kind hs__linear_onednn;
#endif

/* What every implementation begins with. */
struct hs__linear {
    const hs__linear_kind *kind;
    const hs__kernels *kernels;
    size_t n_in, n_out;
    hs__activate *activate;
};

/* Fills in the common part from the source. */
void hs__linear_init(hs__linear *linear, const hs__linear_kind *kind, const hs__linear_source *source,
                     const hs__kernels *kernels);

/* Reads rows [first, first + n_rows) of the stacked weights: ret is [n_rows][n_in]. */
void hs__linear_read_weights(const hs__linear_source *source, size_t first, size_t n_rows, float *ret);

/* Reads the stacked biases, 0 where there are none: ret is [n_out]. */
void hs__linear_read_biases(const hs__linear_source *source, float *ret);

/* Tasks of a product of n_rows rows that n_threads threads share. */
size_t hs__linear_tasks(const hs__linear *linear, size_t n_rows, size_t n_threads);

/* Task `task` of them: its part of y [n_rows][n_out] from x: floats [n_rows][n_in], or what the precision's
 * hs__conversion made of them. y is not x. Fails with HS_NO_MEMORY when a library could not have its own
 * scratch. */
HS_MUST_USE hs_status hs__linear_run(const hs__linear *linear, size_t n_rows, size_t n_threads, const void *x,
                                     float *y, size_t task);

/* The cut of those that read panels: one a task; rows are cut too where panels alone would be too few to
 * share out evenly. */
hs__linear_split hs__linear_split_panels(size_t n_out, size_t panel, size_t tile_rows, size_t n_rows,
                                         size_t n_threads);

/* Floats from one row to the next of a matrix that products read some rows of at once, n wide: rows a
 * multiple of 4 KiB apart would share the few places that the first-level cache has for one of them. */
static inline size_t hs__row_step(size_t n)
{
    return n % 1024 == 0 ? n + 16 : n;
}

/* Width of a row of bfloat16: they are multiplied in pairs. */
static inline size_t hs__bf16_width(size_t n)
{
    return (n + 1) / 2 * 2;
}

void hs__linear_destroy(hs__linear *linear); /* NULL is fine */

/* Chunk `index` of n items cut into n_chunks nearly equal ones: its first item; that of n_chunks is n. */
static inline size_t hs__chunk_start(size_t n, size_t n_chunks, size_t index)
{
    return n / n_chunks * index + (n % n_chunks < index ? n % n_chunks : index);
}
