/* kernels_body.h - the kernels of kernels.h, once per instruction set.
 *
 * A file that includes this first chooses its instructions (#pragma GCC target) and defines
 *     LANES    floats in a vector register
 *     KERNELS  name of the hs__kernels it defines;  KERNELS_NAME  the same as text
 * and what product_body.h asks for. Sums run in LANES partial sums, so they differ between instruction sets
 * in the last bits, never between runs. */
#include "engine/kernels/kernels.h"
#include "engine/kernels/kernels_vec.h"

#include <math.h>
#include <string.h>

static INLINE float max_lanes(vec v)
{
#if LANES == 16
    v = larger(v, __builtin_shufflevector(v, v, FURTHER_8));
#endif
#if LANES >= 8
    v = larger(v, __builtin_shufflevector(v, v, FURTHER_4));
#endif
    v = larger(v, __builtin_shufflevector(v, v, FURTHER_2));
    v = larger(v, __builtin_shufflevector(v, v, FURTHER_1));
    return v[0];
}

/* Returns 2^x for x < 127, within 2 units in the last place; 0 below -125.5 (no subnormals). x = n + r with
 * |r| <= 1/2; 2^r is a minimax polynomial of degree 5 (relative error 7.5e-8). */
static INLINE vec power_of_two(vec x)
{
    const vec n = nearest(x), r = x - n;
    vec p = splat(0.001327647204971888f);
    p = add_fused(splat(0.009675541384720408f), p, r);
    p = add_fused(splat(0.05550713273758942f), p, r);
    p = add_fused(splat(0.24022119722913757f), p, r);
    p = add_fused(splat(0.6931469670643264f), p, r);
    p = add_fused(splat(1.0000000716548727f), p, r);
    return scaled(p, n);
}

#define LOG2_E 1.4426950408889634f /* e^x = 2^(x LOG2_E) */

/* Returns x Phi(x), Phi(x) = (1 + erf(x / sqrt 2)) / 2 (exact GELU), as max(x, 0) - a Phi(-a) with a =
 * |x|. The subtrahend is small, so its error is too. Phi(-a) = e^(-a^2 / 2) M(a), and M(a) = P(a) / Q(a)
 * is a minimax rational function (M is Mills' ratio up to a factor). The absolute error is 8e-9 in exact
 * arithmetic, and in floats that of rounding the result, some 5e-8 around 1. */
static INLINE vec gelu(vec x)
{
    const vec a = -larger(-larger(x, -x), splat(-14.0f)); /* beyond 14, e^(-a^2 / 2) is 0 and P, Q overflow */
    vec p = splat(-0.00011207246767488549f);
    p = p * a + splat(0.03669033990624578f);
    p = p * a + splat(0.19376808916553978f);
    p = p * a + splat(0.5000001590274581f);
    vec q = splat(0.08750553493694266f);
    q = q * a + splat(0.5191398055624905f);
    q = q * a + splat(1.1854307930755368f);
    q = q * a + splat(1.0f);
    return larger(x, splat(0)) - a * power_of_two(a * a * splat(-0.5f * LOG2_E)) * quotient(p, q);
}

/* Returns x / (1 + e^-z), computed with e^-|z|, which cannot overflow. */
static INLINE vec times_sigmoid(vec x, vec z)
{
    const vec e = power_of_two(larger(z, -z) * splat(-LOG2_E));
    const ivec below = z < splat(0);
    const vec one = splat(1.0f), top = (vec)(((ivec)e & below) | ((ivec)one & ~below));
    return x * quotient(top, one + e);
}

/* Returns x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 (GELU's tanh form), with (1 + tanh u) / 2 = 1
 * / (1 + e^-2u). */
static INLINE vec gelu_tanh(vec x)
{
    return times_sigmoid(x, splat(1.5957691216057308f) * (x + splat(0.044715f) * x * x * x));
}

static INLINE vec quick_gelu(vec x)
{
    return times_sigmoid(x, splat(1.702f) * x);
}

static INLINE vec relu(vec x)
{
    return larger(x, splat(0));
}

static INLINE vec silu(vec x)
{
    return times_sigmoid(x, x);
}

/* Returns tanh x within 2e-7 of its value, which caps of scores multiply. Near 0 it is Cephes' polynomial
 * (tanhf.c); elsewhere 1 - 2 e^-2a / (1 + e^-2a) with a = |x| and the sign of x. */
