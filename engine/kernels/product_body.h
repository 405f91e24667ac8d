/* product_body.h - matrix products over packed panels, once per instruction set; see kernels.h for their
 * layout.
 *
 * A tile of rows x vecs registers is held over the whole inner sum: per step k it takes vecs loads of B, one
 * broadcast of x per row and rows * vecs fused multiply-adds, so that the arithmetic units, not the loads,
 * are what is waited for. Every element is one sum in order of k whatever tile it falls into, so a row's
 * result does not depend on the rows beside it.
 *
 * What is multiplied is an operand, 4 bytes: a float, or a pair of bfloat16 that one instruction multiplies
 * and adds. Includers define operand, operands (LANES of them), load_operands, splat_operand, add_product,
 * and
 *
 *     TILE_VECS        vectors in a panel's row
 *     TILE_ROWS        rows of the largest tile; TILE_ROWS * TILE_VECS + TILE_VECS + 1 registers are in use
 *     TILE_HEIGHTS(X)  X(1) X(2) ... X(TILE_ROWS)
 *     SUM_PARTS        parts at most that a sum is taken in */

#define PANEL (TILE_VECS * LANES)

/* y [rows][n_columns] = x [rows][K] B + bias, or y += when `more`. rows and vecs are constants once inlined,
 * which is what lets `sum` live in registers. */
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

/* A long sum is taken in parts that are then added: rounding errors grow with the length of a running sum.
 * Four parts are as good as eight (BERT-base's attentions are within 2.3e-6 of the reference either way),
 * which cost 2 % of its pass. */
static size_t part_length(size_t K)
{
    enum { LENGTH_MIN = 48 };
    const size_t n = K / LENGTH_MIN < SUM_PARTS ? K / LENGTH_MIN : SUM_PARTS;
    return n > 1 ? (K + n - 1) / n : K;
}

/* Columns of the panel that begins n_left columns before the end, zeros included. */
static size_t panel_width(size_t n_left)
{
    return n_left < PANEL ? (n_left + LANES - 1) / LANES * LANES : PANEL;
}

/* How the rows of a panel's product are cut into tiles, as equal as can be: one of a row or two would wait
 * for its loads. */
typedef struct cut {
    size_t n_tiles, rows, n_taller;
    size_t ahead_step; /* bytes that each tile fetches of what comes next, at each step */
} cut;

static cut rows_cut(size_t n_rows, size_t width)
{
    const size_t n = (n_rows + TILE_ROWS - 1) / TILE_ROWS;
    return (cut){n, n_rows / n, n_rows % n, (width * sizeof(operand) + n - 1) / n};
}

/* Tile by tile through all parts of the sums: what they are added to stays in the first-level cache, and rows
 * of x are read in one go. Every tile fetches its share of `next`, K steps of a panel as wide. */
static void multiply_tiles(const cut *rows, size_t K, const operand *x, size_t ldx, const operand *panel,
                           size_t n_columns, const float *bias, const operand *next, float *y, size_t ldy)
{
    const size_t width = panel_width(n_columns), length = part_length(K);
    const char *ahead = (const char *)next;
    for (size_t t = 0; t < rows->n_tiles; t++) {
        const size_t height = rows->rows + (t < rows->n_taller);
        for (size_t k = 0; k < K; k += length) {
            const size_t depth = K - k < length ? K - k : length;
            tiles[height - 1][width / LANES - 1](depth, x + k, ldx, panel + k * width, n_columns,
                                                 k == 0 ? bias : NULL, k > 0, ahead, rows->ahead_step, y,
                                                 ldy);
            ahead += depth * rows->ahead_step;
        }
        x += height * ldx;
        y += height * ldy;
    }
}

/* Part by part through one or two tiles, which fetch the panel's next part: a panel and all of the next one
 * may be more than the second-level cache holds, and would be gone before so few rows come to it. More than a
 * line a step then; one line of three where there are so few rows that all waits for memory anyway: the
 * core's own guesses are faster then. */
static void multiply_parts(const cut *rows, size_t K, const operand *x, size_t ldx, const operand *panel,
                           size_t n_columns, const float *bias, const operand *next, float *y, size_t ldy)
{
    const size_t width = panel_width(n_columns), length = part_length(K);
    for (size_t k = 0; k < K; k += length) {
        const size_t depth = K - k < length ? K - k : length;
        const char *ahead = (const char *)(k + depth < K ? panel + (k + depth) * width : next);
        for (size_t t = 0, row = 0; t < rows->n_tiles; t++) {
            const size_t height = rows->rows + (t < rows->n_taller);
            tiles[height - 1][width / LANES - 1](depth, x + row * ldx + k, ldx, panel + k * width, n_columns,
                                                 k == 0 ? bias : NULL, k > 0, ahead, rows->ahead_step,
                                                 y + row * ldy, ldy);
            ahead += depth * rows->ahead_step;
            row += height;
        }
    }
}

/* y = x B + bias, as kernels.h says. */
static void multiply_panels(size_t n_rows, size_t K, const operand *x, size_t ldx, const operand *panels,
                            size_t n_columns, const float *bias, const operand *next, float *y, size_t ldy)
{
    for (size_t c = 0; c < n_columns; c += PANEL) {
        const size_t n = n_columns - c < PANEL ? n_columns - c : PANEL;
        const operand *panel = panels + K * c, *following = n_columns - c > PANEL ? panel + K * PANEL : next;
        const cut rows = rows_cut(n_rows, panel_width(n));
        (rows.n_tiles > 2 ? multiply_tiles : multiply_parts)(
            &rows, K, x, ldx, panel, n, bias ? bias + c : NULL, following ? following : panel, y + c, ldy);
    }
}
