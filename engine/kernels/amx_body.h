/* amx_body.h - products by tiles (AMX), for bfloat16 and bytes. Tests compile it a second time, with emulated
 * tiles. Includers define what amx_tiles.h and int8_rows.h have, and
 *
 *     store_bf16(p, v)                 LANES floats rounded to bfloat16, to nearest even
 *     store_digits(p, v)               the lowest bytes of LANES integers
 *     AMX_BF16, AMX_INT8, AMX_INT24    names of the tables
 *
 * A block of sums is 2 tiles of rows by 3 of columns; tiles 6 and 7 take x and B in turn. A step multiplies
 * 64 bytes of each row: 32 bfloat16 or 64 bytes. Panels as kernels.h describes them are what the instructions
 * want (Intel calls it VNNI): a tile of B is 16 of their rows. All parts of one tile have 16 rows or, if
 * there are fewer rows of x, fewer. Blocks overlap where rows are left over, so no row outside of x is read,
 * and a row's bits do not depend on its block.
 *
 * A row of x is an odd number of cache lines. A tile's row across two lines loads six times as slowly, and
 * rows 4 KiB apart evict each other. */

enum { AMX_LANES = 16, AMX_PANEL = 48, AMX_ROWS = 32 };

/* Returns the steps of a sum of n, `in_word` numbers in a word. */
static size_t steps_of(size_t n, size_t in_word)
{
    return (n + 16 * in_word - 1) / (16 * in_word);
}

/* ---- conversion ---- */

static size_t bf16_depth(size_t n)
{
    return 16 * steps_of(n, 2);
}

static size_t bf16_words(size_t n)
{
    return 16 * (steps_of(n, 2) | 1);
}

static void bf16_convert(size_t n_rows, size_t n, const float *x, size_t ldx, const float *factors,
                         uint32_t *y)
{
    (void)factors;
    const size_t step = bf16_words(n), whole = n / LANES * LANES, end = 2 * bf16_depth(n);
    for (size_t i = 0; i < n_rows; i++, x += ldx, y += step) {
        uint16_t *to = (uint16_t *)y;
        for (size_t k = 0; k < whole; k += LANES)
            store_bf16(to + k, load(x + k));
        if (whole < end)
            memset(to + whole, 0, (end - whole) * sizeof *to);
        if (whole < n) {
            uint16_t last[LANES];
            store_bf16(last, load_part(x + whole, n - whole, 0));
            memcpy(to + whole, last, (n - whole) * sizeof *to);
        }
    }
}

static size_t int8_depth(size_t n)
{
    return 16 * steps_of(n, 4);
}

static size_t int8_words(size_t n)
{
    return 16 * ((steps_of(n, 4) + 1) | 1);
}

static void int8_convert(size_t n_rows, size_t n, const float *x, size_t ldx, const float *factors,
                         uint32_t *y)
{
    (void)factors;
    for (size_t i = 0; i < n_rows; i++)
        convert_row(n, int8_depth(n), x + i * ldx, y + i * int8_words(n));
}

static size_t int24_depth(size_t n)
{
    return INT24_DIGITS * int8_depth(n);
}

static size_t int24_words(size_t n)
{
    return 16 * ((INT24_DIGITS * steps_of(n, 4) + 1) | 1);
}

/* Loads LANES numbers of a row from k on, or those that are left, times their factors. */
static INLINE vec load_scaled(size_t n, size_t k, const float *x, const float *factors)
{
    const size_t left = n - k;
    return left >= LANES ? load(x + k) * load(factors + k)
                         : load_part(x + k, left, 0) * load_part(factors + k, left, 0);
}

/* Splits LANES integers into digits of 8 bits, the lowest of them rounded off first. */
static INLINE void split_digits(ivec q, int8_t *high, int8_t *middle, int8_t *low)
{
    const ivec q1 = (q + 128) >> 8, q0 = (q1 + 128) >> 8;
    store_digits(high, q0);
    store_digits(middle, q1);
    store_digits(low, q);
}

