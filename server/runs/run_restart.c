/* run_restart.c - begins a failed or cancelled run anew from its upload.
 *
 * The row is 'cancelling' while the old results are removed. If the server ends meanwhile, the run is
 * cancelled, and can be restarted again. */
#include "server/base/atomic_files.h"
#include "server/runs/runs_internal.h"

#include <string.h>
#include <sys/stat.h>

/* Finds what the run needs of the disk with the model that is served now. */
static hs_status needs_find(hs_runs *c, const hs__run_row *row, uint64_t *ret_disk, hs_error *err)
{
    hs__run_plan plan = {0};
    size_t wrong;
    const hs_status st = hs__run_plan_make(c, row, &plan, &wrong, err);
    *ret_disk = plan.needs.disk;
    hs__run_plan_finish(&plan);
    return st;
}

/* Sets a state and keeps the row's error. The lock is held. */
static bool state_change(hs_runs *c, const char *id, const char *state)
{
    return hs__run_table_done(
        hs__run_table_prepare(c, "UPDATE runs SET state = ?2 WHERE id = ?1", id, state));
}

/* Claims the row, so that nothing else is done to the run. The lock is held. */
static hs_status row_claim(hs_runs *c, const char *id, const char *state, hs__run_row *ret_row, hs_error *err)
{
    if (!*state || !hs__run_table_find(c, id, ret_row))
        return hs_fail(err, HS_NOT_FOUND, "There is no run '%.32s'. GET /corpora lists all runs.", id);
    if (strcmp(state, "failed") != 0 && strcmp(state, "cancelled") != 0)
        return hs_fail(err, HS_BUSY, "The run is %s. Only a failed or cancelled run can be restarted.",
                       strcmp(state, "cancelling") == 0 ? "running" : state);
    return state_change(c, id, "cancelling") ? HS_OK : hs__run_table_fail(c, err);
}

/* Queues the claimed row as a new run of n_bytes of input. The lock is held. */
static hs_status row_queue(hs_runs *c, const char *id, uint64_t n_bytes, uint64_t needed, hs_error *err)
{
    const hs_status st = hs__run_space_check(c, needed, err);
    sqlite3_stmt *s = st ? NULL
                         : hs__run_table_prepare(
                               c,
                               "UPDATE runs SET state = 'queued', error = NULL, starts = 0, texts_done = 0,"
                               " bad_lines = '[]', bad_lines_total = 0, empty_texts = 0, precision = NULL,"
                               " bytes = ?2, reserved = ?3 WHERE id = ?1 AND state = 'cancelling'",
                               id, NULL);
    if (st)
        return st;
    if (s) {
        sqlite3_bind_int64(s, 2, (sqlite3_int64)n_bytes);
        sqlite3_bind_int64(s, 3, (sqlite3_int64)needed);
    }
    return hs__run_table_done(s) ? HS_OK : hs__run_table_fail(c, err);
}

/* Removes the old results of a claimed run and queues it. */
static hs_status run_queue(hs_runs *c, const char *id, uint64_t n_bytes, uint64_t needed, hs_error *err)
{
    hs_status st = hs__run_results_remove(c, id)
                       ? HS_OK
                       : hs_fail(err, HS_IO, "the results of run %s cannot be removed", id);
    char dir[HS__RUN_PATH_MAX];
    hs__run_path(c, id, "", dir);
    pthread_mutex_lock(&c->lock);
    sqlite3_stmt *s =
        hs__run_table_prepare(c, "UPDATE runs SET bytes = ?2, reserved = 0 WHERE id = ?1", id, NULL);
    if (s)
        sqlite3_bind_int64(s, 2, (sqlite3_int64)hs__folder_bytes(dir));
    (void)hs__run_table_done(s);
    hs__run_table_count_bytes(c);
    if (!st)
        st = row_queue(c, id, n_bytes, needed, err);
    hs__run_table_count_bytes(c);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return st;
}

hs_status hs__run_restart(hs_runs *c, const char *id, hs_error *err)
{
    char path[HS__RUN_PATH_MAX], state[16];
    struct stat input;
    hs__run_row row = {0};
    uint64_t needed = 0;
    pthread_mutex_lock(&c->lock);
    hs__run_state_get(c, id, state);
    hs_status st = row_claim(c, id, state, &row, err);
    pthread_mutex_unlock(&c->lock);
    if (st)
        return st;
    hs__run_path(c, row.id, "input", path);
    if (lstat(path, &input) || !S_ISREG(input.st_mode))
        st = hs_fail(err, HS_NOT_FOUND, "The upload of run %s is not there. Send the texts again.", row.id);
    if (!st)
        st = needs_find(c, &row, &needed, err);
    if (!st)
        st = run_queue(c, row.id, (uint64_t)input.st_size, needed, err);
    if (!st)
        return HS_OK;
    pthread_mutex_lock(&c->lock);
    (void)state_change(c, row.id, state);
    pthread_mutex_unlock(&c->lock);
    return st;
}
