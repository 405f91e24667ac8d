/* corpus_unpack.h - a file's bytes as they were before gzip or zstd packed them; which, its first bytes say.
 */
#pragma once

#include "model/status.h"

#include <stddef.h>
#include <stdint.h>

/* What a window of zstd may take of memory: 8 MiB, which every level up to 19 keeps to and RFC 8878 asks of
 * all who unpack. */
#define HS__ZSTD_WINDOW_LOG   23
#define HS__UNPACK_BYTES      ((size_t)1 << 18)
#define HS__UNPACK_MEMORY_MAX (((size_t)1 << HS__ZSTD_WINDOW_LOG) + 8 * HS__UNPACK_BYTES)

typedef struct hs__unpacked hs__unpacked;

/* path: "-" is standard input; it must outlive the stream. HS_IO, HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__unpacked_open(const char *path, hs__unpacked **ret_stream, hs_error *err);
void hs__unpacked_close(hs__unpacked *stream); /* NULL is fine */

/* Fills bytes as far as there are any: *ret_n below n at the end only. HS_IO: reading failed;
 * HS_INVALID: what was packed is damaged or cut short. */
HS_MUST_USE hs_status hs__unpacked_read(hs__unpacked *stream, char *bytes, size_t n, size_t *ret_n,
                                        hs_error *err);

/* "gzip", "zstd" or NULL. Known after a read. */
const char *hs__unpacked_packing(const hs__unpacked *stream);
/* How far it is in the file as it lies, a little ahead of what was read. */
uint64_t hs__unpacked_at(const hs__unpacked *stream);
