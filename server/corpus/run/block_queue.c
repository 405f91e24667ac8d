/* block_queue.c - one lock and one condition: blocks change hands a few hundred times a second at most. */
#include "server/corpus/run/block_queue.h"

#include "model/base/clock.h"

#include <stdlib.h>
#include <string.h>

/* A free block keeps at most this much memory. */
#define KEPT_BYTES ((size_t)1 << 20)

hs_status hs__queue_init(hs__block_queue *queue, size_t n_blocks, hs_error *err)
{
    *queue = (hs__block_queue){.n_blocks = n_blocks, .n_free = n_blocks};
    queue->blocks = calloc(n_blocks, sizeof *queue->blocks);
    if (!queue->blocks)
        return hs_fail(err, HS_NO_MEMORY, "no memory for texts");
    for (size_t i = 0; i < n_blocks; i++) {
        queue->blocks[i].next = queue->free;
        queue->free = &queue->blocks[i];
    }
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->changed, NULL);
    return HS_OK;
}

void hs__queue_finish(hs__block_queue *queue)
{
    for (size_t i = 0; i < queue->n_blocks; i++)
        free(queue->blocks[i].bytes);
    free(queue->blocks);
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
}

/* Waits with the lock held. False: timeout. */
static bool wait_until(hs__block_queue *queue, const struct timespec *end)
{
    return pthread_cond_clockwait(&queue->changed, &queue->lock, CLOCK_MONOTONIC, end) == 0;
}

hs__block *hs__queue_free_block(hs__block_queue *queue, unsigned milliseconds)
{
    const struct timespec end = hs_clock_after_ms(milliseconds);
    pthread_mutex_lock(&queue->lock);
    while ((!queue->free || queue->n_bytes > HS__QUEUE_BYTES) && wait_until(queue, &end))
        ;
    hs__block *block = queue->n_bytes > HS__QUEUE_BYTES ? NULL : queue->free;
    if (block) {
        queue->free = block->next;
        queue->n_free--;
        block->n_lines = block->n_bytes = 0;
        block->pushed = false;
    }
    pthread_mutex_unlock(&queue->lock);
    return block;
}

hs_status hs__block_add(hs__block *block, const hs__record *line, hs_error *err)
{
    const size_t n = line->too_long ? 0 : line->n_bytes; /* nobody looks at the beginning of such a line */
    if (block->n_bytes + n > block->capacity) {
        size_t capacity = block->capacity ? block->capacity : 16384;
        while (capacity < block->n_bytes + n && capacity < KEPT_BYTES)
            capacity *= 2;
        if (capacity < block->n_bytes + n)
            capacity = block->n_bytes + n;
        char *more = realloc(block->bytes, capacity);
        if (!more)
            return hs_fail(err, HS_NO_MEMORY, "no memory for texts");
        block->bytes = more;
        block->capacity = capacity;
    }
    if (n)
        memcpy(block->bytes + block->n_bytes, line->bytes, n);
    hs__text *text = &block->texts[block->n_lines++];
    *text = (hs__text){.record = *line};
    text->record.n_bytes = n;
    block->n_bytes += n;
    return HS_OK;
}

/* Points the records to their bytes, which no longer move. */
static void records_place(hs__block *block)
{
    const char *at = block->bytes;
    for (size_t i = 0; at && i < block->n_lines; i++) {
        block->texts[i].record.bytes = at;
        at += block->texts[i].record.n_bytes;
    }
}

void hs__queue_push(hs__block_queue *queue, hs__block *block)
{
    records_place(block);
    pthread_mutex_lock(&queue->lock);
    block->next = NULL;
    block->pushed = true;
    block->number = queue->n_pushed++;
    *(queue->ready ? &queue->last->next : &queue->ready) = block;
    queue->last = block;
    queue->n_bytes += block->n_bytes;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

/* Frees a block, with the lock held. */
static void block_free(hs__block_queue *queue, hs__block *block)
{
    if (block->capacity > KEPT_BYTES) {
        free(block->bytes);
        block->bytes = NULL;
        block->capacity = 0;
    }
    block->next = queue->free;
    queue->free = block;
    queue->n_free++;
    pthread_cond_broadcast(&queue->changed);
}

void hs__queue_return(hs__block_queue *queue, hs__block *block)
{
    pthread_mutex_lock(&queue->lock);
    queue->n_bytes -= block->pushed ? block->n_bytes : 0;
    block_free(queue, block);
    pthread_mutex_unlock(&queue->lock);
}

bool hs__queue_drop(hs__block_queue *queue, hs__stream_place *ret_place)
{
    pthread_mutex_lock(&queue->lock);
    const bool any = queue->ready != NULL;
    if (any)
        *ret_place = queue->ready->before;
    for (hs__block *block; (block = queue->ready);) {
        queue->ready = block->next;
        queue->n_bytes -= block->n_bytes;
        block_free(queue, block);
    }
    pthread_mutex_unlock(&queue->lock);
    return any;
}

bool hs__queue_idle(hs__block_queue *queue, unsigned milliseconds)
{
    const struct timespec end = hs_clock_after_ms(milliseconds);
    pthread_mutex_lock(&queue->lock);
    while (queue->n_free < queue->n_blocks && wait_until(queue, &end))
        ;
    const bool idle = queue->n_free == queue->n_blocks;
    pthread_mutex_unlock(&queue->lock);
    return idle;
}

void hs__queue_close(hs__block_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

hs__block *hs__queue_pop(hs__block_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    while (!queue->ready && !queue->closed)
        pthread_cond_wait(&queue->changed, &queue->lock);
    hs__block *block = queue->ready;
    if (block)
        queue->ready = block->next;
    pthread_mutex_unlock(&queue->lock);
    return block;
}
