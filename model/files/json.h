/* json.h - a checkpoint's JSON files, parsed as hostile. */
#pragma once

#include "model/bytes.h"
#include "model/status.h"

#include <jansson.h>

/* Parses the whole of a file as one JSON object, duplicate keys refused. HS_BAD_MODEL names the file and the
 * position. The caller releases the result with json_decref. */
HS_MUST_USE hs_status hs__json_parse(const hs_bytes *file, const char *file_name, json_t **ret_object,
                                     hs_error *err);

/* The same with every number as a real: HuggingFace writes a model_max_length of 31 digits. */
HS_MUST_USE hs_status hs__json_parse_reals(const hs_bytes *file, const char *file_name, json_t **ret_object,
                                           hs_error *err);
