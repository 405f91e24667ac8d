/* requirements.h - upper bounds of a run's memory and disk, computed before it begins.
 *
 * They follow from the model and the options. Memory: statistics, maps and workspace of each worker, texts in
 * blocks, and the JSON of checkpoint and reports. Disk: two checkpoints, as one replaces the other, and the
 * reports. */
#pragma once

#include "server/corpus/run/corpus_run.h"

typedef struct hs__requirements {
    uint64_t memory;        /* bytes that all workers share */
    uint64_t memory_worker; /* bytes of each worker */
    uint64_t disk;          /* peak bytes in its folder, without the input */
} hs__requirements;

/* Measures a job. Uses its model, engine, window, layers and thresholds. HS_INVALID as
 * hs_corpus_stats_create. */
HS_MUST_USE hs_status hs__requirements_measure(const hs__corpus_job *job, hs__requirements *ret_needs,
                                               hs_error *err);

/* Checks that the disk of `dir` has what the run needs, of which n_there bytes are in use by it already.
 * Returns HS_NO_SPACE. */
HS_MUST_USE hs_status hs__corpus_disk_fits(const hs__requirements *needs, const char *dir, uint64_t n_there,
                                           hs_error *err);

/* Memory for runs, in bytes. */
typedef struct hs__run_memory {
    uint64_t bytes, kept; /* a run may use the difference, if it is positive */
    const char *what;     /* of `bytes`, for messages: "are free" */
} hs__run_memory;

/* Return the memory that is free now, and that of the whole machine or container. A sixteenth of the
 * machine's is kept for other programs. */
hs__run_memory hs__corpus_memory_free(void);
hs__run_memory hs__corpus_memory_all(void);

/* Sets *ret_n to the number of workers, at most n_requested, that fit into the memory. HS_NO_MEMORY: not even
 * one. */
HS_MUST_USE hs_status hs__corpus_workers_fit(const hs__requirements *needs, const hs__run_memory *memory,
                                             size_t n_requested, size_t *ret_n, hs_error *err);