static INLINE vec hyperbolic_tangent(vec x)
{
    const vec a = larger(x, -x), e = power_of_two(a * splat(-2 * LOG2_E)), z = x * x;
    vec p = splat(-5.70498872745e-3f);
    p = p * z + splat(2.06390887954e-2f);
    p = p * z + splat(-5.37397155531e-2f);
    p = p * z + splat(1.33314422036e-1f);
    p = p * z + splat(-3.33332819422e-1f);
    const vec small = p * z * x + x, large = splat(1) - (e + e) / (splat(1) + e);
    const ivec near = a < splat(0.625f), sign = (ivec)x & (ivec)splat(-0.0f);
    return (vec)(((ivec)small & near) | (((ivec)large | sign) & ~near));
}

/* ---- slopes of activations ---- */

/* Returns 1 / (1 + e^-z). */
static INLINE vec sigmoid(vec z)
{
    return times_sigmoid(splat(1), z);
}

/* Returns Phi(x) + x phi(x), with Phi(-|x|) as gelu computes it and phi the normal density. */
static INLINE vec gelu_slope(vec x)
{
    const vec a = -larger(-larger(x, -x), splat(-14.0f));
    vec p = splat(-0.00011207246767488549f);
    p = p * a + splat(0.03669033990624578f);
    p = p * a + splat(0.19376808916553978f);
    p = p * a + splat(0.5000001590274581f);
    vec q = splat(0.08750553493694266f);
    q = q * a + splat(0.5191398055624905f);
    q = q * a + splat(1.1854307930755368f);
    q = q * a + splat(1.0f);
    const vec e = power_of_two(a * a * splat(-0.5f * LOG2_E)), below = e * quotient(p, q);
    const ivec positive = x > splat(0);
    const vec whole = (vec)(((ivec)(splat(1) - below) & positive) | ((ivec)below & ~positive));
    const vec slope = whole + x * splat(0.3989422804014327f) * e;
    const ivec near = a < splat(14.0f); /* beyond, x e would be 0 times infinity at last */
    return (vec)(((ivec)slope & near) | ((ivec)splat(1) & positive & ~near));
}

/* Returns the slope of x s(z), whose z has the slope dz: s + x s (1 - s) dz. */
static INLINE vec times_sigmoid_slope(vec x, vec z, vec dz)
{
    const vec s = sigmoid(z);
    return s + x * s * sigmoid(-z) * dz;
}

static INLINE vec gelu_tanh_slope(vec x)
{
    /* beyond 16 the sigmoid is 0 or 1 */
    const vec b = larger(-larger(-x, splat(-16.0f)), splat(-16.0f)), c = splat(1.5957691216057308f);
    return times_sigmoid_slope(b, c * (b + splat(0.044715f) * b * b * b),
                               c * (splat(1) + splat(3 * 0.044715f) * b * b));
}

static INLINE vec quick_gelu_slope(vec x)
{
    return times_sigmoid_slope(x, splat(1.702f) * x, splat(1.702f));
}

static INLINE vec relu_slope(vec x)
{
    return (vec)((ivec)splat(1) & (x > splat(0)));
}

static INLINE vec silu_slope(vec x)
{
    return times_sigmoid_slope(x, x, splat(1));
}

static INLINE vec hyperbolic_tangent_slope(vec x)
{
    const vec t = hyperbolic_tangent(x);
    return (splat(1) - t) * (splat(1) + t);
}

enum { SOFTMAX_ROWS = 2 };

/* Subtracts top from T numbers. */
static void subtract_top(size_t T, float top, float *a)
{
    for (size_t j = 0; j < T; j++)
        a[j] -= top;
}

/* Returns the largest number of a row. */
static INLINE float row_top(size_t T, const float *a)
{
    const size_t whole = T / LANES * LANES, rest = T - whole;
    vec top = splat(-INFINITY);
    for (size_t j = 0; j < whole; j += LANES)
        top = larger(top, load(a + j));
    if (rest)
        top = larger(top, load_part(a + whole, rest, -INFINITY));
    return max_lanes(top);
}

/* Replaces rows by their softmax and adds them to columns, which may be NULL. Two rows at once hide what
 * their sums wait for. n_rows is a constant after inlining. The fused multiply-add does not round a[j] *
 * scale, but m is rounded, so their difference is wrong by up to half a unit of m. From 2^32 on that is more
 * than e^x tolerates. Rows that reach LARGE therefore subtract their largest number first. */
