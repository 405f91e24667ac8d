/* json_text.h - appends JSON to a buffer without building a tree. Callers keep brackets and commas in order.
 */
#pragma once

#include "api/formats/buffer.h"

#include <stdint.h>

/* Escapes `"`, `\` and control characters. Replaces bytes that are not UTF-8 by U+FFFD. */
void hs__json_string(hs_buffer *buffer, const char *text, size_t n);
void hs__json_integer(hs_buffer *buffer, int64_t value);
void hs__json_float(hs_buffer *buffer, float value, int digits);
void hs__json_bool(hs_buffer *buffer, bool value);
/* `,"name":` */
void hs__json_key(hs_buffer *buffer, const char *name);
/* Appends a comma unless index is 0. */
void hs__json_comma(hs_buffer *buffer, size_t index);
/* `[start,end]` */
void hs__json_range(hs_buffer *buffer, size_t start, size_t end);
/* `[1,2,3]` */
void hs__json_floats(hs_buffer *buffer, const float *values, size_t n, int digits);
/* Appends nested lists of these lengths, n_axes >= 1. The last axis is innermost. */
void hs__json_block(hs_buffer *buffer, const float *values, size_t n_axes, const size_t *lengths, int digits);
