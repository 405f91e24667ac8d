/* kernels_bf16_wide.c - products of floats with weights of bfloat16, for CPUs whose instruction for bfloat16
 * is no faster than that for floats. Weights are widened in the cache, some k of a panel at a time, and serve
 * all rows from there. So the time is fp32's and the memory half. Not for clang, as kernels_bf16.c. */
#include "engine/kernels/kernels.h"

#if defined __x86_64__ && !defined __clang__
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,fma,prefer-vector-width=512")
#define LANES           16
#define TILE_ROWS       9
#define TILE_VECS       3
#define TILE_HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
#define SUM_PARTS       1
#include "engine/kernels/kernels_vec.h"

#include <string.h>

#include "engine/kernels/float_operands.h"
#include "engine/kernels/product_body.h"

enum { PAIRS = 128 }; /* that are widened at a time: 48 KiB of floats */

/* Widens n pairs of rows of `width` columns: each becomes two rows of floats. */
static void widen(size_t n, size_t width, const uint32_t *from, float *ret)
{
    for (size_t k = 0; k < n; k++, from += width, ret += 2 * width)
        for (size_t j = 0; j < width; j += LANES) {
            const uvec both = (uvec)load((const float *)(const void *)(from + j));
            store(ret + j, (vec)(both << 16));
            store(ret + width + j, (vec)(both & 0xffff0000));
        }
}

/* Multiplies K numbers of each row by a part of a panel, in tiles of nearly equal heights. */
static void multiply_part(size_t n_rows, size_t K, tile_work work)
{
    const size_t n_tiles = (n_rows + TILE_ROWS - 1) / TILE_ROWS, rows = n_rows / n_tiles;
    const size_t vecs = panel_width(work.n_columns) / LANES;
    work.depth = K;
    work.ahead_step = (vecs * LANES * sizeof(uint16_t) + n_tiles - 1) / n_tiles;
    for (size_t t = 0; t < n_tiles; t++) {
        const size_t height = rows + (t < n_rows % n_tiles);
        tiles[height - 1][vecs - 1](&work);
        work.x += height * work.ldx;
        work.y += height * work.ldy;
        work.ahead += K * work.ahead_step;
    }
}

static void product(size_t n_rows, size_t n_pairs, const uint32_t *x, size_t ldx, const uint32_t *panels,
                    size_t n_columns, const float *bias, const uint32_t *next, float *y, size_t ldy)
{
    _Alignas(64) float wide[2 * PAIRS * PANEL];
    (void)next; /* each part prefetches the following one */
    for (size_t c = 0; c < n_columns; c += PANEL) {
        const size_t n = n_columns - c < PANEL ? n_columns - c : PANEL, width = panel_width(n);
        for (size_t k = 0; k < n_pairs; k += PAIRS) {
            const size_t some = n_pairs - k < PAIRS ? n_pairs - k : PAIRS;
            const uint32_t *part = panels + n_pairs * c + k * width;
            widen(some, width, part, wide);
            multiply_part(n_rows, 2 * some,
                          (tile_work){.n_columns = n,
                                      .x = (const float *)x + 2 * k,
                                      .panel = wide,
                                      .bias = k == 0 && bias ? bias + c : NULL,
                                      .y = y + c,
                                      .ldx = ldx,
                                      .ldy = ldy,
                                      .more = k > 0,
                                      .ahead = (const char *)(part + some * width)});
        }
    }
}

static size_t pairs(size_t K)
{
    return (K + 1) / 2;
}

/* Rows are an even number of floats, and not a multiple of 4 KiB apart. */
static size_t words(size_t n)
{
    const size_t floats = 2 * pairs(n);
    return floats % 1024 < LANES ? floats / 1024 * 1024 + LANES : floats;
}

/* Copies rows: activations keep all bits. */
static void convert(size_t n_rows, size_t n, const float *x, size_t ldx, const float *factors, uint32_t *y)
{
    (void)factors;
    for (size_t i = 0; i < n_rows; i++, x += ldx, y += words(n)) {
        memcpy(y, x, n * sizeof *x);
        if (n % 2)
            y[n] = 0;
    }
}

const hs__bf16_kernels hs__bf16_wide = {
    .name = "avx512",
    .tile_rows = TILE_ROWS,
    .depth = pairs,
    .conversion = {words, convert},
    .product = product,
};
#endif
