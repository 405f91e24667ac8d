/* block_pool.c - a few blocks under a mutex, which is held for the bookkeeping only: allocation and
 * freeing happen outside. */
#include "engine/pass/block_pool.h"

#include "model/memory.h"

#include <stdbool.h>

#define KEPT_BYTES_MAX ((size_t)384 << 20) /* sum of all blocks: the default and maximum */
#define KEPT_BYTES_MIN ((size_t)4 << 20)   /* of one block: larger than a huge page, and so aligned to one */

void hs__block_pool_init(hs__block_pool *pool)
{
    *pool = (hs__block_pool){.bytes_max = KEPT_BYTES_MAX};
    pthread_mutex_init(&pool->mutex, NULL); /* cannot fail with glibc's default attributes */
}

void hs__block_pool_limit(hs__block_pool *pool, size_t bytes_max)
{
    pool->bytes_max = bytes_max < KEPT_BYTES_MAX ? bytes_max : KEPT_BYTES_MAX;
}

void hs__block_pool_finish(hs__block_pool *pool)
{
    for (size_t b = 0; b < HS__POOLED_BLOCKS; b++)
        free(pool->blocks[b].memory);
    pthread_mutex_destroy(&pool->mutex);
}

/* Empties a place and returns its block. The caller holds the mutex. */
static hs__block block_remove(hs__block_pool *pool, size_t place)
{
    const hs__block block = pool->blocks[place];
    pool->bytes -= block.bytes;
    pool->blocks[place] = (hs__block){0};
    return block;
}

hs__block hs__block_take(hs__block_pool *pool, size_t bytes)
{
    size_t best = HS__POOLED_BLOCKS, best_bytes = bytes + bytes / 4;
    hs__block taken = {0};
    pthread_mutex_lock(&pool->mutex);
    for (size_t b = 0; b < HS__POOLED_BLOCKS; b++)
        if (pool->blocks[b].memory && pool->blocks[b].bytes >= bytes && pool->blocks[b].bytes <= best_bytes) {
            best = b;
            best_bytes = pool->blocks[b].bytes;
        }
    if (best < HS__POOLED_BLOCKS)
        taken = block_remove(pool, best);
    pthread_mutex_unlock(&pool->mutex);
    return taken.memory ? taken : (hs__block){hs_memory_create(bytes), bytes};
}

/* Returns a free place, or HS__POOLED_BLOCKS if there is none. The caller holds the mutex. */
static size_t place_find(const hs__block_pool *pool)
{
    for (size_t b = 0; b < HS__POOLED_BLOCKS; b++)
        if (!pool->blocks[b].memory)
            return b;
    return HS__POOLED_BLOCKS;
}

/* Returns true if a block is large enough and aligned like a capture. Blocks that realloc moved or that
 * hold compressed answers are not. */
static bool is_worth_keeping(const hs__block_pool *pool, hs__block block)
{
    return block.bytes >= KEPT_BYTES_MIN && block.bytes <= pool->bytes_max &&
           (uintptr_t)block.memory % HS_HUGE_BYTES == 0;
}

void hs__block_return(hs__block_pool *pool, hs__block block)
{
    hs__block evicted[HS__POOLED_BLOCKS] = {{0}};
    size_t n = 0;
    if (!is_worth_keeping(pool, block)) {
        free(block.memory);
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    for (size_t b = 0; b < HS__POOLED_BLOCKS; b++)
        if (pool->blocks[b].memory &&
            (place_find(pool) == HS__POOLED_BLOCKS || pool->bytes + block.bytes > pool->bytes_max))
            evicted[n++] = block_remove(pool, b);
    pool->blocks[place_find(pool)] = block;
    pool->bytes += block.bytes;
    pthread_mutex_unlock(&pool->mutex);
    while (n > 0)
        free(evicted[--n].memory);
}