static INLINE void softmax_rows(size_t n_rows, size_t T, float scale, float *a, size_t ld, float *columns)
{
    const float LARGE = 0x1p22f;
    const size_t whole = T / LANES * LANES, rest = T - whole;
    const vec s = splat(scale * LOG2_E);
    vec m[SOFTMAX_ROWS], sum[SOFTMAX_ROWS], inverse[SOFTMAX_ROWS];
    for (size_t i = 0; i < n_rows; i++) {
        float largest = row_top(T, a + i * ld);
        if (fabsf(largest * scale) >= LARGE) {
            subtract_top(T, largest, a + i * ld);
            largest = 0;
        }
        m[i] = splat(largest) * s;
        sum[i] = splat(0);
    }
    for (size_t j = 0; j < whole; j += LANES)
#pragma GCC unroll 2
        for (size_t i = 0; i < n_rows; i++) {
            const vec e = power_of_two(add_fused(-m[i], load(a + i * ld + j), s));
            store(a + i * ld + j, e);
            sum[i] += e;
        }
    for (size_t i = 0; i < n_rows; i++) {
        if (rest) {
            const vec e = power_of_two(add_fused(-m[i], load_part(a + i * ld + whole, rest, -INFINITY), s));
            store_part(a + i * ld + whole, rest, e);
            sum[i] += e;
        }
        inverse[i] = splat(1.0f / sum_lanes(sum[i]));
    }
    for (size_t j = 0; j < whole; j += LANES)
#pragma GCC unroll 2
        for (size_t i = 0; i < n_rows; i++) {
            const vec p = load(a + i * ld + j) * inverse[i];
            store(a + i * ld + j, p);
            if (columns)
                store(columns + j, load(columns + j) + p);
        }
    for (size_t i = 0; i < n_rows && rest; i++) {
        const vec p = load_part(a + i * ld + whole, rest, 0) * inverse[i];
        store_part(a + i * ld + whole, rest, p);
        if (columns)
            store_part(columns + whole, rest, load_part(columns + whole, rest, 0) + p);
    }
}

static void softmax(size_t n_rows, size_t T, float scale, float *att, size_t ld, float *columns)
{
    size_t i = 0;
    for (; i + SOFTMAX_ROWS <= n_rows; i += SOFTMAX_ROWS)
        softmax_rows(SOFTMAX_ROWS, T, scale, att + i * ld, ld, columns);
    for (; i < n_rows; i++)
        softmax_rows(1, T, scale, att + i * ld, ld, columns);
}

/* Returns x + r; r may be NULL. */
static INLINE vec sum_at(const float *x, const float *r, size_t j)
{
    return r ? load(x + j) + load(r + j) : load(x + j);
}

static INLINE vec sum_at_part(const float *x, const float *r, size_t j, size_t n)
{
    return r ? load_part(x + j, n, 0) + load_part(r + j, n, 0) : load_part(x + j, n, 0);
}

static void add_norm_row(size_t H, const float *x, const float *r, const float *gamma, const float *beta,
                         float eps, float *y)
{
    const size_t whole = H / LANES * LANES, rest = H - whole;
    vec sum = splat(0);
    for (size_t j = 0; j < whole; j += LANES) {
        vec s = sum_at(x, r, j);
        store(y + j, s);
        sum += s;
    }
    if (rest) {
        vec s = sum_at_part(x, r, whole, rest);
        store_part(y + whole, rest, s);
        sum += s;
    }
    const float middle = sum_lanes(sum) / (float)H;
    const vec mean = splat(middle);

    vec squares = splat(0);
    for (size_t j = 0; j < whole; j += LANES) {
        vec c = load(y + j) - mean;
        squares += c * c;
    }
    if (rest) {
        vec c = load_part(y + whole, rest, middle) - mean;
        squares += c * c;
    }
    const vec inverse = splat(1.0f / sqrtf(sum_lanes(squares) / (float)H + eps));

    for (size_t j = 0; j < whole; j += LANES)
        store(y + j, (load(y + j) - mean) * inverse * load(gamma + j) + load(beta + j));
    if (rest) {
        vec c = (load_part(y + whole, rest, 0) - mean) * inverse;
        store_part(y + whole, rest, c * load_part(gamma + whole, rest, 0) + load_part(beta + whole, rest, 0));
    }
}

static void add_norm(size_t n_rows, size_t H, const float *x, const float *r, const float *gamma,
                     const float *beta, float eps, float *y)
{
    for (size_t i = 0; i < n_rows; i++)
        add_norm_row(H, x + i * H, r ? r + i * H : NULL, gamma, beta, eps, y + i * H);
}

