/* pattern.h - the "pattern" of a Split: a text, or a regular expression. */
#pragma once

#include "model/base/status.h"
#include "model/tokenizer/aligned_text.h"

#include <jansson.h>

typedef struct hs__pattern hs__pattern;

/* Creates a pattern from {"String": "..."} or {"Regex": "..."}. Fails with HS_BAD_MODEL if it is
 * neither, empty or not supported. */
HS_MUST_USE hs_status hs__pattern_create(const json_t *json, hs__pattern **ret_pattern, hs_error *err);
void hs__pattern_destroy(hs__pattern *pattern); /* NULL is fine */

/* A search in bytes [from, end) of a text. A zeroed struct with these set starts it. */
typedef struct hs__pattern_search {
    const hs__pattern *pattern;
    const unsigned char *bytes;
    size_t from, end;
} hs__pattern_search;

/* Finds the next match, which does not overlap those before it. Returns false at the end. */
bool hs__pattern_next(hs__pattern_search *search, hs__span *ret_match);
