/* test_int8.c - int8 products of every instruction set that this CPU has, against plain C: the same bits,
 * and within the rounding of 8 bits of the float product. */
#include "engine/kernels/int8.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float next_float(void) /* in [-1, 1) */
{
    static uint32_t state = 1;
    state = state * 1664525 + 1013904223;
    return (float)(state >> 8) / 8388608.0f - 1;
}

static void *make(size_t n, size_t size)
{
    void *made = calloc(n ? n : 1, size);
    ck_assert_ptr_nonnull(made);
    return made;
}

static float *make_floats(size_t n)
{
    float *floats = make(n, sizeof *floats);
    for (size_t i = 0; i < n; i++)
        floats[i] = next_float();
    return floats;
}

/* x = scale * (u - zero), by the letter of int8.h; the scale is NaN where it has to be. */
static int32_t byte_of(float x, float inverse, int32_t zero)
{
    const int32_t u = (int32_t)lrintf(x * inverse) + zero;
    return u < 0 ? 0 : u > 255 ? 255 : u;
}

static float row_scale(size_t K, const float *x, float *ret_inverse, int32_t *ret_zero)
{
    float low = 0, high = 0;
    *ret_inverse = 0;
    *ret_zero = 0;
    for (size_t k = 0; k < K; k++) {
        if (!isfinite(x[k]))
            return NAN;
        low = fminf(low, x[k]);
        high = fmaxf(high, x[k]);
    }
    if (!isfinite(high - low))
        return NAN;
    if (!(high - low > 0 && isfinite(255 / (high - low))))
        return 0;
    *ret_inverse = 255 / (high - low);
    *ret_zero = -(int32_t)lrintf(low * *ret_inverse);
    return (high - low) / 255;
}

static float column_scale(size_t K, const float *w, float *ret_inverse)
{
    float most = 0;
    for (size_t k = 0; k < K; k++)
        most = fmaxf(most, fabsf(w[k]));
    *ret_inverse = most > 0 && isfinite(127 / most) ? 127 / most : 0;
    return *ret_inverse > 0 ? most / 127 : 0;
}

/* One number of y, and how far from the product of the floats it may be. */
static float expected_at(size_t K, const float *x, const float *w, float bias, double *ret_exact,
                         double *ret_bound)
{
    float x_inverse, w_inverse;
    int32_t zero;
    int64_t sum = 0;
    const float x_scale = row_scale(K, x, &x_inverse, &zero), w_scale = column_scale(K, w, &w_inverse);
    double x_sum = 0, w_sum = 0;
    *ret_exact = bias;
    for (size_t k = 0; k < K && !isnan(x_scale); k++) {
        sum += (byte_of(x[k], x_inverse, zero) - zero) * (int64_t)lrintf(w[k] * w_inverse);
        *ret_exact += (double)x[k] * w[k];
        x_sum += fabs(x[k]);
        w_sum += fabs(w[k]);
    }
    /* A number of x is off by a step at most: half of one by its own rounding, half by the zero's. */
    *ret_bound = 1.01 * (x_scale * w_sum + w_scale / 2 * (x_sum + x_scale * (double)K)) + 1e-5 * fabs(bias);
    return fmaf((float)sum, w_scale * x_scale, bias);
}

typedef struct problem {
    size_t n_rows, K, n;
    float *x, *w, *bias; /* [n_rows][K], [n][K], [n] rounded up */
} problem;

static size_t rounded_up(const hs__int8_kernels *kernels, size_t n)
{
    return (n + kernels->lanes - 1) / kernels->lanes * kernels->lanes;
}

static problem make_problem(size_t n_rows, size_t K, size_t n)
{
    return (problem){n_rows, K, n, make_floats(n_rows * K), make_floats(n * K), make_floats(n + 64)};
}

static void free_problem(const problem *p)
{
    free(p->x), free(p->w), free(p->bias);
}

enum { BESIDE = 3 }; /* numbers beside a row of y, which stay as they were */

