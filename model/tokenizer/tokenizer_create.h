/* tokenizer_create.h - a tokenizer from a checkpoint's files. */
#pragma once

#include "model/bytes.h"
#include "model/tokenizer/tokenizer.h"

/* The bytes are needed during the call only. HS_BAD_MODEL when there is no vocabulary, more than vocab_size
 * entries, or a part that is not supported (parts.h has those that are). */
HS_MUST_USE hs_status hs__tokenizer_create(const hs_tokenizer_files *files, size_t vocab_size,
                                           hs_tokenizer **ret_tokenizer, hs_error *err);
void hs__tokenizer_destroy(hs_tokenizer *tokenizer); /* NULL is fine */
