#include "server/corpora.h"

#include "model/unicode.h"
#include "server/corpus_report.h"
#include "server/corpus_run.h"
#include "server/headers.h"
#include "server/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4400, DIR_BYTES = 4096, NAME_BYTES = 200, RUNS_MAX = 1000 };
#define SAVE_MS     30000
#define AGAIN_S     3 /* after the database could not be written */
#define FLUSH_BYTES ((uint64_t)8 << 20)

struct hs_corpora {
    char dir[DIR_BYTES];
    size_t n_workers;
    uint64_t bytes_max;
    int lock_fd; /* held while the folder is ours */
    const hs_catalog *catalog;
    const hs_catalog_options *options;
    pthread_t thread;
    bool started;

    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t changed;
    sqlite3 *db;
    uint64_t bytes_stored, bytes_coming; /* of runs' files; of uploads under way */
    bool stopping;
    char current[HS_CORPORA_ID_MAX + 1]; /* "" when none runs */
    atomic_int stop;                     /* of the current run */
    bool cancel;                         /* it shall not go on later */
    hs__corpus_progress progress;        /* its */
    char *bad_lines;                     /* its, as JSON; NULL: those in its row */
};

struct hs_upload {
    hs_corpora *corpora;
    char id[HS_CORPORA_ID_MAX + 1];
    int fd;
    uint64_t n_bytes, flushed, n_lines;
    bool line_has_text, packed;
};

/* ---- rows; the lock is held ---- */

static const char schema[] =
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
    "CREATE TABLE IF NOT EXISTS runs ("
    " number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, name TEXT NOT NULL,"
    " model TEXT NOT NULL, max_tokens INTEGER NOT NULL, layers TEXT NOT NULL,"
    " thresholds TEXT NOT NULL, state TEXT NOT NULL, bytes INTEGER NOT NULL DEFAULT 0,"
    " texts_total INTEGER, texts_done INTEGER NOT NULL DEFAULT 0,"
    " bad_lines TEXT NOT NULL DEFAULT '[]', error TEXT);"
    /* an upload that never ended */
    "DELETE FROM runs WHERE state = 'uploading';";

/* Folders of earlier versions have no such columns. */
static const struct {
    const char *name, *sql;
} added[] = {
    {"bad_lines_total", "ALTER TABLE runs ADD COLUMN bad_lines_total INTEGER NOT NULL DEFAULT 0;"
                        "UPDATE runs SET bad_lines_total = json_array_length(bad_lines);"},
    {"lines", "ALTER TABLE runs ADD COLUMN lines INTEGER NOT NULL DEFAULT 0"}, /* hs__corpus_lines */
};

/* Prepares sql and binds texts to ?1, ?2, ... NULL when SQLite cannot. */
static sqlite3_stmt *statement(hs_corpora *c, const char *sql, const char *first, const char *second)
{
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v2(c->db, sql, -1, &s, NULL) != SQLITE_OK)
        return NULL;
    if (first)
        sqlite3_bind_text(s, 1, first, -1, SQLITE_TRANSIENT);
    if (second)
        sqlite3_bind_text(s, 2, second, -1, SQLITE_TRANSIENT);
    return s;
}

/* "" where it is null, or memory short. */
static const char *column(sqlite3_stmt *s, int number)
{
    const char *text = (const char *)sqlite3_column_text(s, number);
    return text ? text : "";
}

static bool step_done(sqlite3_stmt *s)
{
    const bool ok = s && sqlite3_step(s) == SQLITE_DONE;
    sqlite3_finalize(s);
    return ok;
}

static bool state_set(hs_corpora *c, const char *id, const char *state, const char *error)
{
    sqlite3_stmt *s = statement(c, "UPDATE runs SET state = ?1, error = ?3 WHERE id = ?2", state, id);
    if (s && error)
        sqlite3_bind_text(s, 3, error, -1, SQLITE_TRANSIENT);
    return step_done(s);
}

