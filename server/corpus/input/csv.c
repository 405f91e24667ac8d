/* csv.c - a quotation mark inside an unquoted field is an ordinary character. */
#include "server/corpus/input/csv.h"

#include <string.h>

static bool quoted_read(hs__csv_row *row, char *ret, size_t *ret_n)
{
    size_t n = 0, at = row->at + 1;
    bool closed = false;
    while (!closed && at < row->n_bytes) {
        const char c = row->bytes[at++];
        const bool doubled = c == '"' && at < row->n_bytes && row->bytes[at] == '"';
        closed = c == '"' && !doubled;
        at += doubled;
        if (!closed)
            ret[n++] = c;
    }
    *ret_n = n;
    row->at = at + 1;
    return closed && (at >= row->n_bytes || row->bytes[at] == row->delimiter);
}

bool hs__csv_next_field(hs__csv_row *row, char *ret, size_t *ret_n)
{
    *ret_n = 0;
    if (row->at < row->n_bytes && row->bytes[row->at] == '"')
        return quoted_read(row, ret, ret_n);
    const size_t left = row->at < row->n_bytes ? row->n_bytes - row->at : 0;
    const char *from = row->bytes + (left ? row->at : 0),
               *end = left ? memchr(from, row->delimiter, left) : NULL;
    *ret_n = end ? (size_t)(end - from) : left;
    if (*ret_n)
        memcpy(ret, from, *ret_n);
    row->at += *ret_n + 1;
    return true;
}
