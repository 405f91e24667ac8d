/* product_body.h - matrix products over packed panels, once per instruction set; kernels.h describes the
 * layout.
 *
 * A tile of rows x vecs registers stays in registers over the whole inner sum (register blocking; Goto
 * and van de Geijn 2008). Each step k takes vecs loads of B, one broadcast of x per row and rows * vecs
 * fused multiply-adds, so that arithmetic, not loads, limits the speed. Every element is one sum in order
 * of k in any tile, so a row's result does not depend on the other rows.
 *
 * An operand has 4 bytes: a float, or a pair of bfloat16 that one instruction multiplies and adds.
 * Includers define operand, operands (LANES of them), load_operands, splat_operand, add_product, and
 *
 *     TILE_VECS        vectors in a panel's row
 *     TILE_ROWS        rows of the largest tile; TILE_ROWS * TILE_VECS + TILE_VECS + 1 registers are in use
 *     TILE_HEIGHTS(X)  X(1) X(2) ... X(TILE_ROWS)
 *     SUM_PARTS        the most parts that a sum is taken in */

#define PANEL (TILE_VECS * LANES)

/* The work of a tile: y [rows][n_columns] = x [rows][depth] B + bias, or y += if `more`. */
typedef struct tile_work {
    size_t depth, n_columns;
    const operand *x, *panel;
    const float *bias; /* or NULL */
    float *y;
    size_t ldx, ldy;
    bool more;
    const char *ahead; /* to prefetch, ahead_step bytes at each step of k */
    size_t ahead_step;
} tile_work;

/* rows and vecs are constants after inlining, so that `sum` stays in registers. */
static INLINE void tile(size_t rows, size_t vecs, const tile_work *work)
{
    const tile_work w = *work;
    vec sum[TILE_ROWS][TILE_VECS];
#pragma GCC unroll 16
    for (size_t i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (size_t j = 0; j < vecs; j++)
            sum[i][j] = w.bias ? load(w.bias + j * LANES) : splat(0);

    for (size_t k = 0; k < w.depth; k++) {
        fetch(w.ahead + k * w.ahead_step, w.ahead_step, rows > TILE_ROWS / 2 ? PANEL * sizeof *w.panel : 1);
        operands b[TILE_VECS];
#pragma GCC unroll 4
        for (size_t j = 0; j < vecs; j++)
            b[j] = load_operands(w.panel + (k * vecs + j) * LANES);
#pragma GCC unroll 16
        for (size_t i = 0; i < rows; i++) {
            const operands a = splat_operand(w.x[i * w.ldx + k]);
#pragma GCC unroll 4
            for (size_t j = 0; j < vecs; j++)
                sum[i][j] = add_product(sum[i][j], a, b[j]);
        }
    }

    const size_t last = (vecs - 1) * LANES, rest = w.n_columns - last; /* rest: 1 .. LANES */
#pragma GCC unroll 16
    for (size_t i = 0; i < rows; i++) {
#pragma GCC unroll 4
        for (size_t j = 0; j + 1 < vecs; j++) {
            float *to = w.y + i * w.ldy + j * LANES;
            store(to, w.more ? sum[i][j] + load(to) : sum[i][j]);
        }
        float *to = w.y + i * w.ldy + last;
        if (rest == LANES)
            store(to, w.more ? sum[i][vecs - 1] + load(to) : sum[i][vecs - 1]);
        else
            store_part(to, rest, w.more ? sum[i][vecs - 1] + load_part(to, rest, 0) : sum[i][vecs - 1]);
    }
}

#include "engine/kernels/tile_table.h"

/* Returns the length of the parts of a sum. A long sum is taken in parts that are then added, because
 * rounding errors grow with the length of a running sum. Four parts are as accurate as eight (BERT-base's
 * attentions are within 2.3e-6 of the reference either way), and eight cost 2 % of its pass. */
static size_t part_length(size_t K)
{
    enum { LENGTH_MIN = 48 };
    const size_t n = K / LENGTH_MIN < SUM_PARTS ? K / LENGTH_MIN : SUM_PARTS;
    return n > 1 ? (K + n - 1) / n : K;
}

/* Returns the columns, zeros included, of the panel that begins n_left columns before the end. */
static size_t panel_width(size_t n_left)
{
    return n_left < PANEL ? (n_left + LANES - 1) / LANES * LANES : PANEL;
}

/* Multiplies by one panel in tiles of nearly equal heights (a tile of one or two rows would wait for its
 * loads), each through the parts of its sums. Every tile prefetches its part of `next`, a little at each
 * step.
 *
 * Many tiles go tile by tile: sums stay in the first-level cache, rows of x are read once, and next is
 * the following panel. One or two tiles go part by part, and next is the panel's following part. A panel
 * and the next may exceed the second-level cache, and would be evicted before so few rows use them. These
 * tiles prefetch more than one cache line a step. The fewest rows prefetch one line of three: they wait
 * for memory anyway, and the hardware prefetcher is faster then. */
static void multiply_panel(size_t n_rows, size_t K, const operand *x, size_t ldx, const operand *panel,
                           size_t n_columns, const float *bias, const operand *next, float *y, size_t ldy)
{
    const size_t width = panel_width(n_columns), length = part_length(K), n_parts = (K + length - 1) / length;
    const size_t n_tiles = (n_rows + TILE_ROWS - 1) / TILE_ROWS;
    const size_t rows = n_rows / n_tiles, n_taller = n_rows % n_tiles;
    const size_t ahead_step = (width * sizeof(operand) + n_tiles - 1) / n_tiles;
    const bool by_parts = n_tiles <= 2;
    for (size_t i = 0; i < n_tiles * n_parts; i++) {
        const size_t t = by_parts ? i % n_tiles : i / n_parts;
        const size_t k = (by_parts ? i / n_tiles : i % n_parts) * length;
        const size_t depth = K - k < length ? K - k : length;
        const size_t row = t * rows + (t < n_taller ? t : n_taller), height = rows + (t < n_taller);
        const char *ahead = (const char *)next + (t * K + k) * ahead_step;
        if (by_parts)
            ahead =
                (const char *)(k + depth < K ? panel + (k + depth) * width : next) + t * depth * ahead_step;
        tiles[height - 1][width / LANES - 1](&(tile_work){.depth = depth,
                                                          .n_columns = n_columns,
                                                          .x = x + row * ldx + k,
                                                          .panel = panel + k * width,
                                                          .bias = k == 0 ? bias : NULL,
                                                          .y = y + row * ldy,
                                                          .ldx = ldx,
                                                          .ldy = ldy,
                                                          .more = k > 0,
                                                          .ahead = ahead,
                                                          .ahead_step = ahead_step});
    }
}

/* Computes y = x B + bias, as kernels.h says. Not all includers use it. */
static inline void multiply_panels(size_t n_rows, size_t K, const operand *x, size_t ldx,
                                   const operand *panels, size_t n_columns, const float *bias,
                                   const operand *next, float *y, size_t ldy)
{
    for (size_t c = 0; c < n_columns; c += PANEL) {
        const size_t n = n_columns - c < PANEL ? n_columns - c : PANEL;
        const operand *panel = panels + K * c, *following = n_columns - c > PANEL ? panel + K * PANEL : next;
        multiply_panel(n_rows, K, x, ldx, panel, n, bias ? bias + c : NULL, following ? following : panel,
                       y + c, ldy);
    }
}
