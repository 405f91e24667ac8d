/* kernels.h - everything between the large products, vectorised.
 *
 * The bodies are written once, with gcc's vector types, in kernels_body.h, and compiled once per instruction
 * set; hs__kernels_select picks the best set the CPU has. Kernels take const inputs, allocate nothing, know
 * nothing of models but the names of activations. Matrices are row-major; a leading dimension (ld) is in
 * floats. Sizes are at least 1. Nothing needs alignment. */
#pragma once

#include "model/recipe.h"

typedef void hs__activate(size_t n_rows, size_t n, float *y, size_t ldy);

typedef void hs__add_picked(size_t n_rows, size_t n, const int32_t *rows, int32_t first, const float *table,
                            size_t ld, float *y, size_t ldy);

typedef struct hs__kernels {
    const char *name; /* "avx512", "avx2" or "base" */

    /* att[i] = softmax(scale * att[i]), i < n_rows, T wide, in place; the row maximum is subtracted first so
     * that no exponent overflows. columns[j] += sum over i of att[i][j]; columns may be NULL. */
    void (*softmax)(size_t n_rows, size_t T, float scale, float *att, size_t ld, float *columns);

    /* y[i] = norm(x[i] + r[i]) * gamma + beta over rows of H; norm subtracts the mean and divides by
     * sqrt(variance + eps), the variance being that of the H values (divided by H, not H - 1). r may be NULL;
     * y may be x or r. */
    void (*add_norm)(size_t n_rows, size_t H, const float *x, const float *r, const float *gamma,
                     const float *beta, float eps, float *y);

    /* y[i] *= x[i]. */
    void (*multiply)(size_t n, const float *x, float *y);

    /* y[i][j] += bias[j]. */
    void (*add_bias)(size_t n_rows, size_t n, const float *bias, float *y, size_t ldy);

    /* Adds what a table has for the distance of row i and column j, r = rows[j - i] - first, which never
     * falls with j: y[i][j] += table[i][r] along the table's rows, y[i][j] += table[r][j] across them. Whole
     * vectors of the table's rows are read: ld is at least n (across) and r (along) rounded up to `lanes`. */
    hs__add_picked *add_picked_along, *add_picked_across;

    /* y[i][j] = f(y[i][j]), by hs_activation. Within 1e-7 of the value, or of 1 where that is more. */
    hs__activate *activate[HS_N_ACTIVATIONS];

    /* Products take their right matrix B [K][n] in panels: of `panel` columns each, the last one of as many
     * as are left, rounded up to `lanes` with zeros; a panel is [K][its columns], so that a product reads it
     * straight through. Column c's panel begins at K * c when c is a multiple of `panel`. */
    size_t panel, lanes, tile_rows; /* tile_rows: rows a product does at once */

    /* Packs B[k][c] = source[k * step_k + c * step_column]. hs__panels_floats tells the size of panels. */
    void (*pack)(size_t K, size_t n_columns, const float *source, size_t step_k, size_t step_column,
                 float *panels);

    /* y[i][c] = sum over k of x[i][k] B[k][c] + bias[c] for some panels side by side. Sums over many k are
     * taken in parts. bias may be NULL and is read up to the rounded number of columns. next, which may be
     * NULL, is the panel that will be asked for next: it is fetched into the second-level cache meanwhile, or
     * its first part where rows are few. */
    void (*product)(size_t n_rows, size_t K, const float *x, size_t ldx, const float *panels,
                    size_t n_columns, const float *bias, const float *next, float *y, size_t ldy);

    /* y[i][j] = sum over k of x[i][k] w[j][k], y [n_rows][n_columns]: for right matrices that are read once,
     * as they lie. Each sum runs in the same order whatever stands beside it. */
    void (*dots)(size_t n_rows, size_t K, const float *x, size_t ldx, size_t n_columns, const float *w,
                 size_t ldw, float *y, size_t ldy);

    /* Completes a symmetric s [n][n] of which each panel's columns were computed down to the panel's last
     * row: copies what is above the rest of it to the left. */
    void (*mirror)(size_t n, float *s);
} hs__kernels;

/* How rows of floats become what products of another precision read: y [n_rows][words(n)] of 4 bytes. */
typedef struct hs__conversion {
    size_t (*words)(size_t n);
    void (*convert)(size_t n_rows, size_t n, const float *x, uint32_t *y);
} hs__conversion;

/* Products of bfloat16, two at a time: sums, bias and y are floats. Panels as above, of pairs:
 * [K/2][columns], K rounded up to be even with a zero; rows of x likewise, so that all sizes here count
 * pairs. For kernels of the same panel, lanes and tile_rows. */
typedef struct hs__bf16_kernels {
    hs__conversion conversion; /* to nearest even */
    void (*pack)(size_t K, size_t n_columns, const float *source, size_t step_k, size_t step_column,
                 uint32_t *panels);
    void (*product)(size_t n_rows, size_t n_pairs, const uint32_t *x, size_t ldx, const uint32_t *panels,
                    size_t n_columns, const float *bias, const uint32_t *next, float *y, size_t ldy);
} hs__bf16_kernels;

/* NULL when the CPU cannot, which takes AVX512_BF16. */
const hs__bf16_kernels *hs__bf16_kernels_select(void);

/* Floats that K x n_columns take in panels. */
static inline size_t hs__panels_floats(const hs__kernels *kernels, size_t K, size_t n_columns)
{
    return K * ((n_columns + kernels->lanes - 1) / kernels->lanes * kernels->lanes);
}

/* Names the set to use, for tests and measurements. */
#define HS_KERNELS_VARIABLE "HEADSCOPE_KERNELS"

/* The fastest set this CPU has, or the one that the environment names: NULL when this CPU has no such set. */
const hs__kernels *hs__kernels_select(void);

/* Every set this CPU has, for the tests: NULL from index n on. */
const hs__kernels *hs__kernels_at(size_t index);
