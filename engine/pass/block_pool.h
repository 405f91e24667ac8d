/* block_pool.h - large blocks kept for the next capture, or answer, of about their size.
 *
 * Fresh pages from the system cost 4 % of a pass of BERT-base at 128 tokens and 9 % at 256. Small blocks
 * malloc keeps itself. Any thread may take and return. */
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
    size_t bytes; /* of all of them */
} hs__block_pool;

void hs__block_pool_init(hs__block_pool *pool);
void hs__block_pool_finish(hs__block_pool *pool); /* frees what it holds */

/* A block of at least this many bytes, with at most a quarter wasted; memory is NULL when there is none. */
hs__block hs__block_take(hs__block_pool *pool, size_t bytes);

/* Keeps it for the next; what must make room, is no size to keep or was not made by hs_memory_create is
 * freed. */
void hs__block_return(hs__block_pool *pool, hs__block block);
