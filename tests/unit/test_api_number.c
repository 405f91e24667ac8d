/* test_api_number.c - numbers as JSON text: against printf over millions of floats, and the layouts that
 * printf lacks. */
#include "api/formats/json_text.h"
#include "api/formats/number_list.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state = 0x9e3779b97f4a7c15u;

static uint32_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 16);
}

/* Prints with printf, in our layout: no padding in the exponent, no plus sign, "-0.0". */
static void expected_text(char ret_text[64], float value, int digits)
{
    snprintf(ret_text, 64, "%.*g", digits, (double)value);
    char *e = strchr(ret_text, 'e');
    if (e) {
        int power = atoi(e + 1);
        sprintf(e + 1, "%d", power);
    } else if (strcmp(ret_text, "-0") == 0) {
        strcpy(ret_text, "-0.0");
    }
}

/* ck_assert tells the parent process of each call, by a write: in loops only what is wrong calls Check. */
static void check_float(float value, int digits)
{
    char ours[HS_NUMBER_BYTES_MAX + 1], theirs[64];
    char *end = hs_float_print(ours, value, digits);
    if ((size_t)(end - ours) > HS__FLOAT_TEXT_MAX(digits))
        ck_abort_msg("%a with %d digits: %td bytes", (double)value, digits, end - ours);
    *end = '\0';
    expected_text(theirs, value, digits);
    if (strcmp(ours, theirs) != 0)
        ck_abort_msg("%a with %d digits: %s, printf says %s", (double)value, digits, ours, theirs);
}

START_TEST(float_print_rounds_as_printf_over_all_of_float)
{
    for (int digits = 1; digits <= 9; digits++) {
        for (int n = 0; n < 100000; n++) {
            uint32_t bits = random_bits();
            float value;
            memcpy(&value, &bits, sizeof value);
            if (isfinite(value))
                check_float(value, digits);
        }
    }
}
END_TEST

START_TEST(float_print_rounds_as_printf_where_maps_live)
{
    for (int digits = 1; digits <= 9; digits++) {
        for (int n = 0; n < 100000; n++)
            check_float((float)random_bits() / 4294967296.0f, digits);
        for (int n = 0; n < 100000; n++)
            check_float(((float)random_bits() - 2147483648.0f) / 16777216.0f, digits);
    }
}
END_TEST

START_TEST(float_print_rounds_ties_to_even_and_carries)
{
    /* k / 2^n has few bits: exact ties abound; and 9.99.. rounds into the next decade. */
    for (int digits = 1; digits <= 9; digits++) {
        for (int shift = 0; shift < 24; shift++) {
            for (int k = -3000; k <= 3000; k++)
                check_float(ldexpf((float)k, -shift), digits);
        }
        for (int power = -45; power <= 38; power++) {
            float near = strtof((char[]){'1', 'e', power < 0 ? '-' : '+', (char)('0' + abs(power) / 10),
                                         (char)('0' + abs(power) % 10), '\0'},
                                NULL);
            for (int step = -40; step <= 40; step++) {
                uint32_t bits;
                memcpy(&bits, &near, sizeof bits);
                bits += (uint32_t)step;
                float value;
                memcpy(&value, &bits, sizeof value);
                if (isfinite(value) && bits < 0x7f800000)
                    check_float(value, digits);
            }
        }
    }
}
END_TEST

START_TEST(float_print_with_9_digits_gives_the_float_back)
{
    for (int n = 0; n < 300000; n++) {
        uint32_t bits = random_bits();
        float value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        char text[HS_NUMBER_BYTES_MAX + 1];
        *hs_float_print(text, value, 9) = '\0';
        float back = strtof(text, NULL);
        if (memcmp(&back, &value, sizeof back) != 0)
            ck_abort_msg("%a is written as %s", (double)value, text);
    }
}
END_TEST

START_TEST(float_print_writes_null_for_what_json_lacks)
{
    const float values[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char text[HS_NUMBER_BYTES_MAX];
        ck_assert_int_eq(hs_float_print(text, values[i], 6) - text, 4);
        ck_assert_mem_eq(text, "null", 4);
    }
}
END_TEST

/* ---- lists ---- */

enum { LIST_MAX = 1000 };

typedef char *list_printer(char *to, const float *values, size_t n, int digits);