static void add_rms_norm_row(size_t H, const float *x, const float *r, const float *gamma, const float *beta,
                             float eps, float *y)
{
    const size_t whole = H / LANES * LANES, rest = H - whole;
    vec squares = splat(0);
    for (size_t j = 0; j < whole; j += LANES) {
        vec s = sum_at(x, r, j);
        store(y + j, s);
        squares += s * s;
    }
    if (rest) {
        vec s = sum_at_part(x, r, whole, rest);
        store_part(y + whole, rest, s);
        squares += s * s;
    }
    const vec inverse = splat(1.0f / sqrtf(sum_lanes(squares) / (float)H + eps));
    for (size_t j = 0; j < whole; j += LANES)
        store(y + j, load(y + j) * inverse * load(gamma + j) + load(beta + j));
    if (rest) {
        vec c = load_part(y + whole, rest, 0) * inverse;
        store_part(y + whole, rest, c * load_part(gamma + whole, rest, 0) + load_part(beta + whole, rest, 0));
    }
}

static void add_rms_norm(size_t n_rows, size_t H, const float *x, const float *r, const float *gamma,
                         const float *beta, float eps, float *y)
{
    for (size_t i = 0; i < n_rows; i++)
        add_rms_norm_row(H, x + i * H, r ? r + i * H : NULL, gamma, beta, eps, y + i * H);
}

static void add_bias(size_t n_rows, size_t n, const float *bias, float *y, size_t ldy)
{
    const size_t whole = n / LANES * LANES, rest = n - whole;
    for (size_t i = 0; i < n_rows; i++, y += ldy) {
        for (size_t j = 0; j < whole; j += LANES)
            store(y + j, load(y + j) + load(bias + j));
        if (rest)
            store_part(y + whole, rest, load_part(y + whole, rest, 0) + load_part(bias + whole, rest, 0));
    }
}

/* Adds a row's table values. Rows of the table rise slowly with j, so LANES columns find theirs within
 * LANES floats, which one permutation puts in place. */
static void add_row_picked(size_t n, const int32_t *rows, int32_t first, const float *table, size_t ld,
                           float *y)
{
    const size_t whole = n / LANES * LANES;
    size_t j = 0;
    for (; j < whole; j += LANES) {
        const int32_t last = (int32_t)ld - LANES, from = rows[j] - first < last ? rows[j] - first : last;
        if (rows[j + LANES - 1] - first - from >= LANES)
            break;
        const vec picked = permute(load(table + from), *(const ivec_in_memory *)(rows + j) - (first + from));
        store(y + j, load(y + j) + picked);
    }
    for (; j < n; j++)
        y[j] += table[rows[j] - first];
}

static void add_picked_along(size_t n_rows, size_t n, const int32_t *rows, int32_t first, const float *table,
                             size_t ld, float *y, size_t ldy)
{
    for (size_t i = 0; i < n_rows; i++)
        add_row_picked(n, rows - i, first, table + i * ld, ld, y + i * ldy);
}

/* Adds a block of n_rows x n, both at most LANES, whose distances lie on 2 LANES - 1 diagonals. The diagonals
 * are loaded as rows. Column j must move up by j: by 1 if j is odd, by 2 if its next bit is set, and so on (a
 * barrel shifter). Diagonals outside the block repeat their neighbours. */
static INLINE void add_diagonals(size_t n_rows, size_t n, const int32_t *rows, int32_t first,
                                 const float *table, size_t ld, float *y, size_t ldy)
{
    const ptrdiff_t low = 1 - (ptrdiff_t)n_rows, high = (ptrdiff_t)n - 1;
    vec lines[2 * LANES - 1];
    ivec column = {0};
    for (int32_t j = 0; j < LANES; j++)
        column[j] = j;
#pragma GCC unroll 32
    for (ptrdiff_t k = 0; k < 2 * LANES - 1; k++) {
        const ptrdiff_t m = k + 1 - LANES, inside = m < low ? low : m > high ? high : m;
        lines[k] = load(table + (size_t)(rows[inside] - first) * ld);
    }
#pragma GCC unroll 4
    for (size_t bit = LANES / 2; bit > 0; bit /= 2) {
        const ivec moves = (column & (int32_t)bit) != 0;
#pragma GCC unroll 32
        for (size_t k = 0; k + bit < 2 * LANES - 1; k++)
            lines[k] = (vec)(((ivec)lines[k] & ~moves) | ((ivec)lines[k + bit] & moves));
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < n_rows; i++) {
        float *to = y + i * ldy;
        const vec picked = lines[LANES - 1 - i];
        if (n == LANES)
            store(to, load(to) + picked);
        else
            store_part(to, n, load_part(to, n, 0) + picked);
    }
}

static void add_picked_across(size_t n_rows, size_t n, const int32_t *rows, int32_t first, const float *table,
                              size_t ld, float *y, size_t ldy)
{
    for (size_t i = 0; i < n_rows; i += LANES)
        for (size_t j = 0; j < n; j += LANES) {
            const size_t height = n_rows - i < LANES ? n_rows - i : LANES;
            const size_t width = n - j < LANES ? n - j : LANES;
            const int32_t *here = rows + (ptrdiff_t)j - (ptrdiff_t)i;
            if (height == LANES && width == LANES)
                add_diagonals(LANES, LANES, here, first, table + j, ld, y + i * ldy + j, ldy);
            else
                add_diagonals(height, width, here, first, table + j, ld, y + i * ldy + j, ldy);
        }
}

