/* workers.h - the threads of a run, which count blocks of lines, and the queue of these blocks. */
#pragma once

#include "server/corpus/counters/counter.h"
#include "server/corpus/run/corpus_run.h"

#include <pthread.h>

/* Limit on the bytes of blocks that are ready or with a worker. One more block may exceed it. */
#define HS__QUEUE_BYTES ((size_t)16 << 20)

/* A free block keeps at most this much memory. */
#define HS__BLOCK_KEPT_BYTES ((size_t)1 << 20)

typedef struct hs__block {
    struct hs__block *next;
    hs__input_position before;        /* where its first line begins */
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

/* All workers of a run, and what they share. */
typedef struct hs__workers {
    const hs__corpus_job *job;
    hs_corpus_options options; /* of the statistics */
    hs_selection selection;
    hs__counting counting[HS__N_COUNTERS];
    hs__block_queue queue;
    struct corpus_worker *list; /* [job->n_workers]; NULL: they were not started */
    hs_corpus_stats *stats;     /* of the first worker: those of the run, once gathered */
    hs_workspace *workspace;    /* of the first worker; free while the workers are idle */
    hs__bad_lines *bad;
    atomic_uint_fast64_t n_texts, n_empty;
    pthread_mutex_t failure_lock;
    hs_error failure;       /* the first one */
    atomic_bool failed;     /* set after it */
    atomic_int abandoned;   /* non-zero: passes end with HS_CANCELLED; then no save is possible */
    hs_run_control control; /* of all passes; reads abandoned */
} hs__workers;

/* Returns the options of the statistics; borrows from the job. */
hs_corpus_options hs__corpus_options_of(const hs__corpus_job *job);

/* Fills the options, the selection, the control and the counters of zeroed workers, which must not move.
 * Fails with HS_NO_MEMORY; then nothing is to be stopped. */
HS_MUST_USE hs_status hs__workers_init(hs__workers *workers, const hs__corpus_job *job,
                                       hs__corpus_results *results, hs_error *err);
/* Starts the threads. Takes ownership of saved statistics; NULL: they begin with empty ones. */
HS_MUST_USE hs_status hs__workers_start(hs__workers *workers, hs_corpus_stats *saved, hs__bad_lines *bad,
                                        hs_error *err);
/* Waits until the blocks that are ready are counted, and releases everything, also after a failed start. */
void hs__workers_stop(hs__workers *workers);

/* Returns a free block, or NULL if there is none with capacity for its bytes within this time. */
hs__block *hs__workers_block(hs__workers *workers, unsigned milliseconds);
/* Hands a filled block to the workers, or takes back one that is not to be counted. */
void hs__workers_block_end(hs__workers *workers, hs__block *block, bool filled);
/* Waits, at most this long, until no block is ready or with a worker. Returns true if it is so. */
bool hs__workers_idle(hs__workers *workers, unsigned milliseconds);

/* Merges the statistics of all into workers->stats, and moves their other counts into the results. They must
 * be idle. HS_TOO_LARGE, HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__workers_gather(hs__workers *workers, hs_error *err);
/* Drops the blocks that no worker has taken and restores the workers' priority, if the system permits it.
 * abandon: also cancels their passes. Returns true if blocks were dropped; *ret_position is where the first
 * of them begins. */
bool hs__workers_hurry(hs__workers *workers, bool abandon, hs__input_position *ret_position);
