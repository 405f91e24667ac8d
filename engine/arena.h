/* arena.h - an arena: one block of memory that a layout function divides into parts.
 *
 * The layout function runs twice. The first time base is NULL and the arena only counts, which gives the
 * size of the block. The second time it hands out the parts. Both runs use the same code, so size and
 * parts always agree. Every part starts on a cache line. */
#pragma once

#include "model/base/memory.h"

typedef struct hs__arena {
    void *base;  /* of hs_memory_create, or NULL to measure */
    size_t used; /* bytes, a multiple of HS_LINE_BYTES */
} hs__arena;

/* Returns the next bytes of the block, or NULL while the arena only counts. */
static inline void *hs__arena_take(hs__arena *arena, size_t bytes)
{
    void *part = arena->base ? (char *)arena->base + arena->used : NULL;
    arena->used += (bytes + HS_LINE_BYTES - 1) / HS_LINE_BYTES * HS_LINE_BYTES;
    return part;
}

static inline float *hs__arena_floats(hs__arena *arena, size_t n)
{
    return hs__arena_take(arena, n * sizeof(float));
}
