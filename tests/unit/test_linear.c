/* test_linear.c - results do not depend on the machine: instruction sets and caches named in the
 * environment, the cuts of a product into tasks, and row strides. */
#include "engine/linear/linear.h"
#include "engine/pass/team.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 300, N_IN = 1024, N_OUT = 500, STEP = N_IN + 16, Y_STEP = N_OUT + 12 };

static float *numbers_make(size_t n)
{
    float *numbers = malloc(n * sizeof *numbers);
    ck_assert_ptr_nonnull(numbers);
    uint32_t state = 7;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525 + 1013904223;
        numbers[i] = (float)(state >> 8) / 8388608.0F - 1;
    }
    return numbers;
}

typedef struct subject {
    float *weights, *biases, *x; /* x [ROWS][STEP] */
    const hs_dense *part;
} subject;

/* Every number of y, and 1 where no task may write. */
static float *multiply(const subject *s, const hs__kernels *kernels, size_t cache_bytes, size_t n_threads)
{
    const hs__linear_source source = {
        .parts = &s->part, .n_parts = 1, .cache_bytes = cache_bytes, .x_step = STEP, .y_step = Y_STEP};
    hs__linear *linear = NULL;
    hs_error err = {0};
    ck_assert_int_eq(hs__linear_native.create(&source, kernels, HS_PRECISION_FP32, &linear, &err), HS_OK);
    float *y = malloc(ROWS * Y_STEP * sizeof *y);
    ck_assert_ptr_nonnull(y);
    for (size_t i = 0; i < ROWS * Y_STEP; i++)
        y[i] = 1;
    for (size_t t = 0; t < hs__linear_tasks(linear, ROWS, n_threads); t++)
        hs__linear_run(linear, ROWS, n_threads, s->x, y, t);
    hs__linear_destroy(linear);
    return y;
}

static void check_doubles(const subject *s, const float *y)
{
    for (size_t i = 0; i < ROWS; i += 7)
        for (size_t c = 0; c < Y_STEP; c++) {
            double sum = c < N_OUT ? s->biases[c] : 1;
            for (size_t k = 0; c < N_OUT && k < N_IN; k++)
                sum += (double)s->x[i * STEP + k] * s->weights[c * N_IN + k];
            ck_assert_msg(fabs(y[i * Y_STEP + c] - sum) < 1e-4, "row %zu, column %zu", i, c);
        }
}

START_TEST(no_bit_depends_on_caches_or_threads)
{
    static const size_t caches[] = {128 << 10, 1 << 20, 2 << 20, 64 << 20};
    subject s = {numbers_make(N_OUT * N_IN), numbers_make(N_OUT), numbers_make(ROWS * STEP), NULL};
    const hs_dense dense = {{.data = s.weights, .n_rows = N_OUT, .n_columns = N_IN, .dtype = HS_F32},
                            {.data = s.biases, .n_rows = 1, .n_columns = N_OUT, .dtype = HS_F32}};
    const hs__kernels *kernels;
    s.part = &dense;
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++) {
        float *expected = multiply(&s, kernels, 64 << 20, 1);
        check_doubles(&s, expected);
        for (size_t c = 0; c < sizeof caches / sizeof *caches; c++)
            for (size_t n_threads = 1; n_threads <= 4; n_threads++) {
                float *y = multiply(&s, kernels, caches[c], n_threads);
                ck_assert_mem_eq(y, expected, ROWS * Y_STEP * sizeof *y);
                free(y);
            }
        free(expected);
    }
    free(s.weights), free(s.biases), free(s.x);
}
END_TEST

START_TEST(small_caches_cut_rows)
{
    subject s = {numbers_make(N_OUT * N_IN), numbers_make(N_OUT), numbers_make(ROWS * STEP), NULL};
    const hs_dense dense = {{.data = s.weights, .n_rows = N_OUT, .n_columns = N_IN, .dtype = HS_F32},
                            {.data = s.biases, .n_rows = 1, .n_columns = N_OUT, .dtype = HS_F32}};
    const hs_dense *part = &dense;
    hs__linear *small = NULL, *large = NULL;
    hs_error err = {0};
    hs__linear_source source = {.parts = &part, .n_parts = 1, .cache_bytes = 1 << 20};
    const hs__kernels *kernels = hs__kernels_at(0);
    ck_assert_int_eq(hs__linear_native.create(&source, kernels, HS_PRECISION_FP32, &small, &err), HS_OK);
    source.cache_bytes = 64 << 20;
    ck_assert_int_eq(hs__linear_native.create(&source, kernels, HS_PRECISION_FP32, &large, &err), HS_OK);
    ck_assert_uint_gt(hs__linear_native.split(small, ROWS, 1).n_row_chunks, 1);
    ck_assert_uint_eq(hs__linear_native.split(large, ROWS, 1).n_row_chunks, 1);
    hs__linear_destroy(small), hs__linear_destroy(large);
    free(s.weights), free(s.biases), free(s.x);
}
END_TEST

