/* runs.c - opens, starts, stops and closes the folder of corpus runs.
 *
 * One lock guards rows and progress. Functions hold it for a statement or two, never during a run or an
 * upload. */
#include "server/runs/runs_internal.h"

#include "model/base/clock.h"
#include "server/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Time for which hs__runs_close waits for a run to save. */
#define CLOSE_MS 3000

hs_status hs__runs_open(const char *dir, size_t n_workers, uint64_t bytes_max, hs_runs **ret_runs,
                        hs_error *err)
{
    hs_runs *c = calloc(1, sizeof *c);
    if (!c)
        return hs_fail(err, HS_NO_MEMORY, "no memory for corpus runs");
    c->lock_fd = -1;
    c->n_workers = n_workers;
    c->bytes_max = bytes_max;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    hs_error why = {0};
    hs_status st = strlen(dir) < sizeof c->dir
                       ? HS_OK
                       : hs_fail(&why, HS_INVALID, "the state folder's name is too long");
    snprintf(c->dir, sizeof c->dir, "%s", dir);
    if (!st)
        st = hs__run_folders_open(c, &why);
    if (st && st != HS_NO_SPACE) {
        (void)hs__runs_close(c); /* nothing runs yet */
        return hs_fail(err, st, "cannot use the state folder '%.200s': %s", dir, why.text);
    }
    if (st)
        hs__log("error", "corpus runs are refused until the disk has space: %s", why.text);
    *ret_runs = c;
    return HS_OK;
}

hs_status hs__runs_start(hs_runs *c, hs_api *api, const hs_catalog_options *options, hs_error *err)
{
    c->api = api;
    c->options = options;
    if (pthread_create(&c->thread, NULL, hs__run_queue_main, c))
        return hs_fail(err, HS_NO_MEMORY, "no thread for corpus runs");
    c->started = true;
    return HS_OK;
}

hs_status hs__runs_check(hs_runs *c, hs_error *err)
{
    if (!c->started)
        return hs_fail(err, HS_IO, "The models are still loading. Try again in a few seconds.");
    pthread_mutex_lock(&c->lock);
    const hs_status st =
        c->db ? HS_OK
              : hs_fail(err, HS_IO,
                        "The disk for corpus runs is full; the server tries again every few seconds.");
    pthread_mutex_unlock(&c->lock);
    return st;
}

void hs__runs_count(const hs_runs *c, hs_runs_counts *ret)
{
    *ret = (hs_runs_counts){
        .running = atomic_load(&c->counts.running),
        .done = atomic_load(&c->counts.done),
        .failed = atomic_load(&c->counts.failed),
        .cancelled = atomic_load(&c->counts.cancelled),
        .texts = atomic_load(&c->counts.texts),
        .bad_lines = atomic_load(&c->counts.bad_lines),
        .bytes = atomic_load(&c->counts.bytes),
        .bytes_max = c->bytes_max,
    };
}

void hs__runs_stop(hs_runs *c)
{
    if (!c)
        return;
    atomic_store(&c->stopping, true);
    atomic_store(&c->stop, 1);
}

/* Handles a thread that did not end in time. This is not a crash, so it does not count as a start. */
static void give_up(hs_runs *c)
{
    pthread_mutex_lock(&c->lock);
    (void)hs__run_table_done(
        hs__run_table_prepare(c, "UPDATE runs SET starts = 0 WHERE id = ?1", c->current, NULL));
    hs__log("warning", "corpus run %s did not stop in time; it resumes from its last save at the next start",
            c->current);
    pthread_mutex_unlock(&c->lock);
}

/* Waits CLOSE_MS at most for the thread's last turn. Uses the monotonic clock: a change of the date neither
 * shortens nor lengthens it. The lock is held, and given up while it waits. */
static bool wait_end(hs_runs *c)
{
    const struct timespec end = hs_clock_after_ms(CLOSE_MS);
    int st = 0;
    while (c->started && !c->ended && !st)
        st = pthread_cond_clockwait(&c->changed, &c->lock, CLOCK_MONOTONIC, &end);
    return !c->started || c->ended;
}

bool hs__runs_close(hs_runs *c)
{
    if (!c)
        return true;
    pthread_mutex_lock(&c->lock); /* from now on a run sees `stopping` before it begins */
    hs__runs_stop(c);
    pthread_cond_broadcast(&c->changed);
    const bool ended = wait_end(c);
    pthread_mutex_unlock(&c->lock);
    if (!ended) {
        give_up(c);
        return false;
    }
    if (c->started)
        pthread_join(c->thread, NULL);
    sqlite3_close(c->db);
    if (c->lock_fd >= 0)
        close(c->lock_fd);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c);
    return true;
}
