/* run_answers.c - the JSON of runs, and the operations that clients may do on them. */
#include "server/runs/runs_internal.h"

#include "server/base/atomic_files.h"
#include "server/base/log.h"

#include <stdio.h>
#include <string.h>

#define COLUMNS                                                                                              \
    "number, id, name, CASE state WHEN 'cancelling' THEN 'running' ELSE state END, model, texts_total, "     \
    "texts_done, bad_lines_total, error, created, precision, empty_texts"
#define SEEN " state NOT IN ('uploading', 'deleting') "

static json_t *text_json(sqlite3_stmt *s, int column)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    json_t *string = text ? json_string(text) : json_null();
    return string ? string : json_string("(not UTF-8)");
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
    return json_pack("{ss so so so so so so sI so so sI sI so}", "id", id, "name", text_json(s, 2), "created",
                     text_json(s, 9), "state", text_json(s, 3), "model", text_json(s, 4), "precision",
                     text_json(s, 10), "texts_total", total_known ? json_integer(total) : json_null(),
                     "texts_done", done, "texts_per_second", current ? json_real(rate) : json_null(),
                     "eta_seconds", left, "bad_lines_total", n_bad, "empty_texts", n_empty, "error",
                     text_json(s, 8));
}

json_t *hs__run_get(hs_runs *c, const char *id)
{
    pthread_mutex_lock(&c->lock);
    sqlite3_stmt *s =
        hs__run_table_prepare(c, "SELECT " COLUMNS ", bad_lines FROM runs WHERE id = ?1 AND" SEEN, id, NULL);
    json_t *run = s && sqlite3_step(s) == SQLITE_ROW ? row_json(c, s) : NULL;
    if (run) {
        const bool current = strcmp(id, c->current) == 0;
        json_t *bad = json_loads(current && c->bad_lines ? c->bad_lines : hs__run_table_text(s, 12), 0, NULL);
        json_object_set_new(run, "bad_lines", bad ? bad : json_array());
    }
    sqlite3_finalize(s);
    pthread_mutex_unlock(&c->lock);
    return run;
}

json_t *hs__runs_list(hs_runs *c, uint64_t before, size_t limit)
{
    json_t *runs = json_array(), *next = NULL;
    sqlite3_int64 number = 0;
    pthread_mutex_lock(&c->lock);
    sqlite3_stmt *s = hs__run_table_prepare(
        c, "SELECT " COLUMNS " FROM runs WHERE number < ?1 AND" SEEN "ORDER BY number DESC LIMIT ?2", NULL,
        NULL);
    if (s) {
        sqlite3_bind_int64(s, 1, before ? (sqlite3_int64)before : INT64_MAX);
        sqlite3_bind_int64(s, 2, (sqlite3_int64)limit + 1);
    }
    while (s && !next && sqlite3_step(s) == SQLITE_ROW)
        if (json_array_size(runs) < limit) {
            number = sqlite3_column_int64(s, 0);
            json_array_append_new(runs, row_json(c, s));
        } else {
            next = json_sprintf("/corpora?before=%lld&limit=%zu", (long long)number, limit);
        }
    sqlite3_finalize(s);
    pthread_mutex_unlock(&c->lock);
    return json_pack("{so so}", "corpora", runs, "next", next ? next : json_null());
}

hs_status hs__run_cancel(hs_runs *c, const char *id, hs_error *err)
{
    char state[16];
    hs_status st = HS_OK;
    pthread_mutex_lock(&c->lock);
    hs__run_state_get(c, id, state);
    if (!*state) {
        st = hs_fail(err, HS_NOT_FOUND, "There is no run '%.32s'.", id);
    } else if (strcmp(id, c->current) == 0) {
        c->cancel = true;
        atomic_store(&c->stop, 1);
        pthread_cond_broadcast(&c->changed);
        (void)hs__run_state_set(c, id, "cancelling"); /* so that a restart does not resume it */
    } else if ((strcmp(state, "queued") == 0 ||
                strcmp(state, "running") == 0 ||     /* interrupted by a restart */
                strcmp(state, "cancelling") == 0) && /* its end could not be saved */
               !hs__run_state_set(c, id, "cancelled")) {
        st = hs__run_table_fail(c, err);
    }
    hs__run_table_count_bytes(c); /* a run that did not begin needs no more space */
    pthread_mutex_unlock(&c->lock);
    return st;
}

/* Removes the files first, because on a full disk the database needs that space. The next start finishes the
 * deletion if the server is killed in between, or if the files cannot be removed now. */
hs_status hs__run_delete(hs_runs *c, const char *id, hs_error *err)
{
    char state[16];
    hs_status st = HS_OK;
    pthread_mutex_lock(&c->lock);
    hs__run_state_get(c, id, state);
    if (!*state)
        st = hs_fail(err, HS_NOT_FOUND, "There is no run '%.32s'.", id);
    else if (strcmp(id, c->current) == 0)
        st = hs_fail(err, HS_BUSY, "The run is still running. POST /corpora/%s/cancel first.", id);
    else
        (void)hs__run_state_set(c, id, "deleting");
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
    pthread_mutex_lock(&c->lock);
    hs__run_state_get(c, id, state);
    pthread_mutex_unlock(&c->lock);
    if (!*state)
        return hs_fail(err, HS_NOT_FOUND, "There is no run '%.32s'. GET /corpora lists all runs.", id);
    if (strcmp(state, "done") != 0)
        return hs_fail(err, HS_NOT_FOUND, "The run is %s, so its texts cannot be searched.", state);
    hs__run_path(c, id, "", path);
    return reader(path, query, ret_answer, ret_wrong, err);
}

int hs__run_report_open(hs_runs *c, const char *id, const char *name, uint64_t *ret_bytes)
{
    char state[16], path[HS__RUN_PATH_MAX];
    hs_error err = {0};
    int fd;
    pthread_mutex_lock(&c->lock);
    hs__run_state_get(c, id, state);
    pthread_mutex_unlock(&c->lock);
    if (strcmp(state, "done") != 0 && strcmp(state, "cancelled") != 0)
        return -1;
    hs__run_path(c, id, name, path);
    *ret_bytes = 0;
    if (hs__file_open(path, &fd, ret_bytes, &err) == HS_IO)
        hs__log("error", "%s", err.text);
    return fd;
}
