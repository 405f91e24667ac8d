/* tensors.h - safetensors files: u64 size of the header, the header (JSON), then the tensors without holes.
 * Tensors with the widest elements come first, so that each is aligned to its element's size. __metadata__
 * has the values that are no tensors, as strings. */
#pragma once

#include "api/formats/arrays.h"
#include "api/formats/buffer.h"

/* A string of __metadata__. */
typedef struct hs__metadata {
    const char *name;
    hs_bytes text;
} hs__metadata;

/* Appends the file. Arrays must not be texts. Sets file->failed if memory is short. */
void hs__tensors_write(hs_buffer *file, const hs_arrays *arrays, const hs__metadata *metadata,
                       size_t n_metadata);
