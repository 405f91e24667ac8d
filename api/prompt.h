/* prompt.h - puts a sentence encoder's prompt before a text, as sentence-transformers does. */
#pragma once

#include "model/architecture.h"
#include "model/tokenizer/tokenizer.h"

/* Encodes prompt and text as one string, as hs_tokenizer_encode does. Offsets and words are those of the
 * text: tokens of the prompt alone have offsets 0, 0 and word -1. prompt may be NULL.
 *
 * *ret_n_prompt is the number of tokens that sentence-transformers counts as the prompt: those of the prompt
 * encoded alone, without a special token at the end. Special tokens before the text count. 0 without a
 * prompt, or if it is empty. */
HS_MUST_USE hs_status hs_prompt_encode(const hs_tokenizer *tokenizer, const hs_prompt *prompt,
                                       const hs_text *text, const hs_text *pair,
                                       const hs_encode_options *options, hs_encoding *ret_encoding,
                                       size_t *ret_n_prompt, hs_error *err);
