#include "server/runs/corpora_internal.h"

#include "model/clock.h"
#include "server/base/log.h"
#include "server/corpus/corpus_report.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SAVE_MS  30000
#define AGAIN_MS 3000 /* after the database could not be written */

/* ---- running ---- */

/* The one that was begun, else the oldest that waits (by when its upload began, so one begun may be younger);
 * false when there is none. */
static bool task_next(hs_corpora *c, hs__corpora_task *ret)
{
    sqlite3_stmt *s = hs__row_statement(c,
                                        "SELECT id, model, layers, thresholds, max_tokens, texts_done,"
                                        " bad_lines_total, lines FROM runs"
                                        " WHERE state IN ('running', 'queued')"
                                        " ORDER BY state = 'running' DESC, number LIMIT 1",
                                        NULL, NULL);
    const bool found = s && sqlite3_step(s) == SQLITE_ROW;
    if (found) {
        snprintf(ret->id, sizeof ret->id, "%s", hs__row_text(s, 0));
        snprintf(ret->model, sizeof ret->model, "%s", hs__row_text(s, 1));
        snprintf(ret->layers, sizeof ret->layers, "%s", hs__row_text(s, 2));
        snprintf(ret->thresholds, sizeof ret->thresholds, "%s", hs__row_text(s, 3));
        ret->max_tokens = (size_t)sqlite3_column_int64(s, 4);
        ret->progress = (hs__corpus_progress){.texts = (uint64_t)sqlite3_column_int64(s, 5),
                                              .bad_lines = (uint64_t)sqlite3_column_int64(s, 6)};
        ret->lines = (hs__corpus_lines)sqlite3_column_int(s, 7);
    }
    sqlite3_finalize(s);
    return found;
}

/* "[3,7]": the numbers of those listed. NULL when memory is short. */
static char *bad_lines_text(hs__corpus_bad *list)
{
    json_t *bad = hs__corpus_bad_save(list, NULL), *numbers = json_array();
    const json_t *lines = json_object_get(bad, "lines");
    for (size_t i = 0; i < json_array_size(lines); i++)
        json_array_append(numbers, json_object_get(json_array_get(lines, i), "line"));
    char *text = json_dumps(numbers, JSON_COMPACT);
    json_decref(numbers);
    json_decref(bad);
    return text;
}

static void on_progress(const hs__corpus_progress *progress, void *data)
{
    hs_corpora *c = data;
    const bool news = !c->bad_lines || progress->bad_lines != c->progress.bad_lines;
    char *bad_lines = news ? bad_lines_text(progress->bad) : NULL;
    pthread_mutex_lock(&c->lock);
    c->progress = *progress;
    if (bad_lines) {
        free(c->bad_lines);
        c->bad_lines = bad_lines;
    }
    pthread_mutex_unlock(&c->lock);
}

static hs_status task_run(hs_corpora *c, const hs__corpora_task *t, hs_error *err)
{
    static const char *const names[] = {"upload"};
    float thresholds[HS_CORPUS_THRESHOLDS_MAX];
    uint16_t layers[HS_LAYERS_MAX];
    char dir[HS__RUN_PATH_MAX], input[HS__RUN_PATH_MAX];
    const char *inputs[] = {input};
    const size_t model = hs__catalog_find(c->options, t->model);
    if (model == SIZE_MAX)
        return hs_fail(err, HS_NOT_FOUND, "the model '%s' is not served any more", t->model);
    hs__run_path(c, t->id, "", dir);
    hs__run_path(c, t->id, "input", input);
    hs__corpus_job job = {.model = c->catalog->models[model],
                          .engine = c->catalog->engines[model],
                          .model_name = t->model,
                          .inputs = inputs,
                          .input_names = names,
                          .n_inputs = 1,
                          .lines = t->lines,
                          .dir = dir,
                          .max_tokens = t->max_tokens,
                          .thresholds = thresholds,
                          .layers = layers,
                          .n_workers = c->n_workers,
                          .n_shards = 1,
                          .save_ms = SAVE_MS,
                          .resume = true,
                          .yielding = true,
                          .stop = &c->stop,
                          .progress = on_progress,
                          .progress_data = c};
    hs_status st = hs__corpus_thresholds_parse(t->thresholds, thresholds, &job.n_thresholds, err);
    if (!st)
        st = hs__corpus_layers_parse(t->layers, hs_model_shape(job.model)->n_layers, layers, &job.n_layers,
                                     err);
    return st ? st : hs__corpus_run(&job, err);
}

