/* arrays.h - named arrays of numbers and texts, and safetensors files of them. */
#pragma once

#include "api/formats/json_text.h"
#include "model/base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ==== arrays ==== */

/* Named arrays of numbers and texts: the contents of npz and safetensors files.
 *
 * Small arrays own their data. A large array is only described; its `fill` writes it straight into the file.
 */

typedef enum hs_element {
    HS_ELEMENT_F4,
    HS_ELEMENT_F2,
    HS_ELEMENT_U1,
    HS_ELEMENT_I4,
    HS_ELEMENT_I8,
    HS_ELEMENT_BOOL,
    HS_ELEMENT_TEXT /* UCS-4, padded with NULs to `width` characters */
} hs_element;

#define HS__DIMENSIONS_MAX 4

typedef struct hs_array hs_array;
struct hs_array {
    const char *name; /* borrowed, or name_buffer */
    char name_buffer[48];
    hs_element element;
    size_t n_dimensions, shape[HS__DIMENSIONS_MAX];
    size_t width; /* of texts */
    size_t n_bytes;
    void *data; /* owned; NULL: fill writes the n_bytes */
    void (*fill)(const hs_array *array, char *to);
    const void *source, *part; /* for fill */
    size_t index;              /* for fill */
};

#define HS_ARRAYS_MAX 2048 /* an array for each of some hooks of 256 layers */

typedef struct hs_arrays {
    hs_array items[HS_ARRAYS_MAX];
    size_t n;
    bool failed; /* memory was short, or there were too many arrays */
} hs_arrays;

/* Adds an array of zeros and returns its data; NULL if memory is short. Ignores d0 and d1 beyond
 * n_dimensions. */
void *hs_arrays_add(hs_arrays *arrays, const char *name, hs_element element, size_t n_dimensions, size_t d0,
                    size_t d1);
/* Adds a copy of floats in the same way. */
void hs_arrays_add_floats(hs_arrays *arrays, const char *name, const float *values, size_t n_dimensions,
                          size_t d0, size_t d1);
/* Adds an array of zeros of any shape. */
void *hs_arrays_add_block(hs_arrays *arrays, const char *name, hs_element element, size_t n_dimensions,
                          const size_t *shape);
/* Adds an array without data; the caller sets `fill` and its arguments. Returns NULL if memory is short. */
hs_array *hs_arrays_describe(hs_arrays *arrays, const char *name, hs_element element, size_t n_dimensions,
                             const size_t *shape);
/* Adds n UTF-8 strings as UCS-4, with U+FFFD for invalid bytes. A scalar has no dimension. */
void hs_arrays_add_texts(hs_arrays *arrays, const char *name, const hs_bytes *texts, size_t n, bool scalar);

void hs_array_write(const hs_array *array, char *to);

size_t hs_element_bytes(hs_element element); /* of one character for texts */

void hs_arrays_finish(hs_arrays *arrays);

/* ==== conversion ==== */

/* Converts floats to half floats and bytes, vectorised. */

/* Converts to IEEE binary16, rounding to nearest, ties to even. Overflow gives infinity, NaN stays NaN. */
void hs__convert_f2(const float *from, size_t n, uint16_t *to);

/* Rounds 255 x to the nearest integer, ties to even, clipped to [0, 255]. NaN gives 0. */
void hs__convert_u1(const float *from, size_t n, uint8_t *to);

/* ==== safetensors ==== */

/* Safetensors files: u64 size of the header, the header (JSON), then the tensors without holes.
 * Tensors with the widest elements come first, so that each is aligned to its element's size. __metadata__
 * has the values that are no tensors, as strings. */

/* A string of __metadata__. */
typedef struct hs__metadata {
    const char *name;
    hs_bytes text;
} hs__metadata;

/* Appends the file. Arrays must not be texts. Sets file->failed if memory is short. */
void hs__tensors_write(hs_buffer *file, const hs_arrays *arrays, const hs__metadata *metadata,
                       size_t n_metadata);
