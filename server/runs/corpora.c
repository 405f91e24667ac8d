/* corpora.c - the folder of corpus runs from the program's start to its end. One lock for rows and progress:
 * every function holds it for a statement or two, never while a run or an upload is at work. */
#include "server/runs/corpora_internal.h"

#include "model/clock.h"
#include "server/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What hs__corpora_close waits for a run to save. */
#define CLOSE_S 3

hs_status hs__corpora_open(const char *dir, size_t n_workers, uint64_t bytes_max, hs_corpora **ret_corpora,
                           hs_error *err)
{
    hs_corpora *c = calloc(1, sizeof *c);
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
    if (st && st != HS_TOO_LARGE) {
        (void)hs__corpora_close(c); /* nothing runs yet */
        return hs_fail(err, st, "%s", why.text);
    }
    if (st)
        hs__log("error", "corpus runs are refused until the disk has room: %s", why.text);
    *ret_corpora = c;
    return HS_OK;
}

hs_status hs__corpora_start(hs_corpora *c, const hs_catalog *catalog, const hs_catalog_options *options,
                            hs_error *err)
{
    c->catalog = catalog;
    c->options = options;
    if (pthread_create(&c->thread, NULL, hs__corpora_main, c))
        return hs_fail(err, HS_NO_MEMORY, "no thread for corpus runs");
    c->started = true;
    return HS_OK;
}

bool hs__corpora_started(const hs_corpora *c)
{
    return c && c->started;
}

hs_status hs__corpora_check(hs_corpora *c, hs_error *err)
{
    if (!hs__corpora_started(c))
        return hs_fail(err, HS_IO, "The models are being loaded.");
    pthread_mutex_lock(&c->lock);
    const hs_status st =
        c->db ? HS_OK : hs_fail(err, HS_IO, "The disk for corpus runs is full; the server tries again.");
    pthread_mutex_unlock(&c->lock);
    return st;
}

void hs__corpora_count(const hs_corpora *c, hs_corpora_counts *ret)
{
    *ret = (hs_corpora_counts){
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

void hs__corpora_stop(hs_corpora *c)
{
    if (!c)
        return;
    atomic_store(&c->stopping, true);
    atomic_store(&c->stop, 1);
}

/* The thread has not ended in time. That is nobody's crash: the run may go on as often as it likes. */
static void give_up(hs_corpora *c)
{
    pthread_mutex_lock(&c->lock);
    (void)hs__row_done(hs__row_statement(c, "UPDATE runs SET starts = 0 WHERE id = ?1", c->current, NULL));
    hs__log("warning", "corpus run %s did not stop in time; it goes on from its last save", c->current);
    pthread_mutex_unlock(&c->lock);
}

bool hs__corpora_close(hs_corpora *c)
{
    if (!c)
        return true;
    pthread_mutex_lock(&c->lock); /* now no run can begin without seeing it */
    hs__corpora_stop(c);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    struct timespec
        end; /* of the wall clock's, for the join by the other one is unknown to ThreadSanitizer */
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += CLOSE_S;
    if (c->started && pthread_timedjoin_np(c->thread, NULL, &end)) {
        give_up(c);
        return false;
    }
    sqlite3_close(c->db);
    if (c->lock_fd >= 0)
        close(c->lock_fd);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c);
    return true;
}
