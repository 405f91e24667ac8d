/* token_file.h - reads the file that --token-file names. */
#pragma once

#include "model/base/status.h"

/* Returns the tokens in *ret_tokens (malloc'ed), one on each line, without comments (#) and empty lines.
 * Returns HS_IO, or HS_INVALID if there is no token, or one is too short or has blanks. Logs a warning if
 * others can read the file or a token can be guessed. */
HS_MUST_USE hs_status hs__token_file_read(const char *path, char **ret_tokens, hs_error *err);
