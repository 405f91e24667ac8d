/* text_format.h - formats of text files, detected from an option, the file name or the first bytes.
 *
 * text: one text per line. paragraphs: separated by blank lines. jsonl: an object or string per line. json:
 * one array of these. csv, tsv: with a header, quoted as in RFC 4180. conllu: one block per sentence.
 * fasta: a header that begins with >, and the lines of a sequence.
 * Splits a file into records, too; records.h finds the text of a record. */
#pragma once

#include "model/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

typedef struct hs__csv_row {
    const char *bytes; /* without its line end */
    size_t n_bytes;
    hs__csv_dialect dialect;
    size_t at; /* where the next field begins; beyond n_bytes: there is none */
} hs__csv_row;

/* Copies the next field to ret, which has capacity for the rest of the row. False: unbalanced quotes. */
bool hs__csv_next_field(hs__csv_row *row, char *ret, size_t *ret_n);

#define HS__FIELD_BYTES      128
#define HS__RECORD_BYTES_MAX ((size_t)4 << 20)
/* corpora.db stores these numbers. */
typedef enum hs__text_format {
    HS__FORMAT_AUTO,
    HS__FORMAT_TEXT,
    HS__FORMAT_JSONL,
    HS__FORMAT_JSON,
    HS__FORMAT_CSV,
    HS__FORMAT_TSV,
    HS__FORMAT_CONLLU,
    HS__FORMAT_PARAGRAPHS,
    HS__FORMAT_FASTA,
    HS__FORMATS
} hs__text_format;

/* In the order of hs__text_format. */
#define HS__INPUT_FORMAT_NAMES "auto|text|jsonl|json|csv|tsv|conllu|paragraphs|fasta"

/* The format of an input as an option gives it. */
typedef struct hs__input_format {
    hs__text_format format;            /* AUTO: detected for each file */
    char field[HS__FIELD_BYTES];       /* name in objects, or header of a column; "": text */
    char pair_field[HS__FIELD_BYTES];  /* the same of its second text; "": hs__pair_field_of */
    bool has_target;                   /* the second text is what a decoder reads: each record has one */
    char label_field[HS__FIELD_BYTES]; /* the same of a text's label; "": texts have none */
    bool no_quotes;                    /* quotation marks of csv and tsv are ordinary characters */
} hs__input_format;

/* Returns the field of a record's second text: that of the option, else text_target of a decoder, else
 * text_pair. "": none, because the user names the field of the text and so reads it alone. */
const char *hs__pair_field_of(const hs__input_format *given);

/* Returns the field that the run does not read: it refuses records with it, unless the user names the field
 * of the text. */
const char *hs__unread_field_of(const hs__input_format *given);

const char *hs__input_format_name(hs__text_format format); /* "jsonl" */
/* Finds the format of a media type, without its parameters. Types such as "application/gzip" are AUTO. False:
 * not a type of texts. */
bool hs__input_format_of_type(const char *type, size_t n, hs__text_format *ret_format);

/* The format of a file's records. */
typedef struct hs__record_layout {
    hs__text_format format; /* not AUTO */
    hs__csv_dialect csv;    /* of csv and tsv */
    size_t n_columns;       /* of their header */
    size_t column;          /* the text's, from 0 */
    bool has_pairs;         /* rows have a second text, */
    size_t pair_column;     /* in this column */
    size_t label_column;    /* the label's, if there are labels */
} hs__record_layout;

/* Detects the layout of a file from its path and its first HS__FORMAT_PEEK bytes, fewer if it is shorter.
 * HS_INVALID: it is no text, or lacks the column or field. */
#define HS__FORMAT_PEEK ((size_t)1 << 18)

HS_MUST_USE hs_status hs__record_layout_find(const char *path, const char *bytes, size_t n,
                                             const hs__input_format *given, hs__record_layout *ret_layout,
                                             hs_error *err);

/* ---- splits bytes into records: lines, rows with quoted line ends, blocks, or the elements of an
 * array.
 *
 * The splitter accepts pieces of any size and keeps only its own state between them.
 *
 * An unclosed quotation mark could take all rows behind it for one field. A quoted field of several lines is
 * therefore broken in three cases:
 * - Bytes other than a delimiter or a line end follow its closing mark.
 * - The file ends inside it.
 * - Its row has HS__RECORD_BYTES_MAX bytes. */

typedef struct hs__splitter {
    hs__record_layout layout;
    uint64_t depth; /* of a JSON array: brackets that are open; of FASTA: 1 behind the first >. It goes on
                     * from record to record */
    bool begun;     /* a byte of the record was seen */
    bool quoted, escaped, line_begins;
    hs__csv_state csv;
    size_t n_row;    /* bytes of the row or sequence */
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
