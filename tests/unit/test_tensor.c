/* test_tensor.c - conversion of every half and bfloat16, at every alignment. */
#include "model/model.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define N_PATTERNS 65536

static unsigned char *patterns;
static float *values;

static void setup(void)
{
    patterns = malloc(4 * N_PATTERNS + 8);
    values = malloc(N_PATTERNS * sizeof *values);
    ck_assert_ptr_nonnull(patterns);
    ck_assert_ptr_nonnull(values);
}

static void teardown(void)
{
    free(patterns);
    free(values);
}

/* Sign, exponent and mantissa, as IEEE 754 defines them for 5 and 8 bits of exponent. */
static double value_of(uint32_t pattern, int exponent_bits)
{
    int mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (int)(pattern & 0x7fff) >> mantissa_bits,
        mantissa = (int)pattern & ((1 << mantissa_bits) - 1);
    double sign = pattern & 0x8000 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1)
        return mantissa ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

static void check_every_pattern(hs_dtype dtype, int exponent_bits, size_t offset)
{
    for (uint32_t i = 0; i < N_PATTERNS; i++) {
        uint16_t pattern = (uint16_t)i;
        memcpy(patterns + offset + 2 * i, &pattern, 2);
    }
    const hs_tensor tensor = {.data = patterns + offset, .n_rows = 256, .n_columns = 256, .dtype = dtype};
    hs_tensor_read(&tensor, 0, 256, values);
    for (uint32_t i = 0; i < N_PATTERNS; i++) {
        double expected = value_of(i, exponent_bits);
        if (isnan(expected))
            ck_assert_msg(isnan(values[i]), "pattern %04x is %g, not NaN", i, (double)values[i]);
        else
            ck_assert_msg((double)values[i] == expected && !signbit(values[i]) == !signbit(expected),
                          "pattern %04x is %g, not %g", i, (double)values[i], expected);
    }
}

START_TEST(f16_every_pattern_is_exact)
{
    check_every_pattern(HS_F16, 5, (size_t)_i);
}
END_TEST

START_TEST(bf16_every_pattern_is_exact)
{
    check_every_pattern(HS_BF16, 8, (size_t)_i);
}
END_TEST

START_TEST(f32_is_copied_at_any_alignment)
{
    float expected[12];
    for (size_t i = 0; i < 12; i++)
        expected[i] = 1.0F / (float)(i + 1);
    memcpy(patterns + _i, expected, sizeof expected);
    const hs_tensor tensor = {.data = patterns + _i, .n_rows = 4, .n_columns = 3, .dtype = HS_F32};
    hs_tensor_read(&tensor, 0, 4, values);
    ck_assert_mem_eq(values, expected, sizeof expected);
}
END_TEST

START_TEST(rows_are_read_one_by_one_or_together)
{
    const hs_dtype dtypes[] = {HS_F32, HS_F16, HS_BF16};
    const hs_tensor tensor = {.data = patterns + 1, .n_rows = 11, .n_columns = 7, .dtype = dtypes[_i]};
    float whole[77], row[7];
    for (size_t i = 0; i < 4 * 77 + 1; i++)
        patterns[i] = (unsigned char)(i * 37 % 120); /* no NaN in any dtype, so that memory can be compared */
    hs_tensor_read(&tensor, 0, 11, whole);
    for (size_t i = 0; i < 11; i++) {
        hs_tensor_read(&tensor, i, 1, row);
        ck_assert_mem_eq(row, whole + i * 7, sizeof row);
    }
    row[0] = 42;
    hs_tensor_read(&tensor, 11, 0, row);
    ck_assert(row[0] == 42);
}
END_TEST

START_TEST(transposed_and_scaled_rows_are_read)
{
    const float stored[3][5] = {{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}, {11, 12, 13, 14, 15}};
    const hs_tensor tensor = {.data = &stored[0][1], /* columns 1 to 4 as rows, doubled */
                              .n_rows = 4,
                              .n_columns = 3,
                              .dtype = HS_F32,
                              .column_step = 5,
                              .factor = 2};
    const float expected[6] = {6, 16, 26, 8, 18, 28};
    float rows[6];
    hs_tensor_read(&tensor, 1, 2, rows);
    ck_assert_mem_eq(rows, expected, sizeof rows);
}
END_TEST

/* Rows 1 to 3 of four, in groups of two, whose next one begins three rows further. */
START_TEST(rows_in_groups_are_read)
{
    const float stored[5][2] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}};
    const hs_tensor tensor = {
        .data = stored, .n_rows = 4, .n_columns = 2, .dtype = HS_F32, .group = 4, .group_step = 6};
    const float expected[6] = {3, 4, 7, 8, 9, 10};
    float rows[6];
    hs_tensor_read(&tensor, 1, 3, rows);
    ck_assert_mem_eq(rows, expected, sizeof rows);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("tensor");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, transposed_and_scaled_rows_are_read);
    tcase_add_test(tests, rows_in_groups_are_read);
    tcase_add_loop_test(tests, f16_every_pattern_is_exact, 0, 4);
    tcase_add_loop_test(tests, bf16_every_pattern_is_exact, 0, 4);
    tcase_add_loop_test(tests, f32_is_copied_at_any_alignment, 0, 8);
    tcase_add_loop_test(tests, rows_are_read_one_by_one_or_together, 0, 3);
    Suite *suite = suite_create("tensor");
    suite_add_tcase(suite, tests);
    return tests_run(suite);
}