/* "" when there is no such run. */
static void state_get(hs_corpora *c, const char *id, char ret_state[16])
{
    sqlite3_stmt *s = statement(c, "SELECT state FROM runs WHERE id = ?1", id, NULL);
    ret_state[0] = '\0';
    if (s && sqlite3_step(s) == SQLITE_ROW)
        snprintf(ret_state, 16, "%s", column(s, 0));
    sqlite3_finalize(s);
}

/* The number that a query gives; 0 when SQLite cannot. */
static uint64_t number_get(hs_corpora *c, const char *sql)
{
    sqlite3_stmt *s = statement(c, sql, NULL, NULL);
    const uint64_t number = s && sqlite3_step(s) == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(s, 0) : 0;
    sqlite3_finalize(s);
    return number;
}

static void bytes_count(hs_corpora *c)
{
    c->bytes_stored = number_get(c, "SELECT total(bytes) FROM runs");
}

static uint64_t room(const hs_corpora *c)
{
    const uint64_t used = c->bytes_stored + c->bytes_coming;
    return used < c->bytes_max ? c->bytes_max - used : 0;
}

static void run_path(const hs_corpora *c, const char *id, const char *name, char ret_path[PATH_BYTES])
{
    snprintf(ret_path, PATH_BYTES, "%s/runs/%s%s%s", c->dir, id, *name ? "/" : "", name);
}

/* With what a save left that was cut short. */
static void files_remove(const hs_corpora *c, const char *id)
{
    char path[PATH_BYTES];
    run_path(c, id, "", path);
    DIR *folder = opendir(path);
    if (!folder)
        return;
    for (const struct dirent *entry; (entry = readdir(folder));)
        unlinkat(dirfd(folder), entry->d_name, 0); /* "." and ".." are refused */
    closedir(folder);
    rmdir(path);
}

static uint64_t files_measure(const hs_corpora *c, const char *id)
{
    char path[PATH_BYTES];
    struct stat file;
    uint64_t bytes = 0;
    run_path(c, id, "", path);
    DIR *folder = opendir(path);
    if (!folder)
        return 0;
    for (const struct dirent *entry; (entry = readdir(folder));)
        if (!fstatat(dirfd(folder), entry->d_name, &file, 0) && S_ISREG(file.st_mode))
            bytes += (uint64_t)file.st_size;
    closedir(folder);
    return bytes;
}

/* The folders of uploads that never ended and of runs whose removal was cut short. */
static void strays_remove(hs_corpora *c)
{
    char path[PATH_BYTES], state[16];
    run_path(c, "", "", path);
    DIR *runs = opendir(path);
    if (!runs)
        return;
    for (const struct dirent *entry; (entry = readdir(runs));) {
        const bool is_id = strspn(entry->d_name, "0123456789abcdef") == HS_CORPORA_ID_MAX &&
                           !entry->d_name[HS_CORPORA_ID_MAX];
        state_get(c, entry->d_name, state);
        if (is_id && !*state)
            files_remove(c, entry->d_name);
    }
    closedir(runs);
}

/* ---- running ---- */

/* A row's copy, for the thread. */
typedef struct task {
    char id[HS_CORPORA_ID_MAX + 1], model[256], layers[2048], thresholds[256];
    size_t max_tokens;
    hs__corpus_lines lines;
    hs__corpus_progress progress; /* counts only */
} task;

/* The one that was begun, else the oldest that waits (by when its upload began, so one begun may be younger);
 * false when there is none. */
static bool task_next(hs_corpora *c, task *ret)
{
    sqlite3_stmt *s = statement(c,
                                "SELECT id, model, layers, thresholds, max_tokens, texts_done,"
                                " bad_lines_total, lines FROM runs"
                                " WHERE state IN ('running', 'queued')"
                                " ORDER BY state = 'running' DESC, number LIMIT 1",
                                NULL, NULL);
    const bool found = s && sqlite3_step(s) == SQLITE_ROW;
    if (found) {
        snprintf(ret->id, sizeof ret->id, "%s", column(s, 0));
        snprintf(ret->model, sizeof ret->model, "%s", column(s, 1));
        snprintf(ret->layers, sizeof ret->layers, "%s", column(s, 2));
        snprintf(ret->thresholds, sizeof ret->thresholds, "%s", column(s, 3));
        ret->max_tokens = (size_t)sqlite3_column_int64(s, 4);
        ret->progress = (hs__corpus_progress){.texts = (uint64_t)sqlite3_column_int64(s, 5),
                                              .bad_lines = (uint64_t)sqlite3_column_int64(s, 6)};
        ret->lines = (hs__corpus_lines)sqlite3_column_int(s, 7);
    }
    sqlite3_finalize(s);
    return found;
}

