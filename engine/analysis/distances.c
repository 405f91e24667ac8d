/* distances.c - distances of heads: HSIC as a matrix product over blocks of centred elements, JS row by row,
 * because the rows of all heads fit the second-level cache. */
#include "engine/analysis/distances.h"

#include "engine/analysis/analysis_maps.h"
#include "engine/arena.h"
#include "engine/kernels/kernels.h"
#include "model/base/clones.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- HSIC ---- */

/* Elements of each map in a block: few enough for sums in floats. */
enum { ELEMENTS = 1024 };

typedef struct centering {
    double *means;       /* [n][T]: r_i / (T - 2) */
    double *totals;      /* [n]: r / ((T - 1) (T - 2)) */
    float *rows;         /* [n][ELEMENTS]: u of a block of elements above the diagonal */
    float *panels;       /* the same for the product */
    float *product;      /* [n][panel] */
    const float **strip; /* [n]: rows at hand */
    double weight;
} centering;

/* Lays out the scratch; an arena without memory only measures it. */
static centering lay_out(const hs__kernels *kernels, size_t n, size_t T, hs__arena *arena)
{
    return (centering){.means = hs__arena_take(arena, n * T * sizeof(double)),
                       .totals = hs__arena_take(arena, n * sizeof(double)),
                       .rows = hs__arena_floats(arena, n * ELEMENTS),
                       .panels = hs__arena_floats(arena, hs__panels_floats(kernels, ELEMENTS, n)),
                       .product = hs__arena_floats(arena, n * kernels->panel),
                       .strip = hs__arena_take(arena, n * sizeof(const float *))};
}

/* Adds row[j] to sums[j] for j in [from, to) and returns the sum of row[j]. */
static HS_CLONES double add_row(const float *row, size_t from, size_t to, double *sums)
{
    double lanes[HS__LANES] = {0}, total = 0;
    size_t j = from;
    for (; j + HS__LANES <= to; j += HS__LANES) {
        for (size_t k = 0; k < HS__LANES; k++) {
            sums[j + k] += (double)row[j + k];
            lanes[k] += (double)row[j + k];
        }
    }
    for (; j < to; j++) {
        sums[j] += (double)row[j];
        total += (double)row[j];
    }
    for (size_t k = 0; k < HS__LANES; k++)
        total += lanes[k];
    return total;
}

/* Adds rows [first, first + n), of which `rows` points to the first, to the sums of rows and columns. */
static void sums_add(const float *rows, size_t first, size_t n, size_t T, double *sums)
{
    for (size_t i = first; i < first + n; i++)
        sums[i] += add_row(rows + (i - first) * T, i + 1, T, sums);
}

/* Turns the sums into means and returns the total. */
static double means_find(size_t T, double *sums)
{
    const double n = (double)T;
    double total = 0;
    for (size_t i = 0; i < T; i++) {
        total += sums[i];
        sums[i] /= n - 2;
    }
    return total / ((n - 1) * (n - 2));
}

/* Copies n elements, centred, from (row, column) on; `rows` points to that row. Elements above the diagonal
 * are counted row by row. */
static HS_CLONES void copy_centered(const float *rows, size_t T, const double *means, double total,
                                    size_t row, size_t column, size_t n, float *ret)
{
    for (size_t k = 0; k < n; rows += T) {
        const size_t width = hs_min(T - column, n - k);
        const double left = total - means[row];
        for (size_t j = 0; j < width; j++)
            ret[k + j] = (float)((double)rows[column + j] + left - means[column + j]);
        k += width;
        row++;
        column = row + 1;
    }
}

/* Adds X X' to sums for X [n][n_elements], on and above the diagonal. */
static void add_products(const hs__kernels *kernels, const centering *c, size_t n, size_t n_elements,
                         double *sums)
{
    kernels->pack(n_elements, n, c->rows, 1, ELEMENTS, c->panels);
    for (size_t from = 0; from < n; from += kernels->panel) {
        const size_t width = hs_min(kernels->panel, n - from);
        kernels->product(from + width, n_elements, c->rows, ELEMENTS, c->panels + n_elements * from, width,
                         NULL, NULL, c->product, kernels->panel);
        for (size_t i = 0; i < from + width; i++)
            for (size_t j = i > from ? i - from : 0; j < width; j++)
                sums[i * n + from + j] += c->weight * (double)c->product[i * kernels->panel + j];
    }
}

size_t hs_heads_hsic_bytes(size_t n_heads, size_t n_tokens)
{
    hs__arena arena = {0};
    lay_out(hs__kernels_select(), n_heads, n_tokens, &arena);
    return arena.used;
}

/* The rows that are at hand. */
typedef struct strip {
    const float **rows; /* [n_heads]: of each head its row `first` */
    size_t first, n;
} strip;

static bool strip_load(const hs_head_rows *source, size_t first, size_t T, strip *s)
{
    s->first = first;
    s->n = hs_min(source->n_rows, T - first);
    return source->load(source->context, first, s->n, s->rows);
}

static bool all_means_find(const hs_head_rows *source, const centering *c, size_t n, size_t T, strip *s)
{
    memset(c->means, 0, n * T * sizeof *c->means);
    for (size_t first = 0; first < T; first += s->n) {
        if (!strip_load(source, first, T, s))
            return false;
        for (size_t h = 0; h < n; h++)
            sums_add(s->rows[h], first, s->n, T, c->means + h * T);
    }
    for (size_t h = 0; h < n; h++)
        c->totals[h] = means_find(T, c->means + h * T);
    return true;
}