/* Converts a row to digits of int8_depth(n) words each, and its scale. */
static void int24_convert_row(size_t n, const float *x, const float *factors, uint32_t *y)
{
    const size_t depth = int8_depth(n), whole = n / LANES * LANES;
    int8_t *high = (int8_t *)y, *middle = high + 4 * depth, *low = middle + 4 * depth, last[3][LANES];
    vec top = splat(0), unsound = splat(0);
    for (size_t k = 0; k < n; k += LANES) {
        const vec v = load_scaled(n, k, x, factors);
        top = larger(top, larger(v, -v));
        unsound += v * 0; /* NaN if a number is not finite */
    }
    const float most = extreme(top, 1) + sum_lanes(unsound), steps = (float)INT24_MAX / most;
    const bool sound = most <= FLT_MAX, rises = sound && steps <= FLT_MAX;
    const float scale = rises ? most / (INT24_MAX >> 16) : sound ? 0 : most - most;
    const vec inverse = splat(rises ? steps : 0);
    for (size_t k = 0; k < whole; k += LANES)
        split_digits(rounded(rises ? load_scaled(n, k, x, factors) * inverse : splat(0)), high + k,
                     middle + k, low + k);
    for (size_t d = 0; d < INT24_DIGITS && whole < 4 * depth; d++)
        memset(high + 4 * depth * d + whole, 0, 4 * depth - whole);
    if (whole < n) {
        split_digits(rounded(rises ? load_scaled(n, whole, x, factors) * inverse : splat(0)), last[0],
                     last[1], last[2]);
        for (size_t d = 0; d < INT24_DIGITS; d++)
            memcpy(high + 4 * depth * d + whole, last[d], n - whole);
    }
    memcpy(y + INT24_DIGITS * depth, &scale, sizeof scale);
}

static void int24_convert(size_t n_rows, size_t n, const float *x, size_t ldx, const float *factors,
                          uint32_t *y)
{
    for (size_t i = 0; i < n_rows; i++)
        int24_convert_row(n, x + i * ldx, factors, y + i * int24_words(n));
}

/* ---- products ---- */

typedef enum dot { DOT_BF16, DOT_U8S8 } dot;

/* The product of rows of x with a panel of `tiles` tiles of columns. Rows are divided into n_groups groups of
 * n_rows; one or two groups are a block. */
typedef struct amx_work {
    const uint32_t *x, *panel;
    size_t ldx, steps, tiles;
    size_t n_groups, n_rows, last; /* last: the first row of the last group */
    const char *ahead;             /* to prefetch, n_lines at each step */
    size_t n_lines;
} amx_work;

static amx_work work_of(size_t n_rows, size_t n_words, const uint32_t *x, size_t ldx, const uint32_t *panel,
                        size_t n_columns, const uint32_t *next)
{
    const size_t n_blocks = (n_rows + AMX_ROWS - 1) / AMX_ROWS;
    amx_work w = {.x = x, .panel = panel, .ldx = ldx, .steps = n_words / 16, .ahead = (const char *)next};
    w.tiles = (n_columns + AMX_LANES - 1) / AMX_LANES;
    w.n_groups = n_rows <= 16 ? 1 : 2 * n_blocks;
    w.n_rows = (n_rows + w.n_groups - 1) / w.n_groups;
    w.last = n_rows - w.n_rows;
    if (next)
        w.n_lines = (w.tiles * 16 + n_blocks - 1) / n_blocks;
    return w;
}

/* Returns the first row of a group. */
static size_t group_row(const amx_work *w, size_t group)
{
    return group * w->n_rows < w->last ? group * w->n_rows : w->last;
}

/* Adds the product of tile 6, of x, with tile 7, of B. */
#define ADD_TILE(T)                                                                                          \
    do {                                                                                                     \
        if (kind == DOT_BF16)                                                                                \
            TILE_BF16(T, 6, 7);                                                                              \
        else                                                                                                 \
            TILE_U8S8(T, 6, 7);                                                                              \
    } while (0)

/* Adds the products of a tile of x, tile 6, with the tiles of B at b. */
#define ADD_PRODUCTS(T0, T1, T2)                                                                             \
    do {                                                                                                     \
        TILE_LOAD(7, b, b_step);                                                                             \
        ADD_TILE(T0);                                                                                        \
        if (tiles > 1) {                                                                                     \
            TILE_LOAD(7, b + 16, b_step);                                                                    \
            ADD_TILE(T1);                                                                                    \
        }                                                                                                    \
        if (tiles > 2) {                                                                                     \
            TILE_LOAD(7, b + 32, b_step);                                                                    \
            ADD_TILE(T2);                                                                                    \
        }                                                                                                    \
    } while (0)

/* Adds x B of a block to tiles 0 .. 2 and, of its second group, 3 .. 5. kind is a constant after inlining. So
 * are tiles and groups of whole panels with more than 16 rows. */
