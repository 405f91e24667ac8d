/* json.h - parses a checkpoint's untrusted JSON files. */
#pragma once

#include "model/base/bytes.h"
#include "model/base/status.h"

#include <jansson.h>

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
