/* splitter.h - splits bytes into records: lines, rows with quoted line ends, blocks, or the elements of an
 * array.
 *
 * The splitter accepts pieces of any size and keeps only its own state between them. */
#pragma once

#include "server/corpus/input/text_format.h"

#include <stdint.h>

typedef struct hs__splitter {
    hs__record_layout layout;
    uint64_t depth; /* of a JSON array: brackets that are open; it goes on from record to record */
    bool begun;     /* a byte of the record was seen */
    bool quoted, escaped;
    bool field_begins, line_begins;
} hs__splitter;

void hs__splitter_init(hs__splitter *scan, const hs__record_layout *layout);

/* A piece of a record. */
typedef struct hs__record_piece {
    size_t n_passed; /* bytes that belong to it: nothing, the piece and what ends it */
    size_t n_before; /* of these, what stands before the record: blank lines, the bracket of an array */
    size_t n_record; /* then what is of the record itself */
    bool ended;
} hs__record_piece;

/* Continues with n >= 1 bytes, up to the end of the record. */
hs__record_piece hs__splitter_next(hs__splitter *scan, const char *bytes, size_t n);
