/* int8.h - products of bytes, four at a time (VNNI): y = x W' + b with W and x rounded to 8 bits.
 *
 * A weight is scale * w, w in -127 .. 127, one scale for each output column; an activation is
 * scale * (u - zero), u in 0 .. 255, one scale and zero for each row, so that 0 is itself. Sums are of
 * integers and exact: what is lost is lost in rounding weights and activations, and a row has the same bits
 * whatever stands beside it. Of one output
 *
 *     sum over k of u[k] w[k] - zero * (sum over k of w[k])      is multiplied by both scales, bias added
 *
 * in that order, with one fused multiply-add.
 *
 * A row of x is words of 4 bytes: hs__int8_words(n) of them, the numbers, filled up with bytes that meet
 * zeros, then the scale's bits and the zero. A row with a number that is not finite, or whose range is not,
 * has NaN for its scale, and so has all that is computed of it; a row of zeros, or so near them that 255
 * steps of it are no number, has 0. */
#pragma once

#include "engine/kernels/kernels.h"

/* Where |sum| could pass what 32 bits hold: a byte times a weight is at most 255 * 127. */
enum { HS_INT8_DEPTH_MAX = INT32_MAX / (255 * 127) };

/* Columns in panels as in kernels.h, of words: [K / 4 rounded up][columns]. */
typedef struct hs__int8_kernels {
    const char *name; /* "avx512_vnni" or "avx_vnni" */
    size_t panel, lanes, tile_rows;

    hs__conversion conversion; /* words: hs__int8_words */

    /* One panel: y[i][c] of n_columns columns, n_words words of numbers in a row of x. scales, sums (of each
     * column's weights) and bias are read up to the rounded number of columns; next as in kernels.h. */
    void (*product)(size_t n_rows, size_t n_words, const uint32_t *x, const uint32_t *panel, size_t n_columns,
                    const float *scales, const int32_t *sums, const float *bias, const uint32_t *next,
                    float *y, size_t ldy);
} hs__int8_kernels;

/* NULL when the CPU has neither AVX512_VNNI nor AVX-VNNI. */
const hs__int8_kernels *hs__int8_kernels_select(void);

/* Every one this CPU has, for the tests: NULL from index n on. */
const hs__int8_kernels *hs__int8_kernels_at(size_t index);

/* Words of numbers in a row, and of the row. */
static inline size_t hs__int8_depth(size_t n)
{
    return (n + 3) / 4;
}

static inline size_t hs__int8_words(size_t n)
{
    return hs__int8_depth(n) + 2;
}

/* One panel from n_columns rows of floats, source [n_columns][K], with scales and sums of its columns; what
 * is beside the last column is 0. */
void hs__int8_pack(const hs__int8_kernels *kernels, size_t K, size_t n_columns, const float *source,
                   uint32_t *panel, float *scales, int32_t *sums);
