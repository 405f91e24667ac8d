/* run_answers.c - what clients do with runs: list, cancel, restart, delete and read them. */
#include "model/files/json.h"
#include "server/base/atomic_files.h"
#include "server/base/log.h"
#include "server/runs/runs_internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- the JSON of runs ---- */

#define COLUMNS                                                                                              \
    "number, id, name, CASE state WHEN 'cancelling' THEN 'running' ELSE state END, model, texts_total, "     \
    "texts_done, bad_lines_total, error, created, precision, empty_texts, "                                  \
    "ifnull(CASE WHEN json_valid(settings) THEN json_extract(settings, '$.stack') END, 'encoder')"
#define SEEN " state NOT IN ('uploading', 'deleting') "

static json_t *text_json(sqlite3_stmt *s, int column)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    json_t *string = text ? json_string(text) : json_null();
    return string ? string : json_string("(not UTF-8)");
}

/* Returns why a run failed or waits; null if it does neither. */
static json_t *error_json(const hs_runs *c, sqlite3_stmt *s, const char *id)
{
    const bool waits = strcmp(id, c->waiting) == 0 && strcmp(id, c->current) != 0;
    if (!waits || sqlite3_column_type(s, 8) != SQLITE_NULL)
        return text_json(s, 8);
    json_t *why = json_string(c->waiting_why);
    return why ? why : json_null();
}

/* Returns a run without its bad lines. */
static json_t *row_json(hs_runs *c, sqlite3_stmt *s)
{
    const char *id = hs__run_table_text(s, 1);
    const bool current = strcmp(id, c->current) == 0, total_known = sqlite3_column_type(s, 5) != SQLITE_NULL;
    const json_int_t total = sqlite3_column_int64(s, 5),
                     done = current ? (json_int_t)c->progress.texts : sqlite3_column_int64(s, 6),
                     n_bad = current ? (json_int_t)c->progress.bad_lines : sqlite3_column_int64(s, 7),
                     n_empty = current ? (json_int_t)c->progress.empty_texts : sqlite3_column_int64(s, 11);
    const json_int_t passed = done + n_bad + n_empty - (json_int_t)c->progress.blank_lines;
    const double rate = current ? c->progress.texts_per_second : 0;
    json_t *left =
        rate > 0 && total_known && total >= passed ? json_real((double)(total - passed) / rate) : json_null();
    return json_pack("{ss so so so so so so so sI so so sI sI so}", "id", id, "name", text_json(s, 2),
                     "created", text_json(s, 9), "state", text_json(s, 3), "model", text_json(s, 4), "stack",
                     text_json(s, 12), "precision", text_json(s, 10), "texts_total",
                     total_known ? json_integer(total) : json_null(), "texts_done", done, "texts_per_second",
                     current ? json_real(rate) : json_null(), "eta_seconds", left, "bad_lines_total", n_bad,
                     "empty_texts", n_empty, "error", error_json(c, s, id));
}

/* Returns the lines of a run's row that could not be read. */
static json_t *bad_lines_json(const hs_runs *c, const char *id, sqlite3_stmt *s, int column)
{
    const bool current = strcmp(id, c->current) == 0;
    const char *text = current && c->bad_lines ? c->bad_lines : hs__run_table_text(s, column);
    json_t *bad;
    return hs_json_load(text, strlen(text), 0, &bad, NULL) ? json_array() : bad;
}

hs_status hs__run_get(hs_runs *c, const char *id, json_t **ret_run, hs_error *err)
{
    const size_t refusals = hs_json_refusals();
    pthread_mutex_lock(&c->lock);
    sqlite3_stmt *s =
        hs__run_table_prepare(c, "SELECT " COLUMNS ", bad_lines FROM runs WHERE id = ?1 AND" SEEN, id, NULL);
    hs_status st = hs__run_table_step(c, s, id, err);
    json_t *run = st ? NULL : row_json(c, s);
    if (run)
        json_object_set_new(run, "bad_lines", bad_lines_json(c, id, s, 13));
    st = hs__run_table_end(c, s, st, err);
    pthread_mutex_unlock(&c->lock);
    *ret_run = hs_json_whole(run, refusals);
    if (st || !*ret_run) {
        json_decref(*ret_run);
        *ret_run = NULL;
    }
    return st || *ret_run ? st : hs_fail(err, HS_NO_MEMORY, "Out of memory.");
}

