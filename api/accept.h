/* accept.h - what the request's headers and query ask for. */
#pragma once

#include "api/problem.h"

#include <stdbool.h>

typedef enum hs__answer_format { HS__JSON, HS__NPZ, HS__SAFETENSORS, HS__FORMAT_COUNT } hs__answer_format;

/* "application/json", ... */
const char *hs__format_media_type(hs__answer_format format);

/* The answer's format: ?format= wins, then the Accept header (the best q, then the more precise range, then
 * JSON first); JSON when neither is there. 406 when nothing fits, 422 for an unknown query parameter.
 * *ret_hooks: whether ?names=hooks asks for TransformerLens's names, which binary formats only have; with
 * NULL no such parameter is known. */
int hs__format_choose(const char *query, const char *accept, hs__answer_format *ret_format, bool *ret_hooks,
                      hs__problem *problem);

/* Paths that answer JSON only: 406 when Accept excludes it. */
int hs__json_accepted(const char *accept, hs__problem *problem);

/* 415 unless it is application/json, in UTF-8 where it says. */
int hs__content_type_check(const char *content_type, hs__problem *problem);
