/* test_kernels.c - every kernel of every instruction set that this CPU has, against loops in doubles. Arrays
 * have their exact sizes on the heap, so sanitizers see every access beyond them. */
#include "engine/kernels/kernels.h"
#include "model/base/clones.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const size_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 31, 33, 47, 48, 49, 64, 97, 145};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static float next_float(void) /* in [-1, 1) */
{
    static uint32_t state = 1;
    state = state * 1664525 + 1013904223;
    return (float)(state >> 8) / 8388608.0f - 1;
}

static float *make_floats(size_t n, float scale)
{
    float *floats = malloc((n ? n : 1) * sizeof *floats);
    ck_assert_ptr_nonnull(floats);
    for (size_t i = 0; i < n; i++)
        floats[i] = scale * next_float();
    return floats;
}

static float *copy_floats(const float *from, size_t n)
{
    float *floats = make_floats(n, 0);
    memcpy(floats, from, n * sizeof *floats);
    return floats;
}

/* y[i][c] = sum of x[i][k] B[k][c] + bias[c], and the sum of the magnitudes, which bounds the rounding. */
static double product_at(size_t K, size_t n, const float *x, const float *b, float bias, size_t i, size_t c,
                         double *ret_magnitude)
{
    double sum = bias;
    *ret_magnitude = fabs(sum);
    for (size_t k = 0; k < K; k++) {
        sum += (double)x[i * K + k] * b[k * n + c];
        *ret_magnitude += fabs((double)x[i * K + k] * b[k * n + c]);
    }
    return sum;
}

static void check_product(const hs__kernels *kernels, size_t n_rows, size_t K, size_t n, bool with_bias)
{
    const size_t ldy = n + 3, rounded = hs__panels_floats(kernels, 1, n);
    float *x = make_floats(n_rows * K, 1), *b = make_floats(K * n, 1), *bias = make_floats(rounded, 1);
    float *panels = make_floats(hs__panels_floats(kernels, K, n), 0), *y = make_floats(n_rows * ldy, 1);
    float *before = copy_floats(y, n_rows * ldy);

    kernels->pack(K, n, b, n, 1, panels);
    for (size_t c = 0; c < n; c += kernels->panel) {
        const size_t width = n - c < kernels->panel ? n - c : kernels->panel;
        const float *next = c + kernels->panel < n ? panels + K * (c + kernels->panel) : NULL;
        kernels->product(n_rows, K, x, K, panels + K * c, width, with_bias ? bias + c : NULL, next, y + c,
                         ldy);
    }
    size_t n_wrong = 0;
    for (size_t i = 0; i < n_rows; i++) {
        for (size_t c = 0; c < n; c++) {
            double magnitude;
            const double expected = product_at(K, n, x, b, with_bias ? bias[c] : 0, i, c, &magnitude);
            n_wrong += !(fabs(y[i * ldy + c] - expected) <= 4e-7 * magnitude);
        }
        n_wrong += memcmp(y + i * ldy + n, before + i * ldy + n, 3 * sizeof *y) != 0; /* beside the columns */
    }
    ck_assert_msg(n_wrong == 0, "%s %zu x %zu x %zu: %zu wrong", kernels->name, n_rows, K, n, n_wrong);
    free(x), free(b), free(bias), free(panels), free(y), free(before);
}

START_TEST(product_agrees_with_doubles)
{
    const hs__kernels *kernels;
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++)
        for (size_t r = 0; r < N_SIZES - 3; r++)
            for (size_t k = 0; k < N_SIZES; k += 2)
                for (size_t c = 0; c < N_SIZES; c++)
                    check_product(kernels, sizes[r], sizes[k], sizes[c], c % 2 == 0);
}
END_TEST

START_TEST(product_rows_do_not_depend_on_their_neighbours)
{
    const hs__kernels *kernels;
    enum { ROWS = 23, K = 300 };
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++) {
        const size_t n = kernels->panel;
        float *x = make_floats(ROWS * K, 1), *b = make_floats(K * n, 1), *panel = make_floats(K * n, 0);
        float *together = make_floats(ROWS * n, 0), *alone = make_floats(n, 0);
        kernels->pack(K, n, b, 1, K, panel); /* transposed, as weights are */
        kernels->product(ROWS, K, x, K, panel, n, NULL, NULL, together, n);
        for (size_t i = 0; i < ROWS; i++) {
            kernels->product(1, K, x + i * K, K, panel, n, NULL, NULL, alone, n);
            ck_assert_mem_eq(alone, together + i * n, n * sizeof *alone);
        }
        free(x), free(b), free(panel), free(together), free(alone);
    }
}
END_TEST

