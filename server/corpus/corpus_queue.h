/* corpus_queue.h - blocks of lines on their way from the reader to the workers.
 *
 * A fixed number of blocks goes round: free -> filled by the reader -> ready -> a worker's -> free. That and
 * a bound on their bytes bound the memory, and make the reader wait when the workers are behind. Workers take
 * blocks in their order: those that none has taken are the last that were read. */
#pragma once

#include "server/corpus/corpus_run.h"

#include <pthread.h>

typedef struct hs__block_line {
    size_t start, n_bytes; /* in bytes */
    size_t file;
    uint64_t line, number;
    bool too_long;
    hs__record_layout layout;
} hs__block_line;

/* In blocks that are ready or with a worker; one block more may come. */
#define HS__QUEUE_BYTES ((size_t)16 << 20)

typedef struct hs__block {
    struct hs__block *next;
    hs__corpus_place before; /* where its first line begins */
    hs__block_line lines[HS__CORPUS_BLOCK];
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

HS_MUST_USE hs_status hs__queue_init(hs__block_queue *queue, size_t n_blocks, hs_error *err);
void hs__queue_finish(hs__block_queue *queue);

/* The reader: waits for a free block and room for its bytes, at most so long; NULL when there is none yet. */
hs__block *hs__queue_free_block(hs__block_queue *queue, unsigned milliseconds);
/* Copies a line into the block. */
HS_MUST_USE hs_status hs__block_add(hs__block *block, const hs__corpus_line *line, hs_error *err);
void hs__queue_push(hs__block_queue *queue, hs__block *block);
void hs__queue_return(hs__block_queue *queue, hs__block *block); /* not pushed, or done with */
/* Takes back all that no worker has taken. True when there was one: *ret_place is where the first begins. */
bool hs__queue_drop(hs__block_queue *queue, hs__corpus_place *ret_place);
/* True when no block is ready or with a worker; waits for that at most so long. */
bool hs__queue_idle(hs__block_queue *queue, unsigned milliseconds);
void hs__queue_close(hs__block_queue *queue);

/* A worker: the next ready block; NULL when the queue is closed and empty. */
hs__block *hs__queue_pop(hs__block_queue *queue);