/* y [n_rows][n + BESIDE] */
static float *multiply(const hs__int8_kernels *kernels, const problem *p)
{
    const size_t depth = kernels->depth(p->K), step = kernels->conversion.words(p->K),
                 end = rounded_up(kernels, p->n), ldy = p->n + BESIDE;
    uint32_t *panels = make(depth * end, sizeof *panels);
    uint32_t *x = aligned_alloc(64, (p->n_rows * step * sizeof *x + 63) / 64 * 64);
    int32_t *sums = make(end, sizeof *sums);
    float *scales = make(end, sizeof *scales), *y = make(p->n_rows * ldy, sizeof *y);
    for (size_t i = 0; i < p->n_rows * ldy; i++)
        y[i] = 7;
    kernels->conversion.convert(p->n_rows, p->K, p->x, p->K, NULL, x);
    for (size_t c = 0; c < p->n; c += kernels->panel) {
        const size_t width = p->n - c < kernels->panel ? p->n - c : kernels->panel;
        hs__int8_pack(kernels, p->K, width, p->w + c * p->K, panels + c * depth, scales + c, sums + c);
        kernels->product(p->n_rows, depth, x, step, panels + c * depth, width, scales + c, sums + c,
                         p->bias + c, c ? panels : NULL, y + c, ldy);
    }
    free(panels), free(x), free(sums), free(scales);
    return y;
}

static bool same_bits(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static void check_problem(const hs__int8_kernels *kernels, const problem *p)
{
    float *y = multiply(kernels, p);
    size_t n_wrong = 0, n_far = 0;
    for (size_t i = 0; i < p->n_rows; i++) {
        for (size_t c = 0; c < p->n; c++) {
            double exact, bound;
            const float got = y[i * (p->n + BESIDE) + c];
            const float expected =
                expected_at(p->K, p->x + i * p->K, p->w + c * p->K, p->bias[c], &exact, &bound);
            n_wrong += !same_bits(got, expected);
            n_far += !isnan(expected) && !(fabs(got - exact) <= bound);
        }
        for (size_t c = p->n; c < p->n + BESIDE; c++)
            n_wrong += y[i * (p->n + BESIDE) + c] != 7;
    }
    ck_assert_msg(n_wrong == 0 && n_far == 0, "%s %zu x %zu x %zu: %zu wrong, %zu far", kernels->name,
                  p->n_rows, p->K, p->n, n_wrong, n_far);
    free(y);
}

START_TEST(products_have_the_bits_of_the_reference)
{
    static const size_t sizes[] = {1,  2,  3,  4,  5,  7,  8,  9,  10, 15, 16,
                                   17, 18, 31, 33, 47, 48, 49, 64, 97, 145};
    enum { N_SIZES = sizeof sizes / sizeof *sizes };
    const hs__int8_kernels *kernels;
    for (size_t set = 0; (kernels = hs__int8_kernels_at(set)); set++)
        for (size_t r = 0; r < N_SIZES; r++)
            for (size_t k = 0; k < N_SIZES; k += 2)
                for (size_t c = r % 3; c < N_SIZES; c += 3) {
                    const problem p = make_problem(sizes[r], sizes[k], sizes[c]);
                    check_problem(kernels, &p);
                    free_problem(&p);
                }
}
END_TEST

/* Rows as they come from gelu, and rows on one side of 0 only. */
START_TEST(rows_on_one_side_of_zero_use_all_steps)
{
    const hs__int8_kernels *kernels;
    for (size_t set = 0; (kernels = hs__int8_kernels_at(set)); set++) {
        const problem p = make_problem(20, 64, 50);
        for (size_t i = 0; i < 20 * 64; i++)
            p.x[i] = i / 64 % 2 ? fabsf(p.x[i]) + 3 : p.x[i] > 0 ? p.x[i] : -0.1f;
        check_problem(kernels, &p);
        free_problem(&p);
    }
}
END_TEST

/* The longest sums there may be, all at the end of their range: 255 and 127 in every place. */
START_TEST(the_longest_sums_do_not_overflow)
{
    const hs__int8_kernels *kernels;
    for (size_t set = 0; (kernels = hs__int8_kernels_at(set)); set++) {
        const problem p = make_problem(4, HS_INT8_DEPTH_MAX, 2);
        for (size_t k = 0; k < p.K; k++) {
            for (size_t i = 0; i < p.n_rows; i++)
                p.x[i * p.K + k] = i == 0   ? 1
                                   : i == 1 ? -1
                                   : i == 2 ? (k % 2 ? 1.0f : -1.0f)
                                            : (float)(k % 2);
            p.w[k] = 0.5f;
            p.w[p.K + k] = -0.5f;
        }
        check_problem(kernels, &p);
        free_problem(&p);
    }
}
END_TEST

START_TEST(rows_without_a_range_are_zeros)
{
    const hs__int8_kernels *kernels;
    for (size_t set = 0; (kernels = hs__int8_kernels_at(set)); set++) {
        const problem p = make_problem(11, 37, 50);
        for (size_t k = 0; k < p.K; k++) {
            p.x[3 * p.K + k] = 0;
            p.x[5 * p.K + k] = k % 2 ? FLT_MIN / 8 : -FLT_MIN;
            p.w[7 * p.K + k] = 0;
            p.w[8 * p.K + k] = FLT_MIN / 2;
        }
        check_problem(kernels, &p);
        float *y = multiply(kernels, &p);
        for (size_t c = 0; c < p.n; c++) {
            ck_assert(y[3 * (p.n + BESIDE) + c] == p.bias[c]);
            ck_assert(y[5 * (p.n + BESIDE) + c] == p.bias[c]);
        }
        for (size_t i = 0; i < p.n_rows; i++) {
            ck_assert(y[i * (p.n + BESIDE) + 7] == p.bias[7]);
            ck_assert(y[i * (p.n + BESIDE) + 8] == p.bias[8]);
        }
        free(y);
        free_problem(&p);
    }
}
END_TEST

/* Nothing is hidden by rounding: such a row is NaN as a whole, and no other is. */
START_TEST(rows_that_are_not_finite_are_nan)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    const hs__int8_kernels *kernels;
    for (size_t set = 0; (kernels = hs__int8_kernels_at(set)); set++)
        for (size_t place = 0; place < 37; place++) {
            const problem p = make_problem(11, 37, 20);
            for (size_t b = 0; b < 3; b++)
                p.x[(2 + 3 * b) * p.K + place] = bad[b];
            p.x[10 * p.K] = FLT_MAX; /* finite, but their range is not */
            p.x[10 * p.K + 1] = -FLT_MAX;
            check_problem(kernels, &p);
            float *y = multiply(kernels, &p);
            for (size_t i = 0; i < p.n_rows; i++)
                for (size_t c = 0; c < p.n; c++)
                    ck_assert_int_eq(isnan(y[i * (p.n + BESIDE) + c]) != 0,
                                     i == 2 || i == 5 || i == 8 || i == 10);
            free(y);
            free_problem(&p);
        }
}
END_TEST

