/* file.h - a checkpoint's files: read whole, or mapped. */
#pragma once

#include "model/bytes.h"
#include "model/status.h"

#include <stdbool.h>

/* A weight file stays open beside its mapping, so that reading all of it later (for its SHA-256) cannot fault
 * when somebody truncates it. */
typedef struct hs__mapping {
    hs_bytes bytes;
    int fd; /* -1: nothing mapped */
} hs__mapping;

/* Reads dir/name whole. An absent file gives {NULL, 0} when optional, else HS_NOT_FOUND. The caller frees
 * ret_bytes->data. */
HS_MUST_USE hs_status hs__file_read(const char *dir, const char *name, bool optional, hs_bytes *ret_bytes,
                                    hs_error *err);
/* Maps dir/name read-only. *ret_mapping must be unmapped, also after an error. */
HS_MUST_USE hs_status hs__file_map(const char *dir, const char *name, hs__mapping *ret_mapping,
                                   hs_error *err);
void hs__file_unmap(hs__mapping *mapping);
