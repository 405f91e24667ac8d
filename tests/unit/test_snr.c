/* test_snr.c - sums and fits of snr.h against plain loops; intervals cover the ratio of the population that
 * texts are drawn from. */
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
    hs_bootstrap_init(bootstrap, blocks, 0, SIZE_MAX);
    ratio_draw(bootstrap, blocks, sums, draws);
    const double truth = draws[0];
    ck_assert(truth > 0.02);
    for (size_t run = 0; run < RUNS; run++) {
        hs_blocks_clear(blocks);
        corpus_add(blocks, memory, TEXTS);
        hs_bootstrap_init(bootstrap, blocks, 0, SIZE_MAX);
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

/* ---- sums of one text, against plain loops over pairs ---- */

enum { LONG = 32 }; /* whole cache lines: a write behind an array is one to the next array */

/* A text whose first and last token, and one within, are special. */
typedef struct plain_text {
    hs_corpus_text text;
    int32_t ids[LONG];
    uint8_t special[LONG], roles[LONG];
    float similarity[LONG * LONG];
} plain_text;

/* Distinct ids are `n_ids`; every `sentence`-th token ends one. */
static void plain_make(plain_text *x, size_t n, uint64_t number, int n_ids, size_t sentence)
{
    for (size_t i = 0; i < n; i++) {
        x->special[i] = i == 0 || i == n - 1 || i == n / 2;
        x->ids[i] = (int32_t)(random_number() * n_ids);
        x->roles[i] = i % sentence == sentence - 1 ? HS_ROLE_SENTENCE_END : HS_ROLE_OTHER;
        for (size_t j = 0; j < n; j++)
            x->similarity[i * n + j] = i < j ? (float)(1 + noise()) : NAN;
    }
    x->text = (hs_corpus_text){
        .number = number, .n_tokens = n, .ids = x->ids, .special = x->special, .roles = x->roles};
}

/* Ids and sentences of the kept tokens as a model sees them. Null models have the ids of the model
 * before in another order, drawn by Fisher and Yates with splitmix64, and sentences that are rotated by a
 * number of tokens. */
typedef struct model_view {
    size_t n, places[LONG];
    int32_t ids[LONG], sentences[LONG];
} model_view;

static void view_make(const plain_text *x, size_t model, model_view *v)
{
    const size_t T = x->text.n_tokens;
    int32_t numbers[LONG] = {0}, sentence = 0;
    size_t rotation = 0;
    v->n = 0;
    for (size_t i = 0; i < T; i++) {
        if (x->special[i])
            continue;
        if (v->n > 0 && x->roles[v->places[v->n - 1]] == HS_ROLE_SENTENCE_END &&
            x->roles[i] != HS_ROLE_SENTENCE_END)
            sentence++;
        numbers[v->n] = sentence;
        v->places[v->n] = i;
        v->ids[v->n++] = x->ids[i];
    }
    for (size_t m = 1; m <= model; m++) {
        uint64_t state = x->text.number * HS_SNR_MODELS + m;
        rotation = 1 + (size_t)(hs_mix(state += HS_MIX_STEP) % (v->n - 1));
        for (size_t k = v->n - 1; k > 0; k--) {
            const size_t at = (size_t)(hs_mix(state += HS_MIX_STEP) % (k + 1));
            const int32_t id = v->ids[k];
            v->ids[k] = v->ids[at];
            v->ids[at] = id;
        }
    }
    v->sentences[0] = 0;
    for (size_t k = 1; k < v->n; k++)
        v->sentences[k] =
            v->sentences[k - 1] + (numbers[(k + rotation) % v->n] != numbers[(k - 1 + rotation) % v->n]);
}

static void pair_terms(const plain_text *x, const model_view *v, size_t a, size_t b, double ret[HS_SNR_TERMS])
{
    const double T = (double)x->text.n_tokens, i = (double)v->places[a], j = (double)v->places[b], d = j - i;
    const bool token = v->ids[a] == v->ids[b], sentence = v->sentences[a] == v->sentences[b];
    const double terms[] = {1,     log(d), d == 1, d == 2,   d == 3,           d == 4, 1 / (1 + d / 8),
                            i / T, j / T,  token,  sentence, token && sentence};
    memcpy(ret, terms, sizeof terms);
}

static void assert_close(double actual, double expected)
{
    ck_assert_msg(fabs(actual - expected) < 1e-9 * fmax(1, fabs(expected)), "%.15g != %.15g", actual,
                  expected);
}

/* Compares X'X, X'y and y'y of all models. */
static void assert_sums(hs_snr_text *memory, const plain_text *x)
{
    hs_snr_vector xy[HS_SNR_MODELS];
    hs_snr_text_find(memory, &x->text);
    const uint64_t n_pairs = hs_snr_head_find(memory, x->similarity, xy);
    for (size_t m = 0; m < HS_SNR_MODELS; m++) {
        hs_snr_matrix products = {{0}};
        hs_snr_vector sums = {0};
        double n = 0, sum = 0, squares = 0, terms[HS_SNR_TERMS];
        model_view v;
        view_make(x, m, &v);
        for (size_t a = 0; a < v.n; a++)
            for (size_t b = a + 1; b < v.n; b++) {
                const double s = (double)x->similarity[v.places[a] * x->text.n_tokens + v.places[b]];
                pair_terms(x, &v, a, b, terms);
                n++;
                sum += s;
                squares += s * s;
                for (size_t k = 0; k < HS_SNR_TERMS; k++) {
                    sums[k] += s * terms[k];
                    for (size_t other = 0; other < HS_SNR_TERMS; other++)
                        products[k][other] += terms[k] * terms[other];
                }
            }
        ck_assert_uint_eq(n_pairs, (uint64_t)n);
        for (size_t k = 0; k < HS_SNR_TERMS; k++) {
            assert_close(xy[m][k],
                         (sums[k] - sum / n * products[0][k]) / sqrt(squares / n - sum / n * (sum / n)));
            for (size_t other = 0; other < HS_SNR_TERMS; other++)
                assert_close((*hs_snr_text_products(memory, m))[k][other], products[k][other]);
        }
    }
}

/* Texts of many lengths, one after the other in the same memory. */
START_TEST(sums_are_those_of_plain_loops)
{
    hs_snr_text *memory = hs_snr_text_create(LONG);
    plain_text x;
    seed = 7;
    for (size_t n = LONG; n >= 6; n -= 4)
        for (size_t sentence = 2; sentence <= 7; sentence += 5) {
            plain_make(&x, n, n + 100 * sentence, 5, sentence);
            assert_sums(memory, &x);
        }
    hs_snr_text_destroy(memory);
}
END_TEST

static bool is_empty(const hs_snr_text *memory)
{
    bool empty = true;
    for (size_t m = 0; m < HS_SNR_MODELS; m++)
        for (size_t k = 0; k < PRODUCTS; k++)
            empty = empty && (*hs_snr_text_products(memory, m))[k / HS_SNR_TERMS][k % HS_SNR_TERMS] == 0;
    return empty;
}

/* Two tokens that are not special, equal similarities and infinite ones: y is 0. */
START_TEST(nothing_to_explain_gives_no_pairs)
{
    hs_snr_text *memory = hs_snr_text_create(LONG);
    hs_snr_vector xy[HS_SNR_MODELS], zeros[HS_SNR_MODELS] = {{0}};
    plain_text x;
    seed = 8;
    plain_make(&x, 5, 1, 3, 2);
    hs_snr_text_find(memory, &x.text);
    ck_assert(is_empty(memory));
    ck_assert_uint_eq(hs_snr_head_find(memory, x.similarity, xy), 0);
    ck_assert_mem_eq(xy, zeros, sizeof xy);
    plain_make(&x, 12, 1, 3, 2);
    hs_snr_text_find(memory, &x.text);
    ck_assert(!is_empty(memory));
    for (int kind = 0; kind < 3; kind++) {
        for (size_t k = 0; k < 144; k++)
            x.similarity[k] = kind == 0 ? 0.1F : kind == 1 ? 0 : k == 14 ? INFINITY : (float)k;
        ck_assert_uint_eq(hs_snr_head_find(memory, x.similarity, xy), 0);
        ck_assert_mem_eq(xy, zeros, sizeof xy);
    }
    hs_snr_text_destroy(memory);
}
END_TEST

/* ---- fits, against Gaussian elimination ---- */

/* Solves the normal equations of the first n terms that are `used`; others have the coefficient 0. */
static void solve(const hs_snr_half *half, const hs_snr_vector xy, size_t n, const bool *used,
                  double ret[HS_SNR_TERMS])
{
    double rows[HS_SNR_TERMS][HS_SNR_TERMS + 1];
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < n; k++)
            rows[i][k] = used[i] && used[k] ? half->products[i][k] : i == k;
        rows[i][n] = used[i] ? xy[i] : 0;
    }
    for (size_t p = 0; p < n; p++)
        for (size_t i = 0; i < n; i++) {
            const double factor = rows[i][p] / rows[p][p];
            for (size_t k = 0; k <= n && i != p; k++)
                rows[i][k] -= factor * rows[p][k];
        }
    for (size_t i = 0; i < n; i++)
        ret[i] = rows[i][n] / rows[i][i];
}

