/* number_list.h - many floats side by side, once per instruction set: inside of number*.c.
 *
 * A number's text is a choice of 16 bytes out of 16: eight digits, the first digit, and the characters that
 * numbers are laid out with. The choice depends on the decade and on the number of digits before the
 * trailing zeros. A table has a row for each choice, and one shuffle writes the number and its comma. */
#pragma once

#include "api/formats/json_text.h"

#include <stddef.h>
#include <stdint.h>

/* Index of a character among the 16; 0 .. 7 are the digits after the first one. */
enum {
    HS__AT_FIRST = 8,
    HS__AT_POINT,
    HS__AT_ZERO,
    HS__AT_E,
    HS__AT_MINUS,
    HS__AT_TENS,
    HS__AT_ONES, /* of the exponent */
    HS__AT_COMMA
};

/* Layouts: decades -4 .. -1, then 0 .. 8, then exponents: -1 .. -9, -10 .. , 1 .. 9, 10 .. */
enum { HS__LAYOUT_WHOLE = 4, HS__LAYOUT_POWER = 13, HS__LAYOUTS = 17, HS__LAYOUT_ROWS = 9 };

/* Row [9 layout + digits behind the first]: what to choose, without a sign, and in the last byte how many. */
extern const uint8_t hs__number_layouts[HS__LAYOUTS * HS__LAYOUT_ROWS][16];

/* clang has no pragma to choose instructions for a file: there they go one by one. */
#if defined __x86_64__ && !defined __clang__
#define HS__NUMBERS_BY_CPU
#endif

/* Do the same as hs_floats_print, for a CPU with these instructions. */
char *hs__floats_print_avx512(char *to, const float *values, size_t n, int digits);
char *hs__floats_print_avx2(char *to, const float *values, size_t n, int digits);

/* ---- one instruction set ---- */

#if defined LANES
/* The functions of a file that defines LANES and FLOATS_PRINT: the same digits as hs_float_print's, LANES
 * numbers at a time.
 *
 * The product of a float and a power of ten, computed in double, has a relative error of a few parts in
 * 10^16, and at most nine digits are kept. So the product rounds to the same integer as the exact one, unless
 * it lies within NEAR_HALF of the middle between two integers. hs_float_print prints those numbers, and
 * infinities and NaN. Each chunk is converted to digits first and written afterwards, so that the numbers of
 * one step do not depend on each other. */

#include <immintrin.h>
#include <string.h>

enum { CHUNK = 64, ODD = -64, DECADE_ZERO = 46, DECADES = 128 };

#define NEAR_HALF 2e-6
#define INLINE    inline __attribute__((always_inline))

typedef float floats __attribute__((vector_size(LANES * 4)));
typedef double doubles __attribute__((vector_size(LANES * 8)));
typedef int64_t words __attribute__((vector_size(LANES * 8)));
typedef uint64_t unsigned_words __attribute__((vector_size(LANES * 8)));
typedef uint32_t halves __attribute__((vector_size(LANES * 8)));
typedef uint16_t quarters __attribute__((vector_size(LANES * 8)));

/* A chunk's numbers on their way: first . rest 10^decade, with nine digits of which those beyond the
 * requested ones are 0. */
typedef struct chunk {
    _Alignas(64) uint8_t characters[CHUNK][16];
    _Alignas(64) double digits[CHUNK];   /* an integer below 10^9 */
    _Alignas(64) int64_t decades[CHUNK]; /* or ODD, for hs_float_print */
    _Alignas(64) int64_t layouts[CHUNK]; /* rows of the table, or ODD */
} chunk;

static INLINE words words_load(const int64_t *from)
{
    words x;
    memcpy(&x, from, sizeof x);
    return x;
}

static INLINE doubles doubles_load(const double *from)
{
    doubles x;
    memcpy(&x, from, sizeof x);
    return x;
}

/* Each lane's: of the first where the mask is set, else of the second. */
static INLINE doubles choose(words mask, doubles first, doubles second)
{
    return (doubles)((mask & (words)first) | (~mask & (words)second));
}

