/* tasks.h - runs requests on the model workers' threads.
 *
 * One thread owns a task at a time. The arrows are the only hand-overs, so there is no lock:
 *
 *     loop: hs__tasks_submit -> worker: on_worker -> loop: done, or back in the queue
 *
 * uv_queue_work has no bound, so a task goes to a thread only if a worker is idle. Otherwise it waits in a
 * queue (work_queue.h). All functions of this header run on the loop thread.
 *
 * A worker takes a batch. If a worker is idle, a task starts at once and alone. If several tasks wait when a
 * worker becomes idle, it takes the first one and the next ones as long as all have short bodies. It takes at
 * most the queue divided by the workers. The worker then reads the requests, and computes those whose texts
 * share a pass; the others return to their places in the queue. Each task can be cancelled: a pass stops when
 * all tasks of its batch are cancelled. `done` is called for the computed ones when the batch is complete. */
#pragma once

#include "api/api.h"
#include "model/base/status.h"
#include "server/http/work_queue.h"

#include <uv.h>

enum { HS_DISK_THREADS = 4, HS_DISK_WAITING_MAX = 1024 };

typedef struct hs_disk hs_disk;

typedef struct hs_disk_call hs_disk_call;

/* Embedded in the object that the call works on, so nothing is allocated. */
struct hs_disk_call {
    hs_work work;                    /* its client and `admitted` are the caller's */
    void (*run)(hs_disk_call *call); /* on a thread, which has the object for itself */
    /* Then on the loop; may free the call. Unless work.end is HS_WORK_DONE, it may not have run. */
    void (*done)(hs_disk_call *call);
    void *data; /* the caller's */
    bool ran;
    uv_work_t request;
    hs_disk *disk; /* NULL while it is outside; hs__work_cancel on its queue ends it early */
};

struct hs_disk {
    uv_loop_t *loop;
    size_t n_running;
    hs_work_queue queue;
};

void hs__disk_init(hs_disk *disk, uv_loop_t *loop);
/* Queues a call whose run, done and data are set. Returns false if the queue is full (work_queue.h). Loop
 * thread, as below. */
HS_MUST_USE bool hs__disk_submit(hs_disk *disk, hs_disk_call *call);

/* Does the same with a call that continues admitted work, which is never refused. */
void hs__disk_continue(hs_disk *disk, hs_disk_call *call);

typedef struct hs_task hs_task;

typedef struct hs_batch hs_batch;

typedef struct hs_tasks hs_tasks;

/* Decision of a worker about a task of its batch. */
typedef enum hs_task_fate {
    HS_TASK_DONE,
    HS_TASK_KEPT,    /* long: the same worker computes it next, alone */
    HS_TASK_RETURNED /* to the queue */
} hs_task_fate;

struct hs_task {
    hs_work work;         /* its client and `admitted` are the submitter's */
    hs_request request;   /* set by the submitter; the worker's until done */
    hs_response response; /* the worker's until done, then the submitter's to finish */
    bool lines, patient;  /* for a body of lines, as in hs_lines_answer */
    size_t n_bytes;       /* answered bytes of such a body; the worker's until done */
    /* Called on the loop, once for each submitted task, never inside its own submit. Unless work.end is
     * HS_WORK_DONE, there may be no response. */
    void (*done)(hs_task *task);
    void *data;                               /* the submitter's */
    uint64_t queued_ns, started_ns;           /* hs_clock_ns; started_ns is 0 if no worker had it */
    hs_tasks *tasks;                          /* the rest is private to tasks.c */
    hs_batch *batch;                          /* while it runs */
    hs_task_fate fate;                        /* the worker's while it runs */
    bool alone;                               /* it was found long, so no batch tries it beside others */
    bool (*hold)(void *data, size_t n_bytes); /* the request's */
    void *hold_data;
    size_t n_held; /* bytes that hold granted */
};

/* A worker and its current batch. */
struct hs_batch {
    hs_tasks *tasks;
    hs_task *members[HS_BATCH_MAX];
    size_t n_members, n_unended; /* unended: not cancelled */
    size_t n_shared;             /* members that shared a pass; the worker's while it runs */
    hs_job *job;                 /* of the member that is computed next, or NULL */
    size_t n_threads;
    atomic_int cancelled; /* set when all members are cancelled */
    uv_work_t work;
};

typedef struct hs_tasks_options {
    size_t n_workers, n_cores;
    size_t queue_max;          /* tasks waiting */
    size_t client_running_max; /* see hs_work_queue */
    size_t batch_max;          /* tasks of a batch, 1 .. HS_BATCH_MAX */
} hs_tasks_options;

struct hs_tasks {
    uv_loop_t *loop;
    hs_api *api;
    hs_tasks_options options;
    hs_batch *batches; /* [n_workers] */
    hs_batch **idle;   /* a stack */
    size_t n_idle;
    hs_work_queue queue;
    size_t n_running;  /* running batches */
    uint64_t n_shared; /* tasks so far that shared a pass */
};

/* Any thread, before the first submit. On failure tasks is finished. */
HS_MUST_USE hs_status hs__tasks_init(hs_tasks *tasks, uv_loop_t *loop, hs_api *api,
                                     const hs_tasks_options *options, hs_error *err);

void hs__tasks_finish(hs_tasks *tasks); /* no task may be inside; zeroed is allowed */
/* Queues a task. Returns false if the queue is full (work_queue.h). */
HS_MUST_USE bool hs__tasks_submit(hs_tasks *tasks, hs_task *task);

/* Ends a task early; `done` follows. A waiting task ends at once, a task alone in its batch within one layer,
 * others with their batch. Only the first call has an effect. Ignores tasks that are outside. */
void hs__tasks_cancel(hs_task *task, hs_work_end end);
