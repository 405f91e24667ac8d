/* kernels.h - vectorised kernels: matrix products and the operations between them.
 *
 * kernels_body.h holds each body once, with gcc's vector types. It is compiled once per instruction set,
 * and hs__kernels_select picks the best set of the CPU. Kernels take const inputs, allocate nothing, and
 * know nothing of models but the names of activations. Matrices are row-major; a leading dimension (ld)
 * is in floats. Sizes are at least 1. Nothing needs alignment. */
#pragma once

#include "model/architecture.h"

typedef void hs__activate(size_t n_rows, size_t n, float *y, size_t ldy);

typedef void hs__add_picked(size_t n_rows, size_t n, const int32_t *rows, int32_t first, const float *table,
                            size_t ld, float *y, size_t ldy);

typedef void hs__add_norm(size_t n_rows, size_t H, const float *x, const float *r, const float *gamma,
                          const float *beta, float eps, float *y);

typedef struct hs__kernels {
    const char *name; /* "avx512", "avx2", "neon" or "base" */

    /* Computes att[i] = softmax(scale * att[i]), i < n_rows, T wide, in place. Subtracts the row maximum
     * first, so that no exponential overflows. Adds to columns[j] the sum over i of att[i][j]; columns
     * may be NULL. */
    void (*softmax)(size_t n_rows, size_t T, float scale, float *att, size_t ld, float *columns);

    /* Computes y[i] = norm(x[i] + r[i]) * gamma + beta over rows of H (layer norm). norm subtracts the
     * mean and divides by sqrt(variance + eps), with the variance divided by H, not H - 1. r may be NULL;
     * y may be x or r. */
    hs__add_norm *add_norm;

    /* Computes the same with x / sqrt(mean of x^2 + eps) as norm (RMS norm). */
    hs__add_norm *add_rms_norm;

    /* Computes y[i] *= x[i]. */
    void (*multiply)(size_t n, const float *x, float *y);

    /* Computes y[i][j] += bias[j]. */
    void (*add_bias)(size_t n_rows, size_t n, const float *bias, float *y, size_t ldy);

    /* Adds the table's value for the distance of row i and column j. r = rows[j - i] - first never falls
     * with j. y[i][j] += table[i][r] along the table's rows, y[i][j] += table[r][j] across them. Whole
     * vectors are read: ld is at least n (across) or r (along) rounded up to `lanes`. */
    hs__add_picked *add_picked_along, *add_picked_across;

    /* Computes y[i][j] = f(y[i][j]), by hs_activation, within 1e-7 of the value, or of 1 if that is more. */
    hs__activate *activate[HS_N_ACTIVATIONS];

    /* Computes y[i][j] = f'(y[i][j]), the slope, within 3e-7. That of RELU at 0 is 0. */
    hs__activate *slope[HS_N_ACTIVATIONS];

    /* Products take the right matrix B [K][n] in panels of `panel` columns. The last panel has the
     * columns that are left, rounded up to `lanes` with zeros. A panel is [K][its columns], so that a
     * product reads it in order. Column c's panel begins at K * c if c is a multiple of `panel`. */
    size_t panel, lanes, tile_rows; /* tile_rows: rows that a product computes at once */

    /* Packs B[k][c] = source[k * step_k + c * step_column] into hs__panels_floats floats. */
    void (*pack)(size_t K, size_t n_columns, const float *source, size_t step_k, size_t step_column,
                 float *panels);

    /* Computes y[i][c] = sum over k of x[i][k] B[k][c] + bias[c] for adjacent panels. Long sums are taken
     * in parts. bias may be NULL and is read up to the rounded number of columns. next may be NULL; it is
     * the panel of the following call, which is prefetched into the second-level cache (only its first
     * part if rows are few). */
    void (*product)(size_t n_rows, size_t K, const float *x, size_t ldx, const float *panels,
                    size_t n_columns, const float *bias, const float *next, float *y, size_t ldy);

    /* Computes y[i][j] = sum over k of x[i][k] w[j][k], y [n_rows][n_columns], for right matrices that
     * are read once, unpacked. The order of each sum does not depend on the other rows. */
    void (*dots)(size_t n_rows, size_t K, const float *x, size_t ldx, size_t n_columns, const float *w,
                 size_t ldw, float *y, size_t ldy);

    /* Computes ret[i] = sum over c < n of |y[i][c] + sum over k of x[k][i] B[k][c]|, x [K][n_rows], B [K][n].
     * n is a multiple of `lanes`. The order of each sum does not depend on the other rows. */
    void (*absolute_sums)(size_t n_rows, size_t K, const float *x, size_t ldx, const float *B, size_t ldb,
                          size_t n, const float *y, size_t ldy, float *ret_sums);

    /* Computes ret[i] = H((p + q_i) / 2) with H(p) = - sum p ln p, for the rows q_i [n] that begin at
     * others[i] + at; all elements are >= 0. ret[i] depends on p and q_i alone, and is exactly H(p) if q_i
     * equals p. */
    void (*mean_entropies)(size_t n, const float *p, size_t n_others, const float *const *others, size_t at,
                           float *ret_entropies);

    /* Completes a symmetric s [n][n] of which each panel's columns were computed down to the panel's last
     * row: copies the upper elements to the lower half. */
    void (*mirror)(size_t n, float *s);

    /* Copy to memory past the caches: stream_rows y[i][j] = x[i][j] of n_rows x n, stream_columns y[j][i] =
     * x[i][j] of `panel` rows of n. That is faster than ordinary stores if y would leave the caches before
     * it is read. streams is false if the CPU has no stores for it, or no compiler support; then they are
     * ordinary copies. */
    bool streams;
    void (*stream_rows)(size_t n_rows, size_t n, const float *x, size_t ldx, float *y, size_t ldy);
    void (*stream_columns)(size_t n, const float *x, size_t ldx, float *y, size_t ldy);
} hs__kernels;

