/* corpus_records.h - where records end: lines, rows whose quotes may hold line ends, blocks, an array's
 * elements. A record is found byte by byte in pieces as they come; nothing is kept but a few words. */
#pragma once

#include "server/corpus/corpus_format.h"

#include <stdint.h>

typedef struct hs__record_scan {
    hs__record_layout layout;
    uint64_t depth; /* of a JSON array: brackets that are open; it goes on from record to record */
    bool begun;     /* a byte of the record was seen */
    bool quoted, escaped;
    bool field_begins, line_begins;
} hs__record_scan;

void hs__record_scan_init(hs__record_scan *scan, const hs__record_layout *layout);

/* A piece of a record. */
typedef struct hs__record_piece {
    size_t n_passed; /* bytes that belong to it: nothing, the piece and what ends it */
    size_t n_before; /* of these, what stands before the record: blank lines, the bracket of an array */
    size_t n_record; /* then what is of the record itself */
    bool ended;
} hs__record_piece;

/* Goes on in bytes, n >= 1 of them. */
hs__record_piece hs__record_scan_next(hs__record_scan *scan, const char *bytes, size_t n);