static INLINE void add_block(dot kind, size_t tiles, size_t groups, const amx_work *work, size_t group)
{
    const amx_work w = *work;
    const uint32_t *first = w.x + group_row(&w, group) * w.ldx;
    const uint32_t *second = w.x + group_row(&w, group + 1) * w.ldx, *b = w.panel;
    const size_t x_step = w.ldx * sizeof *w.x, b_step = tiles * 64;
    const char *ahead = w.ahead + group / 2 * w.steps * w.n_lines * 64;
    for (size_t s = 0; s < w.steps; s++, b += tiles * 256) {
        for (size_t l = 0; l < w.n_lines; l++, ahead += 64)
            __builtin_prefetch(ahead, 0, 2);
        TILE_LOAD(6, first + 16 * s, x_step);
        ADD_PRODUCTS(0, 1, 2);
        if (groups > 1) {
            TILE_LOAD(6, second + 16 * s, x_step);
            ADD_PRODUCTS(3, 4, 5);
        }
    }
}

static INLINE void add_any_block(dot kind, const amx_work *w, size_t group)
{
    if (w->n_groups > 1 && w->tiles == 3)
        add_block(kind, 3, 2, w, group);
    else
        add_block(kind, w->tiles, w->n_groups > 1 ? 2 : 1, w, group);
}

/* Stores the sums of a block: those of each group to `first` and `second`, rows `step` bytes apart. Tiles of
 * columns behind the last are stored only to scratch, which has 48 columns. */
static INLINE void store_block(size_t tiles, size_t groups, void *first, void *second, size_t step)
{
    char *p = first, *q = second;
    TILE_STORE(0, p, step);
    if (tiles > 1)
        TILE_STORE(1, p + 64, step);
    if (tiles > 2)
        TILE_STORE(2, p + 128, step);
    if (groups == 1)
        return;
    TILE_STORE(3, q, step);
    if (tiles > 1)
        TILE_STORE(4, q + 64, step);
    if (tiles > 2)
        TILE_STORE(5, q + 128, step);
}

static INLINE void begin_with_zeros(void)
{
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
    TILE_ZERO(4);
    TILE_ZERO(5);
}

/* Begins all sums with the bias, a row of `tiles` tiles. */
static INLINE void begin_with(size_t tiles, const float *bias)
{
    TILE_LOAD(0, bias, 0);
    TILE_LOAD(3, bias, 0);
    if (tiles > 1) {
        TILE_LOAD(1, bias + 16, 0);
        TILE_LOAD(4, bias + 16, 0);
    }
    if (tiles > 2) {
        TILE_LOAD(2, bias + 32, 0);
        TILE_LOAD(5, bias + 32, 0);
    }
}

static void bf16_panel(size_t n_rows, size_t n_pairs, const uint32_t *x, size_t ldx, const uint32_t *panel,
                       size_t n_columns, const float *bias, const uint32_t *next, float *y, size_t ldy)
{
    static const float zeros[AMX_PANEL];
    _Alignas(64) float sums[AMX_ROWS][AMX_PANEL];
    const amx_work w = work_of(n_rows, n_pairs, x, ldx, panel, n_columns, next);
    const bool whole = n_columns == w.tiles * AMX_LANES;
    const size_t groups = w.n_groups > 1 ? 2 : 1;
    for (size_t g = 0; g < w.n_groups; g += 2) {
        float *first = y + group_row(&w, g) * ldy, *second = y + group_row(&w, g + 1) * ldy;
        begin_with(w.tiles, bias ? bias : zeros);
        add_any_block(DOT_BF16, &w, g);
        if (whole)
            store_block(w.tiles, groups, first, second, ldy * sizeof *y);
        else
            store_block(w.tiles, groups, sums[0], sums[16], sizeof sums[0]);
        for (size_t i = 0; i < w.n_rows && !whole; i++) {
            memcpy(first + i * ldy, sums[i], n_columns * sizeof *y);
            if (groups > 1)
                memcpy(second + i * ldy, sums[16 + i], n_columns * sizeof *y);
        }
    }
}

static void bf16_product(size_t n_rows, size_t n_pairs, const uint32_t *x, size_t ldx, const uint32_t *panels,
                         size_t n_columns, const float *bias, const uint32_t *next, float *y, size_t ldy)
{
    tiles_begin(work_of(n_rows, n_pairs, x, ldx, panels, n_columns, NULL).n_rows, 7);
    for (size_t c = 0; c < n_columns; c += AMX_PANEL) {
        const size_t n = n_columns - c < AMX_PANEL ? n_columns - c : AMX_PANEL;
        const uint32_t *panel = panels + n_pairs * c;
        const uint32_t *following = n_columns - c > AMX_PANEL ? panel + n_pairs * AMX_PANEL : next;
        bf16_panel(n_rows, n_pairs, x, ldx, panel, n, bias ? bias + c : NULL, following, y + c, ldy);
    }
    tiles_end();
}

