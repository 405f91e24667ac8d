/* number.c - prints integers, and floats exactly rounded. */
#include "api/formats/json_text.h"

#include "api/formats/number_list.h"

#include <stdbool.h>
#include <string.h>

/* ==== one number ==== */

/* Prints a float exactly rounded. One exact product with a power of five, and a shift, give an
 * integer of `digits` digits; its digits are split off in parallel within a word. */

__extension__ typedef unsigned __int128 wide;

/* Bits of the smallest float >= 10^k, k = -45 .. 38, and infinity: positive floats order like their bits. */
#define DECADE_FIRST (-45)
static const uint32_t decades[] = {
    0x00000001, 0x00000008, 0x00000048, 0x000002ca, 0x00001be1, 0x000116c3, 0x000ae398, 0x006ce3ef,
    0x02081ceb, 0x03aa2425, 0x0554ad2e, 0x0704ec3d, 0x08a6274c, 0x0a4fb11f, 0x0c01ceb4, 0x0da24260,
    0x0f4ad2f8, 0x10fd87b6, 0x129e74d2, 0x14461207, 0x15f79688, 0x179abe15, 0x19416d9b, 0x1af1c901,
    0x1c971da1, 0x1e3ce509, 0x1fec1e4b, 0x219392ef, 0x233877ab, 0x24e69595, 0x26901d7d, 0x283424dd,
    0x29e12e14, 0x2b8cbccd, 0x2d2fec00, 0x2edbe6ff, 0x30897060, 0x322bcc78, 0x33d6bf95, 0x358637be,
    0x3727c5ad, 0x38d1b718, 0x3a83126f, 0x3c23d70b, 0x3dcccccd, 0x3f800000, 0x41200000, 0x42c80000,
    0x447a0000, 0x461c4000, 0x47c35000, 0x49742400, 0x4b189680, 0x4cbebc20, 0x4e6e6b28, 0x501502f9,
    0x51ba43b8, 0x5368d4a6, 0x551184e8, 0x56b5e621, 0x58635faa, 0x5a0e1bca, 0x5bb1a2bd, 0x5d5e0b6c,
    0x5f0ac724, 0x60ad78ec, 0x6258d727, 0x64078679, 0x65a96817, 0x6753c21c, 0x69045952, 0x6aa56fa6,
    0x6c4ecb90, 0x6e013f3a, 0x6fa18f08, 0x7149f2ca, 0x72fc6f7d, 0x749dc5ae, 0x7645371a, 0x77f684e0,
    0x799a130c, 0x7b4097cf, 0x7cf0bdc3, 0x7e96769a, 0x7f800000,
};

static const uint32_t power_10[] = {1,      10,      100,      1000,      10000,
                                    100000, 1000000, 10000000, 100000000, 1000000000};

#define POWER_5_MAX 27
static const uint64_t power_5[POWER_5_MAX + 1] = {
    1u,
    5u,
    25u,
    125u,
    625u,
    3125u,
    15625u,
    78125u,
    390625u,
    1953125u,
    9765625u,
    48828125u,
    244140625u,
    1220703125u,
    6103515625u,
    30517578125u,
    152587890625u,
    762939453125u,
    3814697265625u,
    19073486328125u,
    95367431640625u,
    476837158203125u,
    2384185791015625u,
    11920928955078125u,
    59604644775390625u,
    298023223876953125u,
    1490116119384765625u,
    7450580596923828125u,
};

/* mantissa 2^exponent 10^power to the nearest integer, ties to even, exactly. A float has at most 24 bits of
 * mantissa, and 5^27 has 63. So both are shifted to the top of a word. Their product holds the integer (below
 * 2^30), the half and the rest. No branch: roundings cannot be predicted. */
static inline uint32_t scale_up(uint32_t mantissa, int exponent, int power)
{
    const int shift = __builtin_clzll(power_5[power]);
    const wide product = (wide)((uint64_t)mantissa << 40) * (power_5[power] << shift);
    const uint64_t high = (uint64_t)(product >> 64);
    const int n_rest = shift + 40 - 64 - 1 - (exponent + power); /* 32 .. 62 */
    const uint64_t twice = high >> n_rest, rest = high << (64 - n_rest) | (uint64_t)product;
    const uint32_t n = (uint32_t)(twice >> 1);
    return n + ((uint32_t)twice & ((rest != 0) | n) & 1);
}

/* Does the same below 1e-18, where 5^power has up to 124 bits and the product 148. Drops its 32 lowest bits
 * but keeps whether any was set. Rounding needs no more of them. */