/* Packing by blocks is packing: columns that lie as rows, in every size. */
/* y[i][j] = sum of x[i][k] w[j][k], and what stands beside y is left alone. */
static void check_dots(const hs__kernels *kernels, size_t n_rows, size_t K, size_t n)
{
    const size_t ldx = K + 1, ldw = K + 2, ldy = n + 3;
    float *x = make_floats(n_rows * ldx, 1), *w = make_floats(n * ldw, 1), *y = make_floats(n_rows * ldy, 1);
    float *before = copy_floats(y, n_rows * ldy);
    kernels->dots(n_rows, K, x, ldx, n, w, ldw, y, ldy);
    for (size_t i = 0; i < n_rows; i++)
        for (size_t j = 0; j < ldy; j++) {
            double sum = 0, magnitude = 0;
            for (size_t k = 0; k < K && j < n; k++) {
                sum += (double)x[i * ldx + k] * w[j * ldw + k];
                magnitude += fabs((double)x[i * ldx + k] * w[j * ldw + k]);
            }
            const double expected = j < n ? sum : before[i * ldy + j];
            ck_assert_double_le(fabs(y[i * ldy + j] - expected), 1e-6 * magnitude);
        }
    free(before);
    free(y);
    free(w);
    free(x);
}

/* ret[i] = sum of |y[i][c] + sum of x[k][i] B[k][c]|; a row's sum does not depend on the rows beside it. */
static void check_absolute_sums(const hs__kernels *kernels, size_t n_rows, size_t K, size_t n)
{
    const size_t ldx = n_rows + 1, ldb = n + 2, ldy = n + 3;
    float *x = make_floats((K + 1) * ldx, 1), *b = make_floats((K + 1) * ldb, 1),
          *y = make_floats(n_rows * ldy, 1), *sums = make_floats(n_rows, 1), alone;
    kernels->absolute_sums(n_rows, K, x, ldx, b, ldb, n, y, ldy, sums);
    for (size_t i = 0; i < n_rows; i++) {
        double expected = 0;
        for (size_t c = 0; c < n; c++) {
            double sum = (double)y[i * ldy + c];
            for (size_t k = 0; k < K; k++)
                sum += (double)x[k * ldx + i] * b[k * ldb + c];
            expected += fabs(sum);
        }
        ck_assert_double_le(fabs(sums[i] - expected), 1e-6 * expected);
        kernels->absolute_sums(1, K, x + i, ldx, b, ldb, n, y + i * ldy, ldy, &alone);
        ck_assert_mem_eq(&alone, sums + i, sizeof alone);
    }
    free(sums), free(y), free(b), free(x);
}

START_TEST(absolute_sums_agree_with_doubles)
{
    const hs__kernels *kernels;
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++)
        for (size_t n_rows = 1; n_rows < 10; n_rows++)
            for (size_t n = kernels->lanes; n < 9 * kernels->lanes; n += kernels->lanes)
                check_absolute_sums(kernels, n_rows, n_rows * 5 % 13, n);
}
END_TEST

static double entropy_of_mean(size_t n, const float *p, const float *q)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const double mean = ((double)p[i] + (double)q[i]) / 2;
        sum -= mean > 0 ? mean * log(mean) : 0;
    }
    return sum;
}

/* Rows of n from 1e-12 to 1, some 0, each with the sum 1; the others begin `at` floats behind. */
static void check_mean_entropies(const hs__kernels *kernels, size_t n)
{
    enum { OTHERS = 3 };
    const size_t at = 5;
    float *rows[OTHERS], got[OTHERS], alone;
    for (size_t r = 0; r < OTHERS; r++) {
        rows[r] = make_floats(at + n, 1);
        float sum = 0;
        for (size_t i = at; i < at + n; i++) {
            rows[r][i] = i % 7 == r && n > 7 ? 0 : powf(10, 6 * (rows[r][i] - 1));
            sum += rows[r][i];
        }
        for (size_t i = at; i < at + n; i++)
            rows[r][i] /= sum;
    }
    const float *p = rows[0] + at;
    kernels->mean_entropies(n, p, OTHERS, (const float *const *)rows, at, got);
    for (size_t r = 0; r < OTHERS; r++) {
        ck_assert_double_le(fabs(got[r] - entropy_of_mean(n, p, rows[r] + at)), 1e-6);
        kernels->mean_entropies(n, p, 1, (const float *const[]){rows[r]}, at, &alone);
        ck_assert_mem_eq(&alone, got + r, sizeof alone);
    }
    for (size_t i = 0; i < n; i++)
        rows[1][at + i] = i == n / 2; /* has no entropy */
    kernels->mean_entropies(n, rows[1] + at, 1, (const float *const[]){rows[1]}, at, &alone);
    ck_assert(alone == 0);
    free(rows[0]), free(rows[1]), free(rows[2]);
}

