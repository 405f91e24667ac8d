/* files.h - reads a file into memory, or maps it. */
#pragma once

#include "model/base/bytes.h"
#include "model/base/status.h"

#include <stdbool.h>

/* A mapped file. The file stays open, so that its SHA-256 can be read later with pread: reading the mapping
 * would fault if somebody truncates the file. */
typedef struct hs__mapping {
    hs_bytes bytes;
    int fd; /* -1: nothing mapped */
} hs__mapping;

/* Reads the regular file at a path, of at most bytes_max bytes, or fails with HS_TOO_LARGE. name: in
 * messages. The caller frees ret_bytes->data, which is never NULL. */
HS_MUST_USE hs_status hs_path_read(const char *path, const char *name, size_t bytes_max, hs_bytes *ret_bytes,
                                   hs_error *err);
/* Reads dir/name, a file of a checkpoint, into memory. If the file is absent, returns {NULL, 0} if optional,
 * else fails with HS_NOT_FOUND. The caller frees ret_bytes->data. */
HS_MUST_USE hs_status hs__file_read(const char *dir, const char *name, bool optional, hs_bytes *ret_bytes,
                                    hs_error *err);
/* Maps dir/name read-only. The caller unmaps *ret_mapping, even after an error. */
HS_MUST_USE hs_status hs__file_map(const char *dir, const char *name, hs__mapping *ret_mapping,
                                   hs_error *err);
void hs__file_unmap(hs__mapping *mapping);
