/* readable_token.h - a token as people read it: spaces and bytes, which vocabularies write in characters of
 * their own ("\u0120the", "\u2581the", "\u00c3\u00a9"), become text, with U+2423 where a space is. The viewer
 * does the same in static/src/piece.ts; answers for programs keep what the vocabulary has. */
#pragma once

#include <stddef.h>

/* `kind` is hs_tokenizer_kind's, NULL where it is not known: the token is copied. Cut at whole characters to
 * n_bytes - 1, NUL-terminated. */
void hs_token_readable(const char *kind, const char *token, char *ret_text, size_t n_bytes);