START_TEST(mean_entropies_agree_with_doubles)
{
    const hs__kernels *kernels;
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++)
        for (size_t i = 0; i < N_SIZES; i++)
            check_mean_entropies(kernels, sizes[i]);
}
END_TEST

START_TEST(dots_agree_with_doubles)
{
    const hs__kernels *kernels;
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++)
        for (size_t i = 0; i < N_SIZES; i++)
            for (size_t n = 1; n < 20; n++) {
                check_dots(kernels, sizes[i], 49, n);
                check_dots(kernels, n, sizes[i], 17);
            }
}
END_TEST

START_TEST(pack_is_the_same_from_rows_and_columns)
{
    const hs__kernels *kernels;
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++)
        for (size_t k = 0; k < N_SIZES; k++)
            for (size_t c = 0; c < N_SIZES; c++) {
                const size_t K = sizes[k], n = sizes[c], size = hs__panels_floats(kernels, K, n);
                float *b = make_floats(K * n, 1), *turned = make_floats(K * n, 1);
                float *one = make_floats(size, 1), *two = make_floats(size, 1);
                for (size_t i = 0; i < K * n; i++)
                    turned[i % n * K + i / n] = b[i];
                kernels->pack(K, n, b, n, 1, one);
                kernels->pack(K, n, turned, 1, K, two);
                ck_assert_mem_eq(one, two, size * sizeof *one);
                free(b), free(turned), free(one), free(two);
            }
}
END_TEST

START_TEST(mirror_completes_a_symmetric_matrix)
{
    const hs__kernels *kernels;
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++)
        for (size_t n = 1; n < 150; n++) {
            float *whole = make_floats(n * n, 1), *part = make_floats(n * n, 1);
            for (size_t i = 0; i < n; i++)
                for (size_t j = 0; j < i; j++)
                    whole[j * n + i] = whole[i * n + j];
            for (size_t i = 0; i < n; i++)
                for (size_t j = i / kernels->panel * kernels->panel; j < n; j++)
                    part[i * n + j] = whole[i * n + j];
            kernels->mirror(n, part);
            ck_assert_mem_eq(part, whole, n * n * sizeof *part);
            free(whole), free(part);
        }
}
END_TEST

/* Rows and columns of every length to rows that begin anywhere in a cache line. */
START_TEST(streams_are_copies)
{
    const hs__kernels *kernels;
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++)
        for (size_t n = 1; n < 80; n++) {
            const size_t panel = kernels->panel, ldx = n + 3, offset = n % 16,
                         ldy = (panel > n ? panel : n) + 5;
            const size_t n_floats = offset + (panel > n ? panel : n) * ldy;
            float *x = make_floats(panel * ldx, 1), *rows = make_floats(n_floats, 1);
            float *columns = copy_floats(rows, n_floats);
            float *rows_expected = copy_floats(rows, n_floats),
                  *columns_expected = copy_floats(rows, n_floats);
            for (size_t i = 0; i < panel; i++)
                for (size_t j = 0; j < n; j++) {
                    rows_expected[offset + i * ldy + j] = x[i * ldx + j];
                    columns_expected[offset + j * ldy + i] = x[i * ldx + j];
                }
            kernels->stream_rows(panel, n, x, ldx, rows + offset, ldy);
            kernels->stream_columns(n, x, ldx, columns + offset, ldy);
            ck_assert_mem_eq(rows, rows_expected, n_floats * sizeof *rows);
            ck_assert_mem_eq(columns, columns_expected, n_floats * sizeof *columns);
            free(x), free(rows), free(columns), free(rows_expected), free(columns_expected);
        }
}
END_TEST