START_TEST(rows_do_not_depend_on_their_neighbours)
{
    const hs__int8_kernels *kernels;
    for (size_t set = 0; (kernels = hs__int8_kernels_at(set)); set++) {
        const problem p = make_problem(23, 300, 70);
        float *together = multiply(kernels, &p);
        for (size_t i = 0; i < p.n_rows; i++) {
            const problem one = {1, p.K, p.n, p.x + i * p.K, p.w, p.bias};
            float *alone = multiply(kernels, &one);
            ck_assert_mem_eq(alone, together + i * (p.n + BESIDE), p.n * sizeof *alone);
            free(alone);
        }
        free(together);
        free_problem(&p);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("int8");
    TCase *tcase = tcase_create("against a reference");
    if (!hs__int8_kernels_select())
        printf("this CPU multiplies no bytes: nothing is tested\n");
    tcase_add_test(tcase, products_have_the_bits_of_the_reference);
    tcase_add_test(tcase, rows_on_one_side_of_zero_use_all_steps);
    tcase_add_test(tcase, the_longest_sums_do_not_overflow);
    tcase_add_test(tcase, rows_without_a_range_are_zeros);
    tcase_add_test(tcase, rows_that_are_not_finite_are_nan);
    tcase_add_test(tcase, rows_do_not_depend_on_their_neighbours);
    suite_add_tcase(suite, tcase);
    return tests_run(suite);
}
