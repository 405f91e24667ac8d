/* shards.h - finds tensors by name in one .safetensors file, or in several shards and their index. */
#pragma once

#include "model/base/bytes.h"
#include "model/base/files.h"
#include "model/base/status.h"

#include <jansson.h>
#include <stdbool.h>

/* ---- one file ---- */

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

/* ---- a checkpoint's files ---- */

#define HS__SHARDS_MAX 256

typedef struct hs__shard {
    hs__mapping mapping;     /* fd -1: borrowed memory */
    hs__safetensors tensors; /* finished once the weights are bound */
} hs__shard;

/* Shards are sorted by file name. */
typedef struct hs__shards {
    const char *file_name; /* model.safetensors or the index, for messages */
    size_t n_shards;
    hs__shard *shards;   /* [n_shards] */
    json_t *index;       /* NULL without an index */
    hs__shard merged;    /* tensors that replace others of their names; its bytes are owned. Zeroed: none */
    const char *same[2]; /* prefixes of names: a tensor that is missing under one is that under the other.
                          * Static; or NULL */
} hs__shards;

/* Parses model.safetensors.index.json. *ret_names lists each shard's file name once, sorted. The caller frees
 * the list and releases *ret_index with json_decref; the names belong to the index. */
HS_MUST_USE hs_status hs__index_parse(const hs_bytes *file, json_t **ret_index, const char ***ret_names,
                                      size_t *ret_n_names, hs_error *err);
/* Open the weights of a folder, or one file in memory. The caller finishes *ret_shards, even after an
 * error. */
HS_MUST_USE hs_status hs__shards_open(const char *dir, hs__shards *ret_shards, hs_error *err);
/* Refuses a folder whose config.json is missing, for this reason. Names weights in another form that lie
 * there, and what can be done with them; dir may also be such a file. */
hs_status hs__config_missing_refuse(const char *dir, const hs_error *reason, hs_error *err);
/* Opens one file of a folder, like hs__shards_open. */
HS_MUST_USE hs_status hs__shards_open_file(const char *dir, const char *name, hs__shards *ret_shards,
                                           hs_error *err);
HS_MUST_USE hs_status hs__shards_open_memory(const hs_bytes *file, hs__shards *ret_shards, hs_error *err);
/* Finds a tensor. Returns its shard, or NULL if no shard has it. */
const hs__shard *hs__shards_find(const hs__shards *shards, const char *name, hs__entry *ret_entry);
/* Frees the parsed headers. The mapped data stays. */
void hs__shards_forget_headers(hs__shards *shards);
void hs__shards_finish(hs__shards *shards);