/* Of what was counted until the run was cancelled, when that is a text at least. */
static hs_status part_report(const hs_corpora *c, const char *id, hs_error *err)
{
    char dir[HS__RUN_PATH_MAX];
    hs__corpus_record record;
    hs__run_path(c, id, "", dir);
    hs_status st = hs__corpus_record_load(dir, &record, err);
    if (!st && hs_corpus_stats_texts(record.stats))
        st = hs__corpus_report_write(&record, dir, err);
    hs__corpus_record_finish(&record);
    return st;
}

static bool is_cancelled(hs_corpora *c)
{
    pthread_mutex_lock(&c->lock);
    const bool cancel = c->cancel;
    pthread_mutex_unlock(&c->lock);
    return cancel;
}

/* What came of it goes into the row. False when that cannot be. */
static bool task_end(hs_corpora *c, const hs__corpora_task *t, hs_status st, const hs_error *err)
{
    const uint64_t bytes = hs__run_files_measure(c, t->id);
    pthread_mutex_lock(&c->lock);
    sqlite3_stmt *s =
        hs__row_statement(c,
                          "UPDATE runs SET bad_lines = coalesce(?1, bad_lines), bad_lines_total = ?3,"
                          " texts_done = ?4, bytes = ?5 WHERE id = ?2",
                          c->bad_lines, t->id);
    if (s) {
        sqlite3_bind_int64(s, 3, (sqlite3_int64)c->progress.bad_lines);
        sqlite3_bind_int64(s, 4, (sqlite3_int64)c->progress.texts);
        sqlite3_bind_int64(s, 5, (sqlite3_int64)bytes);
    }
    bool ok = hs__row_done(s);
    hs__rows_count_bytes(c);
    if (st == HS_OK)
        ok &= hs__row_state_set(c, t->id, "done", NULL);
    else if (st != HS_CANCELLED)
        ok &= hs__row_state_set(c, t->id, "failed", err->text);
    else if (c->cancel)
        ok &= hs__row_state_set(c, t->id, "cancelled", NULL);
    c->current[0] = '\0';
    free(c->bad_lines);
    c->bad_lines = NULL;
    if (!ok)
        hs__log("error", "corpus run %s: its end could not be written down: %s", t->id,
                sqlite3_errmsg(c->db));
    pthread_mutex_unlock(&c->lock);
    hs__log(st && st != HS_CANCELLED ? "error" : "info", "corpus run %s: %s", t->id,
            st == HS_OK          ? "done"
            : st == HS_CANCELLED ? "stopped"
                                 : err->text);
    return ok;
}

/* Ends early when something else happens. The lock is held. */
static void wait_ms(hs_corpora *c, unsigned milliseconds)
{
    const struct timespec end = hs_clock_after_ms(milliseconds);
    pthread_cond_clockwait(&c->changed, &c->lock, CLOCK_MONOTONIC, &end);
}