static __attribute__((noinline)) uint32_t scale_up_far(uint32_t mantissa, int exponent, int power)
{
    const wide five = (wide)power_5[POWER_5_MAX] * power_5[power - POWER_5_MAX];
    const wide low = (wide)mantissa * (uint64_t)five, high = (wide)mantissa * (uint64_t)(five >> 64);
    const wide value = ((high << 32) + (low >> 32)) | ((uint32_t)low != 0);
    const int shift = -(exponent + power) - 32;
    const wide quotient = value >> shift, rest = value - (quotient << shift), half = (wide)1 << (shift - 1);
    const uint32_t n = (uint32_t)quotient;
    return n + (rest > half || (rest == half && (n & 1)));
}

/* mantissa 2^exponent / 10^power to the nearest integer: numbers with more digits than requested. */
static __attribute__((noinline)) uint32_t scale_down(uint32_t mantissa, int exponent, int power)
{
    wide divisor = (wide)power_5[power > POWER_5_MAX ? POWER_5_MAX : power] << power;
    if (power > POWER_5_MAX)
        divisor *= power_5[power - POWER_5_MAX];
    wide value = mantissa;
    if (exponent > 0)
        value <<= exponent; /* a float is below 2^128 */
    else
        divisor <<= -exponent; /* at least 10^power = divisor, so -exponent <= 23 */
    const wide quotient = value / divisor, rest = value - quotient * divisor;
    const uint32_t n = (uint32_t)quotient;
    return n + (rest > divisor - rest || (rest == divisor - rest && (n & 1)));
}

/* The 8 digits of n < 10^8 as characters, the first in the lowest byte; *ret_n of them until the last that is
 * no zero. Halves, quarters and digits are split off side by side in one word: no loop, no branch. */
static uint64_t eight_digits(uint32_t n, int *ret_n)
{
    const uint64_t fours = n / 10000 | (uint64_t)(n % 10000) << 32;
    const uint64_t hundreds = (fours * 10486) >> 20 & 0x7f0000007f; /* / 100, exact below 10^4 */
    const uint64_t twos = hundreds | (fours - hundreds * 100) << 16;
    const uint64_t tens = (twos * 103) >> 10 & 0x000f000f000f000f; /* / 10, exact below 100 */
    const uint64_t ones = tens | (twos - tens * 10) << 8;
    *ret_n = ones ? 8 - __builtin_clzll(ones) / 8 : 0;
    return ones | 0x3030303030303030;
}

/* first . rest[0..n) times 10^decade, the way %g lays it out. Writes in pieces of 8 bytes. */
static char *lay_out(char *to, char first, uint64_t rest, int n, int decade, int digits)
{
    if (decade < 0 && decade >= -4) {
        static const char zeros[8] = {'0', '.', '0', '0', '0', '0', '0', '0'};
        memcpy(to, zeros, sizeof zeros);
        to += 1 - decade;
        *to++ = first;
        memcpy(to, &rest, 8);
        return to + n;
    }
    *to++ = first;
    if (decade >= 0 && decade < digits) {
        memcpy(to, &rest, 8);
        if (n <= decade)
            return to + decade;
        rest >>= 8 * decade;
        to[decade] = '.';
        memcpy(to + decade + 1, &rest, 8);
        return to + n + 1;
    }
    *to = '.';
    memcpy(to + 1, &rest, 8);
    to += n ? n + 1 : 0;
    *to++ = 'e';
    if (decade < 0)
        *to++ = '-';
    const int power = decade < 0 ? -decade : decade;
    if (power >= 10)
        *to++ = (char)('0' + power / 10);
    *to++ = (char)('0' + power % 10);
    return to;
}

char *hs_float_print(char *to, float value, int digits)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const bool negative = bits >> 31;
    bits &= 0x7fffffff;
    if (bits >= 0x7f800000) {
        static const char null[4] = {'n', 'u', 'l', 'l'};
        memcpy(to, null, sizeof null);
        return to + 4;
    }
    if (bits == 0) { /* "-0" would be read as an integer and lose its sign */
        static const char zero[2][4] = {{'0'}, {'-', '0', '.', '0'}};
        memcpy(to, zero[negative], sizeof zero[negative]);
        return to + (negative ? 4 : 1);
    }
    if (negative)
        *to++ = '-';
    uint32_t mantissa = bits & 0x7fffff;
    int exponent = (int)(bits >> 23) - 150; /* value = mantissa 2^exponent */
    int top = exponent + 23;                /* and lies in [2^top, 2^(top+1)) */
    if (exponent == -150) {
        exponent = -149;
        top = 31 - __builtin_clz(mantissa) - 149;
    } else {
        mantissa |= 0x800000;
    }
    /* 1233 / 4096 is log10(2) closely enough to make the decade of 2^top right for every float. */
    int decade = (top * 1233) >> 12;
    decade += bits >= decades[decade + 1 - DECADE_FIRST];
    const int power = digits - 1 - decade;
    uint32_t n = power < 0              ? scale_down(mantissa, exponent, -power)
                 : power <= POWER_5_MAX ? scale_up(mantissa, exponent, power)
                                        : scale_up_far(mantissa, exponent, power);
    n *= power_10[9 - digits];
    if (n == power_10[9]) { /* rounded up into the next decade */
        n = power_10[8];
        decade++;
    }
    int n_rest;
    const uint64_t rest = eight_digits(n % power_10[8], &n_rest);
    return lay_out(to, (char)('0' + n / power_10[8]), rest, n_rest, decade, digits);
}

