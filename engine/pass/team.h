/* team.h - the process's cores, lent to whoever computes.
 *
 * A runtime has one pool of helper threads, which sleep until a team has tasks and a core is idle. A team is
 * a thread that computes, with the helpers it has got at the moment:
 *
 *     hs__team team;
 *     hs__team_start(&team, runtime, n_threads);
 *     hs__team_share(&team, n_tasks, task, context);     as often as wanted: returns when all tasks are done
 *     hs__team_finish(&team);
 *
 * Every team counts as one busy core while it lasts. Helpers come only while teams and helpers together are
 * fewer than the cores, and go, at the end of their task, when more teams start: many teams run on one core
 * each, a lone one on all. A helper is at least as nice (setpriority) as who it helps. Tasks are claimed one
 * by one, so a helper that loses its core to another process delays nobody but the task it holds; when that
 * keeps happening, the team goes on alone. Nothing here fails: without helpers a team does all tasks itself.
 */
#pragma once

#include "engine/runtime.h"

/* Cores this process may run on, by its affinity. At least 1. */
size_t hs__cores_allowed(void);

typedef struct hs__thread_pool hs__thread_pool;

/* Helpers for n_cores in all, the callers' own included. NULL when there is no memory. */
hs__thread_pool *hs__thread_pool_create(size_t n_cores);
void hs__thread_pool_destroy(hs__thread_pool *pool); /* NULL is fine; no team is left */
size_t hs__thread_pool_cores(const hs__thread_pool *pool);

/* One task. slot < n_threads is the doer's alone while it runs. */
typedef void (*hs__task)(void *context, size_t index, size_t slot);

typedef struct hs__team {
    hs__thread_pool *pool; /* NULL: of no runtime */
    size_t n_threads;
    struct hs__task_queue *queue; /* NULL: alone */
    size_t n_late;                /* waits for a helper that had lost its core */
} hs__team;

/* runtime may be NULL: a team of one. */
void hs__team_start(hs__team *team, hs_runtime *runtime, size_t n_threads);
void hs__team_share(hs__team *team, size_t n_tasks, hs__task task, void *context);
void hs__team_finish(hs__team *team);
