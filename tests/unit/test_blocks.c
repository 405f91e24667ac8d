/* Blocks of neighbouring texts, intervals from them, and p-values of many comparisons. */
#include "engine/statistics/blocks.h"
#include "engine/statistics/statistics.h"
#include "model/base/bytes.h"
#include "suite.h"

#include <math.h>
#include <stdlib.h>

enum { WORDS = 3 };

static uint64_t seed;

/* Returns a number in [0, 1). */
static double random_number(void)
{
    return hs_fraction_of(hs_mix(seed += HS_MIX_STEP));
}

/* ---- blocks ---- */

static void text_add(hs_blocks *blocks, uint64_t number)
{
    int64_t *words = hs_blocks_at(blocks, number);
    words[0]++;
    words[1] += (int64_t)number;
    words[2] += (int64_t)(number * number % 97);
}

static void assert_same(const hs_blocks *a, const hs_blocks *b)
{
    ck_assert_uint_eq(a->shift, b->shift);
    ck_assert_mem_eq(a->words, b->words, HS_BLOCKS_MAX * WORDS * sizeof(int64_t));
}

START_TEST(blocks_do_not_depend_on_order_or_shards)
{
    static const uint64_t sizes[] = {1, 127, 128, 129, 256, 1000, 5000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const uint64_t n = sizes[s];
        hs_blocks *ascending = hs_blocks_create(WORDS), *descending = hs_blocks_create(WORDS);
        hs_blocks *shards[3] = {hs_blocks_create(WORDS), hs_blocks_create(WORDS), hs_blocks_create(WORDS)};
        for (uint64_t i = 0; i < n; i++) {
            text_add(ascending, i);
            text_add(descending, n - 1 - i);
            text_add(shards[i * 7 % 3], i);
        }
        assert_same(ascending, descending);
        for (size_t k = 1; k < 3; k++)
            hs_blocks_merge(shards[0], shards[k]);
        assert_same(ascending, shards[0]);
        ck_assert_int_eq(
            ascending->words[0],
            (int64_t)(n < (UINT64_C(1) << ascending->shift) ? n : UINT64_C(1) << ascending->shift));
        hs_blocks_clear(shards[0]);
        hs_blocks_merge(shards[0], descending);
        assert_same(ascending, shards[0]);
        free(ascending);
        free(descending);
        for (size_t k = 0; k < 3; k++)
            free(shards[k]);
    }
}
END_TEST

/* A number at the end of the range has a block. */
START_TEST(any_number_has_a_block)
{
    hs_blocks *blocks = hs_blocks_create(WORDS);
    text_add(blocks, 5);
    text_add(blocks, UINT64_MAX);
    ck_assert_uint_eq(blocks->shift, HS_BLOCKS_SHIFT_MAX);
    ck_assert_int_eq(blocks->words[0], 1);
    ck_assert_int_eq(blocks->words[(HS_BLOCKS_MAX - 1) * WORDS], 1);
    free(blocks);
}
END_TEST

/* ---- intervals ---- */

enum { RUNS = 400 };

/* Adds a corpus of documents of 1 to document_max texts. A document has a share of its own, and each of its
 * texts 1 to 40 pairs. Long documents have higher shares, so the share of all pairs is not the mean of the
 * documents' shares. */
static void corpus_add(hs_blocks *blocks, uint64_t n_texts, uint64_t document_max)
{
    for (uint64_t number = 0; number < n_texts;) {
        const uint64_t length = 1 + (uint64_t)(random_number() * (double)document_max);
        const double share = 0.1 + 0.1 * (double)length * random_number();
        for (uint64_t i = 0; i < length && number < n_texts; i++, number++) {
            int64_t *words = hs_blocks_at(blocks, number);
            const int n_pairs = 1 + (int)(random_number() * 40);
            words[0]++;
            words[1] += n_pairs;
            for (int k = 0; k < n_pairs; k++)
                words[2] += random_number() < share;
        }
    }
}