/* 10^-decade for each lane's decade, counted from -DECADE_ZERO: a power of eight decades times one within
 * them. The scale is 0 for decades that no float has. */
static INLINE doubles scales_of(words decade)
{
    static const double within[8] = {1e7, 1e6, 1e5, 1e4, 1e3, 1e2, 1e1, 1e0};
    static const double eights[16] = {1e39, 1e31, 1e23, 1e15, 1e7, 1e-1, 1e-9, 1e-17, 1e-25, 1e-33, 1e-41};
#if LANES == 8
    return __builtin_shuffle(doubles_load(within), decade) *
           __builtin_shuffle(doubles_load(eights), doubles_load(eights + LANES), decade >> 3);
#else
    doubles scale = {0};
    for (int i = 0; i < LANES; i++)
        scale[i] = within[decade[i] & 7] * eights[decade[i] >> 3];
    return scale;
#endif
}

/* 1233 / 4096 is log10(2) closely enough to make the decade of a power of two right for every float; the
 * number's own may be the next. One just below that, by less than rounding does, has its text too. Added to
 * 1.5 2^52 a number is rounded to an integer, which then is the double's last bits. */
static INLINE void digits_find(const float *values, int digits, double *ret_digits, int64_t *ret_decades)
{
    static const double power_10[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9};
    const double top = power_10[digits];
    floats floats_at;
    memcpy(&floats_at, values, sizeof floats_at);
    const doubles x = __builtin_convertvector(floats_at, doubles);
    const doubles magnitude = (doubles)((words)x & INT64_MAX);
    const unsigned_words exponent = ((unsigned_words)magnitude >> 52) - 1023 + 4096; /* above 0 */
    const words below = ((words)((halves)exponent * 1233 >> 12) - 1233 + DECADE_ZERO) & (DECADES - 1);
    const doubles long_product = magnitude * scales_of(below) * power_10[digits - 1];
    const words next = (words)(long_product >= top);
    const doubles product = choose(next, long_product * 0.1, long_product);
    const doubles nearest = product + 0x1.8p52 - 0x1.8p52;
    const words carry = (words)(nearest >= top);
    const doubles all = choose(carry, nearest * 0.1, nearest) * power_10[9 - digits];
    const doubles off = (doubles)((words)(product - nearest) & INT64_MAX);
    const words sure = (words)(off < 0.5 - NEAR_HALF) & ((words)x != INT64_MIN);
    words decade = (below - next - carry - DECADE_ZERO) & (words)(magnitude != 0); /* a mask is -1 */
    decade = (sure & decade) | (~sure & ODD);
    memcpy(ret_digits, &all, sizeof all);
    memcpy(ret_decades, &decade, sizeof decade);
}

/* The eight digits behind the first one, a byte each, the first in the lowest. */
static INLINE words rest_of(words n, words upper_five, words first)
{
    const words lower = n - (words)((halves)upper_five * 10000);
    const halves fours = (halves)((upper_five - (words)((halves)first * 10000)) | lower << 32);
    const halves hundreds = fours * 10486 >> 20; /* / 100, exact below 10^4 */
    const halves twos = hundreds | (fours - hundreds * 100) << 16;
    const quarters tens = (quarters)twos * 103 >> 10; /* / 10, exact below 100 */
    return (words)(tens | ((quarters)twos - tens * 10) << 8);
}

/* Digits behind the first one, but for zeros at the end. */
static INLINE words count_of(words rest)
{
#if LANES == 8
    return 8 - (words)((unsigned_words)_mm512_lzcnt_epi64((__m512i)rest) >> 3);
#else
    words n = {0};
    for (int i = 0; i < LANES; i++)
        n[i] = 8 - (int64_t)(_lzcnt_u64((uint64_t)rest[i]) >> 3);
    return n;
#endif
}