static void check_softmax(const hs__kernels *kernels, size_t n_rows, size_t T, float scale, float magnitude)
{
    float *map = make_floats(n_rows * T, magnitude), *columns = make_floats(T, 0);
    float *logits = copy_floats(map, n_rows * T);
    double *sums = calloc(T, sizeof *sums);
    kernels->softmax(n_rows, T, scale, map, T, columns);
    for (size_t i = 0; i < n_rows; i++) {
        double top = -INFINITY, sum = 0;
        for (size_t j = 0; j < T; j++)
            top = (double)logits[i * T + j] * scale > top ? (double)logits[i * T + j] * scale : top;
        for (size_t j = 0; j < T; j++)
            sum += exp((double)logits[i * T + j] * scale - top);
        for (size_t j = 0; j < T; j++) {
            const double expected = exp((double)logits[i * T + j] * scale - top) / sum;
            /* A logit of size x is only known to x * 2^-24. */
            ck_assert_double_eq_tol(map[i * T + j], expected, 4e-7 + 1.2e-7 * magnitude * scale);
            sums[j] += map[i * T + j];
        }
    }
    for (size_t j = 0; j < T; j++)
        ck_assert_double_eq_tol(columns[j], sums[j], 1e-6 * (double)n_rows);
    free(map), free(columns), free(logits), free(sums);
}

START_TEST(softmax_agrees_with_doubles)
{
    const hs__kernels *kernels;
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++)
        for (size_t t = 0; t < N_SIZES; t++) {
            check_softmax(kernels, 3, sizes[t], 0.125f, 20);
            check_softmax(kernels, 2, sizes[t], 1, 0);
        }
}
END_TEST

/* Rows are computed in pairs, and one may be left. */
START_TEST(softmax_rows_stand_alone)
{
    enum { ROWS = 3 };
    const hs__kernels *kernels;
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++)
        for (size_t t = 0; t < N_SIZES; t++) {
            const size_t T = sizes[t];
            float *map = make_floats(ROWS * T, 20), *alone = copy_floats(map, ROWS * T);
            kernels->softmax(ROWS, T, 0.125f, map, T, NULL);
            for (size_t i = 0; i < ROWS; i++)
                kernels->softmax(1, T, 0.125f, alone + i * T, T, NULL);
            ck_assert_mem_eq(map, alone, ROWS * T * sizeof *map);
            free(map), free(alone);
        }
}
END_TEST

/* One logit far above the rest, and far below: no overflow, no subnormal, no NaN. */
START_TEST(softmax_of_extreme_logits)
{
    const hs__kernels *kernels;
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++) {
        float map[2][5] = {{-3e38f, 3e37f, 0, -100, 88}, {-1e30f, -1e30f, -1e30f, -1e30f, -1e30f}};
        kernels->softmax(2, 5, 1, map[0], 5, NULL);
        const float first[5] = {0, 1, 0, 0, 0};
        ck_assert_mem_eq(map[0], first, sizeof first);
        for (size_t j = 0; j < 5; j++)
            ck_assert_float_eq_tol(map[1][j], 0.2f, 1e-7f);
    }
}
END_TEST

/* Scores of weights around 6e4: they are finite, and half a unit of one is more than e^x takes. */
START_TEST(softmax_of_huge_logits)
{
    enum { N = 21 };
    const float tops[] = {0x1.3p26f, 0x1.234566p33f, -0x1.234566p33f, 0x1.9abcdep37f, 0x1p120f};
    const hs__kernels *kernels;
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++)
        for (size_t t = 0; t < sizeof tops / sizeof *tops; t++) {
            const float scale = 0.17677669f, step = fabsf(nextafterf(tops[t], 0) - tops[t]);
            float map[N];
            double expected[N], sum = 0;
            for (size_t j = 0; j < N; j++) {
                map[j] = j % 5 == 1 ? tops[t] : tops[t] - (float)j * step;
                expected[j] = exp(((double)map[j] - tops[t]) * scale);
                sum += expected[j];
            }
            kernels->softmax(1, N, scale, map, N, NULL);
            for (size_t j = 0; j < N; j++)
                ck_assert_double_eq_tol(map[j], expected[j] / sum, 1e-6);
        }
}
END_TEST