/* Returns the squared errors in a half of coefficients. */
static double squared_errors(const hs_snr_half *half, const hs_snr_vector xy, double yy, size_t n,
                             const double *b)
{
    double errors = yy;
    for (size_t i = 0; i < n; i++) {
        errors -= 2 * b[i] * xy[i];
        for (size_t k = 0; k < n; k++)
            errors += b[i] * b[k] * half->products[i][k];
    }
    return errors;
}

/* Tokens of the second half repeat only within a sentence: the last term depends on another one, and gets no
 * coefficient. */
START_TEST(ratios_are_those_of_normal_equations)
{
    hs_snr_text *memory = hs_snr_text_create(LONG);
    hs_snr_half halves[2] = {0};
    hs_snr_vector xy[2] = {{0}}, one[HS_SNR_MODELS];
    double yy[2] = {0}, expected[2], errors[2][2], gain = 0, rest = 0;
    seed = 9;
    for (uint64_t number = 0; number < 40; number++) {
        plain_text x;
        plain_make(&x, 20, number, 4, number % 2 ? 3 : 5);
        for (size_t i = 0; i < 20 && number % 2; i++)
            x.ids[i] = (int32_t)(i - (i % 3 == 1));
        for (size_t k = 0; k < 400; k++)
            x.similarity[k] += k % 20 / 5 == k / 20 / 5 ? 0.7F : 0;
        hs_snr_text_find(memory, &x.text);
        yy[number % 2] += (double)hs_snr_head_find(memory, x.similarity, one);
        for (size_t k = 0; k < HS_SNR_TERMS; k++) {
            xy[number % 2][k] += one[0][k];
            for (size_t other = 0; other < HS_SNR_TERMS; other++)
                halves[number % 2].products[k][other] += (*hs_snr_text_products(memory, 0))[k][other];
        }
    }
    const bool used[2][HS_SNR_TERMS] = {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
                                        {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0}};
    for (size_t p = 0; p < 2; p++) {
        hs_snr_half_factor(&halves[p]);
        for (size_t full = 0; full < 2; full++) {
            double b[HS_SNR_TERMS];
            const size_t n = full ? HS_SNR_TERMS : HS_SNR_BASE;
            solve(&halves[1 - p], xy[1 - p], n, used[1 - p], b);
            errors[p][full] = squared_errors(&halves[p], xy[p], yy[p], n, b);
        }
        gain += errors[p][0] - errors[p][1];
        rest += errors[p][1];
    }
    const double ratio = hs_snr_ratio(halves, (const hs_snr_vector *)xy, yy, expected);
    ck_assert_msg(fabs(ratio - gain / rest) < 1e-6, "%.12g != %.12g", ratio, gain / rest);
    ck_assert(fabs(ratio) > 0.01);
    for (size_t p = 0; p < 2; p++)
        ck_assert_double_eq_tol(expected[p], errors[p][0] / errors[p][1] - 1, 1e-6);
    for (size_t p = 0; p < 2; p++) {
        const double none[2] = {p == 0 ? 0 : yy[0], p == 1 ? 0 : yy[1]};
        ck_assert(isnan(hs_snr_ratio(halves, (const hs_snr_vector *)xy, none, expected)));
        ck_assert(isnan(expected[p]) && !isnan(expected[1 - p]));
    }
    hs_snr_text_destroy(memory);
}
END_TEST