/* Compares every list writer of this CPU with writing one by one, within HS_NUMBER_BYTES_MAX. */
static void check_list(const float *values, size_t n, int digits)
{
    static char ours[(LIST_MAX + 2) * HS_NUMBER_BYTES_MAX], one_by_one[(LIST_MAX + 2) * HS_NUMBER_BYTES_MAX];
    list_printer *const printers[] = {
        hs_floats_print,
#if defined HS__NUMBERS_BY_CPU
        __builtin_cpu_supports("avx2") ? hs__floats_print_avx2 : NULL,
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd") ? hs__floats_print_avx512
                                                                                 : NULL,
#endif
    };
    char *end = one_by_one;
    for (size_t i = 0; i < n; i++) {
        end = hs_float_print(end, values[i], digits);
        *end++ = ',';
    }
    const size_t n_bytes = (size_t)(end - one_by_one);
    for (size_t p = 0; p < sizeof printers / sizeof *printers; p++) {
        if (!printers[p])
            continue;
        memset(ours + n_bytes, '#', 2 * HS_NUMBER_BYTES_MAX);
        ck_assert_uint_eq((size_t)(printers[p](ours, values, n, digits) - ours), n_bytes);
        for (size_t i = 0; i < n_bytes; i++)
            if (ours[i] != one_by_one[i])
                ck_abort_msg("way %zu, %d digits, byte %zu: %.20s instead of %.20s", p, digits, i,
                             ours + (i < 8 ? 0 : i - 8), one_by_one + (i < 8 ? 0 : i - 8));
        for (size_t i = HS_NUMBER_BYTES_MAX; i < 2 * HS_NUMBER_BYTES_MAX; i++)
            if (ours[n_bytes + i] != '#')
                ck_abort_msg("way %zu, %d digits: a write %zu bytes past the end", p, digits, i);
    }
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

START_TEST(floats_print_writes_what_float_print_does)
{
    static float values[LIST_MAX];
    for (int round = 0; round < 400; round++) {
        for (int digits = 1; digits <= 9; digits++) {
            for (size_t i = 0; i < LIST_MAX; i++) {
                const uint32_t bits = random_bits();
                const float maps = (float)bits / 4294967296.0f;
                const float values_of[] = {float_of(bits), maps, ldexpf(maps - 0.5f, 10),
                                           ldexpf((float)(bits % 6001) - 3000, -(int)(bits >> 27))};
                values[i] = values_of[round % 4];
            }
            check_list(values, LIST_MAX, digits);
        }
    }
}
END_TEST

START_TEST(floats_print_knows_powers_of_ten_and_what_is_next_to_them)
{
    float values[81];
    for (int digits = 1; digits <= 9; digits++) {
        for (int power = -45; power <= 38; power++) {
            char text[16];
            snprintf(text, sizeof text, "1e%d", power);
            const float near = strtof(text, NULL);
            uint32_t bits;
            memcpy(&bits, &near, sizeof bits);
            for (uint32_t step = 0; step <= 80; step++) /* below the smallest float come NaNs with a sign */
                values[step] = float_of(bits + step - 40);
            check_list(values, 81, digits);
        }
    }
}
END_TEST

START_TEST(floats_print_mixes_what_is_printed_one_by_one)
{
    static const float odd[] = {0,         -0.0f,   NAN,       -NAN,    INFINITY, -INFINITY, 0x1p-149f,
                                0x1p-126f, 0.5f,    -0x1p-9f,  FLT_MAX, -FLT_MAX, 1,         -1,
                                999999.5f, 9999995, 99999.95f, 0.1f,    1e-4f,    1e-5f};
    float values[LIST_MAX];
    for (int digits = 1; digits <= 9; digits++) {
        for (size_t n = 0; n < 200; n++) {
            for (size_t i = 0; i < n; i++)
                values[i] = odd[random_bits() % (sizeof odd / sizeof *odd)];
            check_list(values, n, digits);
        }
    }
}
END_TEST

START_TEST(integer_print_writes_every_size)
{
    const int64_t values[] = {0, 1, -1, 9, 10, 99, 100, 65535, -2147483648LL, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char ours[HS_NUMBER_BYTES_MAX], theirs[HS_NUMBER_BYTES_MAX];
        *hs_integer_print(ours, values[i]) = '\0';
        snprintf(theirs, sizeof theirs, "%lld", (long long)values[i]);
        ck_assert_str_eq(ours, theirs);
    }
}
END_TEST

int main(void)
{
    TCase *numbers = tcase_create("numbers");
    tcase_add_test(numbers, float_print_rounds_as_printf_over_all_of_float);
    tcase_add_test(numbers, float_print_rounds_as_printf_where_maps_live);
    tcase_add_test(numbers, float_print_rounds_ties_to_even_and_carries);
    tcase_add_test(numbers, float_print_with_9_digits_gives_the_float_back);
    tcase_add_test(numbers, float_print_writes_null_for_what_json_lacks);
    tcase_add_test(numbers, floats_print_writes_what_float_print_does);
    tcase_add_test(numbers, floats_print_knows_powers_of_ten_and_what_is_next_to_them);
    tcase_add_test(numbers, floats_print_mixes_what_is_printed_one_by_one);
    tcase_add_test(numbers, integer_print_writes_every_size);
    Suite *suite = suite_create("api number");
    suite_add_tcase(suite, numbers);
    return tests_run(suite);
}
