/* worker.h - one thread of a run: counts blocks of lines into its own statistics. */
#pragma once

#include "server/corpus/counters/counter.h"
#include "server/corpus/run/block_queue.h"
#include "server/corpus/run/pairs_file.h"

/* Shared by all workers of a run. */
typedef struct hs__corpus_shared {
    const hs__corpus_job *job;
    hs_corpus_options options; /* of the statistics */
    hs_selection selection;
    hs__counting counting[HS__COUNTERS_MAX];
    hs__block_queue queue;
    hs__bad_lines *bad;
    hs__pairs_file *pairs; /* or NULL */
    atomic_uint_fast64_t n_texts, n_empty;
    pthread_mutex_t failure_lock;
    hs_error failure;       /* the first one */
    atomic_bool failed;     /* set after it */
    atomic_int abandoned;   /* non-zero: passes end with HS_CANCELLED; then no save is possible */
    hs_run_control control; /* of all passes; reads abandoned */
} hs__corpus_shared;

typedef struct hs__corpus_worker {
    hs__corpus_shared *shared;
    pthread_t thread;
    bool started;
    hs_workspace *workspace;
    hs_corpus_stats *stats;
    size_t n_together;                     /* texts of one pass, HS_CORPUS_BATCH at most */
    hs_capture *captures[HS_CORPUS_BATCH]; /* name the observed heads; reused for texts of the same length */
    void *states[HS__COUNTERS_MAX];        /* of the counters; NULL: the counter has nothing to do */
    float *maps;                           /* [hs__worker_map_floats] */
    hs__text *texts;                       /* of the current pass */
    hs__pairs_rows *rows;                  /* or NULL */
    bool rows_failed;
} hs__corpus_worker;

/* Returns the options of the statistics; borrows from the job. */
hs_corpus_options hs__corpus_options_of(const hs__corpus_job *job);
/* Returns the floats of a worker's maps: attention, similarity and columns of max_tokens; twice if special
 * tokens are cut off. */
size_t hs__worker_map_floats(const hs__corpus_settings *settings);

/* Fills the options, the selection, the control and the counters of a zeroed hs__corpus_shared from its job.
 */
void hs__corpus_shared_init(hs__corpus_shared *shared, hs__corpus_results *results);

/* Initialises a worker. shared must not move. Takes ownership of saved statistics; NULL: it begins with empty
 * ones. Call hs__corpus_worker_finish after a failure too. */
HS_MUST_USE hs_status hs__corpus_worker_init(hs__corpus_worker *worker, hs__corpus_shared *shared,
                                             hs_corpus_stats *saved, hs_error *err);
/* Adds the statistics of `from` to those of a worker, which may be the same, and its other counts to the
 * results. Empties it. HS_TOO_LARGE, HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__corpus_worker_gather(hs__corpus_worker *worker, hs__corpus_worker *from,
                                               hs_error *err);
void hs__corpus_worker_finish(hs__corpus_worker *worker);

/* Thread function: takes blocks until the queue is closed. Sets shared->failure at the first failure; from
 * then on all workers return blocks uncounted. */
void *hs__corpus_worker_main(void *worker);
