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

/* Computes y [rows][n_columns] = x [rows][K] B + bias, or y += if `more`. rows and vecs are constants
 * after inlining, so that `sum` stays in registers. */
INLINE void tile(size_t rows, size_t vecs, size_t K, const operand *x, size_t ldx, const operand *panel,
                 size_t n_columns, const float *bias, bool more, const char *ahead, size_t ahead_step,
                 float *y, size_t ldy)
{
    vec sum[TILE_ROWS][TILE_VECS];
#pragma GCC unroll 16
    for (size_t i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (size_t j = 0; j < vecs; j++)
            sum[i][j] = bias ? load(bias + j * LANES) : splat(0);

    for (size_t k = 0; k < K; k++) {
        fetch(ahead + k * ahead_step, ahead_step, rows > TILE_ROWS / 2 ? PANEL * sizeof *panel : 1);
        operands b[TILE_VECS];
#pragma GCC unroll 4
        for (size_t j = 0; j < vecs; j++)
            b[j] = load_operands(panel + (k * vecs + j) * LANES);
#pragma GCC unroll 16
        for (size_t i = 0; i < rows; i++) {
            const operands a = splat_operand(x[i * ldx + k]);
#pragma GCC unroll 4
            for (size_t j = 0; j < vecs; j++)
                sum[i][j] = add_product(sum[i][j], a, b[j]);
        }
    }

    const size_t last = (vecs - 1) * LANES, rest = n_columns - last; /* rest: 1 .. LANES */
#pragma GCC unroll 16
    for (size_t i = 0; i < rows; i++) {
#pragma GCC unroll 4
        for (size_t j = 0; j + 1 < vecs; j++) {
            float *to = y + i * ldy + j * LANES;
            store(to, more ? sum[i][j] + load(to) : sum[i][j]);
        }
        float *to = y + i * ldy + last;
        if (rest == LANES)
            store(to, more ? sum[i][vecs - 1] + load(to) : sum[i][vecs - 1]);
        else
            store_part(to, rest, more ? sum[i][vecs - 1] + load_part(to, rest, 0) : sum[i][vecs - 1]);
    }
}

typedef void (*tile_function)(size_t K, const operand *x, size_t ldx, const operand *panel, size_t n_columns,
                              const float *bias, bool more, const char *ahead, size_t ahead_step, float *y,
                              size_t ldy);

#define DEFINE_TILE(rows, vecs)                                                                              \
    static void tile_##rows##x##vecs(size_t K, const operand *x, size_t ldx, const operand *panel,           \
                                     size_t n_columns, const float *bias, bool more, const char *ahead,      \
                                     size_t ahead_step, float *y, size_t ldy)                                \
    {                                                                                                        \
        tile(rows, vecs, K, x, ldx, panel, n_columns, bias, more, ahead, ahead_step, y, ldy);                \
    }
#if TILE_VECS == 3
#define DEFINE_TILES(rows) DEFINE_TILE(rows, 1) DEFINE_TILE(rows, 2) DEFINE_TILE(rows, 3)
#define NAME_TILES(rows)   {tile_##rows##x1, tile_##rows##x2, tile_##rows##x3},
#else
#define DEFINE_TILES(rows) DEFINE_TILE(rows, 1) DEFINE_TILE(rows, 2)
#define NAME_TILES(rows)   {tile_##rows##x1, tile_##rows##x2},
#endif
TILE_HEIGHTS(DEFINE_TILES)
static const tile_function tiles[TILE_ROWS][TILE_VECS] = {TILE_HEIGHTS(NAME_TILES)};

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
        tiles[height - 1][width / LANES - 1](depth, x + row * ldx + k, ldx, panel + k * width, n_columns,
                                             k == 0 ? bias : NULL, k > 0, ahead, ahead_step, y + row * ldy,
                                             ldy);
    }
}

/* Computes y = x B + bias, as kernels.h says. */
static void multiply_panels(size_t n_rows, size_t K, const operand *x, size_t ldx, const operand *panels,
                            size_t n_columns, const float *bias, const operand *next, float *y, size_t ldy)
{
    for (size_t c = 0; c < n_columns; c += PANEL) {
        const size_t n = n_columns - c < PANEL ? n_columns - c : PANEL;
        const operand *panel = panels + K * c, *following = n_columns - c > PANEL ? panel + K * PANEL : next;
        multiply_panel(n_rows, K, x, ldx, panel, n, bias ? bias + c : NULL, following ? following : panel,
                       y + c, ldy);
    }
}
