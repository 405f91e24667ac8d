/* json_text.h - answers as text: a growing buffer, numbers, JSON and gzip. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ==== buffer ==== */

/* A growing buffer for answers.
 *
 * Failure sticks: once memory is short, `failed` is set and all later additions are dropped, so a writer
 * checks only at its end. Zeroed memory is an empty buffer. */

typedef struct hs_buffer {
    char *data; /* malloc'ed; NULL while empty */
    size_t size, capacity;
    bool failed;
} hs_buffer;

/* Reserves capacity for n more bytes and returns where to write them, or NULL. The caller adds the written
 * bytes to size. Grows by at least half. */
char *hs_buffer_reserve(hs_buffer *buffer, size_t n);
void hs_buffer_add(hs_buffer *buffer, const void *data, size_t n);
void hs_buffer_text(hs_buffer *buffer, const char *text); /* NUL-terminated */
void hs_buffer_fit(hs_buffer *buffer);                    /* frees unused capacity */
void hs_buffer_finish(hs_buffer *buffer);

/* ==== numbers ==== */

/* Numbers as JSON text, fast.
 *
 * A JSON answer holds millions of floats. jansson and printf need 200 ns for each. These functions need about
 * 15 ns for one float, and 4 to 5 ns for each float of a list. The text is that of printf("%.*g"): the exact
 * binary value is rounded to the nearest value of `digits` significant digits, ties to even. */

/* A printer may touch this many bytes from `to` on, whatever the number's length. */
#define HS_NUMBER_BYTES_MAX 32

/* Longest text of a float with that many digits: "-0.000123456", "-1.23456e-38". */
#define HS__FLOAT_TEXT_MAX(digits) ((size_t)(digits) + 6)

/* Writes value with 1..9 significant digits, trailing zeros dropped; an exponent where %g has one, without
 * padding ("1.5e-7"). NaN and infinities, which JSON lacks, are null. 9 digits give a float back exactly.
 * Returns the end; writes no NUL. */
char *hs_float_print(char *to, float value, int digits);

/* Writes n floats, each followed by a comma. Writes less than HS_NUMBER_BYTES_MAX beyond its end. */
char *hs_floats_print(char *to, const float *values, size_t n, int digits);

/* Writes an integer and returns the end; writes no NUL. */
char *hs_integer_print(char *to, int64_t value);

/* ==== JSON ==== */

/* Appends JSON to a buffer without building a tree. Callers keep brackets and commas in order. */

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

/* ==== gzip ==== */

/* Compresses JSON answers if that takes little time. */

/* Replaces the body by its gzip form. Returns false and leaves the body unchanged if compression would take
 * longer than budget_ms or would not make it smaller, and for bodies that fit into a network packet. */
bool hs__gzip(hs_buffer *body, double budget_ms);
