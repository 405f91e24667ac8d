/* corpus_worker.h - one thread's part of a run: blocks of lines into its own statistics. */
#pragma once

#include "server/corpus/corpus_masked.h"
#include "server/corpus/corpus_pairs.h"
#include "server/corpus/corpus_queue.h"

/* What all workers of a run share. */
typedef struct hs__corpus_shared {
    const hs__corpus_job *job;
    hs_corpus_options options; /* of the statistics */
    uint16_t heads[HS_HEADS_MAX];
    hs_selection selection;
    hs__block_queue queue;
    hs__corpus_bad *bad;
    hs__corpus_sample *sample;
    hs__pairs_file *pairs; /* or NULL */
    atomic_uint_fast64_t n_texts;
    pthread_mutex_t failure_lock;
    hs_error failure;   /* the first one */
    atomic_bool failed; /* set after it */
} hs__corpus_shared;

/* The tokens of a text that are counted, half-open. */
typedef struct hs__text_range {
    size_t start, end, n_tokens; /* n_tokens: of the whole text */
} hs__text_range;

typedef struct hs__corpus_worker {
    hs__corpus_shared *shared;
    pthread_t thread;
    bool started;
    hs_workspace *workspace;
    hs_corpus_stats *stats;
    size_t n_together;                     /* texts of one pass, HS_CORPUS_BATCH at most */
    hs_capture *captures[HS_CORPUS_BATCH]; /* say which heads a pass shows; for the next texts as long */
    hs__corpus_masking masking;
    float *maps;                          /* [hs__corpus_maps_floats] */
    const struct hs__counted_text *texts; /* those at hand */
    hs__pairs_rows *rows;                 /* or NULL */
    bool rows_failed;
    float *figures[HS_CORPUS_BATCH]; /* [l][h][HS__EXAMPLE_FIGURES] of texts that become examples */
} hs__corpus_worker;

/* The statistics' options. Borrows from the job. */
hs_corpus_options hs__corpus_options_of(const hs__corpus_job *job);
/* Texts of one pass: a large window takes fewer at a time, and distances of heads take one. */
size_t hs__corpus_together(const hs__corpus_job *job);
/* Floats of a worker's maps: an attention, a similarity and columns of max_tokens; twice where special tokens
 * are cut off. */
size_t hs__corpus_maps_floats(const hs__corpus_settings *settings);

/* Fills the options and the selection of a zeroed hs__corpus_shared from its job. */
void hs__corpus_shared_init(hs__corpus_shared *shared);

/* shared must not move. Takes stats, what was counted before; NULL: nothing was. On failure the worker can be
 * finished. */
HS_MUST_USE hs_status hs__corpus_worker_init(hs__corpus_worker *worker, hs__corpus_shared *shared,
                                             hs_corpus_stats *stats, hs_error *err);
void hs__corpus_worker_finish(hs__corpus_worker *worker);

/* The thread: takes blocks until the queue is closed. Failures go into shared; blocks are passed on unlooked
 * at from then. */
void *hs__corpus_worker_main(void *worker);
