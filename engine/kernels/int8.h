/* int8.h - matrix products of 8-bit integers (VNNI, AMX): y = x W' + b with W and x quantised.
 *
 * A weight is scale * w, w in -127 .. 127, with one scale for each output column (symmetric, per
 * channel). An activation is scale * (u - zero), u in 0 .. 255, with one scale and zero point for each
 * row (asymmetric, per token), so that 0 is exact. Sums are of integers and exact: only the quantisation
 * loses accuracy. A row has the same bits whatever rows are beside it. For each output
 *
 *     sum over k of u[k] w[k] - zero * (sum over k of w[k])
 *
 * is multiplied by both scales, and the bias is added, in that order, with one fused multiply-add.
 *
 * A row of x is conversion.words(n) words of 4 bytes: depth(n) words of numbers, padded with bytes that meet
 * zeros, then the scale's bits and the zero point. The scale is NaN if a number or the range is not finite,
 * and so are all results. It is 0 for a row whose range is too small to divide by 255. */
#pragma once

#include "engine/kernels/kernels.h"

/* The longest sum that fits 32 bits: a product is at most 255 * 127. */
enum { HS_INT8_DEPTH_MAX = INT32_MAX / (255 * 127) };

/* Kernels of 8-bit products. Panels are as in kernels.h, in words: [depth(K)][columns]. */
typedef struct hs__int8_kernels {
    const char *name; /* "amx", "avx512_vnni" or "avx_vnni" */
    size_t panel, lanes, tile_rows;
    size_t (*depth)(size_t K); /* words of a column */
    bool divides_rows;         /* products outrun the third-level cache: x should be in the second */

    hs__conversion conversion;

    /* Multiplies by one panel: y[i][c] of n_columns columns; rows of x [n_rows][ldx] have n_words words of
     * numbers. scales, sums (of each column's weights) and bias are read up to the rounded number of columns;
     * next as in kernels.h. */
    void (*product)(size_t n_rows, size_t n_words, const uint32_t *x, size_t ldx, const uint32_t *panel,
                    size_t n_columns, const float *scales, const int32_t *sums, const float *bias,
                    const uint32_t *next, float *y, size_t ldy);
} hs__int8_kernels;

/* Returns the fastest set of this CPU, or NULL if it has neither AVX512_VNNI nor AVX-VNNI. */
const hs__int8_kernels *hs__int8_kernels_select(void);

/* Returns each set that this CPU has, for the tests; NULL from index n on. */
const hs__int8_kernels *hs__int8_kernels_at(size_t index);

/* Packs one panel, with scales and sums of its columns, from n_columns rows of floats, source
 * [n_columns][K]. Columns after the last are 0. */
void hs__int8_pack(const hs__int8_kernels *kernels, size_t K, size_t n_columns, const float *source,
                   uint32_t *panel, float *scales, int32_t *sums);
