/* corpus_needs.h - what a run takes of memory and disk, known before it begins.
 *
 * Everything a run holds follows from its model and options: statistics, maps and passes for each worker,
 * texts on their way, the JSON of a save and of the reports; on disk its state, the state that replaces it,
 * and the reports. All are bounds from above: what fits them fits. */
#pragma once

#include "server/corpus/corpus_run.h"

typedef struct hs__corpus_needs {
    uint64_t memory;        /* bytes, however many workers */
    uint64_t memory_worker; /* for each of them */
    uint64_t disk;          /* in its folder, at the most at a time; the input not included */
} hs__corpus_needs;

/* Of the job's model, engine, window, layers and thresholds. HS_INVALID as hs_corpus_stats_create. */
HS_MUST_USE hs_status hs__corpus_needs_measure(const hs__corpus_job *job, hs__corpus_needs *ret_needs,
                                               hs_error *err);

/* How many of n_wanted workers this memory is enough for; HS_NO_MEMORY, saying what is missing, when not one.
 */
HS_MUST_USE hs_status hs__corpus_workers_fit(const hs__corpus_needs *needs, uint64_t memory, size_t n_wanted,
                                             size_t *ret_n, hs_error *err);

/* What a run may take now, and on this machine ever: a share is left for everybody else. */
uint64_t hs__corpus_memory_free(void);
uint64_t hs__corpus_memory_all(void);
/* And on the disk of a folder, by those who are not root. UINT64_MAX when it cannot be told. */
uint64_t hs__corpus_disk_free(const char *dir);
