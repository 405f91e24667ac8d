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
 * A row of x is conversion.words(n) words of 4 bytes. The first depth(n) hold the numbers, padded with bytes
 * that meet zeros. The scale's bits and the zero point follow. The scale is NaN if a number or the range is
 * not finite, and so are all results. It is 0 for a row whose range is too small to divide by 255.
 *
 * int24 has 24 bits by three signed bytes, digits to the base 256:
 *
 *     w = scale * q, |q| <= 127 * 65536, q = 65536 d0 + 256 d1 + d2
 *
 * with a scale for each output column, and for each row of x one of the same kind, without a zero point.
 * Products of the digits i and j are computed if i + j < 4: eight of nine. The last one is below the rounding
 * of a float. Sums of integers are exact; four of them are added as floats. A column of x with large numbers
 * would take the digits of the others, even if its weights are small. So each column has a factor, a power of
 * two near the root mean square of its weights: x is multiplied by it, weights are divided. */
#pragma once

#include "engine/kernels/kernels.h"

/* The longest sum that fits 32 bits: a product is at most 255 * 127. */
enum { HS_INT8_DEPTH_MAX = INT32_MAX / (255 * 127) };

/* The same of int24: four sums of at most three products of -128 .. 127 each. */
enum { HS_INT24_DEPTH_MAX = INT32_MAX / (3 * 128 * 128), INT24_MAX = 127 << 16, INT24_DIGITS = 3 };

/* Kernels of 8-bit products. Panels are as in kernels.h, in words: [depth(K)][columns]. */
typedef struct hs__int8_kernels {
    const char *name; /* "amx", "avx512_vnni" or "avx_vnni" */
    size_t panel, lanes, tile_rows;
    size_t (*depth)(size_t K); /* words of a column */
    /* Columns that all rows of x are multiplied by before the next ones. Products outrun the third-level
     * cache, so the rows, these columns and as many more should be in the second. 0: they need not. */
    size_t columns_cached;

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

/* Returns the kernels of int24, or NULL if AMX is not there or not permitted. Panels are [columns / 16][steps
 * of 64 k][digits][16 words][16 columns]. A row of x has a scale and no zero point, and sums are not read. */
const hs__int8_kernels *hs__int24_kernels_select(void);

/* Packs one panel, with scales and sums of its columns, from n_columns rows of floats, source
 * [n_columns][K]. Columns after the last are 0. */
void hs__int8_pack(const hs__int8_kernels *kernels, size_t K, size_t n_columns, const float *source,
                   uint32_t *panel, float *scales, int32_t *sums);

/* Packs one panel of int24, with scales, the same way. */
void hs__int24_pack(size_t K, size_t n_columns, const float *source, const float *factors, uint32_t *panel,
                    float *scales);