/* SIZE_MAX: none of this name. */
static size_t model_find(const hs_corpora *c, const char *name)
{
    if (!c->options->n_places)
        return strcmp(name, "mini") == 0 ? 0 : SIZE_MAX;
    for (size_t i = 0; i < c->options->n_places; i++)
        if (strlen(name) == c->options->places[i].n_name &&
            memcmp(name, c->options->places[i].name, c->options->places[i].n_name) == 0)
            return i;
    return SIZE_MAX;
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

static hs_status task_run(hs_corpora *c, const task *t, hs_error *err)
{
    static const char *const names[] = {"upload"};
    float thresholds[HS_CORPUS_THRESHOLDS_MAX];
    uint16_t layers[HS_LAYERS_MAX];
    char dir[PATH_BYTES], input[PATH_BYTES];
    const char *inputs[] = {input};
    const size_t model = model_find(c, t->model);
    if (model == SIZE_MAX)
        return hs_fail(err, HS_NOT_FOUND, "the model '%s' is not served any more", t->model);
    run_path(c, t->id, "", dir);
    run_path(c, t->id, "input", input);
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
    char dir[PATH_BYTES];
    hs__corpus_record record;
    run_path(c, id, "", dir);
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
static bool task_end(hs_corpora *c, const task *t, hs_status st, const hs_error *err)
{
    const uint64_t bytes = files_measure(c, t->id);
    pthread_mutex_lock(&c->lock);
    sqlite3_stmt *s = statement(c,
                                "UPDATE runs SET bad_lines = coalesce(?1, bad_lines), bad_lines_total = ?3,"
                                " texts_done = ?4, bytes = ?5 WHERE id = ?2",
                                c->bad_lines, t->id);
    if (s) {
        sqlite3_bind_int64(s, 3, (sqlite3_int64)c->progress.bad_lines);
        sqlite3_bind_int64(s, 4, (sqlite3_int64)c->progress.texts);
        sqlite3_bind_int64(s, 5, (sqlite3_int64)bytes);
    }
    bool ok = step_done(s);
    bytes_count(c);
    if (st == HS_OK)
        ok &= state_set(c, t->id, "done", NULL);
    else if (st != HS_CANCELLED)
        ok &= state_set(c, t->id, "failed", err->text);
    else if (c->cancel)
        ok &= state_set(c, t->id, "cancelled", NULL);
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
static void wait_seconds(hs_corpora *c, time_t seconds)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += seconds;
    pthread_cond_timedwait(&c->changed, &c->lock, &end);
}

static void *thread_main(void *data)
{
    hs_corpora *c = data;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    pthread_mutex_lock(&c->lock);
    while (!c->stopping) {
        task t;
        if (!task_next(c, &t)) {
            pthread_cond_wait(&c->changed, &c->lock);
            continue;
        }
        hs_error err = {0};
        snprintf(c->current, sizeof c->current, "%s", t.id);
        c->cancel = false;
        c->progress = t.progress;
        atomic_store(&c->stop, 0);
        (void)state_set(c, t.id, "running", NULL); /* when this fails, 'queued' serves as well */
        pthread_mutex_unlock(&c->lock);
        const hs_status st = task_run(c, &t, &err);
        hs_error why = {0};
        if (st == HS_CANCELLED && is_cancelled(c) && part_report(c, t.id, &why))
            hs__log("error", "corpus run %s was cancelled and has no report: %s", t.id, why.text);
        const bool ended = task_end(c, &t, st, &err);
        pthread_mutex_lock(&c->lock);
        if (!ended && !c->stopping) /* it comes again, but not at once and for ever */
            wait_seconds(c, AGAIN_S);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* ---- lifetime ---- */

static hs_status folder_open(hs_corpora *c, hs_error *err)
{
    char path[PATH_BYTES];
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
    snprintf(path, sizeof path, "%s/corpora.db", c->dir);
    bool ok =
        sqlite3_open(path, &c->db) == SQLITE_OK && sqlite3_exec(c->db, schema, NULL, NULL, NULL) == SQLITE_OK;
    for (size_t i = 0; ok && i < sizeof added / sizeof *added; i++)
        ok = sqlite3_table_column_metadata(c->db, NULL, "runs", added[i].name, NULL, NULL, NULL, NULL,
                                           NULL) == SQLITE_OK ||
             sqlite3_exec(c->db, added[i].sql, NULL, NULL, NULL) == SQLITE_OK;
    if (!ok)
        return hs_fail(err, HS_IO, "cannot use '%s': %s", path, sqlite3_errmsg(c->db));
    strays_remove(c);
    bytes_count(c);
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

/* ---- uploads ---- */

/* NULL: there is no such model. */
static const hs_shape *model_read(const hs_corpora *c, const char *text, task *ret)
{
    const hs_model_place *first = c->options->places;
    if (*text)
        snprintf(ret->model, sizeof ret->model, "%s", text);
    else if (c->options->n_places)
        snprintf(ret->model, sizeof ret->model, "%.*s", (int)first->n_name, first->name);
    else
        snprintf(ret->model, sizeof ret->model, "mini");
    const size_t model = model_find(c, ret->model);
    return model == SIZE_MAX ? NULL : hs_model_shape(c->catalog->models[model]);
}

static hs_status max_tokens_read(const char *text, const hs_shape *shape, task *ret, hs_error *err)
{
    const size_t most = shape->n_positions < HS_CORPUS_WINDOW_MAX ? shape->n_positions : HS_CORPUS_WINDOW_MAX;
    char *end = NULL;
    ret->max_tokens = *text ? strtoul(text, &end, 10) : most < 128 ? most : 128;
    const bool is_number = !end || (*text >= '0' && *text <= '9' && !*end);
    if (!is_number || ret->max_tokens < 2 || ret->max_tokens > most)
        return hs_fail(err, HS_INVALID, "max_tokens must be an integer from 2 to %zu; it is \"%.40s\"", most,
                       text);
    return HS_OK;
}

static hs_status layers_read(const char *text, const hs_shape *shape, task *ret, hs_error *err)
{
    uint16_t layers[HS_LAYERS_MAX];
    size_t n;
    hs_error why = {0};
    if (snprintf(ret->layers, sizeof ret->layers, "%s", *text ? text : "all") >= (int)sizeof ret->layers)
        return hs_fail(err, HS_INVALID, "layers: the list is too long");
    if (hs__corpus_layers_parse(ret->layers, shape->n_layers, layers, &n, &why))
        return hs_fail(err, HS_INVALID, "layers: %s", why.text);
    return HS_OK;
}

static hs_status thresholds_read(const char *text, task *ret, hs_error *err)
{
    float thresholds[HS_CORPUS_THRESHOLDS_MAX];
    size_t n;
    hs_error why = {0};
    if (snprintf(ret->thresholds, sizeof ret->thresholds, "%s", *text ? text : "0.1,0.2,0.3,0.4,0.5") >=
        (int)sizeof ret->thresholds)
        return hs_fail(err, HS_INVALID, "thresholds: the list is too long");
    if (hs__corpus_thresholds_parse(ret->thresholds, thresholds, &n, &why))
        return hs_fail(err, HS_INVALID, "thresholds: %s", why.text);
    return HS_OK;
}

static hs_status name_check(const char *name, hs_error *err)
{
    const size_t n = strlen(name);
    if (n <= NAME_BYTES && hs__utf8_valid(name, n) == n)
        return HS_OK;
    return hs_fail(err, HS_INVALID, "name must be UTF-8 of at most %d bytes", NAME_BYTES);
}

/* All but ret->id. *ret_option: the one looked at last. */
static hs_status request_read(const hs_corpora *c, const hs_corpora_request *request, task *ret,
                              const char **ret_option, hs_error *err)
{
    *ret_option = "model";
    const hs_shape *shape = model_read(c, request->model, ret);
    if (!shape)
        return hs_fail(err, HS_NOT_FOUND, "there is no model '%.100s'; GET /models lists them", ret->model);
    *ret_option = "max_tokens";
    hs_status st = max_tokens_read(request->max_tokens, shape, ret, err);
    if (st)
        return st;
    *ret_option = "layers";
    st = layers_read(request->layers, shape, ret, err);
    if (st)
        return st;
    *ret_option = "thresholds";
    st = thresholds_read(request->thresholds, ret, err);
    if (st)
        return st;
    *ret_option = "name";
    return name_check(request->name, err);
}

static bool row_insert(hs_corpora *c, const task *t, const char *name)
{
    sqlite3_stmt *s = statement(c,
                                "INSERT INTO runs (id, name, model, layers, thresholds, max_tokens, lines,"
                                " state) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'uploading')",
                                t->id, name);
    if (s) {
        sqlite3_bind_text(s, 3, t->model, -1, SQLITE_TRANSIENT);
        sqlite3_bind_text(s, 4, t->layers, -1, SQLITE_TRANSIENT);
        sqlite3_bind_text(s, 5, t->thresholds, -1, SQLITE_TRANSIENT);
        sqlite3_bind_int64(s, 6, (sqlite3_int64)t->max_tokens);
        sqlite3_bind_int(s, 7, t->lines);
    }
    return step_done(s);
}

static const char no_room[] = "The server's room for corpus runs is used up. Delete old ones.";

/* Its row, when there is room. The lock is held. */
static hs_status upload_enter(hs_corpora *c, const task *t, const char *name, uint64_t bytes_expected,
                              hs_error *err)
{
    if (number_get(c, "SELECT count(*) FROM runs") >= RUNS_MAX)
        return hs_fail(err, HS_TOO_LARGE, "The server keeps %d runs already. Delete old ones.", RUNS_MAX);
    if (bytes_expected > room(c))
        return hs_fail(err, HS_TOO_LARGE, no_room);
    return row_insert(c, t, name) ? HS_OK : hs_fail(err, HS_IO, "corpora.db: %s", sqlite3_errmsg(c->db));
}

static hs_status upload_open(hs_upload *u, hs_error *err)
{
    char path[PATH_BYTES];
    run_path(u->corpora, u->id, "", path);
    if (mkdir(path, 0777))
        return hs_fail(err, HS_IO, "cannot make '%s': %s", path, strerror(errno));
    run_path(u->corpora, u->id, "input", path);
    u->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return u->fd < 0 ? hs_fail(err, HS_IO, "cannot write '%s': %s", path, strerror(errno)) : HS_OK;
}

hs_status hs__upload_begin(hs_corpora *c, const hs_corpora_request *request, uint64_t bytes_expected,
                           hs_upload **ret_upload, const char **ret_option, hs_error *err)
{
    char id[HS_REQUEST_ID_MAX + 1];
    task t;
    hs_status st = request_read(c, request, &t, ret_option, err);
    if (st)
        return st;
    *ret_option = NULL;
    t.lines = request->lines;
    hs_upload *u = calloc(1, sizeof *u);
    if (!u)
        return hs_fail(err, HS_NO_MEMORY, "no memory for an upload");
    hs__request_id_make(id);
    u->corpora = c;
    u->fd = -1;
    snprintf(u->id, sizeof u->id, "%.*s", HS_CORPORA_ID_MAX, id);
    memcpy(t.id, u->id, sizeof t.id);
    pthread_mutex_lock(&c->lock);
    st = upload_enter(c, &t, request->name, bytes_expected, err);
    pthread_mutex_unlock(&c->lock);
    if (!st)
        st = upload_open(u, err);
    if (st)
        hs__upload_abandon(u);
    else
        *ret_upload = u;
    return st;
}

/* Lines that are not blank, as the run will count them. */
static void lines_count(hs_upload *u, const char *bytes, size_t n)
{
    if (!u->n_bytes && n >= 2 && memcmp(bytes, "\x1f\x8b", 2) == 0)
        u->packed = true;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '\n') {
            u->n_lines += u->line_has_text;
            u->line_has_text = false;
        } else if ((unsigned char)bytes[i] > ' ') {
            u->line_has_text = true;
        }
    }
}

hs_status hs__upload_add(hs_upload *u, const char *bytes, size_t n_bytes, hs_error *err)
{
    hs_corpora *c = u->corpora;
    lines_count(u, bytes, n_bytes);
    pthread_mutex_lock(&c->lock);
    const bool fits = n_bytes <= room(c);
    if (fits)
        c->bytes_coming += n_bytes;
    pthread_mutex_unlock(&c->lock);
    if (!fits)
        return hs_fail(err, HS_TOO_LARGE, no_room);
    u->n_bytes += n_bytes;
    for (size_t done = 0; done < n_bytes;) {
        const ssize_t n = write(u->fd, bytes + done, n_bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return hs_fail(err, errno == ENOSPC || errno == EDQUOT ? HS_TOO_LARGE : HS_IO,
                           "The upload could not be written: %s.", strerror(errno));
        done += (size_t)n;
    }
    if (u->n_bytes - u->flushed >= FLUSH_BYTES) { /* so that the sync at the end is short */
        sync_file_range(u->fd, (off_t)u->flushed, (off_t)(u->n_bytes - u->flushed), SYNC_FILE_RANGE_WRITE);
        u->flushed = u->n_bytes;
    }
    return HS_OK;
}

static hs_status upload_queue(hs_corpora *c, const hs_upload *u, hs_error *err)
{
    hs_status st = HS_OK;
    pthread_mutex_lock(&c->lock);
    sqlite3_stmt *s = statement(
        c, "UPDATE runs SET state = 'queued', bytes = ?2, texts_total = ?3 WHERE id = ?1", u->id, NULL);
    if (s) {
        sqlite3_bind_int64(s, 2, (sqlite3_int64)u->n_bytes);
        if (!u->packed)
            sqlite3_bind_int64(s, 3, (sqlite3_int64)u->n_lines + u->line_has_text);
    }
    if (step_done(s)) {
        c->bytes_coming -= u->n_bytes;
        bytes_count(c);
        pthread_cond_broadcast(&c->changed);
    } else {
        st = hs_fail(err, HS_IO, "corpora.db: %s", sqlite3_errmsg(c->db));
    }
    pthread_mutex_unlock(&c->lock);
    return st;
}

hs_status hs__upload_finish(hs_upload *u, char ret_id[HS_CORPORA_ID_MAX + 1], hs_error *err)
{
    hs_status st = HS_OK;
    if (fsync(u->fd))
        st = hs_fail(err, errno == ENOSPC || errno == EDQUOT ? HS_TOO_LARGE : HS_IO,
                     "The upload could not be written: %s.", strerror(errno));
    if (!st)
        st = upload_queue(u->corpora, u, err);
    memcpy(ret_id, u->id, sizeof u->id);
    if (st) {
        hs__upload_abandon(u);
        return st;
    }
    close(u->fd);
    free(u);
    return HS_OK;
}

void hs__upload_abandon(hs_upload *u)
{
    if (!u)
        return;
    hs_corpora *c = u->corpora;
    if (u->fd >= 0)
        close(u->fd);
    files_remove(c, u->id);
    pthread_mutex_lock(&c->lock);
    c->bytes_coming -= u->n_bytes;
    /* where this fails, the next start does it */
    (void)step_done(statement(c, "DELETE FROM runs WHERE id = ?1", u->id, NULL));
    pthread_mutex_unlock(&c->lock);
    free(u);
}

/* ---- runs ---- */

#define COLUMNS "id, name, state, model, texts_total, texts_done, bad_lines, bad_lines_total, error"

static json_t *text_column(sqlite3_stmt *s, int number)
{
    const char *text = (const char *)sqlite3_column_text(s, number);
    json_t *string = text ? json_string(text) : json_null();
    return string ? string : json_string("(not UTF-8)");
}

static json_t *row_json(hs_corpora *c, sqlite3_stmt *s)
{
    const char *id = column(s, 0);
    const bool current = strcmp(id, c->current) == 0, total_known = sqlite3_column_type(s, 4) != SQLITE_NULL;
    const json_int_t total = sqlite3_column_int64(s, 4),
                     done = current ? (json_int_t)c->progress.texts : sqlite3_column_int64(s, 5),
                     n_bad = current ? (json_int_t)c->progress.bad_lines : sqlite3_column_int64(s, 7);
    const char *bad_lines = current && c->bad_lines ? c->bad_lines : column(s, 6);
    const double rate = current ? c->progress.texts_per_second : 0;
    json_t *bad = json_loads(bad_lines, 0, NULL);
    json_t *left = rate > 0 && total_known && total >= done + n_bad
                       ? json_real((double)(total - done - n_bad) / rate)
                       : json_null();
    return json_pack("{ss so so so so sI so so so sI so}", "id", id, "name", text_column(s, 1), "state",
                     text_column(s, 2), "model", text_column(s, 3), "texts_total",
                     total_known ? json_integer(total) : json_null(), "texts_done", done, "texts_per_second",
                     current ? json_real(rate) : json_null(), "eta_seconds", left, "bad_lines",
                     bad ? bad : json_array(), "bad_lines_total", n_bad, "error", text_column(s, 8));
}

json_t *hs__corpora_get(hs_corpora *c, const char *id)
{
    pthread_mutex_lock(&c->lock);
    sqlite3_stmt *s =
        statement(c, "SELECT " COLUMNS " FROM runs WHERE id = ?1 AND state != 'uploading'", id, NULL);
    json_t *run = s && sqlite3_step(s) == SQLITE_ROW ? row_json(c, s) : NULL;
    sqlite3_finalize(s);
    pthread_mutex_unlock(&c->lock);
    return run;
}

json_t *hs__corpora_list(hs_corpora *c)
{
    json_t *runs = json_array();
    pthread_mutex_lock(&c->lock);
    sqlite3_stmt *s = statement(
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
    state_get(c, id, state);
    if (!*state || strcmp(state, "uploading") == 0) {
        st = hs_fail(err, HS_NOT_FOUND, "There is no run '%.32s'.", id);
    } else if (strcmp(id, c->current) == 0) {
        c->cancel = true;
        atomic_store(&c->stop, 1);
    } else if ((strcmp(state, "queued") == 0 || strcmp(state, "running") == 0) && /* ended by a restart */
               !state_set(c, id, "cancelled", NULL)) {
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
    state_get(c, id, state);
    if (!*state || strcmp(state, "uploading") == 0)
        st = hs_fail(err, HS_NOT_FOUND, "There is no run '%.32s'.", id);
    else if (strcmp(id, c->current) == 0)
        st = hs_fail(err, HS_INVALID, "The run is going on: POST /corpora/%s/cancel first.", id);
    else if (!step_done(statement(c, "DELETE FROM runs WHERE id = ?1", id, NULL)))
        st = hs_fail(err, HS_IO, "corpora.db: %s", sqlite3_errmsg(c->db));
    bytes_count(c);
    pthread_mutex_unlock(&c->lock);
    if (!st)
        files_remove(c, id);
    return st;
}

int hs__corpora_file(hs_corpora *c, const char *id, const char *name, uint64_t *ret_bytes)
{
    char state[16], path[PATH_BYTES];
    struct stat file;
    pthread_mutex_lock(&c->lock);
    state_get(c, id, state);
    pthread_mutex_unlock(&c->lock);
    if (strcmp(state, "done") != 0 && strcmp(state, "cancelled") != 0)
        return -1;
    run_path(c, id, name, path);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &file)) {
        close(fd);
        return -1;
    }
    *ret_bytes = fd >= 0 ? (uint64_t)file.st_size : 0;
    return fd;
}
