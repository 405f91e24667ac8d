/* part_options.h - members of a part's JSON object, as tokenizer.json and tokenizer_config.json have them. */
#pragma once

#include "model/status.h"

#include <jansson.h>
#include <stdbool.h>

/* A boolean member; absent or null leaves *value alone. */
HS_MUST_USE hs_status hs__option_bool(const json_t *object, const char *file, const char *key, bool *value,
                                      hs_error *err);

/* A string member, or the "content" of an object; absent or null leaves *value alone. Borrowed from the
 * object.
 */
HS_MUST_USE hs_status hs__option_text(const json_t *object, const char *file, const char *key,
                                      const char **value, hs_error *err);
