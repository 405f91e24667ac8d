/* test_distances.c - distances of heads against the formulas of distances.h as plain loops. */
#include "engine/analysis/distances.h"
#include "suite.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_MAX = 64, HEADS_MAX = 19 };

static float *maps[HEADS_MAX];

static float random_number(void)
{
    static uint32_t state = 17;
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 16777216.0F;
}

/* Similarities are NAN below the diagonal; rows of attention sum to 1, and some elements are 0. */
static void maps_make(size_t n_heads, size_t T, bool attention)
{
    for (size_t h = 0; h < n_heads; h++) {
        maps[h] = calloc(T * T, sizeof *maps[h]);
        for (size_t i = 0; i < T; i++) {
            float sum = 0;
            for (size_t j = 0; j < T; j++)
                sum += maps[h][i * T + j] = attention
                                                ? (j > 0 && random_number() < 0.2F ? 0 : random_number())
                                            : i < j ? 3 * random_number() - 1
                                                    : NAN;
            for (size_t j = 0; j < T && attention; j++)
                maps[h][i * T + j] /= sum;
        }
    }
}

static void maps_free(size_t n_heads)
{
    for (size_t h = 0; h < n_heads; h++)
        free(maps[h]);
}

static double element(const float *map, size_t T, size_t i, size_t j)
{
    return i == j ? 0 : (double)map[i < j ? i * T + j : j * T + i];
}

/* Writes u of a map to ret [T][T], and 0 to its diagonal. */
static void centre(const float *map, size_t T, double *ret)
{
    const double n = (double)T;
    double rows[TOKENS_MAX] = {0}, sum = 0;
    for (size_t i = 0; i < T; i++)
        for (size_t j = 0; j < T; j++) {
            rows[i] += element(map, T, i, j);
            sum += element(map, T, i, j);
        }
    for (size_t i = 0; i < T; i++)
        for (size_t j = 0; j < T; j++)
            ret[i * T + j] =
                i == j ? 0
                       : element(map, T, i, j) - (rows[i] + rows[j]) / (n - 2) + sum / ((n - 1) * (n - 2));
}

static const struct {
    size_t n_heads, n_tokens;
} cases[] = {{1, 4}, {2, 5}, {3, 18}, {HEADS_MAX, 17}, {5, 46}, {HEADS_MAX, TOKENS_MAX}};

/* More than 1024 elements, a block, are above the diagonal from 46 tokens on. */
START_TEST(hsic_is_that_of_centred_maps)
{
    const size_t n = cases[_i].n_heads, T = cases[_i].n_tokens, bytes = hs_heads_hsic_bytes(n, T);
    double sums[HEADS_MAX * HEADS_MAX], expected[HEADS_MAX * HEADS_MAX];
    double *centred = calloc(n * T * T, sizeof *centred);
    unsigned char *scratch = aligned_alloc(64, (bytes / 64 + 2) * 64);
    memset(scratch, 0xa5, (bytes / 64 + 2) * 64);
    maps_make(n, T, false);
    for (size_t h = 0; h < n; h++)
        centre(maps[h], T, centred + h * T * T);
    for (size_t k = 0; k < n * n; k++)
        sums[k] = 100;
    ck_assert(
        hs_heads_hsic_add_in(&(hs_head_rows){0}, n, 3, scratch, sums)); /* adds nothing, loads no rows */
    hs_heads_hsic_add((const float *const *)maps, n, T, scratch, sums);
    for (size_t k = bytes; k < (bytes / 64 + 2) * 64; k++)
        ck_assert_uint_eq(scratch[k], 0xa5);
    for (size_t a = 0; a < n; a++)
        for (size_t b = a; b < n; b++) {
            double sum = 0;
            for (size_t k = 0; k < T * T; k++)
                sum += centred[a * T * T + k] * centred[b * T * T + k];
            expected[a * n + b] = expected[b * n + a] = sum / (double)(T * (T - 3));
            ck_assert_double_eq_tol(sums[a * n + b] - 100, expected[a * n + b], 2e-5);
            sums[a * n + b] = expected[a * n + b];
        }
    hs_heads_cka_distance(sums, n);
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++)
            ck_assert_double_eq_tol(sums[a * n + b],
                                    1 - expected[a * n + b] / sqrt(expected[a * n + a] * expected[b * n + b]),
                                    1e-12);
    maps_free(n);
    free(centred);
    free(scratch);
}
END_TEST

START_TEST(heads_without_variation_have_no_cka)
{
    double sums[] = {4, 1, 6, 0, 0, 1, 0, 0, 9}; /* HSIC of the second head is 0 */
    const double expected[] = {0, NAN, 0, NAN, NAN, NAN, 0, NAN, 0};
    hs_heads_cka_distance(sums, 3);
    for (size_t k = 0; k < 9; k++)
        ck_assert(isnan(expected[k]) ? isnan(sums[k]) : sums[k] == expected[k]);
}
END_TEST

static double entropy(const float *p, const float *q, size_t n)
{
    double sum = 0;
    for (size_t j = 0; j < n; j++) {
        const double m = ((double)p[j] + (double)q[j]) / 2;
        sum -= m > 0 ? m * log(m) : 0;
    }
    return sum;
}

START_TEST(js_is_the_mean_divergence_of_rows)
{
    const size_t n = cases[_i].n_heads, T = cases[_i].n_tokens;
    double sums[HEADS_MAX * HEADS_MAX] = {0}, entropies[HEADS_MAX];
    maps_make(n, T, true);
    for (size_t row = 0; row < T; row++) {
        hs_heads_js_add(NULL, 1, (const float *const *)maps, n, T, T, row, entropies, sums);
        for (size_t h = 0; h < n; h++)
            ck_assert_double_eq_tol(entropies[h], entropy(maps[h] + row * T, maps[h] + row * T, T), 2e-6);
    }
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++) {
            double sum = 0;
            for (size_t i = 0; i < T; i++) {
                const float *p = maps[a] + i * T, *q = maps[b] + i * T;
                sum += entropy(p, q, T) - entropy(p, p, T) / 2 - entropy(q, q, T) / 2;
            }
            ck_assert_double_eq_tol(sums[a * n + b], a < b ? sum / (double)T : 0, 2e-6);
        }
    maps_free(n);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("distances");
    TCase *tc = tcase_create("all");
    const int n_cases = sizeof cases / sizeof *cases;
    tcase_add_loop_test(tc, hsic_is_that_of_centred_maps, 0, n_cases);
    tcase_add_test(tc, heads_without_variation_have_no_cka);
    tcase_add_loop_test(tc, js_is_the_mean_divergence_of_rows, 0, n_cases);
    suite_add_tcase(suite, tc);
    return tests_run(suite);
}