hs_status hs__runs_list(hs_runs *c, uint64_t before, size_t limit, json_t **ret_page, hs_error *err)
{
    const size_t refusals = hs_json_refusals();
    json_t *runs = json_array(), *next = NULL;
    sqlite3_int64 number = 0;
    hs_error why = {0};
    pthread_mutex_lock(&c->lock);
    sqlite3_stmt *s = hs__run_table_prepare(
        c, "SELECT " COLUMNS " FROM runs WHERE number < ?1 AND" SEEN "ORDER BY number DESC LIMIT ?2", NULL,
        NULL);
    if (s) {
        sqlite3_bind_int64(s, 1, before ? (sqlite3_int64)before : INT64_MAX);
        sqlite3_bind_int64(s, 2, (sqlite3_int64)limit + 1);
    }
    hs_status st = HS_OK;
    while (!next && (st = hs__run_table_step(c, s, "", &why)) == HS_OK)
        if (json_array_size(runs) < limit) {
            number = sqlite3_column_int64(s, 0);
            json_array_append_new(runs, row_json(c, s));
        } else {
            next = json_sprintf("/corpora?before=%lld&limit=%zu", (long long)number, limit);
        }
    if (st == HS_NOT_FOUND) { /* after the last row */
        st = HS_OK;
        why = (hs_error){0};
    }
    st = hs__run_table_end(c, s, st, &why);
    pthread_mutex_unlock(&c->lock);
    json_t *page = json_pack("{so so}", "corpora", runs, "next", next ? next : json_null());
    *ret_page = NULL;
    if (st) {
        json_decref(page);
        return hs_fail(err, st, "%s", why.text);
    }
    *ret_page = hs_json_whole(page, refusals);
    return *ret_page ? HS_OK : hs_fail(err, HS_NO_MEMORY, "Out of memory.");
}

/* ---- changes, searches and reports ---- */

/* Writes the state of a run that clients may see. Runs being uploaded or deleted are hidden. Returns
 * HS_NOT_FOUND if there is none. The lock is held. */
static hs_status state_get(hs_runs *c, const char *id, char ret_state[16], hs_error *err)
{
    sqlite3_stmt *s =
        hs__run_table_prepare(c,
                              "SELECT state FROM runs WHERE id = ?1 AND state NOT IN ('uploading', "
                              "'deleting') AND " HS__RUN_ID_IS_VALID,
                              id, NULL);
    const hs_status st = hs__run_table_step(c, s, id, err);
    if (!st)
        snprintf(ret_state, 16, "%s", hs__run_table_text(s, 0));
    return hs__run_table_end(c, s, st, err);
}

/* Sets a state without an error. Returns false if that fails. The lock is held. */
static bool state_set(hs_runs *c, const char *id, const char *state)
{
    return hs__run_table_done(
        hs__run_table_prepare(c, "UPDATE runs SET state = ?1, error = NULL WHERE id = ?2", state, id));
}

/* Ends a run that does not run now: it gives back the space that was reserved and waits no longer. Returns
 * false if that fails. The lock is held. */
static bool cancelled_set(hs_runs *c, const char *id)
{
    char dir[HS__RUN_PATH_MAX];
    hs__run_path(c, id, "", dir);
    sqlite3_stmt *s = hs__run_table_prepare(
        c, "UPDATE runs SET state = 'cancelled', error = NULL, bytes = ?2 WHERE id = ?1", id, NULL);
    if (s)
        sqlite3_bind_int64(s, 2, (sqlite3_int64)hs__folder_bytes(dir));
    if (!hs__run_table_done(s))
        return false;
    if (strcmp(id, c->waiting) == 0)
        c->waiting[0] = '\0';
    return true;
}

hs_status hs__run_cancel(hs_runs *c, const char *id, hs_error *err)
{
    char state[16];
    pthread_mutex_lock(&c->lock);
    hs_status st = state_get(c, id, state, err);
    if (!st && strcmp(id, c->current) == 0) {
        c->cancel = true;
        atomic_store(&c->stop, 1);
        pthread_cond_broadcast(&c->changed);
        (void)state_set(c, id, "cancelling"); /* so that a restart does not resume it */
    } else if (!st &&
               (strcmp(state, "queued") == 0 ||
                strcmp(state, "running") == 0 ||     /* interrupted by a restart */
                strcmp(state, "cancelling") == 0) && /* its end could not be saved */
               !cancelled_set(c, id)) {
        st = hs__run_table_fail(c, err);
    }
    hs__run_table_count_bytes(c);
    pthread_mutex_unlock(&c->lock);
    return st;
}

/* Removes the files first, because on a full disk the database needs that space. The next start finishes the
 * deletion if the server is killed in between, or if the files cannot be removed now. */
hs_status hs__run_delete(hs_runs *c, const char *id, hs_error *err)
{
    char state[16];
    pthread_mutex_lock(&c->lock);
    hs_status st = state_get(c, id, state, err);
    if (!st && strcmp(id, c->current) == 0)
        st = hs_fail(err, HS_BUSY, "The run is still running. POST /corpora/%s/cancel first.", id);
    else if (!st)
        (void)state_set(c, id, "deleting");
    pthread_mutex_unlock(&c->lock);
    if (st)
        return st;
    if (!hs__run_files_remove(c, id))
        return hs_fail(err, HS_IO, "the files of run %s cannot be removed", id);
    pthread_mutex_lock(&c->lock);
    if (!hs__run_table_done(hs__run_table_prepare(c, "DELETE FROM runs WHERE id = ?1", id, NULL)))
        st = hs__run_table_fail(c, err);
    hs__run_table_count_bytes(c);
    pthread_mutex_unlock(&c->lock);
    return st;
}

