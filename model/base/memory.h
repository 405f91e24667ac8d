/* memory.h - huge pages for large blocks.
 *
 * The first touch of a page costs a page fault: half a millisecond per megabyte with 4 KiB pages, which is
 * more than filling the page. Huge pages cost a five-hundredth of that, need fewer address translations, and
 * let the hardware prefetcher run on, which stops at page ends. Without huge pages a block stays as it is. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { HS_LINE_BYTES = 64, HS_PAGE_BYTES = 4096, HS_HUGE_BYTES = 2 << 20 };

/* Asks for huge pages if the block is large enough to hold one. */
static inline void hs_memory_huge(void *block, size_t n_bytes)
{
    const uintptr_t start = ((uintptr_t)block + HS_PAGE_BYTES - 1) / HS_PAGE_BYTES * HS_PAGE_BYTES;
    if (n_bytes >= HS_HUGE_BYTES)
        (void)madvise((void *)start, ((uintptr_t)block + n_bytes - start) / HS_PAGE_BYTES * HS_PAGE_BYTES,
                      MADV_HUGEPAGE);
}

/* Returns the huge pages after the first n_used of n_bytes to the system. They read as zero when touched
 * again. */
static inline void hs_memory_trim(void *block, size_t n_used, size_t n_bytes)
{
    const uintptr_t start = ((uintptr_t)block + n_used + HS_HUGE_BYTES - 1) / HS_HUGE_BYTES * HS_HUGE_BYTES;
    const uintptr_t end = ((uintptr_t)block + n_bytes) / HS_PAGE_BYTES * HS_PAGE_BYTES;
    if (start < end)
        (void)madvise((void *)start, end - start, MADV_DONTNEED);
}

/* Allocates n_bytes, aligned to a cache line, or to a huge page if the block is large. Returns NULL if memory
 * is short. The caller frees the block with free(). */
static inline void *hs_memory_create(size_t n_bytes)
{
    const size_t alignment = n_bytes >= HS_HUGE_BYTES ? HS_HUGE_BYTES : HS_LINE_BYTES;
    void *block = aligned_alloc(alignment, (n_bytes + alignment) / alignment * alignment);
    if (block)
        hs_memory_huge(block, n_bytes);
    return block;
}
