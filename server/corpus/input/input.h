/* input.h - reads files of texts as one stream of records.
 *
 * Files are plain, gzip or zstd in any of the formats of text_format.h, "-" is standard
 * input. The stream holds one record at a time, of bounded size, so memory does not depend on the files. It
 * hashes every byte: a resumed run skips the same records and detects changed input. Blank records are
 * skipped and counted; headers of tables are skipped. A row with a broken quoted field (text_format.h) ends
 * with the line where the field began, and the next line is the next record.
 *
 *     while (!(st = hs__record_stream_next(input, &line, &err)) && line.bytes) */
#pragma once

#include "model/base/bytes.h"
#include "model/base/status.h"
#include "server/corpus/input/text_format.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limit on the window of zstd: 8 MiB, as RFC 8878 recommends. All levels up to 19 keep to it. */
#define HS__ZSTD_WINDOW_LOG 23

#define HS__UNPACK_BYTES      ((size_t)1 << 18)
#define HS__UNPACK_MEMORY_MAX (((size_t)1 << HS__ZSTD_WINDOW_LOG) + 8 * HS__UNPACK_BYTES)
typedef struct hs__unpacked hs__unpacked;

/* Limit on the ratio of compression, checked after HS__UNPACK_FREE_BYTES. Texts reach 3 to 30; a frame of
 * zstd can hold 128 KiB in four bytes and would take hours. */
#define HS__UNPACK_TIMES_MAX 200

#define HS__UNPACK_FREE_BYTES ((uint64_t)64 << 20)

#define HS__INPUT_FILES_MAX 4096
typedef struct hs__record_stream hs__record_stream;

/* A record: a line in most formats. */
typedef struct hs__record {
    const char *bytes; /* without its end; borrowed until the next call; NULL at the end of the stream */
    size_t n_bytes;
    bool too_long; /* bytes holds only its beginning */
    hs__record_layout layout;
    size_t file;      /* index among the paths */
    uint64_t line;    /* first line in its file, from 1 */
    uint64_t n_lines; /* that it is in: 1 or more */
    uint64_t number;  /* among all records that are not blank, from 0 */
} hs__record;

/* A position in the input, between two records. */
typedef struct hs__input_position {
    uint64_t n_lines; /* records that are not blank, passed */
    uint64_t n_blank; /* blank records, passed */
    uint64_t n_bytes; /* passed, unpacked */
    char sha256[HS_SHA256_HEX];
} hs__input_position;

/* Opens a stream. paths and given, the format of the files, must outlive it. HS_IO: a file cannot be read;
 * all are checked now and opened in turn. Reading ends with HS_CANCELLED once *stop is non-zero (stop may be
 * NULL), because a small compressed file can hold a very long record. */
HS_MUST_USE hs_status hs__record_stream_open(const char *const *paths, size_t n_paths,
                                             const hs__input_format *given, const atomic_int *stop,
                                             hs__record_stream **ret_input, hs_error *err);

void hs__record_stream_close(hs__record_stream *input); /* NULL is fine */
/* Reads the next record. HS_IO: reading failed. HS_INVALID: compressed data are damaged or truncated, or a
 * file is not text or lacks the requested column or field. */
HS_MUST_USE hs_status hs__record_stream_next(hs__record_stream *input, hs__record *ret_line, hs_error *err);

/* Skips to a position of an earlier session. HS_INVALID: the input has changed. */
HS_MUST_USE hs_status hs__record_stream_skip(hs__record_stream *input, const hs__input_position *position,
                                             hs_error *err);

void hs__record_stream_position(const hs__record_stream *input, hs__input_position *ret_position);
/* Returns the formats of the files opened so far: ["jsonl", "csv, gzip"]. NULL if memory is short. */
json_t *hs__record_stream_formats(const hs__record_stream *input);

/* Detects the format of a file and searches its beginning for a text. HS_INVALID: none was found. HS_IO as
 * above. */
HS_MUST_USE hs_status hs__record_stream_check(const char *path, const hs__input_format *given,
                                              hs__text_format *ret_format, bool *ret_packed, hs_error *err);

/* Fails with HS_INVALID for an input without a text. first_line, why: the first bad record; 0: all are empty.
 */
hs_status hs__no_texts(const char *path, uint64_t n_lines, uint64_t first_line, const char *why,
                       hs_error *err);

/* Returns the fraction of the files' bytes on disk that was read; below 0 if standard input is one of them.
 */
double hs__record_stream_progress(const hs__record_stream *input);
