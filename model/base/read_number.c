/* read_number.c - finds the end of a number by its syntax, then computes its value. */
#include "model/base/read_number.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

static const char *skip_digits(const char *text)
{
    while (*text >= '0' && *text <= '9')
        text++;
    return text;
}

/* Returns true if a number may end here, and tells the caller where. */
static bool ends(const char *text, const char *end, const char **ret_end)
{
    if (ret_end)
        *ret_end = end;
    return end > text && (ret_end || !*end);
}

hs_number_fault hs_integer_read(const char *text, const char **ret_end, int64_t min, int64_t max,
                                int64_t *ret_number)
{
    const bool negative = *text == '-';
    const char *digits = text + negative, *end = skip_digits(digits);
    if (!ends(text, end > digits ? end : text, ret_end))
        return HS_NUMBER_MALFORMED;
    int64_t number = 0; /* with its sign, since INT64_MIN has no positive counterpart */
    bool overflows = false;
    for (const char *at = digits; at < end && !overflows; at++) {
        const int digit = *at - '0';
        overflows = __builtin_mul_overflow(number, (int64_t)10, &number) ||
                    __builtin_add_overflow(number, (int64_t)(negative ? -digit : digit), &number);
    }
    const bool too_small = overflows ? negative : number < min,
               too_large = overflows ? !negative : number > max;
    *ret_number = too_small ? min : too_large ? max : number;
    return too_small ? HS_NUMBER_TOO_SMALL : too_large ? HS_NUMBER_TOO_LARGE : HS_NUMBER_OK;
}

/* Returns the end of a decimal number, or text if there is none. */
static const char *real_end(const char *text)
{
    const char *whole = text + (*text == '-'), *end = skip_digits(whole);
    size_t n_digits = (size_t)(end - whole);
    if (*end == '.') {
        const char *fraction = end + 1;
        end = skip_digits(fraction);
        n_digits += (size_t)(end - fraction);
    }
    if (n_digits == 0)
        return text;
    if (*end == 'e' || *end == 'E') {
        const char *exponent = end + 1 + (end[1] == '-' || end[1] == '+'),
                   *exponent_end = skip_digits(exponent);
        end = exponent_end > exponent ? exponent_end : end;
    }
    return end;
}

/* Returns true for 0x, behind which strtod reads hexadecimal digits. */
static bool is_hexadecimal(const char *text)
{
    text += *text == '-';
    return text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
}

/* strtod reads the other numbers as real_end does: the program stays in the C locale. */
hs_number_fault hs_real_read(const char *text, const char **ret_end, double *ret_number)
{
    if (!ends(text, real_end(text), ret_end))
        return HS_NUMBER_MALFORMED;
    const double number = is_hexadecimal(text) ? 0 : strtod(text, NULL);
    if (!isfinite(number))
        return number < 0 ? HS_NUMBER_TOO_SMALL : HS_NUMBER_TOO_LARGE;
    *ret_number = number;
    return HS_NUMBER_OK;
}