/* Adds a text of one sentence to its half. Its similarities depend on the token. */
static void sentence_add(hs_snr_text *memory, uint64_t number, hs_snr_half halves[2], hs_snr_vector xy[2],
                         double yy[2])
{
    const size_t p = number % 2;
    hs_snr_vector one[HS_SNR_MODELS];
    plain_text x;
    plain_make(&x, 20, number, 4, LONG);
    for (size_t k = 0; k < 400; k++)
        x.similarity[k] += x.ids[k / 20] == x.ids[k % 20] ? 1.5F : 0;
    hs_snr_text_find(memory, &x.text);
    yy[p] += (double)hs_snr_head_find(memory, x.similarity, one);
    for (size_t k = 0; k < HS_SNR_TERMS; k++) {
        xy[p][k] += one[0][k];
        for (size_t other = 0; other < HS_SNR_TERMS; other++)
            halves[p].products[k][other] += (*hs_snr_text_products(memory, 0))[k][other];
    }
}

/* In texts of one sentence the last two terms depend on others. They have no ratio, and do not take the place
 * of the first one: its ratio is that of all three. */
START_TEST(terms_that_depend_on_others_have_no_ratio)
{
    hs_snr_text *memory = hs_snr_text_create(LONG);
    hs_snr_half halves[2] = {0};
    hs_snr_vector xy[2] = {{0}};
    double yy[2] = {0}, terms[HS_SNR_LANGUAGE];
    seed = 10;
    for (uint64_t number = 0; number < 40; number++)
        sentence_add(memory, number, halves, xy, yy);
    for (size_t p = 0; p < 2; p++)
        hs_snr_half_factor(&halves[p]);
    const double ratio = hs_snr_ratio(halves, (const hs_snr_vector *)xy, yy, NULL);
    hs_snr_term_ratios(halves, (const hs_snr_vector *)xy, yy, terms);
    ck_assert_msg(ratio > 0.2 && fabs(terms[0] - ratio) < 1e-9, "%g, of all %g", terms[0], ratio);
    ck_assert(isnan(terms[1]) && isnan(terms[2]));
    hs_snr_text_destroy(memory);
}
END_TEST

START_TEST(decibels)
{
    ck_assert_double_eq_tol(hs_snr_decibels(100), 20, 1e-12);
    ck_assert_double_eq_tol(hs_snr_decibels(0.5), -3.010299956639812, 1e-12);
    ck_assert(isnan(hs_snr_decibels(0)) && isnan(hs_snr_decibels(-1)) && isnan(hs_snr_decibels(NAN)));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("snr");
    TCase *tc = tcase_create("all");
    suite_add_tcase(suite, tc);
    tcase_add_test(tc, sums_are_those_of_plain_loops);
    tcase_add_test(tc, nothing_to_explain_gives_no_pairs);
    tcase_add_test(tc, ratios_are_those_of_normal_equations);
    tcase_add_test(tc, terms_that_depend_on_others_have_no_ratio);
    tcase_add_test(tc, decibels);
    tcase_add_test(tc, intervals_cover_the_ratio_of_the_population);
    return tests_run(suite);
}