/* Returns the share of all pairs of the population: documents of each length are as frequent. */
static double truth(uint64_t document_max)
{
    double pairs = 0, signal = 0;
    for (uint64_t length = 1; length <= document_max; length++) {
        pairs += (double)length;
        signal += (double)length * (0.1 + 0.05 * (double)length);
    }
    return signal / pairs;
}

static void share_draw(const hs_blocks *blocks, hs_bootstrap *bootstrap, hs_draws ret)
{
    double by_block[2][HS_BLOCKS_MAX];
    hs_draws pairs;
    for (size_t b = 0; b < HS_BLOCKS_MAX; b++)
        for (size_t k = 0; k < 2; k++)
            by_block[k][b] = (double)blocks->words[b * WORDS + 1 + k];
    hs_bootstrap_init(bootstrap, blocks, 0, SIZE_MAX);
    hs_bootstrap_draw(bootstrap, by_block[0], pairs);
    hs_bootstrap_draw(bootstrap, by_block[1], ret);
    for (size_t k = 0; k <= HS_BOOTSTRAP_DRAWS; k++)
        ret[k] /= pairs[k];
}

/* The interval covers the truth in 93 to 97 % of the corpora, and the test of the truth rejects it in 3 to 7
 * %.
 */
START_TEST(intervals_cover_the_truth)
{
    static const struct {
        uint64_t n_texts, document_max;
    } corpora[] = {{100, 1}, {1000, 7}, {3000, 7}};
    const uint64_t n = corpora[_i].n_texts, longest = corpora[_i].document_max;
    hs_blocks *blocks = hs_blocks_create(WORDS);
    hs_bootstrap *bootstrap = malloc(sizeof *bootstrap);
    size_t n_covered = 0, n_rejected = 0;
    seed = 42;
    for (size_t run = 0; run < RUNS; run++) {
        hs_draws draws;
        hs_blocks_clear(blocks);
        corpus_add(blocks, n, longest);
        share_draw(blocks, bootstrap, draws);
        const hs_interval interval = hs_bootstrap_interval(bootstrap, draws);
        ck_assert(interval.low < draws[0] && draws[0] < interval.high);
        n_covered += interval.low < truth(longest) && truth(longest) < interval.high;
        n_rejected += hs_bootstrap_p(bootstrap, draws, truth(longest)) < 0.05;
    }
    ck_assert_uint_ge(n_covered, RUNS * 93 / 100);
    ck_assert_uint_le(n_covered, RUNS * 97 / 100);
    ck_assert_uint_ge(n_rejected, RUNS * 3 / 100);
    ck_assert_uint_le(n_rejected, RUNS * 7 / 100);
    free(blocks);
    free(bootstrap);
}
END_TEST

/* ---- figures of signal and noise, from few blocks ---- */

enum {
    FEW_BLOCKS = 16,
    PAIRS = 40,     /* of a text, every second one of noise */
    KIND_WORDS = 3, /* pairs, N and N^2, of noise, then of signal */
    AREA_BINS = 16, /* of noise, then of signal */
    FEW_WORDS_MAX = 2 * AREA_BINS
};

/* A figure of a corpus whose documents have 1 to 4 texts, each with 20 noise and 20 signal pairs. */
typedef struct few_figure {
    size_t n_words;
    double truth;
    /* Adds a pair to a block. effect: of the document, from 0 to 1. */
    void (*add)(int64_t *words, bool is_signal, double effect);
    double (*read)(hs_draws *sums, size_t draw);
} few_figure;

static void few_add(const few_figure *figure, hs_blocks *blocks, uint64_t n_texts)
{
    for (uint64_t number = 0; number < n_texts;) {
        const uint64_t length = 1 + (uint64_t)(random_number() * 4);
        const double effect = random_number();
        for (uint64_t i = 0; i < length && number < n_texts; i++, number++)
            for (size_t k = 0; k < PAIRS; k++)
                figure->add(hs_blocks_at(blocks, number), k % 2, effect);
    }
}

