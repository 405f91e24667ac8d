/* corpora_answers.c - runs as clients see them, and what clients may do to them. */
#include "server/runs/corpora_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COLUMNS                                                                                              \
    "number, id, name, CASE state WHEN 'cancelling' THEN 'running' ELSE state END, model, texts_total, "     \
    "texts_done, bad_lines_total, error, created, precision"
#define SEEN " state NOT IN ('uploading', 'deleting') "

static json_t *text_json(sqlite3_stmt *s, int column)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    json_t *string = text ? json_string(text) : json_null();
    return string ? string : json_string("(not UTF-8)");
}

/* All but its bad lines. */
static json_t *row_json(hs_corpora *c, sqlite3_stmt *s)
{
    const char *id = hs__row_text(s, 1);
    const bool current = strcmp(id, c->current) == 0, total_known = sqlite3_column_type(s, 5) != SQLITE_NULL;
    const json_int_t total = sqlite3_column_int64(s, 5),
                     done = current ? (json_int_t)c->progress.texts : sqlite3_column_int64(s, 6),
                     n_bad = current ? (json_int_t)c->progress.bad_lines : sqlite3_column_int64(s, 7);
    const double rate = current ? c->progress.texts_per_second : 0;
    json_t *left = rate > 0 && total_known && total >= done + n_bad
                       ? json_real((double)(total - done - n_bad) / rate)
                       : json_null();
    return json_pack("{ss so so so so so so sI so so sI so}", "id", id, "name", text_json(s, 2), "created",
                     text_json(s, 9), "state", text_json(s, 3), "model", text_json(s, 4), "precision",
                     text_json(s, 10), "texts_total", total_known ? json_integer(total) : json_null(),
                     "texts_done", done, "texts_per_second", current ? json_real(rate) : json_null(),
                     "eta_seconds", left, "bad_lines_total", n_bad, "error", text_json(s, 8));
}

json_t *hs__corpora_get(hs_corpora *c, const char *id)
{
    pthread_mutex_lock(&c->lock);
    sqlite3_stmt *s =
        hs__row_statement(c, "SELECT " COLUMNS ", bad_lines FROM runs WHERE id = ?1 AND" SEEN, id, NULL);
    json_t *run = s && sqlite3_step(s) == SQLITE_ROW ? row_json(c, s) : NULL;
    if (run) {
        const bool current = strcmp(id, c->current) == 0;
        json_t *bad = json_loads(current && c->bad_lines ? c->bad_lines : hs__row_text(s, 11), 0, NULL);
        json_object_set_new(run, "bad_lines", bad ? bad : json_array());
    }
    sqlite3_finalize(s);
    pthread_mutex_unlock(&c->lock);
    return run;
}

json_t *hs__corpora_list(hs_corpora *c, uint64_t before, size_t limit)
{
    json_t *runs = json_array(), *next = NULL;
    sqlite3_int64 number = 0;
    pthread_mutex_lock(&c->lock);
    sqlite3_stmt *s = hs__row_statement(
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

hs_status hs__corpora_cancel(hs_corpora *c, const char *id, hs_error *err)
{
    char state[16];
    hs_status st = HS_OK;
    pthread_mutex_lock(&c->lock);
    hs__row_state_get(c, id, state);
    if (!*state) {
        st = hs_fail(err, HS_NOT_FOUND, "There is no run '%.32s'.", id);
    } else if (strcmp(id, c->current) == 0) {
        c->cancel = true;
        atomic_store(&c->stop, 1);
        pthread_cond_broadcast(&c->changed);
        (void)hs__row_state_set(c, id, "cancelling", NULL); /* a crash meanwhile shall not bring it back */
    } else if ((strcmp(state, "queued") == 0 || strcmp(state, "running") == 0 || /* ended by a restart */
                strcmp(state, "cancelling") == 0) && /* its end could not be written down */
               !hs__row_state_set(c, id, "cancelled", NULL)) {
        st = hs__rows_fail(c, err);
    }
    pthread_mutex_unlock(&c->lock);
    return st;
}

/* The files go first: on a full disk that is what makes room for the rest. A crash in between is one more
 * reason to delete it, so the next start does. */
hs_status hs__corpora_delete(hs_corpora *c, const char *id, hs_error *err)
{
    char state[16];
    hs_status st = HS_OK;
    pthread_mutex_lock(&c->lock);
    hs__row_state_get(c, id, state);
    if (!*state)
        st = hs_fail(err, HS_NOT_FOUND, "There is no run '%.32s'.", id);
    else if (strcmp(id, c->current) == 0)
        st = hs_fail(err, HS_INVALID, "The run is going on: POST /corpora/%s/cancel first.", id);
    else
        (void)hs__row_state_set(c, id, "deleting", NULL);
    pthread_mutex_unlock(&c->lock);
    if (st)
        return st;
    hs__run_files_remove(c, id);
    pthread_mutex_lock(&c->lock);
    if (!hs__row_done(hs__row_statement(c, "DELETE FROM runs WHERE id = ?1", id, NULL)))
        st = hs__rows_fail(c, err);
    hs__rows_count_bytes(c);
    pthread_mutex_unlock(&c->lock);
    return st;
}

int hs__corpora_file(hs_corpora *c, const char *id, const char *name, uint64_t *ret_bytes)
{
    char state[16], path[HS__RUN_PATH_MAX];
    struct stat file;
    pthread_mutex_lock(&c->lock);
    hs__row_state_get(c, id, state);
    pthread_mutex_unlock(&c->lock);
    if (strcmp(state, "done") != 0 && strcmp(state, "cancelled") != 0)
        return -1;
    hs__run_path(c, id, name, path);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &file)) {
        close(fd);
        return -1;
    }
    *ret_bytes = fd >= 0 ? (uint64_t)file.st_size : 0;
    return fd;
}
