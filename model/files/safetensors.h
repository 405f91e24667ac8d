/* safetensors.h - reads tensors by name from one .safetensors file. */
#pragma once

#include "model/base/bytes.h"
#include "model/base/status.h"

#include <jansson.h>
#include <stdbool.h>

/* u64 little-endian N | N bytes of JSON: name -> {dtype, shape, data_offsets}, "__metadata__" | data */
typedef struct hs__safetensors {
    const char *file_name; /* borrowed, for messages */
    const unsigned char *data;
    json_t *header; /* every entry has been checked */
} hs__safetensors;

typedef struct hs__entry {
    const void *data;
    size_t n_bytes;
    size_t n_dimensions;
    size_t dimensions[4]; /* the first four */
    const char *dtype;    /* "F16" */
} hs__entry;

/* Parses and checks the header: known dtypes, shapes, and offsets that cover the file without gap or overlap.
 * Fails with HS_BAD_MODEL. *ret_file borrows the bytes; the caller finishes it after success. */
HS_MUST_USE hs_status hs__safetensors_parse(const hs_bytes *file, const char *file_name,
                                            hs__safetensors *ret_file, hs_error *err);
void hs__safetensors_finish(hs__safetensors *file); /* zeroed or finished twice is fine */
/* Finds a tensor by name. Returns false if the file has none. */
bool hs__safetensors_find(const hs__safetensors *file, const char *name, hs__entry *ret_entry);
