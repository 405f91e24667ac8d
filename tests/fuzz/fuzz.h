/* fuzz.h - a fuzz target, which libFuzzer or replay.c calls. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Tries one input of any bytes. Always returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the program with a crash if a promise is broken. */
static inline void require(bool promise)
{
    if (!promise)
        abort();
}

/* Returns a copy of a safetensors file whose header ends at its last brace, owned by the caller; NULL if
 * there is no brace. A header that a fuzzer has changed rarely has the length written before it. */
static inline uint8_t *header_mended(const uint8_t *data, size_t size)
{
    size_t end = size;
    while (end > 8 && data[end - 1] != '}')
        end--;
    uint8_t *copy = end > 8 ? malloc(size) : NULL;
    if (copy) {
        const uint64_t header_bytes = end - 8;
        memcpy(copy, data, size);
        memcpy(copy, &header_bytes, sizeof header_bytes);
    }
    return copy;
}