static void *thread_main(void *data)
{
    hs_corpora *c = data;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    pthread_mutex_lock(&c->lock);
    while (!c->stopping) {
        hs__corpora_task t;
        if (!task_next(c, &t)) {
            pthread_cond_wait(&c->changed, &c->lock);
            continue;
        }
        hs_error err = {0};
        snprintf(c->current, sizeof c->current, "%s", t.id);
        c->cancel = false;
        c->progress = t.progress;
        atomic_store(&c->stop, 0);
        (void)hs__row_state_set(c, t.id, "running", NULL); /* when this fails, 'queued' serves as well */
        pthread_mutex_unlock(&c->lock);
        const hs_status st = task_run(c, &t, &err);
        hs_error why = {0};
        if (st == HS_CANCELLED && is_cancelled(c) && part_report(c, t.id, &why))
            hs__log("error", "corpus run %s was cancelled and has no report: %s", t.id, why.text);
        const bool ended = task_end(c, &t, st, &err);
        pthread_mutex_lock(&c->lock);
        if (!ended && !c->stopping) /* it comes again, but not at once and for ever */
            wait_ms(c, AGAIN_MS);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* ---- lifetime ---- */

static hs_status folder_open(hs_corpora *c, hs_error *err)
{
    char path[HS__RUN_PATH_MAX];
    snprintf(path, sizeof path, "%s/runs", c->dir);
    hs_status st = hs__folder_make(path, err);
    if (st)
        return st;
    snprintf(path, sizeof path, "%s/lock", c->dir);
    c->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (c->lock_fd < 0)
        return hs_fail(err, HS_IO, "cannot write '%s': %s", path, strerror(errno));
    if (flock(c->lock_fd, LOCK_EX | LOCK_NB))
        return hs_fail(err, HS_IO, "'%s' is in use by another server", c->dir);
    st = hs__rows_open(c, err);
    if (st)
        return st;
    hs__run_strays_remove(c);
    hs__rows_count_bytes(c);
    return HS_OK;
}

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
    hs_status st =
        strlen(dir) < sizeof c->dir ? HS_OK : hs_fail(err, HS_INVALID, "the state folder's name is too long");
    snprintf(c->dir, sizeof c->dir, "%s", dir);
    if (!st)
        st = folder_open(c, err);
    if (st)
        hs__corpora_close(c);
    else
        *ret_corpora = c;
    return st;
}

hs_status hs__corpora_start(hs_corpora *c, const hs_catalog *catalog, const hs_catalog_options *options,
                            hs_error *err)
{
    c->catalog = catalog;
    c->options = options;
    if (pthread_create(&c->thread, NULL, thread_main, c))
        return hs_fail(err, HS_NO_MEMORY, "no thread for corpus runs");
    c->started = true;
    return HS_OK;
}

bool hs__corpora_started(const hs_corpora *c)
{
    return c && c->started;
}

void hs__corpora_close(hs_corpora *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->stopping = true;
    atomic_store(&c->stop, 1);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    if (c->started)
        pthread_join(c->thread, NULL);
    sqlite3_close(c->db);
    if (c->lock_fd >= 0)
        close(c->lock_fd);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* ---- runs ---- */

#define COLUMNS                                                                                              \
    "id, name, CASE state WHEN 'cancelling' THEN 'running' ELSE state END, model, texts_total, texts_done, " \
    "bad_lines, bad_lines_total, error"

static json_t *text_json(sqlite3_stmt *s, int column)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    json_t *string = text ? json_string(text) : json_null();
    return string ? string : json_string("(not UTF-8)");
}

static json_t *row_json(hs_corpora *c, sqlite3_stmt *s)
{
    const char *id = hs__row_text(s, 0);
    const bool current = strcmp(id, c->current) == 0, total_known = sqlite3_column_type(s, 4) != SQLITE_NULL;
    const json_int_t total = sqlite3_column_int64(s, 4),
                     done = current ? (json_int_t)c->progress.texts : sqlite3_column_int64(s, 5),
                     n_bad = current ? (json_int_t)c->progress.bad_lines : sqlite3_column_int64(s, 7);
    const char *bad_lines = current && c->bad_lines ? c->bad_lines : hs__row_text(s, 6);
    const double rate = current ? c->progress.texts_per_second : 0;
    json_t *bad = json_loads(bad_lines, 0, NULL);
    json_t *left = rate > 0 && total_known && total >= done + n_bad
                       ? json_real((double)(total - done - n_bad) / rate)
                       : json_null();
    return json_pack("{ss so so so so sI so so so sI so}", "id", id, "name", text_json(s, 1), "state",
                     text_json(s, 2), "model", text_json(s, 3), "texts_total",
                     total_known ? json_integer(total) : json_null(), "texts_done", done, "texts_per_second",
                     current ? json_real(rate) : json_null(), "eta_seconds", left, "bad_lines",
                     bad ? bad : json_array(), "bad_lines_total", n_bad, "error", text_json(s, 8));
}

json_t *hs__corpora_get(hs_corpora *c, const char *id)
{
    pthread_mutex_lock(&c->lock);
    sqlite3_stmt *s =
        hs__row_statement(c, "SELECT " COLUMNS " FROM runs WHERE id = ?1 AND state != 'uploading'", id, NULL);
    json_t *run = s && sqlite3_step(s) == SQLITE_ROW ? row_json(c, s) : NULL;
    sqlite3_finalize(s);
    pthread_mutex_unlock(&c->lock);
    return run;
}

json_t *hs__corpora_list(hs_corpora *c)
{
    json_t *runs = json_array();
    pthread_mutex_lock(&c->lock);
    sqlite3_stmt *s = hs__row_statement(
        c, "SELECT " COLUMNS " FROM runs WHERE state != 'uploading' ORDER BY number DESC", NULL, NULL);
    while (s && sqlite3_step(s) == SQLITE_ROW)
        json_array_append_new(runs, row_json(c, s));
    sqlite3_finalize(s);
    pthread_mutex_unlock(&c->lock);
    return json_pack("{so}", "corpora", runs);
}

hs_status hs__corpora_cancel(hs_corpora *c, const char *id, hs_error *err)
{
    char state[16];
    hs_status st = HS_OK;
    pthread_mutex_lock(&c->lock);
    hs__row_state_get(c, id, state);
    if (!*state || strcmp(state, "uploading") == 0) {
        st = hs_fail(err, HS_NOT_FOUND, "There is no run '%.32s'.", id);
    } else if (strcmp(id, c->current) == 0) {
        c->cancel = true;
        atomic_store(&c->stop, 1);
        (void)hs__row_state_set(c, id, "cancelling", NULL); /* a crash meanwhile shall not bring it back */
    } else if ((strcmp(state, "queued") == 0 || strcmp(state, "running") == 0 || /* ended by a restart */
                strcmp(state, "cancelling") == 0) && /* its end could not be written down */
               !hs__row_state_set(c, id, "cancelled", NULL)) {
        st = hs_fail(err, HS_IO, "corpora.db: %s", sqlite3_errmsg(c->db));
    }
    pthread_mutex_unlock(&c->lock);
    return st;
}

hs_status hs__corpora_delete(hs_corpora *c, const char *id, hs_error *err)
{
    char state[16];
    hs_status st = HS_OK;
    pthread_mutex_lock(&c->lock);
    hs__row_state_get(c, id, state);
    if (!*state || strcmp(state, "uploading") == 0)
        st = hs_fail(err, HS_NOT_FOUND, "There is no run '%.32s'.", id);
    else if (strcmp(id, c->current) == 0)
        st = hs_fail(err, HS_INVALID, "The run is going on: POST /corpora/%s/cancel first.", id);
    else if (!hs__row_done(hs__row_statement(c, "DELETE FROM runs WHERE id = ?1", id, NULL)))
        st = hs_fail(err, HS_IO, "corpora.db: %s", sqlite3_errmsg(c->db));
    hs__rows_count_bytes(c);
    pthread_mutex_unlock(&c->lock);
    if (!st)
        hs__run_files_remove(c, id);
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
