/* blocks.c - adds texts to blocks, draws blocks, and finds intervals from the draws. */
#include "engine/statistics/blocks.h"

#include "model/base/bytes.h"
#include "model/base/clones.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- blocks ---- */

size_t hs_blocks_bytes(size_t n_max, size_t n_words)
{
    return sizeof(hs_blocks) + n_max * n_words * sizeof(int64_t);
}

hs_blocks *hs_blocks_create_few(size_t n_max, size_t n_words)
{
    hs_blocks *blocks = calloc(1, hs_blocks_bytes(n_max, n_words));
    if (blocks) {
        blocks->n_max = n_max;
        blocks->n_words = n_words;
    }
    return blocks;
}

hs_blocks *hs_blocks_create(size_t n_words)
{
    return hs_blocks_create_few(HS_BLOCKS_MAX, n_words);
}

void hs_words_add(int64_t *words, const int64_t *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        words[i] = (int64_t)((uint64_t)words[i] + (uint64_t)from[i]);
}

/* Adds every second block to the one before it. */
static void coarsen(hs_blocks *blocks)
{
    const size_t n = blocks->n_words;
    for (size_t b = 0; b < blocks->n_max / 2; b++) {
        int64_t *to = blocks->words + b * n;
        memmove(to, blocks->words + 2 * b * n, n * sizeof *to);
        hs_words_add(to, blocks->words + (2 * b + 1) * n, n);
    }
    memset(blocks->words + blocks->n_max / 2 * n, 0, blocks->n_max / 2 * n * sizeof *blocks->words);
    blocks->shift++;
}

int64_t *hs_blocks_at(hs_blocks *blocks, uint64_t number)
{
    while (number >> blocks->shift >= blocks->n_max)
        coarsen(blocks);
    return blocks->words + (number >> blocks->shift) * blocks->n_words;
}

void hs_blocks_merge(hs_blocks *blocks, const hs_blocks *from)
{
    while (blocks->shift < from->shift)
        coarsen(blocks);
    for (size_t b = 0; b < blocks->n_max; b++)
        hs_words_add(blocks->words + (b >> (blocks->shift - from->shift)) * blocks->n_words,
                     from->words + b * from->n_words, from->n_words);
}

void hs_blocks_clear(hs_blocks *blocks)
{
    blocks->shift = 0;
    memset(blocks->words, 0, blocks->n_max * blocks->n_words * sizeof *blocks->words);
}

/* ---- draws ---- */

/* Draws runs of neighbouring blocks, in a circle, until there are n. */
static void times_draw(hs_bootstrap *bootstrap, const size_t *used, uint64_t draw)
{
    const size_t n = bootstrap->n_blocks, run = bootstrap->run;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t start = draw * HS_BLOCKS_MAX + i / run;
        const double x = hs_fraction_of(hs_mix(start * HS_MIX_STEP));
        bootstrap->times[used[((size_t)(x * (double)n) + i % run) % n]][draw]++;
    }
}

void hs_bootstrap_init(hs_bootstrap *bootstrap, const hs_blocks *blocks, size_t word, size_t n_different)
{
    size_t used[HS_BLOCKS_MAX] = {0}, n = 0;
    for (size_t b = 0; b < blocks->n_max; b++)
        if (blocks->words[b * blocks->n_words + word])
            used[n++] = b;
    *bootstrap = (hs_bootstrap){.n_blocks = n,
                                .n_units = n < n_different ? n : n_different,
                                .run = (size_t)fmax(1, nearbyint(cbrt((double)n)))};
    for (size_t i = 0; i < n; i++)
        bootstrap->times[used[i]][0] = 1;
    for (uint64_t k = 1; k <= HS_BOOTSTRAP_DRAWS; k++)
        times_draw(bootstrap, used, k);
}

static HS_CLONES void products_add(const uint8_t *restrict times, double number, double *restrict sums)
{
    for (size_t k = 0; k <= HS_BOOTSTRAP_DRAWS; k++)
        sums[k] += times[k] * number;
}

void hs_bootstrap_draw(const hs_bootstrap *bootstrap, const double by_block[HS_BLOCKS_MAX], hs_draws ret)
{
    memset(ret, 0, sizeof(hs_draws));
    for (size_t b = 0; b < HS_BLOCKS_MAX; b++)
        if (by_block[b] != 0)
            products_add(bootstrap->times[b], by_block[b], ret);
}

/* ---- intervals ---- */

#define NORMAL_975 1.959963984540054

