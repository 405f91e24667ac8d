/* bytes.h - a borrowed block of bytes. */
#pragma once

#include <stddef.h>

typedef struct hs_bytes {
    const void *data;
    size_t size;
} hs_bytes;
