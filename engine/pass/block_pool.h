/* block_pool.h - large blocks of memory that are kept for the next capture or answer of about their size.
 *
 * Zeroed pages from the system cost 4 % of a pass of BERT-base at 128 tokens and 9 % at 256. malloc
 * itself keeps small blocks. Any thread may take and return blocks. */
#pragma once

#include <pthread.h>
#include <stddef.h>

enum { HS__POOLED_BLOCKS = 8 };

typedef struct hs__block {
    void *memory; /* NULL: none */
    size_t bytes;
} hs__block;

typedef struct hs__block_pool {
    pthread_mutex_t mutex;
    hs__block blocks[HS__POOLED_BLOCKS];
    size_t bytes, bytes_max; /* of all of them */
} hs__block_pool;

void hs__block_pool_init(hs__block_pool *pool);
/* Sets the most bytes that the pool keeps; the default is also the maximum. Call it before the first
 * block is returned. */
void hs__block_pool_limit(hs__block_pool *pool, size_t bytes_max);
void hs__block_pool_finish(hs__block_pool *pool); /* frees what it holds */

/* Returns a block of at least this many bytes, with at most a quarter wasted. Its memory is NULL if there
 * is none. */
hs__block hs__block_take(hs__block_pool *pool, size_t bytes);

/* Returns the block to the pool. Frees it if the pool is full, the size is not worth keeping, or the
 * block did not come from hs_memory_create. */
void hs__block_return(hs__block_pool *pool, hs__block block);
