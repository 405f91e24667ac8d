/* internal.h - what the files of model/ share. Nothing here is for other folders.
 *
 * Errors raised below name a file by its own name ("config.json: ..."); hs_model_open puts the folder before
 * it.
 *
 *     files.c        folder -> bytes, read or mapped
 *     json.c         bytes -> jansson
 *     config.c       config.json -> hs_shape
 *     safetensors.c  bytes of one file -> tensors by name
 *     shards.c       one file or an index and its shards -> tensors by name
 *     weights.c      names -> hs_weights
 *     tokenizer.c    vocab.txt, tokenizer.json -> hs_tokenizer
 *     model.c        all of it -> hs_model */
#pragma once

#include "model/model.h"

#include <jansson.h>
#include <stdbool.h>

/* ---- files ---- */

/* A weight file stays open beside its mapping, so that reading all of it later (for its SHA-256) cannot fault
 * when somebody truncates it. */
typedef struct hs__mapping {
    hs_bytes bytes;
    int fd; /* -1: nothing mapped */
} hs__mapping;

/* Reads dir/name whole. An absent file gives {NULL, 0} when optional, else HS_NOT_FOUND. The caller frees
 * ret_bytes->data. */
HS_MUST_USE hs_status hs__file_read(const char *dir, const char *name, bool optional, hs_bytes *ret_bytes,
                                    hs_error *err);
/* Maps dir/name read-only. *ret_mapping must be unmapped, also after an error. */
HS_MUST_USE hs_status hs__file_map(const char *dir, const char *name, hs__mapping *ret_mapping,
                                   hs_error *err);
void hs__file_unmap(hs__mapping *mapping);

/* ---- JSON ---- */

/* Parses the whole of a file as one JSON object, duplicate keys refused. HS_BAD_MODEL names the file and the
 * position. The caller releases the result with json_decref. */
HS_MUST_USE hs_status hs__json_parse(const hs_bytes *file, const char *file_name, json_t **ret_object,
                                     hs_error *err);

/* ---- config ---- */

typedef enum hs__family { HS__BERT, HS__DISTILBERT } hs__family;

/* Reads config.json, checks every limit of model.h and refuses what would change the numbers. */
HS_MUST_USE hs_status hs__config_parse(const hs_bytes *config, hs__family *ret_family, hs_shape *ret_shape,
                                       hs_error *err);

/* ---- safetensors ---- */

/* u64 little-endian N | N bytes of JSON: name -> {dtype, shape, data_offsets}, "__metadata__" | data */
typedef struct hs__safetensors {
    const char *file_name; /* borrowed, for messages */
    const unsigned char *data;
    json_t *header; /* every entry of it is known to be sound */
} hs__safetensors;

typedef struct hs__entry {
    const void *data;
    size_t n_bytes;
    size_t n_dimensions;
    size_t dimensions[2]; /* the first two */
    const char *dtype;    /* "F16" */
} hs__entry;

/* Checks all of the header: known dtypes, sizes, offsets without holes or overlap up to the end of the file.
 * *ret_file borrows the bytes. */
HS_MUST_USE hs_status hs__safetensors_parse(const hs_bytes *file, const char *file_name,
                                            hs__safetensors *ret_file, hs_error *err);
void hs__safetensors_finish(hs__safetensors *file); /* zeroed or finished twice is fine */
/* False when the file has no tensor of this name. */
bool hs__safetensors_find(const hs__safetensors *file, const char *name, hs__entry *ret_entry);

/* ---- shards ---- */

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

/* ---- weights ---- */

/* Fills ret_weights and layers[shape->n_layers] with tensors that point into the shards, each of the shape
 * that the config promises. */
HS_MUST_USE hs_status hs__weights_bind(const hs__shards *shards, hs__family family, const hs_shape *shape,
                                       hs_layer *layers, hs_weights *ret_weights, hs_error *err);

/* ---- tokenizer ---- */

/* From the contents of vocab.txt or tokenizer.json (one of them may be absent: {NULL, 0}; with both,
 * tokenizer.json counts, as in HuggingFace) and of tokenizer_config.json (may be absent). The bytes are
 * needed during the call only. HS_BAD_MODEL when there is no vocabulary, more than vocab_size entries, or
 * something that is not WordPiece. */
HS_MUST_USE hs_status hs__tokenizer_create(const hs_bytes *vocab, const hs_bytes *tokenizer_json,
                                           const hs_bytes *tokenizer_config, size_t vocab_size,
                                           hs_tokenizer **ret_tokenizer, hs_error *err);
void hs__tokenizer_destroy(hs_tokenizer *tokenizer); /* NULL is fine */
