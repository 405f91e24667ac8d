/* corpus_row.h - the fields of a row of CSV or TSV, RFC 4180: one that begins with a quotation mark goes to
 * the next that is not doubled, and may hold delimiters, line ends and doubled marks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct hs__row {
    const char *bytes; /* without its line end */
    size_t n_bytes;
    char delimiter;
    size_t at; /* where the next field begins; beyond n_bytes: there is none */
} hs__row;

/* The next field into ret, which has room for the rest of the row. False: its quotes are wrong. */
bool hs__row_next_field(hs__row *row, char *ret, size_t *ret_n);