static void multiply(size_t n, const float *x, float *y)
{
    const size_t whole = n / LANES * LANES, rest = n - whole;
    for (size_t i = 0; i < whole; i += LANES)
        store(y + i, load(y + i) * load(x + i));
    if (rest)
        store_part(y + whole, rest, load_part(y + whole, rest, 0) * load_part(x + whole, rest, 0));
}

#define DEFINE_ACTIVATION(function)                                                                          \
    static void function##_rows(size_t n_rows, size_t n, float *y, size_t ldy)                               \
    {                                                                                                        \
        const size_t whole = n / LANES * LANES, rest = n - whole;                                            \
        for (size_t i = 0; i < n_rows; i++, y += ldy) {                                                      \
            for (size_t j = 0; j < whole; j += LANES)                                                        \
                store(y + j, function(load(y + j)));                                                         \
            if (rest)                                                                                        \
                store_part(y + whole, rest, function(load_part(y + whole, rest, 0)));                        \
        }                                                                                                    \
    }
DEFINE_ACTIVATION(gelu)
DEFINE_ACTIVATION(gelu_tanh)
DEFINE_ACTIVATION(quick_gelu)
DEFINE_ACTIVATION(relu)
DEFINE_ACTIVATION(silu)
DEFINE_ACTIVATION(hyperbolic_tangent)
DEFINE_ACTIVATION(gelu_slope)
DEFINE_ACTIVATION(gelu_tanh_slope)
DEFINE_ACTIVATION(quick_gelu_slope)
DEFINE_ACTIVATION(relu_slope)
DEFINE_ACTIVATION(silu_slope)
DEFINE_ACTIVATION(hyperbolic_tangent_slope)

#include "engine/kernels/float_operands.h"

#include "engine/kernels/product_body.h"

static void product(size_t n_rows, size_t K, const float *x, size_t ldx, const float *panels,
                    size_t n_columns, const float *bias, const float *next, float *y, size_t ldy)
{
    multiply_panels(n_rows, K, x, ldx, panels, n_columns, bias, next, y, ldy);
}

/* Packs a panel whose columns are rows in the source, as for weights and keys, by square blocks. */
static void pack_columns(size_t K, size_t n, size_t width, const float *source, size_t step_column,
                         float *panel)
{
    for (size_t k = 0; k < K; k += LANES)
        for (size_t j = 0; j < n; j += LANES) {
            const float *from = source + j * step_column + k;
            float *to = panel + k * width + j;
            if (K - k < LANES)
                transpose(from, step_column, K - k, to, width);
            else
                transpose(from, step_column, LANES, to, width);
        }
}

/* Packs a panel whose columns are adjacent in the source, as for values. */
static void pack_rows(size_t K, size_t n, size_t width, const float *source, size_t step_k, float *panel)
{
    for (size_t k = 0; k < K; k++)
        for (size_t j = 0; j < width; j += LANES) {
            const float *from = source + k * step_k + j;
            store(panel + k * width + j, n - j < LANES ? load_part(from, n - j, 0) : load(from));
        }
}

static void pack_panel(size_t K, size_t n, size_t width, const float *source, size_t step_k,
                       size_t step_column, float *panel)
{
    for (size_t k = 0; k < K; k++) {
        for (size_t j = 0; j < n; j++)
            panel[k * width + j] = source[k * step_k + j * step_column];
        for (size_t j = n; j < width; j++)
            panel[k * width + j] = 0;
    }
}

static void pack(size_t K, size_t n_columns, const float *source, size_t step_k, size_t step_column,
                 float *panels)
{
    for (size_t first = 0; first < n_columns; first += PANEL) {
        const size_t n = n_columns - first < PANEL ? n_columns - first : PANEL;
        const size_t width = (n + LANES - 1) / LANES * LANES;
        const float *columns = source + first * step_column;
        if (step_k == 1 && n == width)
            pack_columns(K, n, width, columns, step_column, panels);
        else if (step_column == 1)
            pack_rows(K, n, width, columns, step_k, panels);
        else
            pack_panel(K, n, width, columns, step_k, step_column, panels);
        panels += K * width;
    }
}

