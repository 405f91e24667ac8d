/* uploads.c - receives a run: reads its options and writes its texts to disk.
 *
 * When the upload is complete, the disk space of the run is reserved and its row says that it is accepted.
 * Until then it takes only the bytes sent. Headers cost a client nothing, so a reservation for them would let
 * a few idle connections take all of --max-state. */
#include "server/runs/runs_internal.h"

#include "model/base/utf8.h"
#include "model/files/json.h"
#include "server/base/atomic_files.h"
#include "server/base/identifier.h"
#include "server/base/system_errors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_BYTES = 200, RUNS_MAX = 1000 };
#define FLUSH_BYTES ((uint64_t)8 << 20)

struct hs_upload {
    hs_runs *runs;
    char id[HS_RUN_ID_MAX + 1];
    int fd;
    hs__input_format input;
    uint64_t n_bytes, flushed, n_lines;
    uint64_t run_bytes;            /* what the run takes beside its input; reserved at the end */
    bool line_has_text, has_lines; /* for formats with a text on each line, whose lines are counted */
};

/* ---- reading the request ---- */

/* Returns false if there is no such model. */
static bool model_read(const hs_runs *c, const char *text, hs__run_row *ret)
{
    hs_served_model *model = hs_api_model_use(c->api, text);
    snprintf(ret->model, sizeof ret->model, "%s", model ? hs_served_name(model) : text);
    hs_api_model_release(c->api, model);
    return model != NULL;
}

/* Writes the options that the request gives, and map_bins always: rows without it are of before it. */
static hs_status settings_write(const char *const texts[HS__SETTINGS_MAX], hs__run_row *ret,
                                size_t *ret_wrong, hs_error *err)
{
    const size_t refusals = hs_json_refusals(), bins = hs__setting_find("map_bins");
    json_t *given = json_object();
    for (size_t k = 0; k < hs__settings_count(); k++) {
        const char *name = hs__setting_field(k)->name;
        const char *text = k == bins && !*texts[k] ? HS__MAP_BINS : texts[k];
        if (!*text || json_object_set_new(given, name, json_string(text)) == 0)
            continue;
        json_decref(given);
        if (hs_json_refusals() != refusals)
            return hs_fail(err, HS_NO_MEMORY, "no memory for the options");
        *ret_wrong = k;
        return hs_fail(err, HS_INVALID, "%s must be UTF-8", name);
    }
    const size_t n = json_dumpb(given, ret->settings, sizeof ret->settings - 1, JSON_COMPACT);
    json_decref(given);
    if (hs_json_refusals() != refusals)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the options");
    if (n == 0 || n >= sizeof ret->settings)
        return hs_fail(err, HS_INVALID, "the options are too long: %zu bytes as JSON, at most %zu", n,
                       sizeof ret->settings - 1);
    ret->settings[n] = '\0';
    return HS_OK;
}

static hs_status name_check(const char *name, hs_error *err)
{
    const size_t n = strlen(name);
    if (n <= NAME_BYTES && hs_utf8_valid(name, n) == n)
        return HS_OK;
    return hs_fail(err, HS_INVALID, "name must be UTF-8 of at most %d bytes", NAME_BYTES);
}

/* Fills all but ret->id. Sets *ret_option to the wrong option, or to NULL if the run is too large. */
static hs_status request_read(const hs_runs *c, const hs_run_request *request, hs__run_row *ret,
                              hs__run_plan *ret_plan, const char **ret_option, hs_error *err)
{
    size_t wrong = SIZE_MAX;
    *ret_option = "model";
    if (!model_read(c, request->model, ret))
        return hs_fail(err, HS_NOT_FOUND, "there is no model '%.100s'; GET /models lists them", ret->model);
    *ret_option = "name";
    hs_status st = name_check(request->name, err);
    if (st)
        return st;
    *ret_option = NULL;
    st = settings_write(request->settings, ret, &wrong, err);
    if (!st)
        st = hs__run_plan_make(c, ret, ret_plan, &wrong, err);
    if (st && wrong != SIZE_MAX)
        *ret_option = hs__setting_field(wrong)->name;
    return st;
}

