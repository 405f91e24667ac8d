/* conllu.c - cuts lines and columns, and reads numbers of words. */
#include "server/corpus/input/conllu.h"

#include <stdlib.h>
#include <string.h>

hs__conllu_part hs__conllu_line_take(const char **at, const char *end)
{
    const char *newline = memchr(*at, '\n', (size_t)(end - *at)), *stop = newline ? newline : end;
    hs__conllu_part line = {*at, (size_t)(stop - *at)};
    line.n -= line.n && line.bytes[line.n - 1] == '\r';
    *at = newline ? newline + 1 : end;
    return line;
}

hs__conllu_part hs__conllu_column(const hs__conllu_part *line, size_t k)
{
    const char *at = line->bytes, *end = at + line->n;
    for (; k && at < end; k--) {
        const char *tab = memchr(at, '\t', (size_t)(end - at));
        at = tab ? tab + 1 : end;
    }
    const char *tab = at < end ? memchr(at, '\t', (size_t)(end - at)) : NULL;
    return (hs__conllu_part){at, (size_t)((tab ? tab : end) - at)};
}

/* Reads a number and what follows it in the column, of which the caller keeps a copy. */
static bool number_copy(const hs__conllu_part *column, char copy[48], unsigned long *ret_number,
                        char **ret_rest)
{
    if (column->n == 0 || column->n >= 48 || *column->bytes < '0' || *column->bytes > '9')
        return false;
    memcpy(copy, column->bytes, column->n);
    copy[column->n] = '\0';
    *ret_number = strtoul(copy, ret_rest, 10);
    return true;
}

bool hs__conllu_number_read(const hs__conllu_part *column, unsigned long *ret_number)
{
    char copy[48], *rest;
    return number_copy(column, copy, ret_number, &rest) && !*rest;
}

bool hs__conllu_range_read(const hs__conllu_part *line, hs__conllu_range *ret_range)
{
    const hs__conllu_part id = hs__conllu_column(line, 0);
    char copy[48], *rest;
    if (line->n == 0 || *line->bytes == '#' || !number_copy(&id, copy, &ret_range->first, &rest) ||
        (*rest && *rest != '-'))
        return false;
    ret_range->last = *rest == '-' ? strtoul(rest + 1, NULL, 10) : ret_range->first;
    return true;
}
