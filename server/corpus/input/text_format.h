/* text_format.h - formats of text files, detected from an option, the file name or the first bytes.
 *
 * text: one text per line. paragraphs: separated by blank lines. jsonl: an object or string per line. json:
 * one array of these. csv, tsv: with a header, quoted as in RFC 4180. conllu: one block per sentence.
 * splitter.h splits a file into records; record_text.h finds the text of a record. */
#pragma once

#include "model/base/status.h"
#include "server/corpus/input/csv.h"

#include <stdbool.h>
#include <stddef.h>

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
    HS__FORMATS
} hs__text_format;

/* In the order of hs__text_format. */
#define HS__INPUT_FORMAT_NAMES "auto|text|jsonl|json|csv|tsv|conllu|paragraphs"

/* The format of an input as an option gives it. */
typedef struct hs__input_format {
    hs__text_format format;            /* AUTO: detected for each file */
    char field[HS__FIELD_BYTES];       /* name in objects, or header of a column; "": text */
    char label_field[HS__FIELD_BYTES]; /* the same of a text's label; "": texts have none */
    bool no_quotes;                    /* quotation marks of csv and tsv are ordinary characters */
} hs__input_format;

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
    size_t label_column;    /* the label's, if there are labels */
} hs__record_layout;

/* Detects the layout of a file from its path and its first HS__FORMAT_PEEK bytes, fewer if it is shorter.
 * HS_INVALID: it is no text, or lacks the column or field. */
#define HS__FORMAT_PEEK ((size_t)1 << 18)
HS_MUST_USE hs_status hs__record_layout_find(const char *path, const char *bytes, size_t n,
                                             const hs__input_format *given, hs__record_layout *ret_layout,
                                             hs_error *err);
