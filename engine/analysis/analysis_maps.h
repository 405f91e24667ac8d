/* analysis_maps.h - what the files of the analysis share: how a map is walked.
 *
 * A sum over a map is kept per column while the rows go by, a block of columns at a time, and the columns are
 * added up last. So the inner loops are element by element and vectorise as they stand, the order of the
 * additions is the same whatever the vector width, and masked columns cost nothing: they are dropped at the
 * end. */
#pragma once

#include "engine/analysis/analysis.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Columns in a block; a block of doubles fits the first-level cache with room to spare. */
#define HS__BLOCK 256

/* Sixteen neighbours, wherever they lie. */
enum { HS__LANES = 16 };
typedef float hs__floats __attribute__((vector_size(HS__LANES * 4), aligned(4), may_alias));
typedef int32_t hs__ints __attribute__((vector_size(HS__LANES * 4), aligned(4), may_alias));

/* n, rounded up to whole vectors. */
static inline size_t hs__lanes_ceil(size_t n)
{
    return (n + HS__LANES - 1) / HS__LANES * HS__LANES;
}

static inline bool hs__is_masked(const uint8_t *masked, size_t token)
{
    return masked && masked[token];
}

static inline size_t hs__max(size_t a, size_t b)
{
    return a > b ? a : b;
}

static inline size_t hs__min(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The smallest S with S / maximum >= threshold in floats. Division by a positive number is monotone, so that
 * a comparison with this one takes the place of a division per element and agrees with it to the bit. maximum
 * is positive and finite; of an infinite threshold the cut is infinite too. */
float hs__similarity_cut(float threshold, float maximum);

/* Unmasked tokens in [start, end). */
size_t hs__unmasked_count(const uint8_t *masked, size_t start, size_t end);

/* Sum of S_ij with i < j over unmasked rows [row, row_end) and unmasked columns [column, column_end). */
double hs__cell_sum(const float *similarity, size_t n_tokens, const uint8_t *masked, size_t row,
                    size_t row_end, size_t column, size_t column_end);

/* Adds to each of ret_sums[0 .. n_tokens) its column's sum of A over unmasked rows. */
void hs__columns_add(const float *attention, size_t n_tokens, const uint8_t *masked, double *ret_sums);

/* Divides column sums, none negative, by their maximum; the largest becomes 1 exactly. */
void hs__profile_normalize(float *profile, size_t n_tokens);

/* Cuts after each token of H that is not special and not directly followed by another token of H. Only the
 * ranges are set. ret_segments is [n_tokens]; returns how many. */
size_t hs__segments_cut(const uint16_t *high, size_t n_high, const uint8_t *special, size_t n_tokens,
                        hs_segment *ret_segments);

/* ln x for normal x > 0, to 3e-7 relative, in a form that vectorises: x = 2^e m with m in [sqrt(1/2),
 * sqrt(2)), ln m = 2 artanh((m - 1) / (m + 1)). Finite for 0. */
static inline float hs__log(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int32_t shifted = bits - 0x3f3504f3; /* the bits of sqrt(1/2) */
    const int32_t exponent = shifted >> 23;
    bits = (shifted & 0x7fffff) + 0x3f3504f3;
    float m;
    memcpy(&m, &bits, sizeof m);
    const float s = (m - 1) / (m + 1), s2 = s * s;
    const float series = 1 + s2 * (1.0f / 3 + s2 * (1.0f / 5 + s2 * (1.0f / 7 + s2 * (1.0f / 9))));
    return (float)exponent * 0.693147181f + 2 * s * series;
}

/* e^x for x <= 0, to 2e-7 relative, in a form that vectorises: x = n ln 2 + r with |r| <= ln(2) / 2. Below
 * -87, where floats end, it is e^-87. */
static inline float hs__exp(float power_of_e)
{
    const float x = power_of_e > -87 ? power_of_e : -87;
    const float shift = 12582912; /* 1.5 2^23: what is added to it loses its fraction */
    const float n = (x * 1.44269504f + shift) - shift;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f; /* ln 2 in two parts, the first exact */
    const float series =
        1 + r * (1 + r * (0.5f + r * (1.0f / 6 + r * (1.0f / 24 + r * (1.0f / 120 + r * (1.0f / 720))))));
    const int32_t bits = ((int32_t)n + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return series * power + (power_of_e - power_of_e); /* NaN stays */
}
