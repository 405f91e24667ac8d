/* csv.c - quotes fields of CSV. */
#include "api/formats/csv.h"

#include <string.h>

char *hs_csv_field(char *to, const char *text, size_t n, bool safe)
{
    const bool formula = safe && n && memchr("=+-@\t\r", *text, 6);
    bool quotes = false;
    for (size_t i = 0; i < n && !quotes; i++)
        quotes = memchr(",\"\r\n", text[i], 4);
    if (quotes)
        *to++ = '"';
    if (formula)
        *to++ = '\'';
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"')
            *to++ = '"';
        *to++ = text[i];
    }
    if (quotes)
        *to++ = '"';
    return to;
}
