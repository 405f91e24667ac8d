/* npz.h - NumPy's .npz, to memory or to a file: a zip of .npy files, stored, so that writing is copying.
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
#pragma once

#include "api/formats/arrays.h"
#include "api/formats/json_text.h"
#include "model/base/status.h"

#include <stdio.h>

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
