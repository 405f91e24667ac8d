/* number_list.h - inside number_l*.c: many floats side by side, once per instruction set.
 *
 * A number's text is a choice of 16 bytes out of 16: eight digits, the first digit, and the characters that
 * numbers are laid out with. The choice depends on the decade and on the number of digits before the
 * trailing zeros. A table has a row for each choice, and one shuffle writes the number and its comma. */
#pragma once

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