START_TEST(every_task_has_rows)
{
    enum { N_DEEP = 65536 }; /* a part of one row is more than half of a small cache */
    float *weights = numbers_make(N_DEEP);
    const hs_dense dense = {.weight = {.data = weights, .n_rows = 1, .n_columns = N_DEEP, .dtype = HS_F32}};
    const hs_dense *part = &dense;
    const hs__linear_source source = {.parts = &part, .n_parts = 1, .cache_bytes = 128 << 10};
    float *x = numbers_make(2 * (size_t)N_DEEP), y[2];
    for (size_t n_rows = 1; n_rows <= 2; n_rows++) {
        hs__linear *linear = NULL;
        ck_assert_int_eq(
            hs__linear_native.create(&source, hs__kernels_at(0), HS_PRECISION_FP32, &linear, NULL), HS_OK);
        ck_assert_uint_le(hs__linear_native.split(linear, n_rows, 1).n_row_chunks, n_rows);
        for (size_t t = 0; t < hs__linear_tasks(linear, n_rows, 1); t++)
            hs__linear_run(linear, n_rows, 1, x, y, t);
        hs__linear_destroy(linear);
    }
    free(weights), free(x);
}
END_TEST

START_TEST(rows_are_not_pages_apart)
{
    ck_assert_uint_eq(hs__row_step(768), 768);
    ck_assert_uint_eq(hs__row_step(3072), 3088);
    ck_assert_uint_eq(hs__row_step(4096), 4112);
}
END_TEST

START_TEST(caches_are_known_and_may_be_named)
{
    unsetenv(HS_CACHES_VARIABLE);
    hs_caches caches;
    ck_assert(hs__caches_read(&caches));
    ck_assert_uint_ge(caches.first, 8 << 10);
    ck_assert_uint_ge(caches.second, 128 << 10);
    setenv(HS_CACHES_VARIABLE, "48K,2M,60M", 1);
    ck_assert(hs__caches_read(&caches));
    ck_assert_uint_eq(caches.first, 48 << 10);
    ck_assert_uint_eq(caches.second, 2 << 20);
    ck_assert_uint_eq(caches.third, 60 << 20);
    setenv(HS_CACHES_VARIABLE, "1,99999999999999999999M,0", 1); /* no such caches */
    ck_assert(hs__caches_read(&caches));
    ck_assert_uint_eq(caches.first, 8 << 10);
    ck_assert_uint_eq(caches.second, 64 << 20);
    ck_assert_uint_eq(caches.third, 0);
    unsetenv(HS_CACHES_VARIABLE);
}
END_TEST

START_TEST(caches_misspelt_are_refused)
{
    static const char *const texts[] = {"x",           "1G,1M,1M",  "32K,",        "32K,1M",
                                        "32K,1M,16M,", "-1,1M,16M", ",,,",         " 32K,1M",
                                        "32K;1M;0",    "32K,,16M",  "32KB,1M,16M", "+1,1M,16M"};
    hs_runtime *runtime = NULL;
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        hs_error err = {0};
        setenv(HS_CACHES_VARIABLE, texts[k], 1);
        ck_assert_msg(hs_runtime_create(1, &runtime, &err) == HS_UNSUPPORTED, "%s", texts[k]);
        ck_assert_ptr_nonnull(strstr(err.text, HS_CACHES_VARIABLE));
    }
    setenv(HS_CACHES_VARIABLE, "", 1);
    hs_caches caches;
    ck_assert(hs__caches_read(&caches));
    unsetenv(HS_CACHES_VARIABLE);
}
END_TEST

START_TEST(kernels_may_be_named)
{
    const hs__kernels *kernels;
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++) {
        setenv(HS_KERNELS_VARIABLE, kernels->name, 1);
        ck_assert_ptr_eq(hs__kernels_select(), kernels);
    }
    hs_runtime *runtime = NULL;
    hs_error err = {0};
    setenv(HS_KERNELS_VARIABLE, "sse9", 1);
    ck_assert_int_eq(hs_runtime_create(1, &runtime, &err), HS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, HS_KERNELS_VARIABLE));
    setenv(HS_KERNELS_VARIABLE, "", 1);
    ck_assert_ptr_eq(hs__kernels_select(), hs__kernels_at(0));
    unsetenv(HS_KERNELS_VARIABLE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("linear");
    TCase *tcase = tcase_create("what the machine decides");
    tcase_add_test(tcase, no_bit_depends_on_caches_or_threads);
    tcase_add_test(tcase, small_caches_cut_rows);
    tcase_add_test(tcase, every_task_has_rows);
    tcase_add_test(tcase, rows_are_not_pages_apart);
    tcase_add_test(tcase, caches_are_known_and_may_be_named);
    tcase_add_test(tcase, caches_misspelt_are_refused);
    tcase_add_test(tcase, kernels_may_be_named);
    suite_add_tcase(suite, tcase);
    return tests_run(suite);
}
