/* Intervals of the signal-to-noise ratio cover the ratio of the population that texts are drawn from. */
#include "engine/statistics/blocks.h"
#include "engine/statistics/snr.h"
#include "model/base/bytes.h"
#include "suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    TOKENS = 10,
    PRODUCTS = HS_SNR_TERMS * HS_SNR_TERMS,
    HALF_WORDS = PRODUCTS + HS_SNR_TERMS + 1, /* X'X, X'y, y'y */
    WORDS = 1 + 2 * HALF_WORDS,               /* texts, then both halves */
    POPULATION = 40000,                       /* texts that stand for the population */
    TEXTS = 150,
    RUNS = 400
};

static uint64_t seed;

/* Returns a number in [0, 1). */
static double random_number(void)
{
    return hs_fraction_of(hs_mix(seed += HS_MIX_STEP));
}

/* Returns a number with mean 0 and variance 1. */
static double noise(void)
{
    return (random_number() + random_number() + random_number() - 1.5) * 2;
}

/* Makes a text, and similarities that depend on distance, on the same token and, by `effect`, on the same
 * sentence. */
static void text_make(double effect, int32_t *ids, uint8_t *roles, float *similarity)
{
    size_t sentence[TOKENS], n = 0;
    for (size_t i = 0; i < TOKENS; i++) {
        const bool is_end = random_number() < 0.25;
        ids[i] = is_end ? 0 : 1 + (int32_t)(random_number() * 5);
        roles[i] = is_end ? HS_ROLE_SENTENCE_END : HS_ROLE_OTHER;
        sentence[i] = n;
        n += is_end;
    }
    for (size_t i = 0; i < TOKENS; i++)
        for (size_t j = i + 1; j < TOKENS; j++)
            similarity[i * TOKENS + j] =
                (float)(-0.3 * log((double)(j - i)) + (sentence[i] == sentence[j] ? effect : 0) +
                        (ids[i] == ids[j] ? 0.5 : 0) + noise());
}

/* Adds what a text contributes to its half, in units of 2^-20. */
static void text_add(hs_blocks *blocks, hs_snr_text *memory, uint64_t number, double effect)
{
    static const uint8_t special[TOKENS] = {0};
    int32_t ids[TOKENS];
    uint8_t roles[TOKENS];
    float similarity[TOKENS * TOKENS] = {0};
    hs_snr_vector xy[HS_SNR_MODELS];
    text_make(effect, ids, roles, similarity);
    const hs_corpus_text text = {
        .number = number, .n_tokens = TOKENS, .ids = ids, .special = special, .roles = roles};
    hs_snr_text_find(memory, &text);
    const double *products = **hs_snr_text_products(memory, 0);
    int64_t *words = hs_blocks_at(blocks, number);
    words[0]++;
    words += 1 + (number & 1) * HALF_WORDS;
    for (size_t k = 0; k < PRODUCTS; k++)
        words[k] += (int64_t)nearbyint(products[k] * 0x1p20);
    words[PRODUCTS + HS_SNR_TERMS] += (int64_t)hs_snr_head_find(memory, similarity, xy) << 20;
    for (size_t k = 0; k < HS_SNR_TERMS; k++)
        words[PRODUCTS + k] += (int64_t)nearbyint(xy[0][k] * 0x1p20);
}

/* Adds a corpus of documents of 1 to 4 texts; the effect of a sentence is one of the document. */
static void corpus_add(hs_blocks *blocks, hs_snr_text *memory, uint64_t n_texts)
{
    for (uint64_t number = 0; number < n_texts;) {
        const uint64_t length = 1 + (uint64_t)(random_number() * 4);
        const double effect = 1.2 * random_number();
        for (uint64_t i = 0; i < length && number < n_texts; i++, number++)
            text_add(blocks, memory, number, effect);
    }
}

/* Draws a sum of one half. */
static void sum_draw(const hs_bootstrap *bootstrap, const hs_blocks *blocks, size_t half, size_t word,
                     hs_draws ret)
{
    double by_block[HS_BLOCKS_MAX];
    for (size_t b = 0; b < HS_BLOCKS_MAX; b++)
        by_block[b] = (double)blocks->words[b * WORDS + 1 + half * HALF_WORDS + word] * 0x1p-20;
    hs_bootstrap_draw(bootstrap, by_block, ret);
}

/* Draws the ratio. sums: memory for the sums of both halves. */
static void ratio_draw(const hs_bootstrap *bootstrap, const hs_blocks *blocks, hs_draws sums[2][HALF_WORDS],
                       hs_draws ret)
{
    for (size_t half = 0; half < 2; half++)
        for (size_t word = 0; word < HALF_WORDS; word++)
            sum_draw(bootstrap, blocks, half, word, sums[half][word]);
    for (size_t draw = 0; draw <= HS_BOOTSTRAP_DRAWS; draw++) {
        hs_snr_half halves[2];
        hs_snr_vector xy[2];
        double yy[2];
        for (size_t half = 0; half < 2; half++) {
            for (size_t k = 0; k < PRODUCTS; k++)
                halves[half].products[k / HS_SNR_TERMS][k % HS_SNR_TERMS] = sums[half][k][draw];
            hs_snr_half_factor(&halves[half]);
            for (size_t k = 0; k < HS_SNR_TERMS; k++)
                xy[half][k] = sums[half][PRODUCTS + k][draw];
            yy[half] = sums[half][PRODUCTS + HS_SNR_TERMS][draw];
        }
        ret[draw] = hs_snr_ratio(halves, (const hs_snr_vector *)xy, yy, NULL);
    }
}

/* The interval covers the ratio of the population in 93 to 97 % of the corpora. */
START_TEST(intervals_cover_the_ratio_of_the_population)
{
    hs_blocks *blocks = hs_blocks_create(WORDS);
    hs_bootstrap *bootstrap = malloc(sizeof *bootstrap);
    hs_snr_text *memory = hs_snr_text_create(TOKENS);
    hs_draws(*sums)[HALF_WORDS] = malloc(2 * sizeof *sums), draws;
    size_t n_covered = 0;
    seed = 42;
    corpus_add(blocks, memory, POPULATION);
    hs_bootstrap_init(bootstrap, blocks, 0);
    ratio_draw(bootstrap, blocks, sums, draws);
    const double truth = draws[0];
    ck_assert(truth > 0.02);
    for (size_t run = 0; run < RUNS; run++) {
        hs_blocks_clear(blocks);
        corpus_add(blocks, memory, TEXTS);
        hs_bootstrap_init(bootstrap, blocks, 0);
        ratio_draw(bootstrap, blocks, sums, draws);
        const hs_interval interval = hs_bootstrap_interval(bootstrap, draws);
        ck_assert(interval.low < draws[0] && draws[0] < interval.high);
        n_covered += interval.low < truth && truth < interval.high;
    }
    ck_assert_msg(n_covered >= RUNS * 93 / 100 && n_covered <= RUNS * 97 / 100,
                  "%zu of %d intervals cover %g", n_covered, RUNS, truth);
    hs_snr_text_destroy(memory);
    free(sums);
    free(blocks);
    free(bootstrap);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("snr");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 0);
    suite_add_tcase(suite, tc);
    tcase_add_test(tc, intervals_cover_the_ratio_of_the_population);
    return tests_run(suite);
}
