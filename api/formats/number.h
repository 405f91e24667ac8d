/* number.h - numbers as JSON text, fast.
 *
 * A JSON answer holds millions of floats. jansson and printf need 200 ns for each. These functions need about
 * 15 ns for one float, and 4 to 5 ns for each float of a list. The text is that of printf("%.*g"): the exact
 * binary value is rounded to the nearest value of `digits` significant digits, ties to even. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* A printer may touch this many bytes from `to` on, whatever the number's length. */
#define HS_NUMBER_BYTES_MAX 32

/* Longest text of a float with that many digits: "-0.000123456", "-1.23456e-38". */
#define HS__FLOAT_TEXT_MAX(digits) ((size_t)(digits) + 6)

/* Writes value with 1..9 significant digits, trailing zeros dropped; an exponent where %g has one, without
 * padding ("1.5e-7"). NaN and infinities, which JSON lacks, are null. 9 digits give a float back exactly.
 * Returns the end; writes no NUL. */
char *hs_float_print(char *to, float value, int digits);

/* Writes n floats, each followed by a comma. Writes less than HS_NUMBER_BYTES_MAX beyond its end. */
char *hs_floats_print(char *to, const float *values, size_t n, int digits);

/* Writes an integer and returns the end; writes no NUL. */
char *hs_integer_print(char *to, int64_t value);