static void mirror(size_t n, float *s)
{
    for (size_t i = PANEL; i < n; i += LANES) {
        const size_t before = i / PANEL * PANEL; /* rows of earlier panels, a multiple of LANES */
        for (size_t j = 0; j < before && i + LANES <= n; j += LANES)
            transpose(s + j * n + i, n, LANES, s + i * n + j, n);
        for (size_t row = i; row < n && i + LANES > n; row++)
            for (size_t j = 0; j < before; j++)
                s[row * n + j] = s[j * n + row];
    }
}

/* Copies n floats, fewer than a cache line. */
static void copy_part(size_t n, const float *x, float *y)
{
    for (; n >= LANES; n -= LANES, x += LANES, y += LANES)
        store(y, load(x));
    if (n)
        store_part(y, n, load_part(x, n, 0));
}

/* Copies a row past the caches, except for the cache lines that it shares with other rows. */
static void stream_row(size_t n, const float *x, float *y)
{
    enum { LINE = 64 / sizeof *y };
    const size_t before = (LINE - (uintptr_t)y / sizeof *y % LINE) % LINE;
    size_t j = before < n ? before : n;
    copy_part(j, x, y);
    for (; j + LINE <= n; j += LINE)
#pragma GCC unroll 4
        for (size_t k = 0; k < LINE; k += LANES)
            stream(y + j + k, load(x + j + k));
    copy_part(n - j, x + j, y + j);
}

static void stream_rows(size_t n_rows, size_t n, const float *x, size_t ldx, float *y, size_t ldy)
{
    for (size_t i = 0; i < n_rows; i++)
        stream_row(n, x + i * ldx, y + i * ldy);
    stream_end();
}

/* Transposes through a buffer, so that each row of y gets whole cache lines at once. */
static void stream_columns(size_t n, const float *x, size_t ldx, float *y, size_t ldy)
{
    float rows[LANES * PANEL];
    for (size_t j = 0; j < n; j += LANES) {
        const size_t n_here = n - j < LANES ? n - j : LANES;
        for (size_t i = 0; i < PANEL; i += LANES)
            if (n_here == LANES)
                transpose(x + i * ldx + j, ldx, LANES, rows + i, PANEL);
            else
                transpose(x + i * ldx + j, ldx, n_here, rows + i, PANEL);
        for (size_t k = 0; k < n_here; k++)
            stream_row(PANEL, rows + k * PANEL, y + (j + k) * ldy);
    }
    stream_end();
}

/* Sums of some rows of x with DOT_COLUMNS rows of w, one register each: enough to hide the latency of an
 * addition, few enough to leave registers for the operands. w comes from memory, and `next` is prefetched
 * meanwhile. AVX-512 and NEON have 32 registers, the others 16. */
#if LANES == 16 || defined __aarch64__
#define DOT_ROWS 7
#else
#define DOT_ROWS 4
#endif
#define DOT_COLUMNS (LANES == 16 ? 4 : 2)
#define DOT_AHEAD   32 /* rows of w that are prefetched ahead into the second-level cache */
static INLINE void dot_tile(size_t n_rows, size_t K, const float *const x[], const float *const w[],
                            const float *const next[], vec sums[DOT_ROWS][DOT_COLUMNS])
{
    const size_t whole = K / LANES * LANES, rest = K - whole;
    vec s[DOT_ROWS][DOT_COLUMNS] = {0};
    for (size_t k = 0; k < whole; k += LANES) {
#pragma GCC unroll 4
        for (size_t j = 0; j < DOT_COLUMNS; j++)
            __builtin_prefetch(next[j] + k, 0, 2);
#pragma GCC unroll 7
        for (size_t i = 0; i < n_rows; i++)
#pragma GCC unroll 4
            for (size_t j = 0; j < DOT_COLUMNS; j++)
                s[i][j] = add_fused(s[i][j], load(x[i] + k), load(w[j] + k));
    }
    for (size_t i = 0; i < n_rows; i++)
        for (size_t j = 0; j < DOT_COLUMNS; j++)
            sums[i][j] = rest ? s[i][j] + load_part(x[i] + whole, rest, 0) * load_part(w[j] + whole, rest, 0)
                              : s[i][j];
}

/* The same with a number of rows that the compiler knows. */
static void dot_some(size_t n_rows, size_t K, const float *const x[], const float *const w[],
                     const float *const next[], vec sums[DOT_ROWS][DOT_COLUMNS])
{
    switch (n_rows) {
    case 1:
        dot_tile(1, K, x, w, next, sums);
        return;
    case 2:
        dot_tile(2, K, x, w, next, sums);
        return;
    case 3:
        dot_tile(3, K, x, w, next, sums);
        return;
    case 4:
        dot_tile(4, K, x, w, next, sums);
        return;
#if DOT_ROWS > 4
    case 5:
        dot_tile(5, K, x, w, next, sums);
        return;
    case 6:
        dot_tile(6, K, x, w, next, sums);
        return;
#endif
    default:
        dot_tile(DOT_ROWS, K, x, w, next, sums);
    }
}