static bool row_insert(hs_runs *c, const hs__run_row *t, const char *name)
{
    sqlite3_stmt *s =
        hs__run_table_prepare(c,
                              "INSERT INTO runs (id, name, model, settings, layers, thresholds, max_tokens,"
                              " state, created) VALUES (?1, ?2, ?3, ?4, '', '', 0, 'uploading',"
                              " strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))",
                              t->id, name);
    if (s) {
        sqlite3_bind_text(s, 3, t->model, -1, SQLITE_STATIC);
        sqlite3_bind_text(s, 4, t->settings, -1, SQLITE_STATIC);
    }
    return hs__run_table_done(s);
}

/* ---- the upload ---- */

/* Checks that memory suffices for at least one worker: on this machine at all, and as far as is known when
 * the run starts. The lock is held. */
static hs_status memory_check(const hs_runs *c, const hs__requirements *needs, hs_error *err)
{
    size_t n;
    hs_error why = {0};
    const hs__run_memory all = hs__corpus_memory_all();
    const hs__run_memory now = *c->current ? c->memory_free : hs__runs_memory(c);
    if (hs__corpus_workers_fit(needs, &all, 1, &n, &why))
        return hs_fail(err, HS_TOO_LARGE, "%s", why.text);
    return hs__corpus_workers_fit(needs, &now, 1, &n, err);
}

/* Checks the number of runs. Connections bound that of unfinished uploads. The lock is held. */
static hs_status number_check(hs_runs *c, hs_error *err)
{
    uint64_t n;
    const hs_status st =
        hs__run_table_number(c, "SELECT count(*) FROM runs WHERE state <> 'uploading'", &n, err);
    if (st || n < RUNS_MAX)
        return st;
    return hs_fail(err, HS_NO_SPACE, "The server keeps %d runs, which is its maximum. Delete old runs.",
                   RUNS_MAX);
}

/* Checks the limits and writes the row. Another upload may take the space before this one ends. The lock is
 * held. */
static hs_status upload_enter(hs_upload *u, const hs__run_row *row, const char *name,
                              const hs__requirements *needs, uint64_t bytes_expected, hs_error *err)
{
    hs_runs *c = u->runs;
    u->run_bytes = needs->disk;
    hs_status st = number_check(c, err);
    if (!st)
        st = memory_check(c, needs, err);
    if (!st)
        st = hs__run_space_check(c, u->run_bytes + bytes_expected, err);
    return !st && !row_insert(c, row, name) ? hs__run_table_fail(c, err) : st;
}

static hs_status write_failed(hs_error *err)
{
    return hs_fail(err, hs__errno_status(errno), "The upload could not be written: %s.",
                   hs__errno_text(errno));
}

static hs_status upload_open(hs_upload *u, hs_error *err)
{
    char path[HS__RUN_PATH_MAX];
    hs__run_path(u->runs, u->id, "", path);
    if (mkdir(path, 0777))
        return write_failed(err);
    hs__run_path(u->runs, u->id, "input", path);
    u->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return u->fd < 0 ? write_failed(err) : HS_OK;
}

hs_status hs__upload_begin(hs_runs *c, const hs_run_request *request, uint64_t bytes_expected,
                           hs_upload **ret_upload, const char **ret_option, hs_error *err)
{
    char id[HS_IDENTIFIER_BYTES];
    hs__run_row row = {0};
    hs__run_plan plan = {0};
    hs_status st = request_read(c, request, &row, &plan, ret_option, err);
    const hs__input_format input = plan.job.settings.input;
    hs__run_plan_finish(&plan);
    if (st)
        return st;
    hs_upload *u = calloc(1, sizeof *u);
    if (!u)
        return hs_fail(err, HS_NO_MEMORY, "no memory for an upload");
    hs__identifier_make(id);
    *u = (hs_upload){.runs = c, .fd = -1, .input = input};
    snprintf(u->id, sizeof u->id, "%.*s", HS_RUN_ID_MAX, id);
    memcpy(row.id, u->id, sizeof row.id);
    pthread_mutex_lock(&c->lock);
    st = upload_enter(u, &row, request->name, &plan.needs, bytes_expected, err);
    pthread_mutex_unlock(&c->lock);
    if (!st)
        st = upload_open(u, err);
    if (st)
        hs__upload_abandon(u);
    else
        *ret_upload = u;
    return st;
}

