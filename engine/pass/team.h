/* team.h - the process's cores, lent to whoever computes.
 *
 * Cores belong to the process, not to an engine, so there is one team: helper threads that sleep until a crew
 * has tasks and a core is idle. A crew is a thread that computes, with the helpers it has got at the moment:
 *
 *     hs__crew crew;
 *     hs__crew_start(&crew, n_threads);
 *     hs__crew_share(&crew, n_tasks, task, context);     as often as wanted: returns when all tasks are done
 *     hs__crew_finish(&crew);
 *
 * Every crew counts as one busy core while it lasts. Helpers come only while crews and helpers together are
 * fewer than the cores, and go, at the end of their task, when more crews start: many crews run on one core
 * each, a lone one on all. Tasks are claimed one by one, so a helper that loses its core to another process
 * delays nobody but the task it holds; when that keeps happening, the crew goes on alone. Nothing here fails:
 * without helpers a crew does all tasks itself. */
#pragma once

#include <stddef.h>

/* Cores this process may run on, by its affinity. At least 1. */
size_t hs__cores_allowed(void);

/* Sees to it that the team serves n_cores in all, the callers' own included, until hs__team_leave. */
void hs__team_join(size_t n_cores);
void hs__team_leave(void);

/* One task. slot < n_threads is the doer's alone while it runs. */
typedef void (*hs__task)(void *context, size_t index, size_t slot);

typedef struct hs__crew {
    size_t n_threads;
    struct hs__board *board; /* NULL: alone */
    size_t n_late;           /* waits for a helper that had lost its core */
} hs__crew;

void hs__crew_start(hs__crew *crew, size_t n_threads);
void hs__crew_share(hs__crew *crew, size_t n_tasks, hs__task task, void *context);
void hs__crew_finish(hs__crew *crew);