/* Converts rows of floats to operands of another precision: x [n_rows][ldx] to
 * y [n_rows][words(n)] of 4 bytes. factors [n] multiply the columns of x for int24 (int8.h); others ignore
 * them. */
typedef struct hs__conversion {
    size_t (*words)(size_t n); /* never falls with n: a workspace has rows of its widest input */
    void (*convert)(size_t n_rows, size_t n, const float *x, size_t ldx, const float *factors, uint32_t *y);
} hs__conversion;

/* Products of bfloat16, two at a time; sums, bias and y are floats. Panels are as above, of pairs:
 * [depth(K)][columns], with zeros behind the last k. A row of x begins with as many pairs, and all sizes
 * count pairs. For kernels with the same panel and lanes. */
typedef struct hs__bf16_kernels {
    const char *name; /* "amx", "avx512_bf16", or "avx512": weights are widened to floats */
    size_t tile_rows; /* rows that a product computes at once */
    size_t (*depth)(size_t K);
    hs__conversion conversion; /* rounds to nearest even */
    void (*product)(size_t n_rows, size_t n_pairs, const uint32_t *x, size_t ldx, const uint32_t *panels,
                    size_t n_columns, const float *bias, const uint32_t *next, float *y, size_t ldy);
} hs__bf16_kernels;

/* Returns the fastest set of this CPU, or NULL if it lacks AVX512_BF16. */
const hs__bf16_kernels *hs__bf16_kernels_select(void);

/* Returns each set that this CPU has, for the tests; NULL from index n on. */
const hs__bf16_kernels *hs__bf16_kernels_at(size_t index);

/* Packs B[k][c] = source[c][k], source [n_columns][K], into panels of kernels->panel columns or fewer. */
void hs__bf16_pack(const hs__bf16_kernels *bf16, const hs__kernels *kernels, size_t K, size_t n_columns,
                   const float *source, uint32_t *panels);

/* Returns the floats that K x n_columns take in panels. */
static inline size_t hs__panels_floats(const hs__kernels *kernels, size_t K, size_t n_columns)
{
    return K * ((n_columns + kernels->lanes - 1) / kernels->lanes * kernels->lanes);
}

/* Environment variable that names the set to use, for tests and measurements. "amx" is the set "avx512" with
 * products of bf16 and int8 by AMX; "avx512" forbids AMX. */
#define HS_KERNELS_VARIABLE "HEADSCOPE_KERNELS"

/* Returns the fastest set of this CPU, or the one that the environment names; NULL if the CPU lacks that
 * set. */
const hs__kernels *hs__kernels_select(void);

/* Returns true if products may use AMX's tiles: the CPU has them, the environment does not forbid them, and
 * the system permits them. The system saves 8 KiB more for each thread that uses tiles, so a process
 * must request its permission. Systems before Linux 5.16, filters of system calls and signal stacks that are
 * too small refuse. Threads inherit the permission: call it before threads begin. Later calls return the
 * same. */
bool hs__amx_permitted(void);

/* Returns each set that this CPU has, for the tests; NULL from index n on. */
const hs__kernels *hs__kernels_at(size_t index);