START_TEST(gelu_is_the_exact_one)
{
    const hs__kernels *kernels;
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++)
        for (size_t i = 0; i < 200001; i += 5) {
            float x[5], y[5];
            for (size_t j = 0; j < 5; j++)
                x[j] = y[j] = ((float)(i + j) - 100000) * 1e-4f;
            kernels->activate[HS_GELU](1, 5, y, 5);
            for (size_t j = 0; j < 5; j++) {
                const double expected = x[j] * 0.5 * erfc(-x[j] / sqrt(2));
                ck_assert_double_eq_tol(y[j], expected, 1e-7 + 1e-7 * fabs(expected));
            }
        }
}
END_TEST

START_TEST(gelu_far_out)
{
    const hs__kernels *kernels;
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++) {
        float y[6] = {-1e30f, -50, -14, 14, 1e15f, 1e30f};
        const float expected[6] = {0, 0, 0, 14, 1e15f, 1e30f};
        kernels->activate[HS_GELU](2, 3, y, 3);
        for (size_t j = 0; j < 6; j++)
            ck_assert_float_eq(y[j], expected[j]);
    }
}
END_TEST

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static double quick_gelu(double x)
{
    return x * sigmoid(1.702 * x);
}

static double relu(double x)
{
    return x > 0 ? x : 0;
}

static double silu(double x)
{
    return x * sigmoid(x);
}

static const struct {
    hs_activation activation;
    double (*exact)(double x);
} activations[] = {{HS_GELU_TANH, gelu_tanh}, {HS_QUICK_GELU, quick_gelu}, {HS_RELU, relu}, {HS_SILU, silu}};
enum { N_ACTIVATIONS = sizeof activations / sizeof *activations };

START_TEST(activations_agree_with_doubles)
{
    const hs__kernels *kernels;
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++)
        for (size_t i = 0; i < 400001; i += 21) {
            float x[21], y[21];
            size_t n_wrong = 0;
            for (size_t j = 0; j < 21; j++)
                x[j] = y[j] = ((float)(i + j) - 200000) * 1e-4f;
            kernels->activate[activations[_i].activation](3, 7, y, 7);
            for (size_t j = 0; j < 21; j++) {
                const double expected = activations[_i].exact(x[j]);
                n_wrong += !(fabs(y[j] - expected) <= 1e-7 + 2e-7 * fabs(expected));
            }
            ck_assert_uint_eq(n_wrong, 0);
        }
}
END_TEST

/* Caps multiply tanh, so its error is a part of its value. */
START_TEST(tanh_agrees_with_doubles)
{
    const hs__kernels *kernels;
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++) {
        size_t n_wrong = 0;
        for (size_t i = 0; i < 40000; i++) {
            const float x = ((float)i - 20000) * (i % 2 ? 5e-4f : 1e-6f);
            float y = x;
            kernels->activate[HS_TANH](1, 1, &y, 1);
            n_wrong += !(fabs((double)y - tanh((double)x)) <= 3e-7 * fabs(tanh((double)x)));
        }
        ck_assert_uint_eq(n_wrong, 0);
        float far[6] = {-3e38f, -100, -0.0f, 0, 100, 3e38f};
        const float expected[6] = {-1, -1, 0, 0, 1, 1};
        kernels->activate[HS_TANH](1, 6, far, 6);
        for (size_t j = 0; j < 6; j++)
            ck_assert_float_eq(far[j], expected[j]);
    }
}
END_TEST

START_TEST(activations_far_out)
{
    const hs__kernels *kernels;
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++) {
        float y[8] = {-3e38f, -1e15f, -100, -0.0f, 0, 100, 1e15f, 3e38f};
        const float expected[8] = {0, 0, 0, 0, 0, 100, 1e15f, 3e38f};
        kernels->activate[activations[_i].activation](1, 8, y, 8);
        for (size_t j = 0; j < 8; j++)
            ck_assert_float_eq(y[j], expected[j]);
    }
}
END_TEST