/* Stores a row: y = (sum - zero * sum of weights) * scales + bias. x is the row behind its numbers. */
static INLINE void store_row(size_t n, const uint32_t *x, const int32_t *row, const float *scales,
                             const int32_t *sums, const float *bias, float *y)
{
    const int32_t zero = (int32_t)x[1];
    float scale;
    memcpy(&scale, x, sizeof scale);
    for (size_t j = 0; j < n; j += LANES) {
        const ivec sum = load_ints(row + j) - load_ints(sums + j) * zero;
        const vec factor = load(scales + j) * scale;
        const vec v = fused(__builtin_convertvector(sum, vec), factor, load(bias + j));
        if (n - j >= LANES)
            store(y + j, v);
        else
            store_part(y + j, n - j, v);
    }
}

static void int8_product(size_t n_rows, size_t n_words, const uint32_t *x, size_t ldx, const uint32_t *panel,
                         size_t n_columns, const float *scales, const int32_t *sums, const float *bias,
                         const uint32_t *next, float *y, size_t ldy)
{
    _Alignas(64) int32_t block[AMX_ROWS][AMX_PANEL];
    const amx_work w = work_of(n_rows, n_words, x, ldx, panel, n_columns, next);
    const size_t groups = w.n_groups > 1 ? 2 : 1;
    tiles_begin(w.n_rows, 7);
    for (size_t g = 0; g < w.n_groups; g += 2) {
        begin_with_zeros();
        add_any_block(DOT_U8S8, &w, g);
        store_block(w.tiles, groups, block[0], block[16], sizeof block[0]);
        for (size_t h = 0; h < groups; h++)
            for (size_t i = 0; i < w.n_rows; i++) {
                const size_t row = group_row(&w, g + h) + i;
                store_row(n_columns, x + row * ldx + n_words, block[16 * h + i], scales, sums, bias,
                          y + row * ldy);
            }
    }
    tiles_end();
}

/* ---- int24 ----
 *
 * A block is one tile of sums for each weight of digits: 16 rows by 16 columns. Tile 4 takes a digit of x,
 * tiles 5 .. 7 take the digits of B, so that six loads serve eight products.
 *
 * The sums of a block become floats during the steps of the next block, row by row. y is often not in the
 * caches, and many stores at once would wait for it. Blocks of few steps store at once: they belong to narrow
 * models, whose y is near. */

enum { INT24_PLACES = 4, INT24_ROWS = 16, INT24_STEPS_DELAYED = 8 };

/* A block whose sums are in scratch: y [n_rows][n_columns], to be stored from row `done` on. */
typedef struct int24_block {
    int32_t sums[INT24_PLACES][INT24_ROWS][AMX_LANES];
    size_t n_rows, n_columns, done;
    const uint32_t *row_scales; /* behind the first row of x */
    const float *scales, *bias;
    float *y;
    size_t ldx, ldy;
} int24_block;

/* Adds the digits' products of a step to tiles 0 .. 3, by the sum of the digits' places. */
static INLINE void add_digits(const uint32_t *x, size_t x_step, size_t depth, const uint32_t *b)
{
    TILE_LOAD(5, b, 64);
    TILE_LOAD(4, x, x_step);
    TILE_S8S8(0, 4, 5);
    TILE_LOAD(6, b + 256, 64);
    TILE_S8S8(1, 4, 6);
    TILE_LOAD(7, b + 512, 64);
    TILE_S8S8(2, 4, 7);
    TILE_LOAD(4, x + depth, x_step);
    TILE_S8S8(1, 4, 5);
    TILE_S8S8(2, 4, 6);
    TILE_S8S8(3, 4, 7);
    TILE_LOAD(4, x + 2 * depth, x_step);
    TILE_S8S8(2, 4, 5);
    TILE_S8S8(3, 4, 6);
}

static INLINE vec sums_at(const int24_block *block, size_t place, size_t row, size_t column)
{
    return __builtin_convertvector(load_ints(block->sums[place][row] + column), vec);
}