char *hs_integer_print(char *to, int64_t value)
{
    uint64_t n = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    if (value < 0)
        *to++ = '-';
    char text[20];
    size_t first = sizeof text;
    do {
        text[--first] = (char)('0' + n % 10);
        n /= 10;
    } while (n);
    memcpy(to, text + first, sizeof text - first);
    return to + (sizeof text - first);
}

/* ==== layouts of lists ==== */

/* The table of layouts, written by the compiler from three rules. */

/* Byte i of the text of first.rest[0..n), then the comma. Below 1: "0.", zeros zeros, first, rest. */
#define BELOW(zeros, n, i)                                                                                   \
    ((i) == 15                 ? (zeros) + (n) + 4                                                           \
     : (i) == 1                ? HS__AT_POINT                                                                \
     : (i) < (zeros) + 2       ? HS__AT_ZERO                                                                 \
     : (i) == (zeros) + 2      ? HS__AT_FIRST                                                                \
     : (i) < (zeros) + 3 + (n) ? (i) - (zeros)-3                                                             \
                               : HS__AT_COMMA)
/* From 1 on: the point stands before rest[decade], where there is that. */
#define WHOLE(decade, n, i)                                                                                  \
    ((i) == 15                               ? ((n) > (decade) ? (n) + 3 : (decade) + 2)                     \
     : (i) == 0                              ? HS__AT_FIRST                                                  \
     : (i) <= (decade)                       ? (i)-1                                                         \
     : (n) > (decade) && (i) == (decade) + 1 ? HS__AT_POINT                                                  \
     : (n) > (decade) && (i) < (n) + 2       ? (i)-2                                                         \
                                             : HS__AT_COMMA)
/* With an exponent behind `before` bytes. */
#define POWER_AT(before, minus, tens, i)                                                                     \
    ((i) == 15                                 ? (before) + (minus) + (tens) + 3                             \
     : (i) == (before)                         ? HS__AT_E                                                    \
     : (minus) && (i) == (before) + 1          ? HS__AT_MINUS                                                \
     : (tens) && (i) == (before) + 1 + (minus) ? HS__AT_TENS                                                 \
     : (i) == (before) + 1 + (minus) + (tens)  ? HS__AT_ONES                                                 \
                                               : HS__AT_COMMA)
#define POWER(kind, n, i)                                                                                    \
    ((i) == 0               ? HS__AT_FIRST                                                                   \
     : (n) && (i) == 1      ? HS__AT_POINT                                                                   \
     : (i) < (n) + 2 && (n) ? (i)-2                                                                          \
                            : POWER_AT((n) ? (n) + 2 : 1, (kind) < 2, (kind)&1, i))

#define ROW(layout, a, n)                                                                                    \
    {                                                                                                        \
        layout(a, n, 0), layout(a, n, 1), layout(a, n, 2), layout(a, n, 3), layout(a, n, 4),                 \
            layout(a, n, 5), layout(a, n, 6), layout(a, n, 7), layout(a, n, 8), layout(a, n, 9),             \
            layout(a, n, 10), layout(a, n, 11), layout(a, n, 12), layout(a, n, 13), layout(a, n, 14),        \
            layout(a, n, 15)                                                                                 \
    }
#define ROWS(layout, a)                                                                                      \
    ROW(layout, a, 0), ROW(layout, a, 1), ROW(layout, a, 2), ROW(layout, a, 3), ROW(layout, a, 4),           \
        ROW(layout, a, 5), ROW(layout, a, 6), ROW(layout, a, 7), ROW(layout, a, 8)

const uint8_t hs__number_layouts[HS__LAYOUTS * HS__LAYOUT_ROWS][16] = {
    ROWS(BELOW, 3), ROWS(BELOW, 2), ROWS(BELOW, 1), ROWS(BELOW, 0), ROWS(WHOLE, 0), ROWS(WHOLE, 1),
    ROWS(WHOLE, 2), ROWS(WHOLE, 3), ROWS(WHOLE, 4), ROWS(WHOLE, 5), ROWS(WHOLE, 6), ROWS(WHOLE, 7),
    ROWS(WHOLE, 8), ROWS(POWER, 0), ROWS(POWER, 1), ROWS(POWER, 2), ROWS(POWER, 3),
};
