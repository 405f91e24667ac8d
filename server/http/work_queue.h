/* work_queue.h - the queue in front of a set of threads: bounded, fair to clients, and cancellable.
 *
 * An item of work is outside, waiting or running. It starts at once if a thread is idle. Otherwise it waits.
 * Each client's items take turns with those of the others, however many it has (start-time fair queueing,
 * Goyal et al. 1996).
 *
 * A full queue still takes an item of a client with fewer waiting than another. It drops the newest item of
 * the client with most (longest queue drop, Suter et al. 1998). So one client may use the whole queue, and
 * can never keep another one out.
 *
 * The queue knows no threads: its user takes the next item whenever one is idle. Loop thread only, except
 * `cancelled`. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The work of one client in one queue. Zeroed before its first item; outlives its items. */
typedef struct hs_work_client {
    size_t n_waiting, n_running;
    uint64_t turn; /* of its newest item */
} hs_work_client;

typedef enum hs_work_state { HS_WORK_OUTSIDE, HS_WORK_WAITING, HS_WORK_RUNNING } hs_work_state;
typedef enum hs_work_end {
    HS_WORK_DONE,
    HS_WORK_TIMED_OUT,
    HS_WORK_ABANDONED, /* the client left */
    HS_WORK_CROWDED    /* dropped for a client with fewer items */
} hs_work_end;

/* Embedded in the object that is worked on, so nothing is allocated. */
typedef struct hs_work hs_work;
struct hs_work {
    hs_work_client *client; /* set by the submitter; NULL: the program itself */
    bool admitted;   /* set by the submitter: continues admitted work, so it is never refused or dropped */
    hs_work_end end; /* unless HS_WORK_DONE, it was ended early */
    atomic_int cancelled; /* read by the thread that runs it */
    hs_work_state state;  /* the rest is private to work_queue.c */
    bool borrowed;        /* running, and still counted as waiting */
    hs_work *previous, *next;
    uint64_t turn;
};

/* Zeroed, but for the two limits and `dropped`. */
typedef struct hs_work_queue {
    size_t waiting_max;
    size_t client_running_max;      /* items of one client that run at a time; 0: no limit */
    void (*dropped)(hs_work *work); /* a waiting item was ended; it is outside again */
    hs_work *first, *last;          /* waiting, in the order of their turns */
    size_t n_waiting;
    uint64_t turn;      /* of the item that was taken last */
    uint64_t n_dropped; /* items so far that were dropped from a full queue */
} hs_work_queue;

/* Adds an item. idle: a thread is idle, so the item may be taken at once. Returns false if the queue is full.
 */
bool hs__work_queue_add(hs_work_queue *queue, hs_work *work, bool idle);
/* Returns the item that is next, or NULL if none may run. It stays in the queue. */
hs_work *hs__work_queue_next(const hs_work_queue *queue);
/* Takes a waiting item, which runs from now on. */
void hs__work_queue_take(hs_work_queue *queue, hs_work *work);
/* Takes a waiting item that may come back. The turns of others do not follow from its turn yet. */
void hs__work_queue_borrow(hs_work_queue *queue, hs_work *work);
/* A borrowed item waits again, before others of its turn. If it was ended meanwhile, it is dropped. */
void hs__work_queue_return(hs_work_queue *queue, hs_work *work);
/* A running item has ended; it is outside again. */
void hs__work_finish(hs_work_queue *queue, hs_work *work);

/* Ends an item early: a waiting one is dropped, a running one gets its `cancelled` flag. Returns true if it
 * is running. Only the first call has an effect. Ignores items that are outside. */
bool hs__work_cancel(hs_work_queue *queue, hs_work *work, hs_work_end end);
