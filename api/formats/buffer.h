/* buffer.h - a growing buffer for answers.
 *
 * Failure sticks: once memory is short, `failed` is set and all later additions are dropped, so a writer
 * checks only at its end. Zeroed memory is an empty buffer. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

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
