/* analysis_maps.h - loops over maps that the files of the analysis share.
 *
 * A sum over a map is kept per column while rows pass, one block of columns at a time, and the columns
 * are added last. Inner loops are element by element, so compilers vectorise them. The order of additions
 * does not depend on the vector width. Masked columns are dropped at the end. */
#pragma once

#include "engine/analysis/analysis.h"
#include "model/base/sizes.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Columns in a block. A block of doubles takes 2 KiB of the first-level cache. */
#define HS__BLOCK 256

/* Vectors of sixteen neighbouring elements, with the alignment of one. */
enum { HS__LANES = 16 };
typedef float hs__floats __attribute__((vector_size(HS__LANES * 4), aligned(4), may_alias));
typedef int32_t hs__ints __attribute__((vector_size(HS__LANES * 4), aligned(4), may_alias));

/* Rounds n up to whole vectors. */
static inline size_t hs__lanes_ceil(size_t n)
{
    return (n + HS__LANES - 1) / HS__LANES * HS__LANES;
}

static inline bool hs__is_masked(const uint8_t *masked, size_t token)
{
    return masked && masked[token];
}

/* Returns the smallest S with S / maximum >= threshold in floats. Division by a positive number is
 * monotone, so comparing with S replaces a division per element and gives the same result to the bit.
 * maximum is positive and finite; for an infinite threshold S is infinite. */
float hs__similarity_cut(float threshold, float maximum);

/* Divides column sums, none negative, by their maximum. The largest becomes exactly 1. */
void hs__profile_normalize(float *profile, size_t n_tokens);

/* Cuts after each token of H that is not special and not directly followed by another token of H. Sets
 * only the ranges. ret_segments is [n_tokens]. Returns the number of segments. */
size_t hs__segments_cut(const uint16_t *high, size_t n_high, const uint8_t *special, size_t n_tokens,
                        hs_segment *ret_segments);

/* Returns ln x for normal x > 0, within 3e-7 relative; finite for 0 and -0. Vectorises: x = 2^e m with m in
 * [sqrt(1/2), sqrt(2)), and ln m = 2 artanh((m - 1) / (m + 1)) by its Taylor series. */
static inline float hs__log(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int32_t shifted = (int32_t)(bits - 0x3f3504f3); /* the bits of sqrt(1/2) */
    const int32_t exponent = shifted >> 23, rest = (shifted & 0x7fffff) + 0x3f3504f3;
    float m;
    memcpy(&m, &rest, sizeof m);
    const float s = (m - 1) / (m + 1), s2 = s * s;
    const float series = 1 + s2 * (1.0f / 3 + s2 * (1.0f / 5 + s2 * (1.0f / 7 + s2 * (1.0f / 9))));
    return (float)exponent * 0.693147181f + 2 * s * series;
}

/* Returns e^x for x <= 0, within 2e-7 relative; e^-87 below -87. Vectorises: x = n ln 2 + r with |r| <=
 * ln(2) / 2 (Cody and Waite's reduction), and e^r by its Taylor series. */
static inline float hs__exp(float power_of_e)
{
    const float x = power_of_e > -87 ? power_of_e : -87;
    const float shift = 12582912; /* 1.5 2^23: adding it rounds to an integer */
    const float n = (x * 1.44269504f + shift) - shift;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f; /* ln 2 in two parts, the first exact */
    const float series =
        1 + r * (1 + r * (0.5f + r * (1.0f / 6 + r * (1.0f / 24 + r * (1.0f / 120 + r * (1.0f / 720))))));
    const int32_t bits = ((int32_t)n + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return series * power + (power_of_e - power_of_e); /* NaN stays */
}

/* Returns the cosine between two vectors [n]; NaN if one is 0. */
double hs__cosine(const float *a, const float *b, size_t n);

/* Divides each row of a map [n_rows][n] by its sum; a row of zeros becomes NAN. */
static inline void hs__rows_divide(float *map, size_t n_rows, size_t n)
{
    for (size_t i = 0; i < n_rows; i++) {
        double sum = 0;
        for (size_t j = 0; j < n; j++)
            sum += (double)map[i * n + j];
        for (size_t j = 0; j < n; j++)
            map[i * n + j] = (float)((double)map[i * n + j] / sum);
    }
}
