/* int8_rows.h - rows of x in bytes, as int8.h says, once per instruction set. Includers define what
 * kernels_vec.h asks for, include it, and define
 *
 *     fused(a, b, c)     a * b + c, rounded once
 *     rounded(v)         floats to the nearest integers, ties to even
 *     store_bytes(p, v)  LANES integers as unsigned bytes, saturated */
#include <float.h>
#include <string.h>

static INLINE ivec load_ints(const int32_t *p)
{
    return *(const ivec_in_memory *)p;
}

/* Returns the smallest (sign -1) or largest of 0 and all lanes. */
static float extreme(vec v, float sign)
{
    float most = 0;
    for (size_t i = 0; i < LANES; i++)
        most = sign * v[i] > sign * most ? v[i] : most;
    return most;
}

/* Finds the row's range, widened to include 0. *ret_high is NaN if a number is not finite. */
static void range_of(size_t n, const float *x, float *ret_low, float *ret_high)
{
    const size_t whole = n / LANES * LANES;
    vec low = splat(0), high = splat(0), unsound = splat(0);
    for (size_t k = 0; k < n; k += LANES) {
        const vec v = k < whole ? load(x + k) : load_part(x + k, n - k, 0);
        low = -larger(-low, -v);
        high = larger(high, v);
        unsound += v * 0; /* NaN if a number is not finite */
    }
    *ret_low = extreme(low, -1);
    *ret_high = extreme(high, 1) + sum_lanes(unsound);
}

/* Converts a row to depth words, its scale and its zero point. */
static void convert_row(size_t n, size_t depth, const float *x, uint32_t *y)
{
    float low, high;
    range_of(n, x, &low, &high);
    const float range = high - low, steps = 255 / range;
    const bool sound = range <= FLT_MAX, rises = sound && steps <= FLT_MAX;
    const float scale = rises ? range / 255 : sound ? 0 : range - range, inverse = rises ? steps : 0;
    const ivec zero = -rounded(splat(rises ? low * inverse : 0));
    const size_t whole = n / LANES * LANES;
    uint8_t *bytes = (uint8_t *)y, last[LANES];
    for (size_t k = 0; k < whole; k += LANES)
        store_bytes(bytes + k, rounded(rises ? load(x + k) * splat(inverse) : splat(0)) + zero);
    memset(bytes + whole, 0, 4 * depth - whole);
    if (whole < n) {
        store_bytes(last, rounded(rises ? load_part(x + whole, n - whole, 0) * inverse : splat(0)) + zero);
        memcpy(bytes + whole, last, n - whole);
    }
    memcpy(y + depth, &scale, sizeof scale);
    y[depth + 1] = (uint32_t)zero[0];
}