START_TEST(rms_norms_agree_with_doubles)
{
    const hs__kernels *kernels;
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++)
        for (size_t H = 1; H < 70; H += 3) {
            float *x = make_floats(2 * H, 1), *r = make_floats(2 * H, 1), *y = make_floats(2 * H, 1);
            float *gamma = make_floats(H, 1), *beta = make_floats(H, 1);
            kernels->add_rms_norm(2, H, x, r, gamma, beta, 1e-5f, y);
            for (size_t i = 0; i < 2 * H; i++) {
                double squares = 0;
                for (size_t j = i / H * H; j < (i / H + 1) * H; j++)
                    squares += pow((double)x[j] + (double)r[j], 2) / (double)H;
                const double expected =
                    ((double)x[i] + (double)r[i]) / sqrt(squares + 1e-5) * gamma[i % H] + beta[i % H];
                ck_assert_double_eq_tol(y[i], expected, 1e-5);
            }
            free(x), free(r), free(y), free(gamma), free(beta);
        }
}
END_TEST

static void check_norm(const hs__kernels *kernels, size_t n_rows, size_t H, bool residual, float offset)
{
    float *x = make_floats(n_rows * H, 1), *r = make_floats(n_rows * H, 1);
    float *gamma = make_floats(H, 1), *beta = make_floats(H, 1);
    for (size_t i = 0; i < n_rows * H; i++)
        x[i] += offset;
    float *y = copy_floats(residual ? r : x, n_rows * H); /* in place */
    kernels->add_norm(n_rows, H, residual ? x : y, residual ? y : NULL, gamma, beta, 1e-12f, y);
    for (size_t i = 0; i < n_rows; i++) {
        double mean = 0, variance = 0;
        for (size_t j = 0; j < H; j++)
            mean += (x[i * H + j] + (residual ? r[i * H + j] : 0.0)) / (double)H;
        for (size_t j = 0; j < H; j++)
            variance += pow(x[i * H + j] + (residual ? r[i * H + j] : 0.0) - mean, 2) / (double)H;
        for (size_t j = 0; j < H; j++) {
            const double value = x[i * H + j] + (residual ? r[i * H + j] : 0.0);
            const double expected = (value - mean) / sqrt(variance + 1e-12) * gamma[j] + beta[j];
            if (variance > 1e-3)
                ck_assert_double_eq_tol(y[i * H + j], expected, 4e-6 * (1 + fabs(offset)));
            else
                ck_assert(isfinite(y[i * H + j]));
        }
    }
    free(x), free(r), free(gamma), free(beta), free(y);
}

START_TEST(norm_agrees_with_doubles)
{
    const hs__kernels *kernels;
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++)
        for (size_t h = 0; h < N_SIZES; h++) {
            check_norm(kernels, 3, sizes[h], true, 0);
            check_norm(kernels, 2, sizes[h], false, 10);
        }
}
END_TEST

START_TEST(bias_is_added_to_every_row)
{
    const hs__kernels *kernels;
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++)
        for (size_t s = 0; s < N_SIZES; s++) {
            const size_t n = sizes[s];
            float *y = make_floats(3 * n, 1), *bias = make_floats(n, 1), *before = copy_floats(y, 3 * n);
            kernels->add_bias(3, n, bias, y, n);
            for (size_t i = 0; i < 3 * n; i++)
                ck_assert_float_eq(y[i], before[i] + bias[i % n]);
            free(y), free(bias), free(before);
        }
}
END_TEST

/* Rows of the table for distances -(n - 1) .. n - 1. Up to `near` every distance has its own row. Beyond it,
 * `step` distances share one; with step 0, each leaves a row out. */
static int32_t *make_rows(size_t n, int32_t near, int32_t step)
{
    int32_t *rows = malloc((2 * n - 1) * sizeof *rows);
    ck_assert_ptr_nonnull(rows);
    for (int32_t m = 0; m < (int32_t)n; m++) {
        const int32_t more = m <= near ? 0 : step ? (m - near) / step - (m - near) : m - near;
        rows[n - 1 + (size_t)m] = m + more;
        rows[n - 1 - (size_t)m] = -m - more;
    }
    return rows;
}

