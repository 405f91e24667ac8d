/* tensors.h - safetensors files: u64 size of the header, the header (JSON), then the tensors without holes,
 * the widest elements first, so that each begins at a multiple of its own element's size. What is no tensor
 * stands in __metadata__ as strings. */
#pragma once

#include "api/formats/arrays.h"
#include "api/formats/buffer.h"

/* A string of __metadata__. */
typedef struct hs__metadata {
    const char *name;
    hs_bytes text;
} hs__metadata;

/* Appends the file; no array of texts among them. Short memory leaves file->failed. */
void hs__tensors_write(hs__buffer *file, const hs__arrays *arrays, const hs__metadata *metadata,
                       size_t n_metadata);