/* Hill's algorithm 396 (1970) for two tails of 2.5 %. The branch by `near` is for few degrees of freedom. */
double hs_student_975(double freedom)
{
    const double n = freedom, x = -NORMAL_975, a = 1 / (n - 0.5), b = 48 / (a * a);
    double c = ((20700 * a / b - 98) * a - 16) * a + 96.36;
    const double d = ((94.5 / (b + c) - 3) / b + 1) * sqrt(a * M_PI / 2) * n, near = pow(0.05 * d, 2 / n);
    if (n == 2)
        return sqrt(2 / (0.05 * (2 - 0.05)) - 2);
    if (near <= 0.05 + a) {
        const double y = 1 / (((n + 6) / (n * near) - 0.089 * d - 0.822) * (n + 2) * 3) + 0.5 / (n + 4);
        return sqrt(n * ((y * near - 1) * (n + 1) / (n + 2) + 1 / near));
    }
    if (n < 5)
        c += 0.3 * (n - 4.5) * (x + 0.6);
    c += (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b;
    const double x2 = x * x, y = (((((0.4 * x2 + 6.3) * x2 + 36) * x2 + 94.5) / c - x2 - 3) / b + 1) * x;
    return sqrt(n * expm1(a * y * y));
}

static int doubles_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the degrees of freedom of a variance from runs of neighbours (Priestley 1981: those of a spectrum
 * at 0 with Bartlett's window). */
static double freedom_of(const hs_bootstrap *bootstrap)
{
    return 1.5 * (double)bootstrap->n_blocks / (double)bootstrap->run - 1;
}

/* Returns by how much a variance of draws is too small: a draw has the mean of its runs, not of all blocks.
 */
static double variance_factor(const hs_bootstrap *bootstrap)
{
    return (double)bootstrap->n_blocks / (double)(bootstrap->n_blocks - bootstrap->run);
}

/* Returns a quantile of n sorted draws, at which `share` of further draws is expected below (Weibull's
 * definition). */
static double quantile(const double *sorted, size_t n, double share)
{
    const double place = fmax(0, fmin(share * (double)(n + 1) - 1, (double)(n - 1))), below = floor(place);
    const size_t i = (size_t)below;
    return sorted[i] + (place - below) * (sorted[i + 1 < n ? i + 1 : i] - sorted[i]);
}

/* Collects the finite draws; returns 0 if an interval of them would mean nothing. */
static size_t finite_draws(const hs_bootstrap *bootstrap, const hs_draws draws, double *ret)
{
    size_t n = 0;
    for (size_t k = 1; k <= HS_BOOTSTRAP_DRAWS; k++)
        if (isfinite(draws[k]))
            ret[n++] = draws[k];
    const bool known = bootstrap->n_units >= HS_BOOTSTRAP_BLOCKS_MIN && isfinite(draws[0]);
    return known && 2 * n > HS_BOOTSTRAP_DRAWS ? n : 0;
}

hs_interval hs_bootstrap_interval(const hs_bootstrap *bootstrap, const hs_draws draws)
{
    double sorted[HS_BOOTSTRAP_DRAWS];
    const size_t n = finite_draws(bootstrap, draws, sorted);
    if (!n)
        return (hs_interval){NAN, NAN};
    qsort(sorted, n, sizeof *sorted, doubles_compare);
    const double wider =
        sqrt(variance_factor(bootstrap)) * hs_student_975(freedom_of(bootstrap)) / NORMAL_975;
    return (hs_interval){draws[0] - wider * (draws[0] - quantile(sorted, n, 0.025)),
                         draws[0] + wider * (quantile(sorted, n, 0.975) - draws[0])};
}

double hs_bootstrap_p(const hs_bootstrap *bootstrap, const hs_draws draws, double null)
{
    double values[HS_BOOTSTRAP_DRAWS], mean = 0, squares = 0;
    const size_t n = finite_draws(bootstrap, draws, values);
    const double freedom = freedom_of(bootstrap);
    if (!n)
        return NAN;
    for (size_t k = 0; k < n; k++)
        mean += values[k] / (double)n;
    for (size_t k = 0; k < n; k++)
        squares += (values[k] - mean) * (values[k] - mean);
    const double variance = squares / (double)(n - 1) * variance_factor(bootstrap);
    const double t2 = (draws[0] - null) * (draws[0] - null) / variance;
    if (!(variance > 0))
        return draws[0] == null ? 1 : 0;
    /* Student's t as a normal number (Wallace 1959) */
    const double z = (8 * freedom + 1) / (8 * freedom + 3) * sqrt(freedom * log1p(t2 / freedom));
    return erfc(z / sqrt(2.0));
}

/* ---- many comparisons ---- */

void hs_p_adjust(double *p, size_t n, size_t *scratch)
{
    size_t known = 0;
    for (size_t i = 0; i < n; i++) { /* indices by p, ascending */
        size_t at = known;
        if (!isfinite(p[i]))
            continue;
        for (; at > 0 && p[scratch[at - 1]] > p[i]; at--)
            scratch[at] = scratch[at - 1];
        scratch[at] = i;
        known++;
    }
    double least = 1;
    for (size_t rank = known; rank > 0; rank--) {
        double *value = &p[scratch[rank - 1]];
        least = fmin(least, *value * (double)known / (double)rank);
        *value = least;
    }
}
