/* arrays.h - named arrays of numbers and texts, and the files that hold them: npz and safetensors. */
#pragma once

#include "api/formats/json_text.h"
#include "model/base/bytes.h"
#include "model/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

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

/* ==== npz ==== */

/* NumPy's .npz, to memory or to a file: a zip of .npy files, stored, so that writing is copying.
 *
 *     hs_npz npz = {.file = file};
 *     hs_npz_begin(&npz, "maps", "<f8", 2, (size_t[]){n, m}, 8 * n * m);
 *     while (...) { double *to = hs_npz_reserve(&npz, 8 * k); if (to) { ... hs_npz_add(&npz, 8 * k); } }
 *     hs_npz_begin(...) ...
 *     st = hs_npz_finish(&npz, &err);
 *
 * Format: numpy.lib.format 1.0 and PKWARE's APPNOTE. Data begins at a multiple of 64 bytes in the file (by a
 * padding extra field), so that it can be mapped as it is. A member that ends past 4 GB has its sizes and
 * offset in zip64 fields. The same arrays are the same bytes. Failure sticks; hs_npz_finish reports it. */

typedef struct hs__npz_member {
    char name[64]; /* with ".npy" */
    uint64_t offset, size;
    uint32_t crc;
} hs__npz_member;

/* Callers set either memory or file. */
typedef struct hs_npz {
    hs_buffer *memory;   /* what is written is appended */
    FILE *file;          /* or written here; must be seekable, and empty */
    uint64_t zip64_from; /* offsets from here on need 64 bits; 0 is 4 GB. Tests set less. */
    uint64_t n_flushed;  /* bytes of the file already */
    hs_buffer pending;   /* of the file, not yet written */
    hs_buffer members;   /* of hs__npz_member */
    size_t n_members;    /* at most HS_ARRAYS_MAX */
    bool failed;
} hs_npz;

/* Begins an array of n_bytes and ends the one before. type is NumPy's, such as "<i8". */
void hs_npz_begin(hs_npz *npz, const char *name, const char *type, size_t n_axes, const size_t *axes,
                  uint64_t n_bytes);
/* Returns where to write the array's next n bytes; NULL if memory is short. hs_npz_add then adds them. */
void *hs_npz_reserve(hs_npz *npz, size_t n_bytes);
void hs_npz_add(hs_npz *npz, size_t n_bytes);
/* Adds n UTF-8 strings as UCS-4. A scalar has no dimension. */
void hs_npz_texts(hs_npz *npz, const char *name, const hs_bytes *texts, size_t n, bool scalar);
void hs_npz_text(hs_npz *npz, const char *name, const char *text); /* a scalar */
/* Writes the directory and releases what npz owns, also after a failure. */
HS_MUST_USE hs_status hs_npz_finish(hs_npz *npz, hs_error *err);

/* Begins, fills and adds a whole array. */
void hs_npz_array(hs_npz *npz, const hs_array *array);

/* More than the file needs around the bytes of an array. */
#define HS__NPZ_OVERHEAD 640
