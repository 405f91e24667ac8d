/* shards.h - one weight file, or an index and its shards -> tensors by name. */
#pragma once

#include "model/files/file.h"
#include "model/files/safetensors.h"

#define HS__SHARDS_MAX 256

typedef struct hs__shard {
    hs__mapping mapping;     /* fd -1 when the bytes are somebody else's memory */
    hs__safetensors tensors; /* finished once the weights are bound */
} hs__shard;

/* Shards are sorted by file name. */
typedef struct hs__shards {
    const char *file_name; /* model.safetensors or the index: where a tensor is looked for */
    size_t n_shards;
    hs__shard *shards; /* [n_shards] */
    json_t *index;     /* NULL without an index */
} hs__shards;

/* Parses model.safetensors.index.json. *ret_names lists every shard's file name once, sorted; the list is the
 * caller's to free, the names are borrowed from the index, which he releases with json_decref. */
HS_MUST_USE hs_status hs__index_parse(const hs_bytes *file, json_t **ret_index, const char ***ret_names,
                                      size_t *ret_n_names, hs_error *err);
/* *ret_shards must be finished, also after an error. */
HS_MUST_USE hs_status hs__shards_open(const char *dir, hs__shards *ret_shards, hs_error *err);
HS_MUST_USE hs_status hs__shards_open_memory(const hs_bytes *file, hs__shards *ret_shards, hs_error *err);
/* NULL, or the shard that has the tensor. */
const hs__shard *hs__shards_find(const hs__shards *shards, const char *name, hs__entry *ret_entry);
/* Lets go of the parsed headers; the mapped data stays. */
void hs__shards_forget_headers(hs__shards *shards);
void hs__shards_finish(hs__shards *shards);
