/* arrays.h - an answer as named arrays, for the binary formats.
 *
 * Small arrays are made here; the large ones are only described, and written straight to where they go. */
#pragma once

#include "api/answer.h"

typedef enum hs__kind {
    HS__KIND_F4,
    HS__KIND_F2,
    HS__KIND_U1,
    HS__KIND_I4,
    HS__KIND_I8,
    HS__KIND_BOOL,
    HS__KIND_TEXT /* UCS-4, padded with NULs to `width` characters */
} hs__kind;

typedef struct hs__array {
    const char *name;
    hs__kind kind;
    size_t n_dimensions, shape[4];
    size_t width; /* of texts */
    size_t bytes;
    void *data;      /* owned; NULL for the large ones */
    unsigned output; /* which of HS__ATTENTIONS ... a large one is */
} hs__array;

#define HS__ARRAYS_MAX 64

typedef struct hs__arrays {
    hs__array items[HS__ARRAYS_MAX];
    size_t n;
    bool failed; /* memory was short */
} hs__arrays;

/* Everything numeric of the answer that has at least one dimension. */
void hs__arrays_collect(hs__arrays *arrays, const hs__answer *answer);

/* One more array, its data zeroed; NULL when memory is short. */
void *hs__arrays_add(hs__arrays *arrays, const char *name, hs__kind kind, size_t n_dimensions, size_t d0,
                     size_t d1);
/* n UTF-8 strings as UCS-4; without dimension when scalar. */
void hs__arrays_add_texts(hs__arrays *arrays, const char *name, const hs_text *texts, size_t n, bool scalar);

/* Writes the array's bytes. */
void hs__array_write(const hs__array *array, const hs__answer *answer, char *to);

size_t hs__kind_bytes(hs__kind kind); /* of one element; of one character for texts */

void hs__arrays_finish(hs__arrays *arrays);

/* The model's SHA-256, computed now if nobody did before. */
const char *hs__model_sha256(const hs__answer *answer, char hex[HS_SHA256_HEX]);

/* Writers: append the file to bytes. HS_TOO_LARGE when npz would pass 4 GB. */
HS_MUST_USE hs_status hs__npz_write(hs__bytes *bytes, const hs__answer *answer, hs_error *err);
HS_MUST_USE hs_status hs__safetensors_write(hs__bytes *bytes, const hs__answer *answer, hs_error *err);