/* Interleaves halves of a and b and adds them: one step of a tree of sums. */
static INLINE vec fold(vec a, vec b)
{
    return interleave(a, b, false) + interleave(a, b, true);
}

/* Returns sum_lanes of each of DOT_COLUMNS vectors, bit-identical. */
static INLINE vec sum_columns(const vec s[DOT_COLUMNS])
{
#if LANES == 16
    vec v = fold(fold(s[0], s[2]), fold(s[1], s[3]));
    v += __builtin_shufflevector(v, v, FURTHER_8);
    v += __builtin_shufflevector(v, v, FURTHER_4);
#else
    vec v = fold(s[0], s[1]);
#if LANES == 8
    v += __builtin_shufflevector(v, v, FURTHER_4);
#endif
    v += __builtin_shufflevector(v, v, FURTHER_2);
#endif
    return v;
}

/* Computes a few columns for a group of rows. Each group prefetches its part of the later columns, so
 * that memory is always busy. A column that belongs to another group is replaced by the group's own. */
static void dot_columns(size_t n_rows, size_t K, const float *const x[], size_t n_columns, const float *w,
                        size_t ldw, size_t group, size_t n_groups, float *y, size_t ldy)
{
    const float *columns[DOT_COLUMNS], *next[DOT_COLUMNS];
    vec sums[DOT_ROWS][DOT_COLUMNS];
    for (size_t c = 0; c < DOT_COLUMNS; c++) {
        columns[c] = w + (c < n_columns ? c : n_columns - 1) * ldw;
        next[c] = columns[c] + (c % n_groups == group ? DOT_AHEAD * ldw : 0);
    }
    dot_some(n_rows, K, x, columns, next, sums);
    for (size_t r = 0; r < n_rows; r++)
        store_part(y + r * ldy, n_columns, sum_columns(sums[r]));
}

static void dots(size_t n_rows, size_t K, const float *x, size_t ldx, size_t n_columns, const float *w,
                 size_t ldw, float *y, size_t ldy)
{
    const size_t n_groups = (n_rows + DOT_ROWS - 1) / DOT_ROWS;
    for (size_t block = 0; block < n_columns; block += DOT_AHEAD) {
        const size_t end = block + DOT_AHEAD < n_columns ? block + DOT_AHEAD : n_columns;
        for (size_t group = 0; group < n_groups; group++) {
            const size_t i = n_rows * group / n_groups, n = n_rows * (group + 1) / n_groups - i;
            const float *rows[DOT_ROWS];
            for (size_t r = 0; r < n; r++)
                rows[r] = x + (i + r) * ldx;
            for (size_t j = block; j < end; j += DOT_COLUMNS)
                dot_columns(n, K, rows, end - j < DOT_COLUMNS ? end - j : DOT_COLUMNS, w + j * ldw, ldw,
                            group, n_groups, y + i * ldy + j, ldy);
        }
    }
}

/* Four rows and a panel's vectors are eight independent sums, enough to hide what a multiply-add waits. */
#define ABSOLUTE_ROWS 4

