/* accept.h - reads the headers and the query: formats, media types, encodings. */
#pragma once

#include "api/problem.h"

#include <stdbool.h>

typedef enum hs__answer_format {
    HS__JSON,
    HS__NPZ,
    HS__SAFETENSORS,
    HS__SVG,
    HS__PDF,
    HS__CSV,
    HS__FORMAT_COUNT
} hs__answer_format;

/* "application/json", ... */
const char *hs__format_media_type(hs__answer_format format);

/* Chooses the answer's format: by ?format=, else by Accept (best q, then the more precise range, then JSON
 * first), else JSON. Refuses with 406 if no format is allowed and with 422 for an unknown query parameter.
 * Sets *ret_hooks if a binary answer is to have TransformerLens's names (?names=hooks). With ret_hooks NULL
 * that parameter is unknown. */
int hs__format_choose(const char *query, const char *accept, hs__answer_format *ret_format, bool *ret_hooks,
                      hs__problem *problem);

/* Refuses with 406 if Accept excludes JSON. */
int hs__json_accepted(const char *accept, hs__problem *problem);

/* Refuses with 415 unless the type is application/json without charset or in UTF-8. */
int hs__content_type_check(const char *content_type, hs__problem *problem);
