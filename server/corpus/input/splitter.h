/* splitter.h - splits bytes into records: lines, rows with quoted line ends, blocks, or the elements of an
 * array.
 *
 * The splitter accepts pieces of any size and keeps only its own state between them.
 *
 * An unclosed quotation mark could take all rows behind it for one field. A quoted field of several lines is
 * therefore broken in three cases:
 * - Bytes other than a delimiter or a line end follow its closing mark.
 * - The file ends inside it.
 * - Its row has HS__RECORD_BYTES_MAX bytes. */
#pragma once

#include "server/corpus/input/text_format.h"

#include <stdint.h>

typedef struct hs__splitter {
    hs__record_layout layout;
    uint64_t depth; /* of a JSON array: brackets that are open; it goes on from record to record */
    bool begun;     /* a byte of the record was seen */
    bool quoted, escaped, line_begins;
    hs__csv_state csv;
    size_t n_row;    /* bytes of the row */
    size_t line_end; /* of these, before the first line end of its last field, if that is quoted; else 0 */
} hs__splitter;

void hs__splitter_init(hs__splitter *scan, const hs__record_layout *layout);

/* A piece of a record. */
typedef struct hs__record_piece {
    size_t n_passed; /* bytes that belong to it: nothing, the piece and what ends it */
    size_t n_before; /* of these, what stands before the record: blank lines, the bracket of an array */
    size_t n_record; /* then what is of the record itself */
    bool ended;
    size_t n_broken; /* not 0: a quoted field is broken. The record has only so many bytes, in all pieces, and
                        a line end follows them. The bytes after it belong to the next records. */
} hs__record_piece;

/* Continues with n >= 1 bytes, up to the end of the record. */
hs__record_piece hs__splitter_next(hs__splitter *scan, const char *bytes, size_t n);
/* Ends the record at the end of a file. Returns its n_broken, as in hs__record_piece. */
size_t hs__splitter_end(hs__splitter *scan);
