/* block_queue.h - queue of blocks of lines from the reader to the workers.
 *
 * A fixed number of blocks circulates: free -> filled by the reader -> ready -> with a worker -> free. Their
 * number and a limit on their bytes bound the memory; the reader waits when the workers are behind. Workers
 * take blocks in order, so the blocks left in the queue are always the last ones read. */
#pragma once

#include "server/corpus/run/corpus_run.h"

#include <pthread.h>

/* Limit on the bytes of blocks that are ready or with a worker. One more block may exceed it. */
#define HS__QUEUE_BYTES ((size_t)16 << 20)

typedef struct hs__block {
    struct hs__block *next;
    hs__stream_place before;          /* where its first line begins */
    hs__text texts[HS__CORPUS_BLOCK]; /* their records; the bytes of these are set when the block is pushed */
    size_t n_lines;
    char *bytes;
    size_t n_bytes, capacity;
    bool pushed;
    uint64_t number; /* among those pushed, from 0 */
} hs__block;

typedef struct hs__block_queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    hs__block *blocks; /* [n_blocks] */
    size_t n_blocks, n_free, n_bytes;
    uint64_t n_pushed;
    hs__block *free, *ready, *last;
    bool closed; /* no more blocks come */
} hs__block_queue;

/* Fails with HS_NO_MEMORY; then nothing is to be finished. No thread may use a queue that is finished. */
HS_MUST_USE hs_status hs__queue_init(hs__block_queue *queue, size_t n_blocks, hs_error *err);
void hs__queue_finish(hs__block_queue *queue);

/* Reader: waits for a free block and capacity for its bytes. NULL: none within this time. */
hs__block *hs__queue_free_block(hs__block_queue *queue, unsigned milliseconds);
/* Copies a line into the block. Fails with HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__block_add(hs__block *block, const hs__record *line, hs_error *err);
/* Numbers a block and hands it to the workers. */
void hs__queue_push(hs__block_queue *queue, hs__block *block);
void hs__queue_return(hs__block_queue *queue, hs__block *block); /* unused, or finished */
/* Drops all blocks that no worker has taken. True: *ret_place is where the first of them begins. */
bool hs__queue_drop(hs__block_queue *queue, hs__stream_place *ret_place);
/* Waits, at most this long, until no block is ready or with a worker. True: it is so. */
bool hs__queue_idle(hs__block_queue *queue, unsigned milliseconds);
/* Lets the workers end once no block is ready. */
void hs__queue_close(hs__block_queue *queue);

/* Worker: takes the next ready block, waiting for it. NULL: the queue is closed and empty. */
hs__block *hs__queue_pop(hs__block_queue *queue);
