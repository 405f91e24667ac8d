/* corpus_input.h - files of texts as one stream of lines.
 *
 * Files are plain or gzip (told by their first bytes), "-" is standard input. Nothing but one line is held,
 * and a line has a bound, so a file of any size takes the same memory. Every byte passed is hashed: a run
 * that goes on passes the same lines again and finds out whether they are still the same.
 *
 * What the lines are is told by the caller, or by each file's first one: a JSON object or string makes it
 * NDJSON, anything else plain text, a text a line. Blank lines are passed over.
 *
 *     while (!(st = hs__corpus_input_next(input, &line, &err)) && line.bytes) */
#pragma once

#include "model/files/digest.h"
#include "model/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HS__CORPUS_LINE_MAX  ((size_t)4 << 20)
#define HS__CORPUS_FILES_MAX 4096

typedef enum hs__corpus_lines { HS__LINES_BY_THE_FIRST, HS__LINES_TEXT, HS__LINES_JSON } hs__corpus_lines;

typedef struct hs__corpus_input hs__corpus_input;

typedef struct hs__corpus_line {
    const char *bytes; /* without its end; borrowed until the next call; NULL: there are no more lines */
    size_t n_bytes;
    bool too_long, json; /* too_long: only its beginning is there */
    size_t file;         /* index among the paths */
    uint64_t line;       /* in its file, from 1 */
    uint64_t number;     /* among all lines that are not blank, from 0 */
} hs__corpus_line;

/* Where the stream is, between two lines. */
typedef struct hs__corpus_place {
    uint64_t n_lines; /* not blank, passed */
    uint64_t n_bytes; /* passed, unpacked */
    char sha256[HS_SHA256_HEX];
} hs__corpus_place;

/* paths must outlive the input. HS_IO when one cannot be read: all are looked at now, opened in turn. Once
 * *stop (stop may be NULL) is not zero, reading ends with HS_CANCELLED: a line, or what is skipped, can be
 * long when gzip made it small. */
HS_MUST_USE hs_status hs__corpus_input_open(const char *const *paths, size_t n_paths, hs__corpus_lines lines,
                                            const atomic_int *stop, hs__corpus_input **ret_input,
                                            hs_error *err);
void hs__corpus_input_close(hs__corpus_input *input); /* NULL is fine */

/* HS_IO: reading failed, or a gzip file is damaged or cut short. */
HS_MUST_USE hs_status hs__corpus_input_next(hs__corpus_input *input, hs__corpus_line *ret_line,
                                            hs_error *err);

/* Passes lines up to a place where the stream has been before. HS_INVALID when what comes is not what came
 * then. */
HS_MUST_USE hs_status hs__corpus_input_skip(hs__corpus_input *input, const hs__corpus_place *place,
                                            hs_error *err);
void hs__corpus_input_place(const hs__corpus_input *input, hs__corpus_place *ret_place);

/* Share of the files' bytes that was read, as they lie on disk; below 0 when standard input is one of them.
 */
double hs__corpus_input_progress(const hs__corpus_input *input);
