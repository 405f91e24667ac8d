/* team.h - shares the cores of a process between the threads that compute.
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
#pragma once

#include "engine/runtime.h"

/* Returns the number of cores that the affinity mask allows, at least 1. */
size_t hs__cores_allowed(void);

typedef struct hs__thread_pool hs__thread_pool;

/* Creates helpers for n_cores in all, the callers' own included. Returns NULL if there is no memory. */
hs__thread_pool *hs__thread_pool_create(size_t n_cores);
void hs__thread_pool_destroy(hs__thread_pool *pool); /* NULL is fine; no team may be left */
size_t hs__thread_pool_cores(const hs__thread_pool *pool);

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
