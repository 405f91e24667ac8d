/* tasks.h - requests on their way through the worker threads.
 *
 * One thread holds a task at a time; the arrows are the only hand-overs, so there is no lock:
 *
 *     loop: hs__tasks_submit -> worker: hs__batch_answer -> loop: done
 *
 * uv_queue_work has no bound, so the bound is here: a task goes to a thread only with an idle worker, waits
 * in our own first-come queue otherwise, and is refused when that is full. Everything but hs__batch_answer
 * happens on the loop thread.
 *
 * What goes to a worker is a batch. Nobody waits for company: with a worker idle a task starts at once and
 * alone. Only when a worker becomes idle and several tasks wait does it take, with the first of them, the
 * next ones as long as all are short, no more than its share of the queue. Each keeps its own end: a pass is
 * given up when all its batch's tasks are cancelled, and `done` comes for all when the batch is through. */
#pragma once

#include "api/api.h"

#include <stdatomic.h>
#include <uv.h>

enum { HS_BATCH_MAX = 8 }; /* tasks of a batch */

typedef struct hs_task hs_task;
typedef struct hs_batch hs_batch;
typedef struct hs_tasks hs_tasks;

typedef enum hs_task_state { HS_TASK_OUTSIDE, HS_TASK_QUEUED, HS_TASK_RUNNING } hs_task_state;
typedef enum hs_task_end { HS_TASK_DONE, HS_TASK_TIMED_OUT, HS_TASK_ABANDONED } hs_task_end;

struct hs_task {
    hs_request request;             /* the submitter's; read-only until done */
    hs_response response;           /* the worker's until done, and then the submitter's to finish */
    bool lines, patient;            /* of a body of lines, as in hs_lines_answer */
    size_t n_bytes;                 /* of such a body: answered; the worker's until done */
    bool admitted;                  /* goes on with what was admitted before: never refused */
    void (*done)(hs_task *task);    /* on the loop, once for every task submitted, never inside a submit */
    void *data;                     /* the submitter's */
    hs_task_end end;                /* why it ended; without HS_TASK_DONE there may be no response */
    uint64_t queued_ns, started_ns; /* hs_clock_ns; started_ns is 0 when no worker saw it */

    hs_task_state state; /* the rest belongs to tasks.c */
    atomic_int cancelled;
    hs_tasks *tasks;
    hs_task *previous, *next;
    hs_batch *batch; /* while it runs */
};

/* A worker with what it computes. */
struct hs_batch {
    hs_tasks *tasks;
    hs_api_worker *worker;
    hs_task *members[HS_BATCH_MAX];
    size_t n_members, n_unended; /* unended: not cancelled */
    size_t n_shared;             /* members that shared a pass; the worker's until the batch is back */
    size_t n_threads;
    atomic_int cancelled; /* set when none is unended */
    uv_work_t work;
};

typedef struct hs_tasks_options {
    size_t n_workers, n_cores;
    size_t queue_max; /* tasks waiting */
    size_t batch_max; /* tasks of a batch, 1 .. HS_BATCH_MAX */
} hs_tasks_options;

struct hs_tasks {
    uv_loop_t *loop;
    hs_api *api;
    hs_tasks_options options;
    hs_batch *batches; /* [n_workers] */
    hs_batch **idle;   /* stack */
    size_t n_idle;
    hs_task *first, *last; /* waiting */
    size_t n_queued;
    size_t n_running;  /* batches */
    uint64_t n_shared; /* tasks ever that shared a pass */
};

/* Makes the workers. Any thread, before the first submit. On failure tasks is as if finished. */
HS_MUST_USE hs_status hs__tasks_init(hs_tasks *tasks, uv_loop_t *loop, hs_api *api,
                                     const hs_tasks_options *options, hs_error *err);
void hs__tasks_finish(hs_tasks *tasks); /* no task inside; zeroed is fine */

/* False: the queue is full and the task, which was not admitted before, was not taken. */
HS_MUST_USE bool hs__tasks_submit(hs_tasks *tasks, hs_task *task);
/* Ends a task early: at once while it waits, within one layer when it runs alone, with its batch otherwise;
 * `done` follows. The first end given stays. Nothing happens to a task that is outside. */
void hs__tasks_cancel(hs_task *task, hs_task_end end);
