/* csv.h - the fields of a row of CSV or TSV, as in RFC 4180.
 *
 * A quoted field may hold delimiters, line ends and doubled quotation marks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct hs__csv_row {
    const char *bytes; /* without its line end */
    size_t n_bytes;
    char delimiter;
    size_t at; /* where the next field begins; beyond n_bytes: there is none */
} hs__csv_row;

/* Copies the next field to ret, which has capacity for the rest of the row. False: unbalanced quotes. */
bool hs__csv_next_field(hs__csv_row *row, char *ret, size_t *ret_n);
