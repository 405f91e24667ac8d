/* disk.h - calls that may wait for a disk or a database, on threads beside the workers'.
 *
 * libuv's pool has a thread for each worker, HS_DISK_THREADS more for these, and some for what else there is.
 * The calls wait here for one of theirs, first come, first served, so a slow disk never takes a worker's. The
 * caller bounds how many there are: one an exchange. */
#pragma once

#include <stddef.h>
#include <uv.h>

enum { HS_DISK_THREADS = 4 };

typedef struct hs_disk hs_disk;
typedef struct hs_disk_call hs_disk_call;

/* Part of what it works on: nothing is allocated. */
struct hs_disk_call {
    void (*work)(hs_disk_call *call); /* on a thread; nobody else touches what it works on meanwhile */
    void (*done)(hs_disk_call *call); /* then on the loop, once; may free the call */
    void *data;                       /* the caller's */
    uv_work_t request;
    hs_disk *disk;
    hs_disk_call *next;
};

struct hs_disk {
    uv_loop_t *loop;
    size_t n_running;
    hs_disk_call *first, *last; /* waiting */
};

/* Loop thread. work, done and data are set. */
void hs__disk_submit(hs_disk *disk, hs_disk_call *call);
