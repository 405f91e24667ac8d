/* csv.h - rows of CSV and TSV, as in RFC 4180.
 *
 * A quoted field may hold delimiters, line ends and doubled quotation marks. A quotation mark inside an
 * unquoted field is an ordinary character. One automaton finds the ends of rows (splitter.h) and of fields.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct hs__csv_dialect {
    char delimiter, quote; /* quote 0: quotation marks are ordinary characters */
} hs__csv_dialect;

typedef enum hs__csv_state {
    HS__CSV_FIELD,  /* a field begins */
    HS__CSV_PLAIN,  /* in an unquoted field */
    HS__CSV_QUOTED, /* in a quoted field */
    HS__CSV_QUOTE,  /* after a quotation mark that closes a quoted field, or is the first of two */
    HS__CSV_RETURN, /* after a carriage return that follows such a field */
    HS__CSV_BROKEN, /* after other bytes that follow such a field; up to the end of the line */
    HS__CSV_END     /* after the end of the row */
} hs__csv_state;

/* Returns the state after a byte. */
hs__csv_state hs__csv_step(hs__csv_state state, hs__csv_dialect dialect, char c);

typedef struct hs__csv_row {
    const char *bytes; /* without its line end */
    size_t n_bytes;
    hs__csv_dialect dialect;
    size_t at; /* where the next field begins; beyond n_bytes: there is none */
} hs__csv_row;

/* Copies the next field to ret, which has capacity for the rest of the row. False: unbalanced quotes. */
bool hs__csv_next_field(hs__csv_row *row, char *ret, size_t *ret_n);
