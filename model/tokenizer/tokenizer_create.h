/* tokenizer_create.h - a tokenizer from a checkpoint's files. */
#pragma once

#include "model/bytes.h"
#include "model/tokenizer/tokenizer.h"

/* From the contents of vocab.txt or tokenizer.json (one of them may be absent: {NULL, 0}; with both,
 * tokenizer.json counts, as in HuggingFace) and of tokenizer_config.json (may be absent). The bytes are
 * needed during the call only. HS_BAD_MODEL when there is no vocabulary, more than vocab_size entries, or
 * a part that is not supported (parts.h has those that are). */
HS_MUST_USE hs_status hs__tokenizer_create(const hs_bytes *vocab, const hs_bytes *tokenizer_json,
                                           const hs_bytes *tokenizer_config, size_t vocab_size,
                                           hs_tokenizer **ret_tokenizer, hs_error *err);
void hs__tokenizer_destroy(hs_tokenizer *tokenizer); /* NULL is fine */
