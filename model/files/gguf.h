/* gguf.h - reads a GGUF file, the one-file format of llama.cpp, as the files that transformers would save:
 * config.json, tokenizer.json and weights. Nothing else of the program knows the format.
 *
 *     "GGUF" | u32 version | u64 tensors | u64 values | values | tensors | padding | data
 *
 *     value   text key | u32 type | bytes of it; of an array u32 type of its elements | u64 n | elements
 *     tensor  text name | u32 n dimensions | u64 dimensions, of a row's values first | u32 type | u64 offset
 *     text    u64 n | n bytes
 *
 * All numbers are little-endian. Offsets count from the data and are multiples of general.alignment. */
#pragma once

#include "model/base/bytes.h"
#include "model/base/files.h"
#include "model/base/status.h"
#include "model/files/shards.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* Types of values. */
enum {
    HS__GGUF_U8,
    HS__GGUF_I8,
    HS__GGUF_U16,
    HS__GGUF_I16,
    HS__GGUF_U32,
    HS__GGUF_I32,
    HS__GGUF_F32,
    HS__GGUF_BOOL,
    HS__GGUF_TEXT,
    HS__GGUF_ARRAY,
    HS__GGUF_U64,
    HS__GGUF_I64,
    HS__GGUF_F64
};

typedef struct hs__gguf_value {
    hs_bytes key;
    bool is_array;
    uint32_t type; /* of an array's elements */
    size_t n;      /* elements; 1 unless it is an array */
    hs_bytes data; /* of all elements; of a text alone, its bytes */
} hs__gguf_value;

/* Types of tensors that are read. */
enum { HS__GGML_F32 = 0, HS__GGML_F16 = 1, HS__GGML_Q8_0 = 8, HS__GGML_BF16 = 30 };

#define HS__GGUF_NAME_BYTES 64 /* of a tensor's name with its NUL, as in llama.cpp */

typedef struct hs__gguf_tensor {
    char name[HS__GGUF_NAME_BYTES];
    size_t n_dimensions, dimensions[4]; /* of a row's values first */
    uint32_t type;
    size_t offset, n_values, n_bytes; /* offset in the data */
} hs__gguf_tensor;

typedef struct hs__gguf {
    hs__mapping mapping; /* of the whole file; the weights take it. fd -1: borrowed memory */
    const unsigned char *data;
    hs__gguf_value *values; /* [n_values] */
    size_t n_values;
    hs__gguf_tensor *tensors; /* [n_tensors] */
    size_t n_tensors;
} hs__gguf;

/* Opens the GGUF file at a path, or the only one of the folder there. Writes the file's folder to ret_dir. If
 * there is none, *ret_file is NULL. Fails with HS_BAD_MODEL if the file is damaged or not supported, or if
 * the folder has several. The caller closes *ret_file. */
HS_MUST_USE hs_status hs__gguf_open(const char *path, char ret_dir[PATH_MAX], hs__gguf **ret_file,
                                    hs_error *err);
/* Opens a file in memory, which is borrowed, in the same way. */
HS_MUST_USE hs_status hs__gguf_parse(const hs_bytes *file, hs__gguf **ret_file, hs_error *err);
void hs__gguf_close(hs__gguf *file); /* NULL is fine */

/* Return a value by its key, or NULL; and a tensor by its name. */
const hs__gguf_value *hs__gguf_value_of(const hs__gguf *file, const char *key);
const hs__gguf_tensor *hs__gguf_tensor_of(const hs__gguf *file, const char *name);

/* Read a value, or element i of an array. Return false if it is of another kind. Numbers may be integers. */
bool hs__gguf_integer(const hs__gguf_value *value, size_t i, int64_t *ret);
bool hs__gguf_number(const hs__gguf_value *value, size_t i, double *ret);
/* Moves past the next text of an array of texts. *cursor is NULL before the first. The array has been
 * checked. */
hs_bytes hs__gguf_text_next(const hs__gguf_value *value, const unsigned char **cursor);
/* Returns true if the value is this text. NULL is none. */
bool hs__gguf_is(const hs__gguf_value *value, const char *text);

/* Makes config.json, whose bytes the caller frees. Fails with HS_BAD_MODEL, naming the key or the tensor. */
HS_MUST_USE hs_status hs__gguf_config(const hs__gguf *file, hs_bytes *ret_config, hs_error *err);

/* Makes the weights under the names that transformers gives them. Tensors that are stored as they are point
 * into the file, whose mapping the weights take. All others are made anew. The caller finishes *ret_shards,
 * even after an error. */
HS_MUST_USE hs_status hs__gguf_weights(hs__gguf *file, hs__shards *ret_shards, hs_error *err);

/* Makes tokenizer.json and tokenizer_config.json, whose bytes the caller frees, even after an error. Fails
 * like hs__gguf_config. */
HS_MUST_USE hs_status hs__gguf_tokenizer(const hs__gguf *file, hs_bytes *ret_json, hs_bytes *ret_config,
                                         hs_error *err);
