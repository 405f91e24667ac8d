/* arrays.h - named arrays of numbers and texts: the contents of npz and safetensors files.
 *
 * Small arrays own their data. A large array is only described; its `fill` writes it straight into the file.
 */
#pragma once

#include "model/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum hs__element {
    HS__ELEMENT_F4,
    HS__ELEMENT_F2,
    HS__ELEMENT_U1,
    HS__ELEMENT_I4,
    HS__ELEMENT_I8,
    HS__ELEMENT_BOOL,
    HS__ELEMENT_TEXT /* UCS-4, padded with NULs to `width` characters */
} hs__element;

#define HS__DIMENSIONS_MAX 4

typedef struct hs__array hs__array;
struct hs__array {
    const char *name; /* borrowed, or name_buffer */
    char name_buffer[48];
    hs__element element;
    size_t n_dimensions, shape[HS__DIMENSIONS_MAX];
    size_t width; /* of texts */
    size_t n_bytes;
    void *data; /* owned; NULL: fill writes the n_bytes */
    void (*fill)(const hs__array *array, char *to);
    const void *source, *part; /* for fill */
    size_t index;              /* for fill */
};

#define HS__ARRAYS_MAX 2048 /* an array for each of some hooks of 256 layers */

typedef struct hs__arrays {
    hs__array items[HS__ARRAYS_MAX];
    size_t n;
    bool failed; /* memory was short, or there were too many arrays */
} hs__arrays;

/* Adds an array of zeros and returns its data; NULL if memory is short. Ignores d0 and d1 beyond
 * n_dimensions. */
void *hs__arrays_add(hs__arrays *arrays, const char *name, hs__element element, size_t n_dimensions,
                     size_t d0, size_t d1);
/* Adds a copy of floats in the same way. */
void hs__arrays_add_floats(hs__arrays *arrays, const char *name, const float *values, size_t n_dimensions,
                           size_t d0, size_t d1);
/* Adds an array of zeros of any shape. */
void *hs__arrays_add_block(hs__arrays *arrays, const char *name, hs__element element, size_t n_dimensions,
                           const size_t *shape);
/* Adds an array without data; the caller sets `fill` and its arguments. Returns NULL if memory is short. */
hs__array *hs__arrays_describe(hs__arrays *arrays, const char *name, hs__element element, size_t n_dimensions,
                               const size_t *shape);
/* Adds n UTF-8 strings as UCS-4, with U+FFFD for invalid bytes. A scalar has no dimension. */
void hs__arrays_add_texts(hs__arrays *arrays, const char *name, const hs_bytes *texts, size_t n, bool scalar);

void hs__array_write(const hs__array *array, char *to);

size_t hs__element_bytes(hs__element element); /* of one character for texts */

void hs__arrays_finish(hs__arrays *arrays);