/* Counts lines that are not blank, as the run will. */
static void lines_count(hs_upload *u, const char *bytes, size_t n)
{
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
    hs_runs *c = u->runs;
    lines_count(u, bytes, n_bytes);
    pthread_mutex_lock(&c->lock);
    const hs_status st = hs__run_space_check(c, n_bytes, err);
    if (!st)
        c->bytes_coming += n_bytes;
    pthread_mutex_unlock(&c->lock);
    if (st)
        return st;
    u->n_bytes += n_bytes;
    for (size_t done = 0; done < n_bytes;) {
        const ssize_t n = write(u->fd, bytes + done, n_bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return write_failed(err);
        done += (size_t)n;
    }
    if (u->n_bytes - u->flushed >= FLUSH_BYTES) { /* keeps the final fsync short */
        sync_file_range(u->fd, (off_t)u->flushed, (off_t)(u->n_bytes - u->flushed), SYNC_FILE_RANGE_WRITE);
        u->flushed = u->n_bytes;
    }
    return HS_OK;
}

/* Reserves the run's disk space and accepts it. Returns HS_NO_SPACE if another run took the space. The lock
 * is held. */
static hs_status upload_accept(hs_runs *c, const hs_upload *u, hs_error *err)
{
    hs_status st = number_check(c, err);
    if (!st)
        st = hs__run_space_check(c, u->run_bytes, err);
    if (st)
        return st;
    sqlite3_stmt *s = hs__run_table_prepare(
        c, "UPDATE runs SET state = 'queued', bytes = ?2, texts_total = ?3, reserved = ?4 WHERE id = ?1",
        u->id, NULL);
    if (s) {
        sqlite3_bind_int64(s, 2, (sqlite3_int64)u->n_bytes);
        if (u->has_lines)
            sqlite3_bind_int64(s, 3, (sqlite3_int64)u->n_lines + u->line_has_text);
        sqlite3_bind_int64(s, 4, (sqlite3_int64)u->run_bytes);
    }
    if (!hs__run_table_done(s))
        return hs__run_table_fail(c, err);
    c->bytes_coming -= u->n_bytes;
    hs__run_table_count_bytes(c);
    pthread_cond_broadcast(&c->changed);
    return HS_OK;
}

static hs_status upload_queue(hs_runs *c, const hs_upload *u, hs_error *err)
{
    pthread_mutex_lock(&c->lock);
    const hs_status st = upload_accept(c, u, err);
    pthread_mutex_unlock(&c->lock);
    return st;
}

/* Checks that the input is text and not empty. */
static hs_status upload_check(hs_upload *u, hs_error *err)
{
    char path[HS__RUN_PATH_MAX];
    hs__text_format format = HS__FORMAT_AUTO;
    bool packed = false;
    hs_error why = {0};
    hs__run_path(u->runs, u->id, "input", path);
    const hs_status st = hs__record_stream_check(path, &u->input, &format, &packed, &why);
    hs__run_path_strip(u->runs, u->id, why.text);
    u->has_lines = !packed && (format == HS__FORMAT_TEXT || format == HS__FORMAT_JSONL);
    return st ? hs_fail(err, st, "%s", why.text) : HS_OK;
}

/* Syncs the names of the input and of the run's folder before the row that refers to them. */
static bool folders_sync(const hs_upload *u)
{
    char run[HS__RUN_PATH_MAX], runs[HS__RUN_PATH_MAX];
    hs__run_path(u->runs, u->id, "", run);
    hs__run_path(u->runs, "", "", runs);
    return hs__folder_sync(run) && hs__folder_sync(runs);
}

hs_status hs__upload_finish(hs_upload *u, char ret_id[HS_RUN_ID_MAX + 1], hs_error *err)
{
    hs_status st = HS_OK;
    if (fsync(u->fd) || !folders_sync(u))
        st = write_failed(err);
    if (!st)
        st = upload_check(u, err);
    if (!st)
        st = upload_queue(u->runs, u, err);
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
    hs_runs *c = u->runs;
    if (u->fd >= 0)
        close(u->fd);
    pthread_mutex_lock(&c->lock);
    c->bytes_coming -= u->n_bytes;
    pthread_mutex_unlock(&c->lock);
    const bool removed = hs__run_files_remove(c, u->id);
    pthread_mutex_lock(&c->lock);
    if (removed) /* else, and if this fails, the next start does it */
        (void)hs__run_table_done(hs__run_table_prepare(c, "DELETE FROM runs WHERE id = ?1", u->id, NULL));
    pthread_mutex_unlock(&c->lock);
    free(u);
}
