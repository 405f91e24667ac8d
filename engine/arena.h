/* arena.h - one block, carved in order by the same code that measured it.
 *
 * Over base NULL the arena only counts, so a layout function run twice first says how large the block must be
 * and then hands out its parts; the two cannot disagree. Every part starts on a cache line. */
#pragma once

#include "model/memory.h"

typedef struct hs__arena {
    void *base;  /* of hs_memory_create, or NULL to measure */
    size_t used; /* bytes, a multiple of HS_LINE_BYTES */
} hs__arena;

/* The next bytes of the block; NULL over NULL. */
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
