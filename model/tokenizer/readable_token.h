/* readable_token.h - writes a token for people. Vocabularies write spaces and bytes in substitute characters
 * ("\u0120the", "\u2581the", "\u00c3\u00a9"). They become text again, with U+2423 for a space. The viewer
 * does the same in static/src/app/token-labels.ts. Answers for programs keep the vocabulary's form. */
#pragma once

#include <stddef.h>

/* Writes the readable form of a token, cut at a character to n_bytes - 1 bytes, NUL-terminated. `kind` is
 * that of hs_tokenizer_kind; if it is NULL the token is copied. */
void hs_token_readable(const char *kind, const char *token, char *ret_text, size_t n_bytes);