/* Adds |y + x B| of vecs vectors to the sums of a few rows. rows and vecs are constants after inlining. */
static INLINE void add_absolute(size_t rows, size_t vecs, size_t K, const float *x, size_t ldx,
                                const float *b, size_t ldb, const float *y, size_t ldy, vec sums[])
{
    vec part[ABSOLUTE_ROWS][TILE_VECS];
#pragma GCC unroll 8
    for (size_t i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (size_t j = 0; j < vecs; j++)
            part[i][j] = load(y + i * ldy + j * LANES);
    for (size_t k = 0; k < K; k++) {
        vec right[TILE_VECS];
#pragma GCC unroll 4
        for (size_t j = 0; j < vecs; j++)
            right[j] = load(b + k * ldb + j * LANES);
#pragma GCC unroll 8
        for (size_t i = 0; i < rows; i++)
#pragma GCC unroll 4
            for (size_t j = 0; j < vecs; j++)
                part[i][j] = add_fused(part[i][j], splat(x[k * ldx + i]), right[j]);
    }
#pragma GCC unroll 8
    for (size_t i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (size_t j = 0; j < vecs; j++)
            sums[i] += (vec)((ivec)part[i][j] & INT32_MAX);
}

static INLINE void absolute_rows(size_t rows, size_t K, const float *x, size_t ldx, const float *b,
                                 size_t ldb, size_t n, const float *y, size_t ldy, float *ret_sums)
{
    vec sums[ABSOLUTE_ROWS] = {0};
    size_t c = 0;
    for (; c + PANEL <= n; c += PANEL)
        add_absolute(rows, TILE_VECS, K, x, ldx, b + c, ldb, y + c, ldy, sums);
    for (; c < n; c += LANES)
        add_absolute(rows, 1, K, x, ldx, b + c, ldb, y + c, ldy, sums);
#pragma GCC unroll 8
    for (size_t i = 0; i < rows; i++)
        ret_sums[i] = sum_lanes(sums[i]);
}

static void absolute_sums(size_t n_rows, size_t K, const float *x, size_t ldx, const float *b, size_t ldb,
                          size_t n, const float *y, size_t ldy, float *ret_sums)
{
    size_t i = 0;
    for (; i + ABSOLUTE_ROWS <= n_rows; i += ABSOLUTE_ROWS)
        absolute_rows(ABSOLUTE_ROWS, K, x + i, ldx, b, ldb, n, y + i * ldy, ldy, ret_sums + i);
    for (; i < n_rows; i++)
        absolute_rows(1, K, x + i, ldx, b, ldb, n, y + i * ldy, ldy, ret_sums + i);
}

/* Returns sum + x ln(x / 2), for x >= 0. ln is within 3e-7, exactly 0 for x = 2, and finite for x = 0. Writes
 * x = 2^e m with m in [sqrt(1/2), sqrt(2)); ln m is t = m - 1 times a minimax polynomial of degree 6. The
 * bits of e stay where they are, so its factor is ln 2 / 2^23. */
static INLINE vec add_half_log(vec sum, vec x)
{
    const ivec exponent = ((ivec)x - 0x3f3504f3) & ~0x7fffff; /* 0x3f3504f3: the bits of sqrt(1/2) */
    const vec t = (vec)((ivec)x - exponent) - splat(1);
    vec p = splat(0.1182747f);
    p = add_fused(splat(-0.18901986f), p, t);
    p = add_fused(splat(0.20604677f), p, t);
    p = add_fused(splat(-0.24881339f), p, t);
    p = add_fused(splat(0.33303297f), p, t);
    p = add_fused(splat(-0.50001967f), p, t);
    p = add_fused(splat(1.0000032f), p, t);
    const vec whole =
        add_fused(splat(-0x1.62e43p-1f), __builtin_convertvector(exponent, vec), splat(0x1.62e43p-24f));
    return add_fused(sum, x, add_fused(whole, t, p));
}

static void mean_entropies(size_t n, const float *p, size_t n_others, const float *const *others, size_t at,
                           float *ret_entropies)
{
    const size_t whole = n / LANES * LANES, rest = n - whole;
    for (size_t i = 0; i < n_others; i++) {
        const float *q = others[i] + at;
        vec sum = splat(0);
        for (size_t j = 0; j < whole; j += LANES)
            sum = add_half_log(sum, load(p + j) + load(q + j));
        if (rest)
            sum = add_half_log(sum, load_part(p + whole, rest, 0) + load_part(q + whole, rest, 0));
        ret_entropies[i] = -0.5f * sum_lanes(sum);
    }
}

const hs__kernels KERNELS = {
    .name = KERNELS_NAME,
    .panel = PANEL,
    .lanes = LANES,
    .tile_rows = TILE_ROWS,
    .pack = pack,
    .product = product,
    .dots = dots,
    .absolute_sums = absolute_sums,
    .mean_entropies = mean_entropies,
    .mirror = mirror,
    .streams = HAS_STREAM,
    .stream_rows = stream_rows,
    .stream_columns = stream_columns,
    .softmax = softmax,
    .add_norm = add_norm,
    .add_rms_norm = add_rms_norm,
    .add_bias = add_bias,
    .add_picked_along = add_picked_along,
    .add_picked_across = add_picked_across,
    .multiply = multiply,
    .activate = {[HS_GELU] = gelu_rows,
                 [HS_GELU_TANH] = gelu_tanh_rows,
                 [HS_QUICK_GELU] = quick_gelu_rows,
                 [HS_RELU] = relu_rows,
                 [HS_SILU] = silu_rows,
                 [HS_TANH] = hyperbolic_tangent_rows},
    .slope = {[HS_GELU] = gelu_slope_rows,
              [HS_GELU_TANH] = gelu_tanh_slope_rows,
              [HS_QUICK_GELU] = quick_gelu_slope_rows,
              [HS_RELU] = relu_slope_rows,
              [HS_SILU] = silu_slope_rows,
              [HS_TANH] = hyperbolic_tangent_slope_rows},
};
