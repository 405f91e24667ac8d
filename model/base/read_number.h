/* read_number.h - reads numbers from text: options, queries, headers, and columns of files. Digits are ASCII,
 * and the decimal point is a point in every locale. White space, '+', hexadecimal digits, "inf" and "nan" are
 * no part of a number. */
#pragma once

#include <stdint.h>

typedef enum hs_number_fault {
    HS_NUMBER_OK = 0,
    HS_NUMBER_MALFORMED, /* the text is no number, or something follows the number */
    HS_NUMBER_TOO_SMALL,
    HS_NUMBER_TOO_LARGE
} hs_number_fault;

/* Reads an integer from min to max: digits with an optional minus. Outside this range *ret_number is the
 * nearest of the two. It is untouched if the text is malformed.
 *
 * With ret_end NULL the whole text must be the number. Otherwise *ret_end is the first byte that does not
 * belong to the number, which is the start if there is none. */
hs_number_fault hs_integer_read(const char *text, const char **ret_end, int64_t min, int64_t max,
                                int64_t *ret_number);

/* Reads a decimal number like "0.5", "-2" or "1e-3", in the same way. Beyond the range of doubles
 * *ret_number is untouched. */
hs_number_fault hs_real_read(const char *text, const char **ret_end, double *ret_number);
