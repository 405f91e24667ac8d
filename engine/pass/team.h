/* team.h - what a runtime shares: sizes of caches, blocks of memory, cores between threads that compute. */
#pragma once

#include "engine/kernels/kernels.h"
#include "engine/runtime.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Three sizes, "32K,1M,16M", that replace those found: for tests and measurements. */
#define HS_CACHES_VARIABLE "HEADSCOPE_CACHES"

/* Reads the sizes from the environment, else from the system, else assumes what most servers have. Limits
 * them to a sensible range. Returns false if the environment's text is not three sizes. */
bool hs__caches_read(hs_caches *ret_caches);

/* ---- large blocks of memory that are kept for the next capture or answer of about their size.
 *
 * Zeroed pages from the system cost 4 % of a pass of BERT-base at 128 tokens and 9 % at 256. malloc
 * itself keeps small blocks. Any thread may take and return blocks. */

enum { HS__POOLED_BLOCKS = 8 };

typedef struct hs__block {
    void *memory; /* NULL: none */
    size_t bytes;
    uint64_t since_ns; /* when it was returned */
} hs__block;

typedef struct hs__block_pool {
    pthread_mutex_t mutex;
    hs__block blocks[HS__POOLED_BLOCKS];
    size_t bytes, bytes_max; /* of all of them */
} hs__block_pool;

/* ---- shares the cores of a process between the threads that compute.
 *
 * A runtime has one pool of helper threads, which sleep until a team has tasks and a core is idle. A team
 * is one computing thread with the helpers that serve it at the moment:
 *
 *     hs__team team;
 *     hs__team_start(&team, runtime, n_threads);
 *     hs__team_share(&team, n_tasks, task, context);     any number of times; returns when all tasks are done
 *     hs__team_finish(&team);
 *
 * Every team counts as one busy core. Helpers join only while teams and helpers together are fewer than
 * the cores, and leave at the end of their task when more teams start. So a lone team runs on all cores,
 * and many teams run on one core each.
 *
 * A helper's nice value (setpriority) is at least that of the team's own thread. Tasks are claimed one by
 * one, so a helper that loses its core delays only the task that it holds. If that happens repeatedly,
 * the team continues alone. No function fails: without helpers a team runs all tasks itself. */

typedef struct hs__thread_pool hs__thread_pool;

/* Runs task `index`. No other running task of the team has the same slot < n_threads. */
typedef void (*hs__task)(void *context, size_t index, size_t slot);

typedef struct hs__team {
    hs__thread_pool *pool; /* NULL: no runtime */
    size_t n_threads;
    struct hs__task_queue *queue; /* NULL: no helpers */
    size_t n_late;                /* waits for a helper that lost its core */
} hs__team;

/* runtime may be NULL: the team has one thread. */
void hs__team_start(hs__team *team, hs_runtime *runtime, size_t n_threads);

void hs__team_share(hs__team *team, size_t n_tasks, hs__task task, void *context);
void hs__team_finish(hs__team *team);

/* ---- the members of a runtime, for the files of engine/ that use them. */

struct hs_runtime {
    hs__thread_pool *threads;
    hs__block_pool blocks;      /* for large captures and answers */
    const hs__kernels *kernels; /* the fastest set of this CPU */
    hs_caches caches;
};
