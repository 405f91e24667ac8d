/* How often intervals of the figures that claims rest on (server/corpus/report/findings.c) cover the truth,
 * in simulated runs whose expectations are known. */
#include "engine/statistics/blocks.h"
#include "model/base/bytes.h"
#include "suite.h"

#include <math.h>
#include <stdlib.h>

enum { RUNS = 2000, HEADS = 12, PAIRS_MAX = 40 };

/* Sums of a text. */
enum {
    TEXTS,
    PAIRS,
    DISTANCES,
    EXPECTED,
    IN_SENTENCE,
    UNIQUE,
    NEAR,
    RARE,
    CONTROL,
    REPEATED,
    SUMS = REPEATED + HEADS
};

static uint64_t seed;

/* Returns a number in [0, 1). */
static double random_number(void)
{
    return hs_fraction_of(hs_mix(seed += HS_MIX_STEP));
}

/* ---- a run ---- */

/* The share of repeated tokens of head h: of the first one most, of the second one fewest. */
static double share_of(size_t h)
{
    return h == 0 ? 0.45 : h == 1 ? 0.02 : 0.2 + 0.01 * (double)h;
}

/* Adds a text with 1 to PAIRS_MAX pairs. effect: of its document, 0 to 2, 1 in the mean. All heads share it,
 * and the number of pairs does not depend on it. */
static void text_add(int64_t *words, double effect)
{
    const int n = 1 + (int)(random_number() * PAIRS_MAX);
    words[TEXTS]++;
    words[PAIRS] += n;
    words[UNIQUE] += random_number() < effect / 2 ? 10 : 6;
    for (int k = 0; k < n; k++) {
        words[DISTANCES] += (int64_t)nearbyint(random_number() * 20 * (1 + effect) * 0x1p20);
        words[EXPECTED] += random_number() < 0.3 * effect;
        words[IN_SENTENCE] += random_number() < 0.33 * effect;
        words[NEAR] += random_number() < 0.25 * effect;
        words[RARE] += random_number() < 0.01 * effect;
        words[CONTROL] += random_number() < 0.2 * effect;
        for (size_t h = 0; h < HEADS; h++)
            words[REPEATED + h] += random_number() < share_of(h) * effect;
    }
}

/* ---- figures ---- */

typedef struct draws_of {
    hs_draws sums[SUMS];
} draws_of;

static double ratio(const draws_of *d, size_t part, size_t size, size_t k)
{
    return d->sums[part][k] / d->sums[size][k];
}

static double distance_read(const draws_of *d, size_t k)
{
    return ratio(d, DISTANCES, PAIRS, k) * 0x1p-20;
}

static double lift_read(const draws_of *d, size_t k)
{
    return ratio(d, IN_SENTENCE, EXPECTED, k);
}

static double unique_read(const draws_of *d, size_t k)
{
    return ratio(d, UNIQUE, TEXTS, k);
}

static double rare_read(const draws_of *d, size_t k)
{
    return ratio(d, RARE, PAIRS, k);
}

/* Less than the figure by 1.05 times that of a control. */
static double margin_read(const draws_of *d, size_t k)
{
    return ratio(d, NEAR, PAIRS, k) - 1.05 * ratio(d, CONTROL, PAIRS, k);
}

/* The heads are those with the highest and the lowest share of the whole run. */
static double span_read(const draws_of *d, size_t k)
{
    size_t low = REPEATED, high = REPEATED;
    for (size_t h = REPEATED; h < SUMS; h++) {
        low = d->sums[h][0] < d->sums[low][0] ? h : low;
        high = d->sums[h][0] > d->sums[high][0] ? h : high;
    }
    return ratio(d, high, PAIRS, k) - ratio(d, low, PAIRS, k);
}

