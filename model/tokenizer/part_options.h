/* part_options.h - reads options of a part's JSON object, for tokenizer.json and tokenizer_config.json. */
#pragma once

#include "model/base/status.h"

#include <jansson.h>
#include <stdbool.h>

/* Reads a boolean. If it is absent or null, *value stays unchanged. Fails with HS_BAD_MODEL for another
 * type. */
HS_MUST_USE hs_status hs__option_bool(const json_t *object, const char *file, const char *key, bool *value,
                                      hs_error *err);

/* Reads a string, or the "content" of an object. If it is absent or null, *value stays unchanged. The object
 * owns the string. */
HS_MUST_USE hs_status hs__option_text(const json_t *object, const char *file, const char *key,
                                      const char **value, hs_error *err);