hs_status hs__run_search(hs_runs *c, const char *id, hs__run_reader *reader, const hs__search_query *query,
                         json_t **ret_answer, const char **ret_wrong, hs_error *err)
{
    char state[16], path[HS__RUN_PATH_MAX];
    *ret_answer = NULL;
    *ret_wrong = NULL;
    pthread_mutex_lock(&c->lock);
    const hs_status st = state_get(c, id, state, err);
    pthread_mutex_unlock(&c->lock);
    if (st)
        return st;
    if (strcmp(state, "done") != 0)
        return hs_fail(err, HS_NOT_FOUND, "The run is %s, so its texts cannot be searched.", state);
    hs__run_path(c, id, "", path);
    return reader(path, query, ret_answer, ret_wrong, err);
}

hs_status hs__run_report_open(hs_runs *c, const char *id, const char *name, int *ret_fd, uint64_t *ret_bytes,
                              hs_error *err)
{
    char state[16], path[HS__RUN_PATH_MAX];
    hs_error why = {0};
    pthread_mutex_lock(&c->lock);
    hs_status st = state_get(c, id, state, err);
    pthread_mutex_unlock(&c->lock);
    if (st)
        return st;
    if (strcmp(state, "done") != 0 && strcmp(state, "cancelled") != 0)
        return hs_fail(err, HS_NOT_FOUND, "The run is %s, so it has no report.", state);
    hs__run_path(c, id, name, path);
    *ret_bytes = 0;
    st = hs__file_open(path, ret_fd, ret_bytes, &why);
    hs__run_path_strip(c, id, why.text);
    if (st == HS_IO)
        hs__log("error", "%s", why.text);
    if (st == HS_NO_MEMORY)
        return hs_fail(err, st, "The report cannot be read now: %s.", why.text);
    if (st == HS_NOT_FOUND && strcmp(state, "cancelled") == 0)
        return hs_fail(
            err, st,
            "The run was cancelled before it counted a text, or while it waited, so it has no report. "
            "POST /corpora/%.32s/restart continues it.",
            id);
    return st ? hs_fail(err, HS_IO, "the report of run %.32s cannot be read", id) : HS_OK;
}

/* ---- a restart ----
 *
 * Queues a failed or cancelled run again. Everything is checked first, and one change of the row accepts it.
 * A restart that is refused, or that the server's end interrupts, leaves the run and its report as they were.
 * The thread that executes the run removes what it cannot use. */

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

/* Reads the row of a run that can be restarted. The lock is held. */
static hs_status restart_check(hs_runs *c, const char *id, hs__run_row *ret_row, hs_error *err)
{
    char state[16];
    const hs_status st = state_get(c, id, state, err);
    if (st)
        return st;
    if (strcmp(state, "failed") != 0 && strcmp(state, "cancelled") != 0)
        return hs_fail(err, HS_BUSY, "The run is %s. Only a failed or cancelled run can be restarted.",
                       strcmp(state, "cancelling") == 0 ? "running" : state);
    return hs__run_table_find(c, id, ret_row, err);
}

/* Queues a run of n_bytes of input. Its old results are in its folder and lie in the space that it needs. The
 * lock is held. */
static hs_status row_queue(hs_runs *c, const char *id, uint64_t n_bytes, uint64_t needed, hs_error *err)
{
    char dir[HS__RUN_PATH_MAX];
    hs__run_path(c, id, "", dir);
    const uint64_t there = hs__folder_bytes(dir), results = there > n_bytes ? there - n_bytes : 0;
    const hs_status st = hs__run_space_check(c, needed > results ? needed - results : 0, err);
    if (st)
        return st;
    sqlite3_stmt *s = hs__run_table_prepare(
        c,
        "UPDATE runs SET state = 'queued', error = NULL, starts = 0, pauses = 0, restarted = 1,"
        " bytes = ?2, reserved = ?3 WHERE id = ?1",
        id, NULL);
    if (s) {
        sqlite3_bind_int64(s, 2, (sqlite3_int64)n_bytes);
        sqlite3_bind_int64(s, 3, (sqlite3_int64)needed);
    }
    if (!hs__run_table_done(s))
        return hs__run_table_fail(c, err);
    hs__run_table_count_bytes(c);
    pthread_cond_broadcast(&c->changed);
    return HS_OK;
}

hs_status hs__run_restart(hs_runs *c, const char *id, hs_error *err)
{
    char path[HS__RUN_PATH_MAX];
    struct stat input;
    hs__run_row row = {0};
    uint64_t needed = 0;
    pthread_mutex_lock(&c->lock);
    hs_status st = restart_check(c, id, &row, err);
    pthread_mutex_unlock(&c->lock);
    if (st)
        return st;
    hs__run_path(c, row.id, "input", path);
    if (lstat(path, &input) || !S_ISREG(input.st_mode))
        return hs_fail(err, HS_NOT_FOUND, "The upload of run %s is not there. Send the texts again.", row.id);
    st = needs_find(c, &row, &needed, err);
    if (st)
        return st;
    pthread_mutex_lock(&c->lock);
    st = restart_check(c, id, &row, err); /* another client may have changed it meanwhile */
    if (!st)
        st = row_queue(c, row.id, (uint64_t)input.st_size, needed, err);
    pthread_mutex_unlock(&c->lock);
    return st;
}
