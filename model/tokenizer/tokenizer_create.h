/* tokenizer_create.h - creates a tokenizer from a checkpoint's files. */
#pragma once

#include "model/base/bytes.h"
#include "model/tokenizer/tokenizer.h"

/* Creates a tokenizer. The files are used only during the call. Fails with HS_BAD_MODEL if there is no
 * vocabulary, it has more than vocab_size entries, or a part is not supported (see parts.h). */
HS_MUST_USE hs_status hs__tokenizer_create(const hs_tokenizer_files *files, size_t vocab_size,
                                           hs_tokenizer **ret_tokenizer, hs_error *err);
void hs__tokenizer_destroy(hs_tokenizer *tokenizer); /* NULL is fine */
