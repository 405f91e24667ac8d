/* json.h - parses a checkpoint's untrusted JSON files, reads their members, and tells whether JSON is whole.
 */
#pragma once

#include "model/base/bytes.h"
#include "model/base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Parses a file as one JSON object. Duplicate keys are refused. Fails with HS_BAD_MODEL, naming the file and
 * the position. The caller releases the result with json_decref. */
HS_MUST_USE hs_status hs__json_parse(const hs_bytes *file, const char *file_name, json_t **ret_object,
                                     hs_error *err);

/* Like hs__json_parse, with every number as a real: HuggingFace writes a model_max_length of 31 digits. */
HS_MUST_USE hs_status hs__json_parse_reals(const hs_bytes *file, const char *file_name, json_t **ret_object,
                                           hs_error *err);

/* Like hs__json_parse, for a file that is one JSON array. */
HS_MUST_USE hs_status hs__json_parse_list(const hs_bytes *file, const char *file_name, json_t **ret_list,
                                          hs_error *err);

/* ---- memory ----
 *
 * A JSON object or array for whose element there is no memory goes on without it. So that no caller has to
 * check each element, every thread counts what it was refused while it made JSON. */

/* Returns how often jansson was refused memory in this thread. */
size_t hs_json_refusals(void);

/* Returns zeroed memory [n][size] for what JSON is made of, which the caller frees. If there is none, it
 * returns NULL and counts a refusal, so that what lacks its elements is not whole. */
void *hs_json_memory(size_t n, size_t size);

/* Returns the value, which was made since hs_json_refusals returned this number. Releases it and returns NULL
 * if memory was refused meanwhile: it may lack elements. */
json_t *hs_json_whole(json_t *value, size_t refusals);

/* Returns the value as text (malloc'ed) by jansson's flags, or NULL if memory is short. jansson's json_dumps
 * may leave out bytes then. */
char *hs_json_text(const json_t *value, size_t flags);

/* Parses JSON in UTF-8. Every parser of the program passes through here. Returns HS_NO_MEMORY, or HS_INVALID
 * with jansson's reason. *ret_json is NULL then. ret_error may be NULL. */
HS_MUST_USE hs_status hs_json_load(const char *bytes, size_t n_bytes, size_t flags, json_t **ret_json,
                                   json_error_t *ret_error);

/* Writes the value in one line, without an end of line; reals with this many digits. Returns HS_NO_MEMORY, or
 * HS_IO if the file takes no more. */
HS_MUST_USE hs_status hs_json_write(const json_t *value, FILE *file, size_t digits, hs_error *err);

/* ---- optional members ----
 *
 * A member is absent, null, or of the required type. Anything else is refused. */

/* Reads a boolean. If it is absent or null, *value stays unchanged. Fails with HS_BAD_MODEL for another
 * type. */
HS_MUST_USE hs_status hs__option_bool(const json_t *object, const char *file, const char *key, bool *value,
                                      hs_error *err);

/* Reads a string, or the "content" of an object. If it is absent or null, *value stays unchanged. The object
 * owns the string. */
HS_MUST_USE hs_status hs__option_text(const json_t *object, const char *file, const char *key,
                                      const char **value, hs_error *err);
