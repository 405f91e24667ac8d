/* int8_body.h - what int8.h says, once per instruction set. The tile is that of product_body.h with sums of
 * integers. Includers define what int8_rows.h asks for, include it, and define
 *
 *     TILE_VECS, TILE_ROWS, TILE_HEIGHTS(X)   as for product_body.h
 *     add_products(sum, u, w)                 each lane's four products of unsigned and signed bytes added
 *     INT8_KERNELS, INT8_NAME                 the table's name, and what it is called */
#define PANEL (TILE_VECS * LANES)

static size_t depth(size_t n)
{
    return (n + 3) / 4;
}

static size_t words(size_t n)
{
    return depth(n) + 2;
}

static void convert(size_t n_rows, size_t n, const float *x, size_t ldx, const float *factors, uint32_t *y)
{
    (void)factors;
    for (size_t i = 0; i < n_rows; i++)
        convert_row(n, depth(n), x + i * ldx, y + i * words(n));
}

/* The work of a tile, y [rows][n_columns]. */
typedef struct tile_work {
    size_t depth, n_columns;
    const uint32_t *x, *panel;
    size_t ldx;
    const float *scales, *bias; /* of the panel's columns, as sums */
    const int32_t *sums;
    float *y;
    size_t ldy;
    const char *ahead; /* to prefetch, ahead_step bytes at each step of k */
    size_t ahead_step;
} tile_work;

/* rows and vecs are constants after inlining, so that `sum` stays in registers. */
static INLINE void tile(size_t rows, size_t vecs, const tile_work *work)
{
    const tile_work w = *work;
    const size_t ldx = w.ldx;
    ivec sum[TILE_ROWS][TILE_VECS];
#pragma GCC unroll 16
    for (size_t i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (size_t j = 0; j < vecs; j++)
            sum[i][j] = load_ints(w.sums + j * LANES) * -(int32_t)w.x[i * ldx + w.depth + 1];

    for (size_t k = 0; k < w.depth; k++) {
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
        memcpy(&scale, w.x + i * ldx + w.depth, sizeof scale);
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
static void multiply_panel(size_t n_rows, size_t n_words, const uint32_t *x, size_t ldx,
                           const uint32_t *panel, size_t n_columns, const float *scales, const int32_t *sums,
                           const float *bias, const uint32_t *next, float *y, size_t ldy)
{
    const size_t vecs = (n_columns + LANES - 1) / LANES, n_tiles = (n_rows + TILE_ROWS - 1) / TILE_ROWS;
    const size_t rows = n_rows / n_tiles, n_taller = n_rows % n_tiles;
    const size_t ahead_step = next ? (vecs * LANES * sizeof *next + n_tiles - 1) / n_tiles : 0;
    const char *ahead = (const char *)(next ? next : panel);
    for (size_t t = 0; t < n_tiles; t++) {
        const size_t height = rows + (t < n_taller);
        tiles[height - 1][vecs - 1](&(tile_work){.depth = n_words,
                                                 .n_columns = n_columns,
                                                 .x = x,
                                                 .ldx = ldx,
                                                 .panel = panel,
                                                 .scales = scales,
                                                 .bias = bias,
                                                 .sums = sums,
                                                 .y = y,
                                                 .ldy = ldy,
                                                 .ahead = ahead,
                                                 .ahead_step = ahead_step});
        ahead += n_words * ahead_step;
        x += height * ldx;
        y += height * ldy;
    }
}

const hs__int8_kernels INT8_KERNELS = {
    .name = INT8_NAME,
    .panel = PANEL,
    .lanes = LANES,
    .tile_rows = TILE_ROWS,
    .depth = depth,
    .conversion = {words, convert},
    .product = multiply_panel,
};
