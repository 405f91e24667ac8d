/* arena.h - one block, carved in order by the same code that measured it.
 *
 * Over base NULL the arena only counts, so a layout function run twice first says how large the block must be
 * and then hands out its parts; the two cannot disagree. Every part starts on a 64-byte line. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { HS__LINE = 64, HS__PAGE = 4096, HS__HUGE = 2 << 20 };

typedef struct hs__arena {
    void *base;  /* 64-byte aligned, or NULL to measure */
    size_t used; /* bytes, a multiple of HS__LINE */
} hs__arena;

/* The next bytes of the block; NULL over NULL. */
static inline void *hs__arena_take(hs__arena *arena, size_t bytes)
{
    void *part = arena->base ? (char *)arena->base + arena->used : NULL;
    arena->used += (bytes + HS__LINE - 1) / HS__LINE * HS__LINE;
    return part;
}

static inline float *hs__arena_floats(hs__arena *arena, size_t n)
{
    return hs__arena_take(arena, n * sizeof(float));
}

/* Asks for huge pages where the block is large: fewer address translations, and the CPU's own prefetching
 * stops at every page's end. */
static inline void hs__pages_huge(void *block, size_t bytes)
{
    const uintptr_t start = ((uintptr_t)block + HS__PAGE - 1) / HS__PAGE * HS__PAGE;
    if (bytes >= HS__HUGE)
        madvise((void *)start, ((uintptr_t)block + bytes - start) / HS__PAGE * HS__PAGE, MADV_HUGEPAGE);
}

/* A block for an arena of this many bytes: free() it. NULL when there is no memory. */
static inline void *hs__block_create(size_t bytes)
{
    const size_t alignment = bytes >= HS__HUGE ? HS__HUGE : HS__LINE;
    void *block = aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
    if (block)
        hs__pages_huge(block, bytes);
    return block;
}
