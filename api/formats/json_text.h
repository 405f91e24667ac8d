/* json_text.h - JSON straight into a buffer, piece by piece; arrays of floats are the bulk of an answer, so
 * they pass through no tree. Whoever calls keeps brackets and commas in order. */
#pragma once

#include "api/formats/buffer.h"

#include <stdint.h>

/* `"`, `\` and control characters escaped, bytes that are not UTF-8 replaced by U+FFFD. */
void hs__json_string(hs__buffer *buffer, const char *text, size_t n);
void hs__json_integer(hs__buffer *buffer, int64_t value);
void hs__json_float(hs__buffer *buffer, float value, int digits);
void hs__json_bool(hs__buffer *buffer, bool value);
/* `,"name":` */
void hs__json_key(hs__buffer *buffer, const char *name);
/* Before each element but the first. */
void hs__json_comma(hs__buffer *buffer, size_t index);
/* `[start,end]` */
void hs__json_range(hs__buffer *buffer, size_t start, size_t end);
/* `[1,2,3]` */
void hs__json_floats(hs__buffer *buffer, const float *values, size_t n, int digits);
/* Nested lists of these lengths, n_axes >= 1; the last axis is innermost. */
void hs__json_block(hs__buffer *buffer, const float *values, size_t n_axes, const size_t *lengths,
                    int digits);
