/* buffer.h - a growing buffer for answers.
 *
 * Failure sticks: once memory is short, `failed` is set and all later additions are dropped, so a writer
 * checks only at its end. Zeroed memory is an empty buffer. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct hs__buffer {
    char *data; /* malloc'ed; NULL while empty */
    size_t size, capacity;
    bool failed;
} hs__buffer;

/* Reserves capacity for n more bytes and returns where to write them, or NULL. The caller adds the written
 * bytes to size. Grows by at least half. */
char *hs__buffer_reserve(hs__buffer *buffer, size_t n);
void hs__buffer_add(hs__buffer *buffer, const void *data, size_t n);
void hs__buffer_text(hs__buffer *buffer, const char *text); /* NUL-terminated */
void hs__buffer_fit(hs__buffer *buffer);                    /* frees unused capacity */
void hs__buffer_finish(hs__buffer *buffer);
