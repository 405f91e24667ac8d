/* test_read_number.c - numbers in texts: what is a number, where it ends, and what lies outside its range. */
#include "model/base/read_number.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <stdio.h>

static const struct {
    const char *text;
    hs_number_fault fault; /* within -100 and 100, of the whole text */
    int64_t number;        /* 7: untouched */
    size_t n_read;         /* bytes of the number at the start */
} integers[] = {
    {"0", HS_NUMBER_OK, 0, 1},
    {"-0", HS_NUMBER_OK, 0, 2},
    {"0042", HS_NUMBER_OK, 42, 4},
    {"-100", HS_NUMBER_OK, -100, 4},
    {"101", HS_NUMBER_TOO_LARGE, 100, 3},
    {"-101", HS_NUMBER_TOO_SMALL, -100, 4},
    {"9223372036854775807", HS_NUMBER_TOO_LARGE, 100, 19},
    {"9223372036854775808", HS_NUMBER_TOO_LARGE, 100, 19},
    {"-9223372036854775809", HS_NUMBER_TOO_SMALL, -100, 20},
    {"100000000000000000000000000000000000000000", HS_NUMBER_TOO_LARGE, 100, 42},
    {"-99999999999999999999", HS_NUMBER_TOO_SMALL, -100, 21},
    {"", HS_NUMBER_MALFORMED, 7, 0},
    {"-", HS_NUMBER_MALFORMED, 7, 0},
    {"+1", HS_NUMBER_MALFORMED, 7, 0},
    {" 1", HS_NUMBER_MALFORMED, 7, 0},
    {"1 ", HS_NUMBER_MALFORMED, 7, 1},
    {"1.5", HS_NUMBER_MALFORMED, 7, 1},
    {"0x10", HS_NUMBER_MALFORMED, 7, 1},
    {"--1", HS_NUMBER_MALFORMED, 7, 0},
    {"\xd9\xa1", HS_NUMBER_MALFORMED, 7, 0}, /* an Arabic digit */
};

START_TEST(an_integer_is_digits_with_an_optional_minus)
{
    int64_t number = 7;
    const char *end = NULL, *text = integers[_i].text;
    ck_assert_int_eq(hs_integer_read(text, NULL, -100, 100, &number), integers[_i].fault);
    ck_assert_int_eq(number, integers[_i].number);
    const hs_number_fault fault = hs_integer_read(text, &end, -100, 100, &number);
    ck_assert_uint_eq((size_t)(end - text), integers[_i].n_read);
    ck_assert_int_eq(fault == HS_NUMBER_MALFORMED, integers[_i].n_read == 0);
}
END_TEST

START_TEST(every_integer_of_64_bits_can_be_read)
{
    int64_t number;
    ck_assert_int_eq(hs_integer_read("9223372036854775807", NULL, INT64_MIN, INT64_MAX, &number),
                     HS_NUMBER_OK);
    ck_assert_int_eq(number, INT64_MAX);
    ck_assert_int_eq(hs_integer_read("-9223372036854775808", NULL, INT64_MIN, INT64_MAX, &number),
                     HS_NUMBER_OK);
    ck_assert_int_eq(number, INT64_MIN);
}
END_TEST

static const struct {
    const char *text;
    hs_number_fault fault; /* of the whole text */
    double number;         /* 7: untouched */
    size_t n_read;
} reals[] = {
    {"0", HS_NUMBER_OK, 0, 1},
    {"0.1", HS_NUMBER_OK, 0.1, 3},
    {".5", HS_NUMBER_OK, 0.5, 2},
    {"5.", HS_NUMBER_OK, 5, 2},
    {"-2.5e-3", HS_NUMBER_OK, -2.5e-3, 7},
    {"1E+2", HS_NUMBER_OK, 100, 4},
    {"1e-999", HS_NUMBER_OK, 0, 6},
    {"1e999", HS_NUMBER_TOO_LARGE, 7, 5},
    {"-1e999", HS_NUMBER_TOO_SMALL, 7, 6},
    {"1e", HS_NUMBER_MALFORMED, 7, 1},
    {"1e+", HS_NUMBER_MALFORMED, 7, 1},
    {"", HS_NUMBER_MALFORMED, 7, 0},
    {".", HS_NUMBER_MALFORMED, 7, 0},
    {"-", HS_NUMBER_MALFORMED, 7, 0},
    {"e5", HS_NUMBER_MALFORMED, 7, 0},
    {"nan", HS_NUMBER_MALFORMED, 7, 0},
    {"-inf", HS_NUMBER_MALFORMED, 7, 0},
    {"+1", HS_NUMBER_MALFORMED, 7, 0},
    {" 1", HS_NUMBER_MALFORMED, 7, 0},
    {"0x1p3", HS_NUMBER_MALFORMED, 7, 1},
    {"0,5", HS_NUMBER_MALFORMED, 7, 1},
    {"0.5,0.6", HS_NUMBER_MALFORMED, 7, 3},
};

START_TEST(a_real_is_a_finite_decimal_number)
{
    double number = 7;
    const char *end = NULL, *text = reals[_i].text;
    ck_assert_int_eq(hs_real_read(text, NULL, &number), reals[_i].fault);
    ck_assert_double_eq(number, reals[_i].number);
    char alone[32];
    const hs_number_fault fault = hs_real_read(text, &end, &number);
    ck_assert_uint_eq((size_t)(end - text), reals[_i].n_read);
    ck_assert_int_eq(fault == HS_NUMBER_MALFORMED, reals[_i].n_read == 0);
    snprintf(alone, sizeof alone, "%.*s", (int)reals[_i].n_read, text);
    double same = number;
    ck_assert_int_eq(hs_real_read(alone, NULL, &same), fault);
    ck_assert_double_eq(number, same);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("read number");
    TCase *tc = tcase_create("read number");
    tcase_add_loop_test(tc, an_integer_is_digits_with_an_optional_minus, 0,
                        sizeof integers / sizeof *integers);
    tcase_add_test(tc, every_integer_of_64_bits_can_be_read);
    tcase_add_loop_test(tc, a_real_is_a_finite_decimal_number, 0, sizeof reals / sizeof *reals);
    suite_add_tcase(suite, tc);
    return tests_run(suite);
}
