/* buffer.h - a growing buffer for answers.
 *
 * Failure sticks: once memory was short, `failed` is set, everything more is dropped, and the writer looks
 * once at its end. Zeroed memory is an empty buffer. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct hs__buffer {
    char *data; /* malloc'ed; NULL while empty */
    size_t size, capacity;
    bool failed;
} hs__buffer;

/* Room for n more bytes: where to write them, or NULL. The caller adds what it wrote to size. Grows at least
 * by half; a first reservation of the whole answer saves every copy (untouched pages cost nothing). */
char *hs__buffer_room(hs__buffer *buffer, size_t n);
void hs__buffer_add(hs__buffer *buffer, const void *data, size_t n);
void hs__buffer_text(hs__buffer *buffer, const char *text); /* NUL-terminated */
void hs__buffer_fit(hs__buffer *buffer);                    /* gives unused memory back */
void hs__buffer_finish(hs__buffer *buffer);
