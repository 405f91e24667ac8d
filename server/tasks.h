/* tasks.h - requests on their way through the worker threads.
 *
 * One thread holds a task at a time; the arrows are the only hand-overs, so there is no lock:
 *
 *     loop: hs__tasks_submit -> worker: hs_api_handle -> loop: done
 *
 * uv_queue_work has no bound, so the bound is here: a task goes to a thread only with an idle worker, waits
 * in our own first-come queue otherwise, and is refused when that is full. Everything but hs_api_handle
 * happens on the loop thread. */
#pragma once

#include "api/api.h"

#include <stdatomic.h>
#include <uv.h>

typedef struct hs_task hs_task;
typedef struct hs_tasks hs_tasks;

typedef enum hs_task_state { HS_TASK_OUTSIDE, HS_TASK_QUEUED, HS_TASK_RUNNING } hs_task_state;
typedef enum hs_task_end { HS_TASK_DONE, HS_TASK_TIMED_OUT, HS_TASK_ABANDONED } hs_task_end;

struct hs_task {
    hs_request request;             /* the submitter's; read-only until done */
    hs_response response;           /* the worker's until done, and then the submitter's to finish */
    void (*done)(hs_task *task);    /* on the loop, once for every task submitted, never inside a submit */
    void *data;                     /* the submitter's */
    hs_task_end end;                /* why it ended; without HS_TASK_DONE there may be no response */
    uint64_t queued_ns, started_ns; /* uv_hrtime; started_ns is 0 when no worker saw it */

    hs_task_state state; /* the rest belongs to tasks.c */
    atomic_int cancelled;
    hs_tasks *tasks;
    hs_task *previous, *next;
    hs_api_worker *worker;
    uv_work_t work;
};

struct hs_tasks {
    uv_loop_t *loop;
    hs_api *api;
    hs_api_worker **idle; /* stack */
    size_t n_workers, n_idle, n_cores;
    hs_task *first, *last; /* waiting */
    size_t n_queued, queue_max;
    size_t n_running;
    bool paused;
};

/* Makes the workers. Any thread, before the first submit. On failure tasks is as if finished. */
HS_MUST_USE hs_status hs__tasks_init(hs_tasks *tasks, uv_loop_t *loop, hs_api *api, size_t n_workers,
                                     size_t n_cores, size_t queue_max, hs_error *err);
void hs__tasks_finish(hs_tasks *tasks); /* no task inside; zeroed is fine */

/* False: the queue is full and the task was not taken. */
HS_MUST_USE bool hs__tasks_submit(hs_tasks *tasks, hs_task *task);
/* While paused nothing is started, only queued. */
void hs__tasks_pause(hs_tasks *tasks, bool paused);
/* Ends a task early: at once while it waits, within one layer when it runs; `done` follows. The first end
 * given stays. Nothing happens to a task that is outside. */
void hs__tasks_cancel(hs_task *task, hs_task_end end);
