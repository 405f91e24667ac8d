/* number.h - numbers as JSON text, fast.
 *
 * Floats are the bulk of a JSON answer: millions of them, where jansson and printf need 200 ns each. These
 * are printed in about 15 ns one by one, in 4 to 5 ns side by side, and still rounded as printf("%.*g")
 * rounds: to the nearest value of `digits` significant digits, ties to even, decided on the exact binary
 * value. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* A printer may touch this many bytes from `to` on, whatever the number's length. */
#define HS__NUMBER_ROOM 32

/* Longest text of a float with that many digits: "-0.000123456", "-1.23456e-38". */
#define HS__FLOAT_TEXT_MAX(digits) ((size_t)(digits) + 6)

/* Writes value with 1..9 significant digits, trailing zeros dropped; an exponent where %g has one, without
 * padding ("1.5e-7"). NaN and infinities, which JSON lacks, are null. 9 digits give a float back exactly.
 * Returns the end; writes no NUL. */
char *hs_float_print(char *to, float value, int digits);

/* n of them, a comma behind each. Writes less than HS__NUMBER_ROOM beyond its end. */
char *hs_floats_print(char *to, const float *values, size_t n, int digits);

/* Likewise for integers. */
char *hs_integer_print(char *to, int64_t value);
