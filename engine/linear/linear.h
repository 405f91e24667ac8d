/* linear.h - y = x W' + b, or an activation of it, with W known when the engine is made.
 *
 * One interface has three implementations: native (our own tiles over packed panels), int8 (tiles of bytes,
 * for int24 too), and cblas (OpenBLAS). An hs__linear never changes after its creation. A product is a number
 * of tasks. Each task runs on the calling thread alone. Tasks may run in any order and on any threads at the
 * same time:
 *
 *     for (size_t t = 0; t < hs__linear_tasks(linear, n_rows, 1); t++)
 *         hs__linear_run(linear, n_rows, 1, x, y, t); */
#pragma once

#include "engine/arena.h"
#include "engine/engine.h"
#include "engine/kernels/kernels.h"

#include <stdbool.h>

typedef struct hs__linear hs__linear;

/* The source of a linear: several weights stacked as one [n_out][n_in], so that query, key and value are
 * one product. */
typedef struct hs__linear_source {
    const hs_dense *const *parts;
    size_t n_parts;
    hs__activate *activate;  /* from kernels.h; NULL: none */
    size_t cache_bytes;      /* of a core's second-level cache; 0: unknown */
    size_t x_step, y_step;   /* floats between rows, 0: no padding. Not for hs__linear_cblas */
    atomic_size_t *measured; /* not NULL: create only adds the size in bytes to it, and builds nothing */
} hs__linear_source;

/* A division of a product into n_row_chunks x n_column_chunks tasks. */
typedef struct hs__linear_split {
    size_t n_row_chunks, n_column_chunks;
    bool rows_outside; /* true: all column chunks of a row chunk come first; false: all row chunks of a column
                          chunk */
    size_t n_ahead;    /* column chunks between two tasks of one thread, if all threads are equally fast */
} hs__linear_split;

/* The functions of an implementation. */
typedef struct hs__linear_kind {
    const char *name;
    hs_status (*create)(const hs__linear_source *source, const hs__kernels *kernels, hs_precision precision,
                        hs__linear **ret_linear, hs_error *err);
    size_t bytes; /* of its struct, whose first member is an hs__linear */
    /* For hs__linear_build: takes the arrays, then fills them. rows holds a panel of weights. */
    void (*layout)(hs__linear *linear, hs__arena *arena);
    void (*fill)(hs__linear *linear, const hs__linear_source *source, float *rows);
    hs__linear_split (*split)(const hs__linear *linear, size_t n_rows, size_t n_threads);
    void (*run)(const hs__linear *linear, hs__linear_split split, size_t n_rows, const void *x, float *y,
                size_t row_chunk, size_t column_chunk);
} hs__linear_kind;

extern const hs__linear_kind hs__linear_native, hs__linear_int8, hs__linear_cblas;
/* y = x W without bias, in fp32 by our own tiles: how gradients pass a product. It is created from the source
 * of W, whose biases and activation are not read; x is as wide as W' b, and y as x W' reads it. x_step and
 * y_step are those of the new product. */
extern const hs__linear_kind hs__linear_transposed;
/* The first members of every implementation. */
struct hs__linear {
    const hs__linear_kind *kind;
    const hs__kernels *kernels;
    size_t n_in, n_out;
    size_t x_step, y_step; /* floats between rows, before x is converted */
    hs__activate *activate;
    float *factors; /* [n_in], of int24 for hs__conversion; NULL for other precisions */
};

/* Returns the number of tasks of a product of n_rows rows that n_threads threads share. */
size_t hs__linear_tasks(const hs__linear *linear, size_t n_rows, size_t n_threads);

/* Computes one task's part of y [n_rows][y_step]. x must not be y: floats [n_rows][x_step], or the operands
 * that the precision's hs__conversion wrote. */
void hs__linear_run(const hs__linear *linear, size_t n_rows, size_t n_threads, const void *x, float *y,
                    size_t task);

/* Returns the floats between rows of a matrix of width n of which products read several rows at once.
 * Rows a multiple of 4 KiB apart would fall into the same set of the first-level cache (4K aliasing). */
static inline size_t hs__row_step(size_t n)
{
    return n % 1024 == 0 ? n + 16 : n;
}

/* Makes a copy without activation that shares the weights of `linear`, which must outlive it. Fails with
 * HS_NO_MEMORY. The caller destroys *ret_linear. */
hs_status hs__linear_bare(const hs__linear *linear, hs__linear **ret_linear, hs_error *err);

void hs__linear_destroy(hs__linear *linear); /* NULL is fine */
/* Returns the first item of chunk `index` of n items cut into n_chunks nearly equal ones; n for index
 * n_chunks. */
static inline size_t hs__chunk_start(size_t n, size_t n_chunks, size_t index)
{
    return n / n_chunks * index + (n % n_chunks < index ? n % n_chunks : index);
}

/* Forbids OpenBLAS threads, and names its kernels after this instruction set unless OPENBLAS_CORETYPE is set:
 * a version older than the CPU would take its oldest ones. Changes the environment, so no thread may run.
 * NULL stands for an unknown instruction set. */
void hs__cblas_prepare(const hs__kernels *kernels);

/* Writes OpenBLAS's version and kernel, or why it cannot be used. Loads it. */
void hs__cblas_describe(char *ret_text, size_t n_bytes);
