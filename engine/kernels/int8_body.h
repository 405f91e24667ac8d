/* int8_body.h - what int8.h says, once per instruction set. The tile is that of product_body.h with sums of
 * integers. Includers define what kernels_vec.h asks for and
 *
 *     TILE_VECS, TILE_ROWS, TILE_HEIGHTS(X)   as for product_body.h
 *     add_products(sum, u, w)                 each lane's four products of unsigned and signed bytes added
 *     fused(a, b, c)                          a * b + c, rounded once
 *     rounded(v)                              floats to the nearest integers, ties to even
 *     store_bytes(p, v)                       LANES integers as unsigned bytes, saturated
 *     INT8_KERNELS, INT8_NAME                 the table's name, and what it is called */
#include <float.h>
#include <string.h>

#define PANEL (TILE_VECS * LANES)

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

static void convert_row(size_t n, const float *x, uint32_t *y)
{
    float low, high;
    range_of(n, x, &low, &high);
    const float range = high - low, steps = 255 / range;
    const bool sound = range <= FLT_MAX, rises = sound && steps <= FLT_MAX;
    const float scale = rises ? range / 255 : sound ? 0 : range - range, inverse = rises ? steps : 0;
    const ivec zero = -rounded(splat(rises ? low * inverse : 0));
    const size_t depth = hs__int8_depth(n), whole = n / LANES * LANES;
    uint8_t *bytes = (uint8_t *)y, last[LANES];
    for (size_t k = 0; k < whole; k += LANES)
        store_bytes(bytes + k, rounded(rises ? load(x + k) * splat(inverse) : splat(0)) + zero);
    if (whole < n) {
        store_bytes(last, rounded(rises ? load_part(x + whole, n - whole, 0) * inverse : splat(0)) + zero);
        memcpy(bytes + whole, last, 4 * depth - whole);
    }
    memcpy(y + depth, &scale, sizeof scale);
    y[depth + 1] = (uint32_t)zero[0];
}

static size_t words(size_t n)
{
    return hs__int8_words(n);
}

static void convert(size_t n_rows, size_t n, const float *x, uint32_t *y)
{
    for (size_t i = 0; i < n_rows; i++)
        convert_row(n, x + i * n, y + i * hs__int8_words(n));
}

/* The work of a tile, y [rows][n_columns]. */
typedef struct tile_work {
    size_t depth, n_columns;
    const uint32_t *x, *panel;
    const float *scales, *bias; /* of the panel's columns, as sums */
    const int32_t *sums;
    float *y;
    size_t ldy;
    const char *ahead; /* to prefetch, ahead_step bytes at each step of k */
    size_t ahead_step;
} tile_work;

static INLINE ivec load_ints(const int32_t *p)
{
    return *(const ivec_in_memory *)p;
}

/* rows and vecs are constants after inlining, so that `sum` stays in registers. */
static INLINE void tile(size_t rows, size_t vecs, const tile_work *work)
{
    const tile_work w = *work;
    const size_t depth = w.depth, ldx = depth + 2;
    ivec sum[TILE_ROWS][TILE_VECS];
#pragma GCC unroll 16
    for (size_t i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (size_t j = 0; j < vecs; j++)
            sum[i][j] = load_ints(w.sums + j * LANES) * -(int32_t)w.x[i * ldx + depth + 1];

    for (size_t k = 0; k < depth; k++) {
        fetch(w.ahead + k * w.ahead_step, w.ahead_step, rows > TILE_ROWS / 2 ? PANEL * sizeof *w.panel : 1);
        ivec b[TILE_VECS];
#pragma GCC unroll 4
        for (size_t j = 0; j < vecs; j++)
            b[j] = load_ints((const int32_t *)w.panel + (k * vecs + j) * LANES);
#pragma GCC unroll 16
        for (size_t i = 0; i < rows; i++) {
            const ivec u = (int32_t)w.x[i * ldx + k] - (ivec){0};
#pragma GCC unroll 4
            for (size_t j = 0; j < vecs; j++)
                sum[i][j] = add_products(sum[i][j], u, b[j]);
        }
    }

#pragma GCC unroll 16
    for (size_t i = 0; i < rows; i++) {
        float scale;
        memcpy(&scale, w.x + i * ldx + depth, sizeof scale);
#pragma GCC unroll 4
        for (size_t j = 0; j < vecs; j++) {
            const vec factor = load(w.scales + j * LANES) * scale;
            const vec v = fused(__builtin_convertvector(sum[i][j], vec), factor, load(w.bias + j * LANES));
            float *out = w.y + i * w.ldy + j * LANES;
            const size_t rest = w.n_columns - j * LANES;
            if (rest >= LANES)
                store(out, v);
            else
                store_part(out, rest, v);
        }
    }
}

#include "engine/kernels/tile_table.h"

/* Multiplies by one panel in tiles of nearly equal heights. Each tile prefetches its part of the next
 * panel, a little at each step. */
static void multiply_panel(size_t n_rows, size_t depth, const uint32_t *x, const uint32_t *panel,
                           size_t n_columns, const float *scales, const int32_t *sums, const float *bias,
                           const uint32_t *next, float *y, size_t ldy)
{
    const size_t vecs = (n_columns + LANES - 1) / LANES, n_tiles = (n_rows + TILE_ROWS - 1) / TILE_ROWS;
    const size_t rows = n_rows / n_tiles, n_taller = n_rows % n_tiles;
    const size_t ahead_step = next ? (vecs * LANES * sizeof *next + n_tiles - 1) / n_tiles : 0;
    const char *ahead = (const char *)(next ? next : panel);
    for (size_t t = 0; t < n_tiles; t++) {
        const size_t height = rows + (t < n_taller);
        tiles[height - 1][vecs - 1](&(tile_work){.depth = depth,
                                                 .n_columns = n_columns,
                                                 .x = x,
                                                 .panel = panel,
                                                 .scales = scales,
                                                 .bias = bias,
                                                 .sums = sums,
                                                 .y = y,
                                                 .ldy = ldy,
                                                 .ahead = ahead,
                                                 .ahead_step = ahead_step});
        ahead += depth * ahead_step;
        x += height * (depth + 2);
        y += height * ldy;
    }
}

const hs__int8_kernels INT8_KERNELS = {
    .name = INT8_NAME,
    .panel = PANEL,
    .lanes = LANES,
    .tile_rows = TILE_ROWS,
    .conversion = {words, convert},
    .product = multiply_panel,
};
