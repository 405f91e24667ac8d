/* model.h - a BERT-like checkpoint: const weights, shape and tokenizer.
 *
 * An hs_model never changes once opened: any thread may read it. Weights stay where they are (a mapped file
 * or the program's own image); the engine reads them once and makes its own packed copies.
 *
 * Read: config.json, model.safetensors or model.safetensors.index.json with its shards, vocab.txt or
 * tokenizer.json, tokenizer_config.json, all in HuggingFace's layout, BERT or DistilBERT, under every naming
 * in use (bert., model., distilbert. or no prefix; gamma/beta). Files are parsed as hostile: every size is
 * checked, and what is not supported is refused with HS_BAD_MODEL naming the key and the file. */
#pragma once

#include "model/bytes.h"
#include "model/status.h"
#include "model/tokenizer/tokenizer.h"

#include <stddef.h>
#include <stdint.h>

/* Limits on what a config may ask for; they keep every later size product far from overflow. */
#define HS_LAYERS_MAX    256
#define HS_HEADS_MAX     256
#define HS_HIDDEN_MAX    16384
#define HS_FFN_MAX       65536
#define HS_POSITIONS_MAX 32768
#define HS_VOCAB_MAX     4000000

typedef struct hs_shape {
    size_t n_layers;
    size_t n_heads;
    size_t hidden;     /* H = n_heads * head_width */
    size_t head_width; /* d */
    size_t ffn;        /* F, the width between the two feed-forward products */
    size_t n_positions;
    size_t n_types; /* 0 for DistilBERT: no token types */
    size_t vocab_size;
    float layer_norm_eps;
} hs_shape;

typedef enum hs_dtype { HS_F32, HS_F16, HS_BF16 } hs_dtype;

/* A weight as it lies in its file: row-major, little-endian, perhaps unaligned. A vector has one row. */
typedef struct hs_tensor {
    const void *data;
    size_t n_rows, n_columns;
    hs_dtype dtype;
} hs_tensor;

/* y = x W' + b; weight is [out][in], bias [1][out]. */
typedef struct hs_dense {
    hs_tensor weight, bias;
} hs_dense;

typedef struct hs_norm {
    hs_tensor gamma, beta; /* [1][H] */
} hs_norm;

typedef struct hs_layer {
    hs_dense query, key, value, output; /* [H][H] */
    hs_norm attention_norm;
    hs_dense ffn_in;  /* [F][H] */
    hs_dense ffn_out; /* [H][F] */
    hs_norm ffn_norm;
} hs_layer;

typedef struct hs_weights {
    hs_tensor word;     /* [vocab_size][H] */
    hs_tensor position; /* [n_positions][H] */
    hs_tensor type;     /* [n_types][H]; data is NULL when n_types is 0 */
    hs_norm embedding_norm;
    const hs_layer *layers; /* [n_layers] */
} hs_weights;

typedef struct hs_model hs_model;

/* Opens the checkpoint in folder dir. On failure *ret_model is untouched. */
HS_MUST_USE hs_status hs_model_open(const char *dir, hs_model **ret_model, hs_error *err);

/* Contents of the files of a checkpoint: borrowed, must outlive the model. Absent files are {NULL, 0}. */
typedef struct hs_model_files {
    hs_bytes config, safetensors, vocab, tokenizer, tokenizer_config;
} hs_model_files;

HS_MUST_USE hs_status hs_model_open_memory(const hs_model_files *files, hs_model **ret_model, hs_error *err);

/* The model linked into the program, `mini`. */
HS_MUST_USE hs_status hs_model_open_embedded(hs_model **ret_model, hs_error *err);

void hs_model_close(hs_model *model); /* NULL is fine */

const hs_shape *hs_model_shape(const hs_model *model);
const hs_weights *hs_model_weights(const hs_model *model);
const hs_tokenizer *hs_model_tokenizer(const hs_model *model);
const char *hs_model_type(const hs_model *model); /* "bert" or "distilbert" */
size_t hs_model_bytes(const hs_model *model);     /* of all weight files */

/* Tells the system that the mapped weights will not be read soon (after the engine packed its copies). */
void hs_model_release_pages(const hs_model *model);

/* SHA-256 of the weight files in name order, in hex. Reads them all (about 1 s per GB), so call it from a
 * thread that may take its time; computed once, later calls are free. Any thread. Empty when a weight file
 * was truncated after it was opened. */
#define HS_SHA256_HEX 65
void hs_model_sha256(const hs_model *model, char ret_hex[HS_SHA256_HEX]);

/* Converts n_rows rows of a tensor, from row_first on, to floats: ret is [n_rows][n_columns]. */
void hs_tensor_read(const hs_tensor *tensor, size_t row_first, size_t n_rows, float *ret);
