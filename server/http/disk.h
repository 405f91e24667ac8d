/* disk.h - runs calls that may block on a disk or a database on threads of their own.
 *
 * libuv's pool has a thread for each worker, HS_DISK_THREADS for these calls, and some more. Calls wait here
 * for one of their threads (work_queue.h), so a slow disk never takes a worker's. One client's calls have at
 * most all threads but one. */
#pragma once

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
    hs_disk *disk;
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
/* Ends a call early; `done` follows. A waiting call ends at once, a running one when it looks at
 * work.cancelled. Ignores calls that are outside. */
void hs__disk_cancel(hs_disk_call *call, hs_work_end end);
