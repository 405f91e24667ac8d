/* internal.h - what the files of model/ share. Nothing here is for other folders.
 *
 * Errors raised below name a file by its own name ("config.json: ..."); hs_model_open puts the folder before
 * it. */
#pragma once

#include "model/model.h"

#include <jansson.h>

/* ---- JSON ---- */

/* Parses the whole of a file as one JSON object, duplicate keys refused. HS_BAD_MODEL names the file and the
 * position. The caller releases the result with json_decref. */
HS_MUST_USE hs_status hs__json_parse(const hs_bytes *file, const char *file_name, json_t **ret_object,
                                     hs_error *err);

/* ---- tokenizer ---- */

/* From the contents of vocab.txt or tokenizer.json (one of them may be absent: {NULL, 0}; with both, the
 * vocabulary is vocab.txt's) and of tokenizer_config.json (may be absent). The bytes are needed during the
 * call only. HS_BAD_MODEL when there is no vocabulary, more than vocab_size entries, or something that is not
 * WordPiece. */
HS_MUST_USE hs_status hs__tokenizer_create(const hs_bytes *vocab, const hs_bytes *tokenizer_json,
                                           const hs_bytes *tokenizer_config, size_t vocab_size,
                                           hs_tokenizer **ret_tokenizer, hs_error *err);
void hs__tokenizer_destroy(hs_tokenizer *tokenizer); /* NULL is fine */