bool hs_heads_hsic_add_in(const hs_head_rows *source, size_t n_heads, size_t n_tokens, void *scratch,
                          double *sums)
{
    const hs__kernels *kernels = hs__kernels_select();
    const size_t n = n_heads, T = n_tokens, n_elements = T * (T - 1) / 2;
    if (T < 4)
        return true;
    hs__arena arena = {.base = scratch};
    centering c = lay_out(kernels, n, T, &arena);
    assert(c.means);                              /* of scratch */
    c.weight = 2 / ((double)T * (double)(T - 3)); /* both halves */
    strip s = {.rows = c.strip};
    if (!all_means_find(source, &c, n, T, &s))
        return false;
    size_t row = 0, column = 1;
    for (size_t first = 0; first < n_elements; first += ELEMENTS) {
        const size_t width = hs_min(ELEMENTS, n_elements - first);
        size_t end = row, after = column + width; /* where the block ends */
        for (; after > T; end++)
            after += end + 2 - T;
        if ((row < s.first || end >= s.first + s.n) && !strip_load(source, row, T, &s))
            return false;
        for (size_t h = 0; h < n; h++)
            copy_centered(s.rows[h] + (row - s.first) * T, T, c.means + h * T, c.totals[h], row, column,
                          width, c.rows + h * ELEMENTS);
        add_products(kernels, &c, n, width, sums);
        for (column += width; column >= T && row + 2 < T; row++)
            column += row + 2 - T;
    }
    return true;
}

/* Maps in memory. */
typedef struct kept_heads {
    const float *const *maps;
    size_t n, T;
} kept_heads;

/* Maps that are kept have all rows at hand. */
static bool kept_load(void *context, size_t first, size_t n, const float **ret_rows)
{
    const kept_heads *kept = context;
    (void)n;
    for (size_t h = 0; h < kept->n; h++)
        ret_rows[h] = kept->maps[h] + first * kept->T;
    return true;
}

void hs_heads_hsic_add(const float *const *similarities, size_t n_heads, size_t n_tokens, void *scratch,
                       double *sums)
{
    kept_heads kept = {similarities, n_heads, n_tokens};
    const hs_head_rows source = {.load = kept_load, .context = &kept, .n_rows = n_tokens};
    (void)hs_heads_hsic_add_in(&source, n_heads, n_tokens, scratch, sums);
}

void hs_heads_cka_distance(double *sums, size_t n_heads)
{
    const size_t n = n_heads;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = i + 1; j < n; j++) {
            const double scale = sums[i * n + i] * sums[j * n + j];
            const bool known = sums[i * n + i] > 0 && sums[j * n + j] > 0;
            sums[i * n + j] = sums[j * n + i] = known ? 1 - sums[i * n + j] / sqrt(scale) : NAN;
        }
    }
    for (size_t i = 0; i < n; i++)
        sums[i * n + i] = sums[i * n + i] > 0 ? 0 : NAN;
}

/* ---- JS ---- */

enum { AT_ONCE = 64 }; /* heads that a head is compared with at once */

/* One row of all maps, whose pairs of heads threads share. */
typedef struct js_row {
    const hs__kernels *kernels;
    const float *const *maps;
    size_t n, T, K, at; /* at: where the row begins in a map */
    size_t n_seen;      /* columns that some head attends to; the others are 0 */
    const double *entropies;
    double *sums;
} js_row;

static void compare_with_later(const js_row *r, size_t head)
{
    for (size_t first = head + 1; first < r->n; first += AT_ONCE) {
        const size_t n = hs_min(AT_ONCE, r->n - first);
        float both[AT_ONCE];
        r->kernels->mean_entropies(r->n_seen, r->maps[head] + r->at, n, r->maps + first, r->at, both);
        for (size_t j = 0; j < n; j++) {
            const double own = (r->entropies[head] + r->entropies[first + j]) / 2;
            r->sums[head * r->n + first + j] += ((double)both[j] - own) / (double)r->T;
        }
    }
}

/* Task: compares head `index` with the later ones, and the head that has as many before it, so that tasks are
 * equal. */
static void task_js(void *context, size_t index, size_t slot)
{
    const js_row *r = context;
    const size_t other = r->n - 1 - index;
    (void)slot;
    compare_with_later(r, index);
    if (other != index)
        compare_with_later(r, other);
}

/* Returns the number of columns up to the last one that is not 0 in all heads. Rows of causal models have
 * half their columns on average. */
static size_t columns_seen(const js_row *r)
{
    size_t n = 1;
    for (size_t h = 0; h < r->n; h++)
        for (size_t j = r->K; j > n; j--)
            n = r->maps[h][r->at + j - 1] != 0 ? j : n;
    return n;
}

void hs_heads_js_add(hs_runtime *runtime, size_t n_threads, const float *const *attentions, size_t n_heads,
                     size_t n_tokens, size_t n_keys, size_t row, double *entropies, double *sums)
{
    js_row r = {.kernels = hs__kernels_select(),
                .maps = attentions,
                .n = n_heads,
                .T = n_tokens,
                .K = n_keys,
                .at = row * n_keys,
                .entropies = entropies,
                .sums = sums};
    r.n_seen = columns_seen(&r);
    for (size_t h = 0; h < n_heads; h++) {
        float own;
        r.kernels->mean_entropies(r.n_seen, attentions[h] + r.at, 1, attentions + h, r.at, &own);
        entropies[h] = (double)own;
    }
    hs_runtime_share(runtime, n_threads, (n_heads + 1) / 2, task_js, &r);
}
