/* safetensors.h - the bytes of one .safetensors file -> tensors by name. */
#pragma once

#include "model/bytes.h"
#include "model/status.h"

#include <jansson.h>
#include <stdbool.h>

/* u64 little-endian N | N bytes of JSON: name -> {dtype, shape, data_offsets}, "__metadata__" | data */
typedef struct hs__safetensors {
    const char *file_name; /* borrowed, for messages */
    const unsigned char *data;
    json_t *header; /* every entry of it is known to be sound */
} hs__safetensors;

typedef struct hs__entry {
    const void *data;
    size_t n_bytes;
    size_t n_dimensions;
    size_t dimensions[3]; /* the first three */
    const char *dtype;    /* "F16" */
} hs__entry;

/* Checks all of the header: known dtypes, sizes, offsets without holes or overlap up to the end of the file.
 * *ret_file borrows the bytes. */
HS_MUST_USE hs_status hs__safetensors_parse(const hs_bytes *file, const char *file_name,
                                            hs__safetensors *ret_file, hs_error *err);
void hs__safetensors_finish(hs__safetensors *file); /* zeroed or finished twice is fine */
/* False when the file has no tensor of this name. */
bool hs__safetensors_find(const hs__safetensors *file, const char *name, hs__entry *ret_entry);
