/* fuzz.h - a fuzz target, which libFuzzer or replay.c calls. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Tries one input of any bytes. Always returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the program with a crash if a promise is broken. */
static inline void require(bool promise)
{
    if (!promise)
        abort();
}
