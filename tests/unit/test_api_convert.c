/* test_api_convert.c - half floats and bytes against a reference in doubles. */
#include "api/formats/arrays.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <math.h>
#include <string.h>

/* binary16 by its definition: the grid of the value's binade, nearbyint's ties to even, then the bits. */
static uint16_t half_reference(float value)
{
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    double a = fabs((double)value);
    if (isnan(a))
        return sign | 0x7e00;
    int exponent = a > 0 ? ilogb(a) : -14;
    exponent = exponent < -14 ? -14 : exponent;
    const double rounded = ldexp(nearbyint(ldexp(a, 10 - exponent)), exponent - 10);
    if (rounded >= 65520)
        return sign | 0x7c00;
    if (rounded < ldexp(1, -14))
        return (uint16_t)(sign | (uint16_t)ldexp(rounded, 24));
    exponent = ilogb(rounded);
    return (uint16_t)(sign | (uint16_t)((exponent + 15) << 10) |
                      (uint16_t)(ldexp(rounded, 10 - exponent) - 1024));
}

START_TEST(f2_rounds_to_the_nearest_half_over_all_of_float)
{
    enum { N = 4096 };
    static float from[N];
    static uint16_t to[N];
    uint64_t next = 0;
    while (next <= UINT32_MAX) {
        size_t n = 0;
        for (; n < N && next <= UINT32_MAX; n++, next += 1021) { /* coprime to the powers of two */
            const uint32_t bits = (uint32_t)next;
            memcpy(&from[n], &bits, sizeof bits);
        }
        hs__convert_f2(from, n, to);
        for (size_t i = 0; i < n; i++) {
            if (to[i] != half_reference(from[i]))
                ck_abort_msg("%a is %04x, not %04x", (double)from[i], to[i], half_reference(from[i]));
        }
    }
}
END_TEST

START_TEST(f2_rounds_ties_to_even_between_all_halves)
{
    /* Around the middle of every two neighbours: the middle itself and the floats beside it. */
    for (uint32_t half = 0; half < 0x7c00; half++) {
        const int exponent = (int)(half >> 10);
        const double low = exponent ? ldexp(1024 + (half & 0x3ff), exponent - 25) : ldexp(half & 0x3ff, -24);
        const double step = ldexp(1, exponent ? exponent - 25 : -24);
        const float middle = (float)(low + step / 2);
        const float from[6] = {
            nextafterf(middle, 0), middle, nextafterf(middle, INFINITY), -middle, 0.0f, -0.0f};
        uint16_t to[6];
        hs__convert_f2(from, 6, to);
        for (size_t i = 0; i < 6; i++)
            ck_assert_uint_eq(to[i], half_reference(from[i]));
    }
}
END_TEST

START_TEST(u1_rounds_and_clips)
{
    for (int i = -2000; i <= 3000; i++) {
        const float from = (float)i / 1001.0f;
        uint8_t to;
        hs__convert_u1(&from, 1, &to);
        const float expected = rintf(fminf(fmaxf(from * 255.0f, 0), 255));
        ck_assert_uint_eq(to, (unsigned)expected);
    }
    const float special[] = {NAN, INFINITY, -INFINITY, -0.0f, 1.0f, 0.5f};
    const uint8_t expected[] = {0, 255, 0, 0, 255, 128};
    uint8_t to[6];
    hs__convert_u1(special, 6, to);
    ck_assert_mem_eq(to, expected, 6);
}
END_TEST

int main(void)
{
    TCase *cases = tcase_create("convert");
    tcase_add_test(cases, f2_rounds_to_the_nearest_half_over_all_of_float);
    tcase_add_test(cases, f2_rounds_ties_to_even_between_all_halves);
    tcase_add_test(cases, u1_rounds_and_clips);
    Suite *suite = suite_create("api convert");
    suite_add_tcase(suite, cases);
    return tests_run(suite);
}
