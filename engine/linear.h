/* linear.h - y = x W' + b, or gelu of it, with W known when the engine is made.
 *
 * One interface, one implementation per library: linear_openblas.c, and linear_onednn.c where oneDNN was
 * there at build time. An hs__linear never changes once created: any thread may apply it, each call runs on
 * its own thread alone. */
#pragma once

#include "engine/engine.h"
#include "engine/kernels.h"

#include <stdbool.h>

typedef struct hs__linear hs__linear;

/* What a linear is made from: the rows of several weights one below the other, as if they were one
 * [n_out][n_in], so that query, key and value are one product. */
typedef struct hs__linear_source {
    const hs_dense *const *parts;
    size_t n_parts;
    bool gelu;
} hs__linear_source;

/* One library. */
typedef struct hs__linear_kind {
    const char *name;
    hs_status (*create)(const hs__linear_source *source, const hs__kernels *kernels, hs_precision precision,
                        hs__linear **ret_linear, hs_error *err);
    void (*destroy)(hs__linear *linear); /* NULL is fine */
    /* y [n_rows][n_out] from x [n_rows][n_in]; y is not x. */
    void (*apply)(const hs__linear *linear, size_t n_rows, const float *x, float *y);
} hs__linear_kind;

extern const hs__linear_kind hs__linear_openblas;