static void check_picked(const hs__kernels *kernels, size_t n_rows, size_t n, int32_t near, int32_t step)
{
    const size_t lanes = kernels->lanes, width = n_rows > n ? n_rows : n;
    int32_t *rows = make_rows(width, near, step), *middle = rows + width - 1;
    const int32_t first = middle[1 - (ptrdiff_t)n_rows];
    const size_t n_met = (size_t)(middle[n - 1] - first) + 1;
    const size_t along_ld = (n_met + lanes - 1) / lanes * lanes, across_ld = (n + lanes - 1) / lanes * lanes;
    float *along = make_floats(n_rows * along_ld, 1), *across = make_floats(n_met * across_ld, 1);
    float *y = make_floats(n_rows * (n + 1), 1), *before = copy_floats(y, n_rows * (n + 1));
    kernels->add_picked_along(n_rows, n, middle, first, along, along_ld, y, n + 1);
    for (size_t i = 0; i < n_rows; i++)
        for (size_t j = 0; j <= n; j++) {
            const size_t row = j < n ? (size_t)(middle[(ptrdiff_t)j - (ptrdiff_t)i] - first) : 0;
            float *expected = before + i * (n + 1) + j;
            *expected += j < n ? along[i * along_ld + row] : 0;
            ck_assert_float_eq(y[i * (n + 1) + j], *expected);
            *expected += j < n ? across[row * across_ld + j] : 0;
        }
    kernels->add_picked_across(n_rows, n, middle, first, across, across_ld, y, n + 1);
    for (size_t at = 0; at < n_rows * (n + 1); at++)
        ck_assert_float_eq(y[at], before[at]);
    free(rows), free(along), free(across), free(y), free(before);
}

START_TEST(what_distances_have_is_picked)
{
    const hs__kernels *kernels;
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++)
        for (size_t s = 0; s < N_SIZES; s++)
            for (size_t r = 0; r < N_SIZES; r += 3) {
                check_picked(kernels, sizes[r], sizes[s], 1000, 1);
                check_picked(kernels, sizes[r], sizes[s], 5, 7);
                check_picked(kernels, sizes[r], sizes[s], 3, 0);
            }
}
END_TEST

START_TEST(multiply_is_element_by_element)
{
    const hs__kernels *kernels;
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++)
        for (size_t s = 0; s < N_SIZES; s++) {
            const size_t n = sizes[s];
            float *x = make_floats(n, 1), *y = make_floats(n, 1), *before = copy_floats(y, n);
            kernels->multiply(n, x, y);
            for (size_t i = 0; i < n; i++)
                ck_assert_float_eq(y[i], before[i] * x[i]);
            free(x), free(y), free(before);
        }
}
END_TEST

HS_CLONES static double product_added(const volatile double *v)
{
    return v[0] * v[1] + v[2];
}

/* The build forbids the compiler to fuse a product with a sum outside of kernels (-ffp-contract=off): answers
 * would depend on the CPU and the compiler. The exact sum is 2^-60. */
START_TEST(products_are_rounded_before_they_are_added)
{
    const volatile double v[] = {1 + 0x1p-30, 1 + 0x1p-30, -(1 + 0x1p-29)};
    ck_assert(product_added(v) == 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernels");
    TCase *tcase = tcase_create("against doubles");
    tcase_add_test(tcase, product_agrees_with_doubles);
    tcase_add_test(tcase, product_rows_do_not_depend_on_their_neighbours);
    tcase_add_test(tcase, dots_agree_with_doubles);
    tcase_add_test(tcase, absolute_sums_agree_with_doubles);
    tcase_add_test(tcase, mean_entropies_agree_with_doubles);
    tcase_add_test(tcase, pack_is_the_same_from_rows_and_columns);
    tcase_add_test(tcase, mirror_completes_a_symmetric_matrix);
    tcase_add_test(tcase, streams_are_copies);
    tcase_add_test(tcase, softmax_agrees_with_doubles);
    tcase_add_test(tcase, softmax_rows_stand_alone);
    tcase_add_test(tcase, softmax_of_extreme_logits);
    tcase_add_test(tcase, softmax_of_huge_logits);
    tcase_add_test(tcase, gelu_is_the_exact_one);
    tcase_add_test(tcase, gelu_far_out);
    tcase_add_loop_test(tcase, activations_agree_with_doubles, 0, N_ACTIVATIONS);
    tcase_add_test(tcase, tanh_agrees_with_doubles);
    tcase_add_loop_test(tcase, activations_far_out, 0, N_ACTIVATIONS);
    tcase_add_test(tcase, rms_norms_agree_with_doubles);
    tcase_add_test(tcase, norm_agrees_with_doubles);
    tcase_add_test(tcase, bias_is_added_to_every_row);
    tcase_add_test(tcase, what_distances_have_is_picked);
    tcase_add_test(tcase, multiply_is_element_by_element);
    tcase_add_test(tcase, products_are_rounded_before_they_are_added);
    suite_add_tcase(suite, tcase);
    return tests_run(suite);
}
