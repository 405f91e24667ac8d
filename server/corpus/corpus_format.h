/* corpus_format.h - what a file of texts holds: told by name, by its ending, or by its first bytes.
 *
 * text is a text a line, paragraphs are set apart by blank lines. jsonl has an object or a string a line,
 * json one array of these. csv and tsv begin with a header and may quote as RFC 4180 says. conllu has a block
 * a sentence. A file is cut into records by corpus_records.h; a record's text is found by corpus_value.h. */
#pragma once

#include "model/status.h"

#include <stdbool.h>
#include <stddef.h>

#define HS__FIELD_BYTES 128

/* In corpora.db by their numbers. */
typedef enum hs__corpus_format {
    HS__FORMAT_AUTO,
    HS__FORMAT_TEXT,
    HS__FORMAT_JSONL,
    HS__FORMAT_JSON,
    HS__FORMAT_CSV,
    HS__FORMAT_TSV,
    HS__FORMAT_CONLLU,
    HS__FORMAT_PARAGRAPHS,
    HS__FORMATS
} hs__corpus_format;

#define HS__INPUT_FORMAT_NAMES "auto|text|jsonl|json|csv|tsv|conllu|paragraphs"

/* What somebody says of an input. */
typedef struct hs__input_format {
    hs__corpus_format format;    /* AUTO: each file is looked at */
    char field[HS__FIELD_BYTES]; /* of objects, or a column's header; "": text */
} hs__input_format;

const char *hs__input_format_name(hs__corpus_format format); /* "jsonl" */
/* False when there is no such one. */
bool hs__input_format_named(const char *name, hs__corpus_format *ret_format);
/* Of a media type, without its parameters; "application/gzip" and others that say nothing of it are AUTO.
 * False for one that is none of texts. */
bool hs__input_format_of_type(const char *type, size_t n, hs__corpus_format *ret_format);

/* How a file's records are read. */
typedef struct hs__record_layout {
    hs__corpus_format format; /* not AUTO */
    char delimiter;           /* of csv and tsv */
    size_t column;            /* the text's, from 0 */
} hs__record_layout;

/* The layout of the file at this path, which begins with these bytes, HS__FORMAT_PEEK of them where there are
 * so many. HS_INVALID, naming the path: it is no text, or has no such column or field. */
#define HS__FORMAT_PEEK ((size_t)1 << 18)
HS_MUST_USE hs_status hs__record_layout_find(const char *path, const char *bytes, size_t n,
                                             const hs__input_format *told, hs__record_layout *ret_layout,
                                             hs_error *err);
