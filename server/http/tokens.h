/* tokens.h - the tokens of clients: the file that --token-file names, and the header that has one of them. */
#pragma once

#include "model/base/status.h"

#include <stdbool.h>

/* Returns the tokens in *ret_tokens (malloc'ed), one on each line, without comments (#) and empty lines.
 * Returns HS_IO, or HS_INVALID if there is no token, or one is too short or has blanks. Logs a warning if
 * others can read the file or a token can be guessed. */
HS_MUST_USE hs_status hs__tokens_read(const char *path, char **ret_tokens, hs_error *err);

/* Returns true if authorization (may be NULL) is "Bearer <token>" with a token of this list, one on each
 * line. The time depends only on the lengths. */
bool hs__tokens_match(const char *authorization, const char *tokens);