/* Both words of each lane side by side. */
static INLINE void pairs_store(uint8_t (*to)[16], words low, words high)
{
#if LANES == 8
    const words first = __builtin_shuffle(low, high, (words){0, 8, 1, 9, 2, 10, 3, 11});
    const words second = __builtin_shuffle(low, high, (words){4, 12, 5, 13, 6, 14, 7, 15});
#else
    const words first = __builtin_shuffle(low, high, (words){0, 4, 1, 5});
    const words second = __builtin_shuffle(low, high, (words){2, 6, 3, 7});
#endif
    memcpy(to, &first, sizeof first);
    memcpy(to + LANES / 2, &second, sizeof second);
}

static INLINE void characters_make(chunk *c, size_t at)
{
    const doubles all = doubles_load(c->digits + at);
    const words decade = words_load(c->decades + at);
    /* Rounded down: moved by half, but for less than a digit's step. */
    const words upper_five = (words)(all * 1e-4 - 0.49995 + 0x1.8p52) & 0xffffffff;
    const words first = (words)(all * 1e-8 - 0.499999995 + 0x1.8p52) & 0xffffffff;
    const words rest = rest_of((words)(all + 0x1.8p52) & 0xffffffff, upper_five, first);
    const words sign = decade < 0, power = (decade ^ sign) - sign;
    const words tens = (words)((halves)power * 205 >> 11), ones = power - (words)((halves)tens * 10);
    const words others = 0x2c30302d65302e30 + first + (tens << 40) + (ones << 48); /* ",00-e0.0" */
    const words n_rest = count_of(rest);
    memcpy(c->layouts + at, &n_rest, sizeof n_rest);
    pairs_store(c->characters + at, rest | 0x3030303030303030, others);
}

static INLINE void layout_find(chunk *c, size_t at, int digits)
{
    const words decade = words_load(c->decades + at);
    const words plain = (decade >= -HS__LAYOUT_WHOLE) & (decade < digits);
    words layout = (plain & (decade + HS__LAYOUT_WHOLE)) |
                   (~plain & (HS__LAYOUT_POWER - 2 * (decade > 0) - ((decade > 9) | (decade < -9))));
    layout = (words)((halves)layout * HS__LAYOUT_ROWS) + words_load(c->layouts + at);
    layout |= (words)(decade == ODD);
    memcpy(c->layouts + at, &layout, sizeof layout);
}

/* One shuffle a number; its sign without a branch. */
static INLINE char *chunk_write(const chunk *c, char *to, const float *values, size_t n, int digits)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        if (__builtin_expect(c->layouts[i] < 0, 0)) {
            to = hs_float_print(to, values[i], digits);
            *to++ = ',';
            continue;
        }
        const uint8_t *layout = hs__number_layouts[c->layouts[i]];
        memcpy(&bits, &values[i], sizeof bits);
        *to = '-';
        to += bits >> 31;
        _mm_storeu_si128((__m128i *)to, _mm_shuffle_epi8(_mm_load_si128((const __m128i *)c->characters[i]),
                                                         _mm_loadu_si128((const __m128i *)layout)));
        to += layout[15];
    }
    return to;
}

/* The numbers of one step have nothing to wait for in each other, and the steps are short. */
static INLINE char *chunk_print(chunk *c, char *to, const float *values, size_t n, int digits)
{
    for (size_t at = 0; at + LANES <= n; at += LANES)
        digits_find(values + at, digits, c->digits + at, c->decades + at);
    if (n % LANES) {
        const size_t at = n - n % LANES;
        float last[LANES] = {0};
        memcpy(last, values + at, (n - at) * sizeof *last);
        digits_find(last, digits, c->digits + at, c->decades + at);
    }
    for (size_t at = 0; at < n; at += LANES)
        characters_make(c, at);
    for (size_t at = 0; at < n; at += LANES)
        layout_find(c, at, digits);
    return chunk_write(c, to, values, n, digits);
}

char *FLOATS_PRINT(char *to, const float *values, size_t n, int digits)
{
    chunk c;
    for (size_t at = 0; at < n; at += CHUNK)
        to = chunk_print(&c, to, values + at, n - at < CHUNK ? n - at : CHUNK, digits);
    return to;
}
#endif
