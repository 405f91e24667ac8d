/* bytes.h - a growing buffer for answers.
 *
 * Failure sticks: once memory was short, `failed` is set, everything more is dropped, and the writer looks
 * once at its end. Zeroed memory is an empty buffer. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct hs__bytes {
    char *data; /* malloc'ed; NULL while empty */
    size_t size, capacity;
    bool failed;
} hs__bytes;

/* Room for n more bytes: where to write them, or NULL. The caller adds what it wrote to size. Grows at least
 * by half; a first reservation of the whole answer saves every copy (untouched pages cost nothing). */
char *hs__bytes_room(hs__bytes *bytes, size_t n);
void hs__bytes_add(hs__bytes *bytes, const void *data, size_t n);
void hs__bytes_text(hs__bytes *bytes, const char *text); /* NUL-terminated */
void hs__bytes_fit(hs__bytes *bytes);                    /* gives unused memory back */
void hs__bytes_finish(hs__bytes *bytes);

/* JSON. Strings: `"`, `\` and control characters escaped, bytes that are not UTF-8 replaced by U+FFFD. */
void hs__json_string(hs__bytes *bytes, const char *text, size_t n);
void hs__json_integer(hs__bytes *bytes, long long value);
void hs__json_float(hs__bytes *bytes, float value, int digits);
void hs__json_bool(hs__bytes *bytes, bool value);
/* "[1,2,3]" */
void hs__json_floats(hs__bytes *bytes, const float *values, size_t n, int digits);
