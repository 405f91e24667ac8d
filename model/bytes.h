/* bytes.h - a borrowed block of bytes, and the endings of names. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct hs_bytes {
    const void *data;
    size_t size;
} hs_bytes;

/* Returns true if the text is longer than `ending` and ends with it. */
static inline bool hs_ends_with(const char *text, const char *ending)
{
    const size_t n = strlen(text), n_ending = strlen(ending);
    return n > n_ending && strcmp(text + n - n_ending, ending) == 0;
}
