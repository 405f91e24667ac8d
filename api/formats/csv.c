/* csv.c - quotes fields of CSV. */
#include "api/formats/csv.h"

#include <string.h>

char *hs_csv_field(char *to, const char *text, size_t n, bool safe)
{
    static const char begins_formula[] = {'=', '+', '-', '@', '\t', '\r'},
                      needs_quotes[] = {',', '"', '\r', '\n'};
    const bool formula = safe && n && memchr(begins_formula, *text, sizeof begins_formula);
    bool quotes = false;
    for (size_t i = 0; i < n && !quotes; i++)
        quotes = memchr(needs_quotes, text[i], sizeof needs_quotes);
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
