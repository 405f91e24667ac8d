/* corpus_input.h - files of texts as one stream of records.
 *
 * Files are plain, gzip or zstd (corpus_unpack.h) in any of the formats of corpus_format.h, "-" is standard
 * input. Nothing but one record is held, and a record has a bound, so a file of any size takes the same
 * memory. Every byte passed is hashed: a run that goes on passes the same records again and finds out whether
 * they are still the same. Blank records are passed over, and the headers of tables.
 *
 *     while (!(st = hs__corpus_input_next(input, &line, &err)) && line.bytes) */
#pragma once

#include "model/files/digest.h"
#include "model/status.h"
#include "server/corpus/corpus_format.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HS__CORPUS_LINE_MAX  ((size_t)4 << 20)
#define HS__CORPUS_FILES_MAX 4096

typedef struct hs__corpus_input hs__corpus_input;

/* A record: a line, in most formats. */
typedef struct hs__corpus_line {
    const char *bytes; /* without its end; borrowed until the next call; NULL: there are no more records */
    size_t n_bytes;
    bool too_long; /* only its beginning is there */
    hs__record_layout layout;
    size_t file;     /* index among the paths */
    uint64_t line;   /* where it begins in its file, from 1 */
    uint64_t number; /* among all records that are not blank, from 0 */
} hs__corpus_line;

/* Where the stream is, between two records. */
typedef struct hs__corpus_place {
    uint64_t n_lines; /* records that are not blank, passed */
    uint64_t n_bytes; /* passed, unpacked */
    char sha256[HS_SHA256_HEX];
} hs__corpus_place;

/* paths and told, what the files hold, must outlive the input. HS_IO when one cannot be read: all are looked
 * at now, opened in turn. Once *stop (stop may be NULL) is not zero, reading ends with HS_CANCELLED: a
 * record, or what is skipped, can be long when it was packed small. */
HS_MUST_USE hs_status hs__corpus_input_open(const char *const *paths, size_t n_paths,
                                            const hs__input_format *told, const atomic_int *stop,
                                            hs__corpus_input **ret_input, hs_error *err);
void hs__corpus_input_close(hs__corpus_input *input); /* NULL is fine */

/* HS_IO: reading failed. HS_INVALID: what is packed is damaged or cut short, a file is not text, or lacks the
 * column or field that was asked for. */
HS_MUST_USE hs_status hs__corpus_input_next(hs__corpus_input *input, hs__corpus_line *ret_line,
                                            hs_error *err);

/* Passes lines up to a place where the stream has been before. HS_INVALID when what comes is not what came
 * then. */
HS_MUST_USE hs_status hs__corpus_input_skip(hs__corpus_input *input, const hs__corpus_place *place,
                                            hs_error *err);
void hs__corpus_input_place(const hs__corpus_input *input, hs__corpus_place *ret_place);

/* What the files turned out to be, as far as they were opened: ["jsonl", "csv, gzip"]. NULL when memory is
 * short. */
json_t *hs__corpus_input_formats(const hs__corpus_input *input);

/* Looks for one text, not without end, and what kind of file it is: HS_INVALID says why there is none, HS_IO
 * as above. */
HS_MUST_USE hs_status hs__corpus_input_check(const char *path, const hs__input_format *told,
                                             hs__corpus_format *ret_format, bool *ret_packed, hs_error *err);
/* What is said of an input without any: HS_INVALID. first_line and why: of the first bad record. */
hs_status hs__no_texts(const char *path, uint64_t n_lines, uint64_t first_line, const char *why,
                       hs_error *err);

/* Share of the files' bytes that was read, as they lie on disk; below 0 when standard input is one of them.
 */
double hs__corpus_input_progress(const hs__corpus_input *input);