static void few_draw(const few_figure *figure, const hs_blocks *blocks, hs_bootstrap *bootstrap, hs_draws ret)
{
    hs_draws sums[FEW_WORDS_MAX];
    hs_bootstrap_init(bootstrap, blocks, 0, SIZE_MAX);
    for (size_t word = 0; word < figure->n_words; word++) {
        double by_block[HS_BLOCKS_MAX] = {0};
        for (size_t b = 0; b < FEW_BLOCKS; b++)
            by_block[b] = (double)blocks->words[b * figure->n_words + word];
        hs_bootstrap_draw(bootstrap, by_block, sums[word]);
    }
    for (size_t k = 0; k <= HS_BOOTSTRAP_DRAWS; k++)
        ret[k] = figure->read(sums, k);
}

/* N of signal is that of noise plus the document's effect. */
static void dprime_add(int64_t *words, bool is_signal, double effect)
{
    const double value =
        (random_number() + random_number() + random_number() - 1.5) * 2 + (is_signal ? effect : 0);
    words += is_signal ? KIND_WORDS : 0;
    words[0]++;
    words[1] += (int64_t)nearbyint(value * 0x1p30);
    words[2] += (int64_t)nearbyint(value * value * 0x1p30);
}

static double dprime_read(hs_draws *sums, size_t k)
{
    const hs_corpus_pairs noise = {
        .n = sums[0][k], .sum = sums[1][k] * 0x1p-30, .squares = sums[2][k] * 0x1p-30};
    const hs_corpus_pairs signal = {
        .n = sums[3][k], .sum = sums[4][k] * 0x1p-30, .squares = sums[5][k] * 0x1p-30};
    return hs_corpus_dprime(&signal, &noise);
}

/* The bin of noise is any. That of signal is as frequently as the document's effect says the higher of two.
 */
static void area_add(int64_t *words, bool is_signal, double effect)
{
    const size_t one = (size_t)(random_number() * AREA_BINS), other = (size_t)(random_number() * AREA_BINS);
    const bool is_higher = is_signal && random_number() < effect;
    words[(is_signal ? AREA_BINS : 0) + (is_higher && other > one ? other : one)]++;
}

static double area_read(hs_draws *sums, size_t k)
{
    int64_t bins[2][1 + HS_CORPUS_BINS] = {{0}};
    hs_corpus_pairs pairs[2] = {{.bins = bins[0]}, {.bins = bins[1]}};
    for (size_t word = 0; word < 2 * AREA_BINS; word++) {
        bins[word / AREA_BINS][word % AREA_BINS] = (int64_t)sums[word][k];
        pairs[word / AREA_BINS].n += sums[word][k];
    }
    return hs_corpus_auc(&pairs[1], &pairs[0]);
}

/* The interval covers the truth in 93 to 97 % of the corpora.
 *
 * The effect is 1 / 2 in the mean. d' is in standard deviations of noise, which has variance 1, and of
 * signal, which has 1 / 12 more. The higher of two of n bins is above another one, or half so if it is the
 * same, with probability (4 n^2 - 1) / (6 n^2). */
