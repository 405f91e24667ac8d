/* unpack.h - reads plain, gzip and zstd files. The first bytes of a file tell which it is. */
#pragma once

#include "model/base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Limit on the window of zstd: 8 MiB, as RFC 8878 recommends. All levels up to 19 keep to it. */
#define HS__ZSTD_WINDOW_LOG   23
#define HS__UNPACK_BYTES      ((size_t)1 << 18)
#define HS__UNPACK_MEMORY_MAX (((size_t)1 << HS__ZSTD_WINDOW_LOG) + 8 * HS__UNPACK_BYTES)

typedef struct hs__unpacked hs__unpacked;

/* Opens a file; "-" is standard input. path must outlive the stream. HS_IO, HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__unpacked_open(const char *path, hs__unpacked **ret_stream, hs_error *err);
void hs__unpacked_close(hs__unpacked *stream); /* NULL is fine */

/* Limit on the ratio of compression, checked after HS__UNPACK_FREE_BYTES. Texts reach 3 to 30; a frame of
 * zstd can hold 128 KiB in four bytes and would take hours. */
#define HS__UNPACK_TIMES_MAX  200
#define HS__UNPACK_FREE_BYTES ((uint64_t)64 << 20)

/* Reads n bytes, fewer only at the end of the file. HS_IO: reading failed. HS_INVALID: the data are damaged,
 * truncated, packed twice, or above the ratio. */
HS_MUST_USE hs_status hs__unpacked_read(hs__unpacked *stream, char *bytes, size_t n, size_t *ret_n,
                                        hs_error *err);

/* Returns "gzip", "zstd" or NULL. Known after the first read. */
const char *hs__unpacked_packing(const hs__unpacked *stream);
/* Returns the position in the file on disk, slightly ahead of the bytes returned. */
uint64_t hs__unpacked_at(const hs__unpacked *stream);
