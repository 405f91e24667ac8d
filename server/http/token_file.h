/* token_file.h - the tokens that --token-file names. */
#pragma once

#include "model/status.h"

/* One a line, in *ret_tokens (malloc'ed); lines that begin with # and empty ones are not there any more.
 * HS_IO, HS_INVALID: a token is too short to be one or has blanks, or there is none. Warns in the log of a
 * file that others can read and of tokens that can be guessed. */
HS_MUST_USE hs_status hs__token_file_read(const char *path, char **ret_tokens, hs_error *err);