/* Stores up to n_rows more rows of a block. */
static INLINE void store_rows(int24_block *block, size_t n_rows)
{
    const size_t end = block->done + n_rows < block->n_rows ? block->done + n_rows : block->n_rows;
    for (size_t i = block->done; i < end; i++) {
        float scale, *to = block->y + i * block->ldy;
        memcpy(&scale, block->row_scales + i * block->ldx, sizeof scale);
        for (size_t j = 0; j < block->n_columns; j += LANES) {
            vec v = fused(sums_at(block, 3, i, j), splat(0x1p-8F), sums_at(block, 2, i, j));
            v = fused(sums_at(block, 1, i, j), splat(0x1p8F), v);
            v = fused(sums_at(block, 0, i, j), splat(0x1p16F), v);
            v = fused(v, load(block->scales + j) * scale, load(block->bias + j));
            if (block->n_columns - j >= LANES)
                store(to + j, v);
            else
                store_part(to + j, block->n_columns - j, v);
        }
    }
    block->done = end;
}

static void int24_product(size_t n_rows, size_t n_words, const uint32_t *x, size_t ldx, const uint32_t *panel,
                          size_t n_columns, const float *scales, const int32_t *column_sums,
                          const float *bias, const uint32_t *next, float *y, size_t ldy)
{
    const size_t n_groups = (n_rows + INT24_ROWS - 1) / INT24_ROWS, rows = (n_rows + n_groups - 1) / n_groups;
    const size_t depth = n_words / INT24_DIGITS, n_steps = depth / 16, n_lines = next ? 48 / n_groups + 1 : 0;
    const size_t rows_a_step = (rows + n_steps - 1) / n_steps;
    _Alignas(64) int24_block block; /* the one before */
    block.n_rows = block.done = 0;
    (void)column_sums; /* rows have no zero point */
    tiles_begin(rows, 5);
    for (size_t c = 0; c < n_columns; c += AMX_LANES, panel += n_words * AMX_LANES) {
        const bool more = n_columns - c > AMX_LANES;
        const char *ahead = (const char *)(more ? panel + n_words * AMX_LANES : next);
        for (size_t g = 0; g < n_groups; g++) {
            const size_t first = g * rows < n_rows - rows ? g * rows : n_rows - rows;
            const uint32_t *digits = x + first * ldx, *b = panel;
            TILE_ZERO(0);
            TILE_ZERO(1);
            TILE_ZERO(2);
            TILE_ZERO(3);
            for (size_t s = 0; s < n_steps; s++, digits += 16, b += INT24_DIGITS * 256) {
                for (size_t l = 0; l < n_lines; l++, ahead += 64)
                    __builtin_prefetch(ahead, 0, 2);
                add_digits(digits, ldx * sizeof *x, depth, b);
                store_rows(&block, rows_a_step);
            }
            TILE_STORE(0, block.sums[0], 64);
            TILE_STORE(1, block.sums[1], 64);
            TILE_STORE(2, block.sums[2], 64);
            TILE_STORE(3, block.sums[3], 64);
            block.n_rows = rows;
            block.n_columns = n_columns - c < AMX_LANES ? n_columns - c : AMX_LANES;
            block.done = 0;
            block.row_scales = x + first * ldx + n_words;
            block.scales = scales + c;
            block.bias = bias + c;
            block.y = y + first * ldy + c;
            block.ldx = ldx;
            block.ldy = ldy;
            if (n_steps < INT24_STEPS_DELAYED)
                store_rows(&block, rows);
        }
    }
    tiles_end();
    store_rows(&block, rows);
}

const hs__bf16_kernels AMX_BF16 = {
    .name = "amx",
    .tile_rows = AMX_ROWS,
    .depth = bf16_depth,
    .conversion = {bf16_words, bf16_convert},
    .product = bf16_product,
};

const hs__int8_kernels AMX_INT8 = {
    .name = "amx",
    .panel = AMX_PANEL,
    .lanes = AMX_LANES,
    .tile_rows = AMX_ROWS,
    .depth = int8_depth,
    .columns_cached = AMX_PANEL,
    .conversion = {int8_words, int8_convert},
    .product = int8_product,
};

const hs__int8_kernels AMX_INT24 = {
    .name = "amx",
    .panel = AMX_PANEL,
    .lanes = AMX_LANES,
    .tile_rows = AMX_ROWS,
    .depth = int24_depth,
    .columns_cached = AMX_LANES,
    .conversion = {int24_words, int24_convert},
    .product = int24_product,
};
