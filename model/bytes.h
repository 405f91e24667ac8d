/* bytes.h - bytes in memory that somebody else owns. */
#pragma once

#include <stddef.h>

typedef struct hs_bytes {
    const void *data;
    size_t size;
} hs_bytes;