/* The smaller of two steps, 0.2 - 0.02 and 0.25 - 0.2. */
static double step_read(const draws_of *d, size_t k)
{
    return fmin(ratio(d, CONTROL, PAIRS, k) - ratio(d, REPEATED + 1, PAIRS, k),
                ratio(d, NEAR, PAIRS, k) - ratio(d, CONTROL, PAIRS, k));
}

static const struct {
    const char *name;
    double truth;
    double (*read)(const draws_of *d, size_t k);
} figures[] = {
    {"mean distance", 20, distance_read},
    {"lift", 1.1, lift_read},
    {"text mean", 8, unique_read},
    {"rare share", 0.01, rare_read},
    {"margin", 0.25 - 1.05 * 0.2, margin_read},
    {"span", 0.43, span_read},
    {"step", 0.05, step_read},
};

enum { FIGURES = sizeof figures / sizeof *figures };

/* Makes a run of documents of 1 to document_max texts, and draws its sums. */
static void run_make(hs_blocks *blocks, hs_bootstrap *bootstrap, uint64_t n_texts, uint64_t document_max,
                     draws_of *ret)
{
    hs_blocks_clear(blocks);
    for (uint64_t number = 0; number < n_texts;) {
        const uint64_t length = 1 + (uint64_t)(random_number() * (double)document_max);
        const double effect = 2 * random_number();
        for (uint64_t i = 0; i < length && number < n_texts; i++, number++)
            text_add(hs_blocks_at(blocks, number), effect);
    }
    hs_bootstrap_init(bootstrap, blocks, TEXTS, SIZE_MAX);
    for (size_t word = 0; word < SUMS; word++) {
        double by_block[HS_BLOCKS_MAX];
        for (size_t b = 0; b < HS_BLOCKS_MAX; b++)
            by_block[b] = (double)blocks->words[b * SUMS + word];
        hs_bootstrap_draw(bootstrap, by_block, ret->sums[word]);
    }
}

/* Returns 1 if the interval of a figure covers the truth. */
static size_t is_covered(const hs_bootstrap *bootstrap, const draws_of *d, size_t f)
{
    hs_draws draws;
    for (size_t k = 0; k <= HS_BOOTSTRAP_DRAWS; k++)
        draws[k] = figures[f].read(d, k);
    const hs_interval interval = hs_bootstrap_interval(bootstrap, draws);
    return interval.low <= figures[f].truth && figures[f].truth <= interval.high;
}

/* The interval of each figure covers the truth in 92 to 98 % of the runs. The last run has some 12 documents,
 * which are too few. */
START_TEST(intervals_of_claims_cover_the_truth)
{
    static const struct {
        uint64_t n_texts, document_max;
        size_t least; /* % */
    } runs[] = {{50, 1, 92}, {200, 1, 92}, {200, 4, 92}, {500, 7, 92}, {50, 7, 82}};
    hs_blocks *blocks = hs_blocks_create(SUMS);
    hs_bootstrap *bootstrap = malloc(sizeof *bootstrap);
    draws_of *drawn = malloc(sizeof *drawn);
    size_t n_covered[FIGURES] = {0};
    seed = 42;
    for (size_t run = 0; run < RUNS; run++) {
        run_make(blocks, bootstrap, runs[_i].n_texts, runs[_i].document_max, drawn);
        for (size_t f = 0; f < FIGURES; f++)
            n_covered[f] += is_covered(bootstrap, drawn, f);
    }
    for (size_t f = 0; f < FIGURES; f++)
        ck_assert_msg(n_covered[f] >= RUNS * runs[_i].least / 100 && n_covered[f] <= RUNS * 98 / 100,
                      "%zu of %d intervals cover the %s", n_covered[f], RUNS, figures[f].name);
    free(blocks);
    free(bootstrap);
    free(drawn);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("interval coverage");
    TCase *tc = tcase_create("all");
    suite_add_tcase(suite, tc);
    tcase_add_loop_test(tc, intervals_of_claims_cover_the_truth, 0, 5);
    return tests_run(suite);
}
