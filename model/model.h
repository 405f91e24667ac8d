/* model.h - a BERT-like checkpoint: const weights, shape and tokenizer.
 *
 * An hs_model never changes once opened: any thread may read it. Weights stay where they are (a mapped file
 * or the program's own image); the engine reads them once and makes its own packed copies.
 *
 * Read: config.json, model.safetensors or model.safetensors.index.json with its shards, and the files of the
 * tokenizer (hs_tokenizer_files), all in HuggingFace's layout, under every naming in use. Files are parsed as
 * hostile: every size is checked, and what is not supported is refused with HS_BAD_MODEL naming the key and
 * the file. */
#pragma once

#include "model/bytes.h"
#include "model/files/digest.h"
#include "model/recipe.h"
#include "model/status.h"
#include "model/tokenizer/tokenizer.h"

/* What the model linked into the program is called. */
#define HS_EMBEDDED_NAME "mini"

typedef struct hs_model hs_model;

/* Opens the checkpoint in folder dir. On failure *ret_model is untouched. */
HS_MUST_USE hs_status hs_model_open(const char *dir, hs_model **ret_model, hs_error *err);

/* Contents of the files of a checkpoint: borrowed, must outlive the model. Absent files are {NULL, 0}. */
typedef struct hs_model_files {
    hs_bytes config, safetensors;
    hs_tokenizer_files tokenizer; /* but for its config, which is the one above */
} hs_model_files;

HS_MUST_USE hs_status hs_model_open_memory(const hs_model_files *files, hs_model **ret_model, hs_error *err);

/* The model linked into the program, `mini`. */
HS_MUST_USE hs_status hs_model_open_embedded(hs_model **ret_model, hs_error *err);

void hs_model_close(hs_model *model); /* NULL is fine */

const hs_recipe *hs_model_recipe(const hs_model *model);
const hs_shape *hs_model_shape(const hs_model *model); /* the recipe's */
const hs_tokenizer *hs_model_tokenizer(const hs_model *model);
/* How the model knows where a token is: "learned", "rotary", "bias", "relative", all that
 * apply. Returns how many. */
#define HS_POSITION_SCHEMES 4
size_t hs_model_positions(const hs_model *model, const char *ret_names[HS_POSITION_SCHEMES]);
size_t hs_model_bytes(const hs_model *model); /* of all weight files */

/* Tells the system that the mapped weights will not be read soon (after the engine packed its copies). */
void hs_model_release_pages(const hs_model *model);

/* SHA-256 of the weight files in name order, in hex. Reads them all (about 1 s per GB), so call it from a
 * thread that may take its time; computed once, later calls are free. Any thread. Empty when a weight file
 * was truncated after it was opened. */
void hs_model_sha256(const hs_model *model, char ret_hex[HS_SHA256_HEX]);
