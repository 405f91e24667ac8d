/* disk.h - runs calls that may block on a disk or a database on threads of their own.
 *
 * libuv's pool has a thread for each worker, HS_DISK_THREADS for these calls, and some more. Calls wait here
 * for one of their threads, so a slow disk never takes a worker's. Each exchange has at most one call, which
 * bounds the queue. */
#pragma once

#include <stddef.h>
#include <uv.h>

enum { HS_DISK_THREADS = 4 };

typedef struct hs_disk hs_disk;
typedef struct hs_disk_call hs_disk_call;

/* Embedded in the object that the call works on, so nothing is allocated. */
struct hs_disk_call {
    void (*work)(hs_disk_call *call); /* on a thread, which has the object for itself */
    void (*done)(hs_disk_call *call); /* then on the loop; may free the call */
    void *data;                       /* the caller's */
    uv_work_t request;
    hs_disk *disk;
    hs_disk_call *next;
};

struct hs_disk {
    uv_loop_t *loop;
    size_t n_running;
    hs_disk_call *first, *last; /* waiting calls */
};

/* Queues a call whose work, done and data are set. Loop thread. */
void hs__disk_submit(hs_disk *disk, hs_disk_call *call);
