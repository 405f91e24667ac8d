/* model.h - opens the checkpoint of a transformer: its weights, architecture and tokenizer.
 *
 * An hs_model never changes after it is opened, so any thread may read it. Weights stay in the mapped file or
 * in the program's image. The engine reads them once and packs its own copies.
 *
 * Reads config.json, model.safetensors or model.safetensors.index.json with its shards, the tokenizer's files
 * (hs_tokenizer_files), and the modules of a sentence encoder, all in HuggingFace's layout. A GGUF file may
 * stand for config, weights and tokenizer. Files are untrusted: every size is checked, and unsupported
 * content is refused with HS_BAD_MODEL, naming the file and the key. */
#pragma once

#include "model/architecture.h"
#include "model/base/bytes.h"
#include "model/base/status.h"
#include "model/tokenizer/tokenizer.h"

#include <limits.h>

/* Name of the model that is linked into the program. */
#define HS_EMBEDDED_NAME "mini"

typedef struct hs_model hs_model;

/* Opens the checkpoint in folder dir, or the GGUF file that dir names. The tokenizer's files are in
 * tokenizer_dir, or in dir if it is NULL. The caller closes *ret_model, which is untouched on failure. */
HS_MUST_USE hs_status hs_model_open(const char *dir, const char *tokenizer_dir, hs_model **ret_model,
                                    hs_error *err);

/* Finds the folder of the model's files in a checkpoint's. It is dir itself, or by modules.json that of a
 * sentence encoder's Transformer, as dir/0_Transformer, if dir has no config.json of a model. Fails with
 * HS_BAD_MODEL if one of both files is unsound, HS_IO, HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_model_folder(const char *dir, char ret_dir[PATH_MAX], hs_error *err);

/* Checks config.json in folder dir: whether a checkpoint with it can be opened, as far as it says so. Fails
 * with HS_BAD_MODEL and names the key, or with HS_NOT_FOUND. */
HS_MUST_USE hs_status hs_model_config_check(const char *dir, hs_error *err);

/* Returns the names of the files that may hold the length of a sentence encoder, in the order in which they
 * count. NULL ends them. */
const char *const *hs_model_length_files(void);

/* Opens the model that is linked into the program. */
HS_MUST_USE hs_status hs_model_open_embedded(hs_model **ret_model, hs_error *err);

void hs_model_close(hs_model *model); /* NULL is fine */

/* Returns true if the checkpoint has a head that predicts masked tokens. */
bool hs_model_predicts_masks(const hs_model *model);

const hs_architecture *hs_model_architecture(const hs_model *model);
/* Returns the decoder of an encoder-decoder model, which reads the states of the architecture above, or NULL.
 */
const hs_architecture *hs_model_decoder(const hs_model *model);
const hs_shape *hs_model_shape(const hs_model *model); /* the architecture's */
const hs_tokenizer *hs_model_tokenizer(const hs_model *model);
/* Returns the tokenizer of the decoder's texts: the same, except for Marian. Its ids are of the same tokens.
 */
const hs_tokenizer *hs_model_target_tokenizer(const hs_model *model);
/* Returns the token of the language that a target has if nobody names one: tgt_lang of the tokenizer, or
 * decoder_start_token_id or forced_bos_token_id, if it is a language. -1: none. */
int32_t hs_model_target_language(const hs_model *model);
/* Lists how the model encodes positions: "learned", "sinusoids", "rotary", "bias", "relative", as many as
 * apply. Returns how many. */
#define HS_POSITION_SCHEMES 5
size_t hs_model_positions(const hs_model *model, const char *ret_names[HS_POSITION_SCHEMES]);
/* Replaces all weights by random ones from a seed (untrained.h), before an engine has packed them. The
 * SHA-256 becomes that of the weights and the seed. Fails with HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_model_untrain(hs_model *model, uint64_t seed, hs_error *err);
/* Returns HuggingFace's name of the task that the checkpoint's head serves, such as "text-classification", or
 * NULL. */
const char *hs_model_task(const hs_model *model);
/* Returns true if the checkpoint has code of its own (auto_map), which is not run: it was opened as a model
 * of the family that config.json names. */
bool hs_model_has_own_code(const hs_model *model);
/* Returns true if the checkpoint is of a model of images and text, whose text part alone was opened. */
bool hs_model_is_text_part(const hs_model *model);
/* Returns HuggingFace's problem_type of a head for text classification, else NULL. */
const char *hs_model_problem_type(const hs_model *model);
/* Returns sentence-transformers' name of a way of pooling, such as "mean". */
const char *hs_pool_name(hs_pool pool);
size_t hs_model_bytes(const hs_model *model); /* total size of the weight files */

/* Lets the system drop the mapped weights from memory. Call it after the engine has packed its copies. */
void hs_model_release_pages(const hs_model *model);

/* Computes the SHA-256 of the weight files in name order, in hex, those of a sentence encoder's dense layers
 * last. The first call reads all of them (about 1 s per GB), so call it from a background thread; later calls
 * are free. Safe on any thread. The result is empty if a weight file was truncated after it was opened, and
 * if memory was short; the next call then tries again. */
void hs_model_sha256(const hs_model *model, char ret_hex[HS_SHA256_HEX]);
/* Returns true and the hash if hs_model_sha256 has computed it. Never waits. Any thread. */
bool hs_model_sha256_known(const hs_model *model, char ret_hex[HS_SHA256_HEX]);

/* Returns the SHA-256 of config.json and the tokenizer's files as they were opened, in hex. Borrowed. */
const char *hs_model_files_sha256(const hs_model *model);