START_TEST(intervals_from_few_blocks_cover_the_truth)
{
    const double n = AREA_BINS, higher = (4 * n * n - 1) / (6 * n * n);
    const few_figure figures[] = {
        {2 * KIND_WORDS, 0.5 / sqrt((1 + 1 + 1.0 / 12) / 2), dprime_add, dprime_read},
        {2 * AREA_BINS, 0.5 + 0.5 * (higher - 0.5), area_add, area_read},
    };
    const few_figure *figure = &figures[_i];
    hs_blocks *blocks = hs_blocks_create_few(FEW_BLOCKS, figure->n_words);
    hs_bootstrap *bootstrap = malloc(sizeof *bootstrap);
    size_t n_covered = 0;
    seed = 42;
    for (size_t run = 0; run < RUNS; run++) {
        hs_draws draws;
        hs_blocks_clear(blocks);
        few_add(figure, blocks, 500);
        few_draw(figure, blocks, bootstrap, draws);
        const hs_interval interval = hs_bootstrap_interval(bootstrap, draws);
        n_covered += interval.low < figure->truth && figure->truth < interval.high;
    }
    ck_assert_msg(n_covered >= RUNS * 93 / 100 && n_covered <= RUNS * 97 / 100,
                  "%zu of %d intervals cover %g", n_covered, RUNS, figure->truth);
    free(blocks);
    free(bootstrap);
}
END_TEST

START_TEST(a_few_texts_have_no_interval)
{
    hs_blocks *blocks = hs_blocks_create(WORDS);
    hs_bootstrap *bootstrap = malloc(sizeof *bootstrap);
    hs_draws draws;
    seed = 1;
    corpus_add(blocks, HS_BOOTSTRAP_BLOCKS_MIN - 1, 1);
    share_draw(blocks, bootstrap, draws);
    ck_assert(isfinite(draws[0]) && isnan(hs_bootstrap_interval(bootstrap, draws).low));
    ck_assert(isnan(hs_bootstrap_p(bootstrap, draws, 0.5)));
    hs_blocks_clear(blocks);
    corpus_add(blocks, HS_BOOTSTRAP_BLOCKS_MIN, 1);
    share_draw(blocks, bootstrap, draws);
    ck_assert(isfinite(hs_bootstrap_interval(bootstrap, draws).low));
    for (size_t k = 1; k <= HS_BOOTSTRAP_DRAWS / 2; k++) /* figures that half of the draws lack */
        draws[k] = NAN;
    ck_assert(isnan(hs_bootstrap_interval(bootstrap, draws).low));
    free(blocks);
    free(bootstrap);
}
END_TEST

/* Tables have these quantiles. */
START_TEST(quantiles_of_students_distribution)
{
    static const double due[][3] = {{2, 4.302652730, 1e-9},  {3, 3.182446305, 1e-5},  {4, 2.776445105, 1e-6},
                                    {5, 2.570581836, 1e-6},  {7, 2.364624252, 1e-6},  {10, 2.228138852, 1e-6},
                                    {30, 2.042272456, 1e-8}, {120, 1.979930405, 1e-9}};
    for (size_t i = 0; i < sizeof due / sizeof *due; i++)
        ck_assert(fabs(hs_student_975(due[i][0]) - due[i][1]) < due[i][2]);
}
END_TEST

/* ---- many comparisons ---- */

/* Each is p n / rank, or that of a higher rank if it is less. */
START_TEST(p_values_are_adjusted)
{
    double p[] = {0.01, 0.04, NAN, 0.03, 0.005, 0.6};
    static const double due[] = {0.025, 0.05, NAN, 0.05, 0.025, 0.6};
    size_t scratch[6];
    hs_p_adjust(p, 6, scratch);
    for (size_t i = 0; i < 6; i++)
        ck_assert(isnan(due[i]) ? isnan(p[i]) : fabs(p[i] - due[i]) < 1e-12);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("blocks");
    TCase *tc = tcase_create("all");
    suite_add_tcase(suite, tc);
    tcase_add_test(tc, blocks_do_not_depend_on_order_or_shards);
    tcase_add_test(tc, any_number_has_a_block);
    tcase_add_loop_test(tc, intervals_cover_the_truth, 0, 3);
    tcase_add_loop_test(tc, intervals_from_few_blocks_cover_the_truth, 0, 2);
    tcase_add_test(tc, a_few_texts_have_no_interval);
    tcase_add_test(tc, quantiles_of_students_distribution);
    tcase_add_test(tc, p_values_are_adjusted);
    return tests_run(suite);
}
