/* runs.c - the folder of corpus runs while the server runs: the thread that executes them, start and stop. */
#include "server/runs/runs.h"

#include "model/base/clock.h"
#include "model/files/json.h"
#include "server/base/atomic_files.h"
#include "server/base/log.h"
#include "server/base/system_errors.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/report/report.h"
#include "server/corpus/run/run_checkpoint.h"
#include "server/runs/runs_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the thread ----
 *
 * Executes the runs one after the other.
 *
 * The outcome of a run is saved in its row before the next one begins. If that fails, the same run is started
 * again and finds its work done.
 *
 * A run that lacks disk space, memory, descriptors or threads is paused: it is queued again and goes on from
 * its last save. Runs with fewer pauses come first, so a run that can never go on holds up no other. */

#define SAVE_MS      30000
#define SAVE_SOON_MS 1000 /* of a run during which the server was killed: a save shows that it goes on */
#define AGAIN_MS     3000 /* after the disk was full; times the number of pauses before a paused run */
#define NICENESS     10   /* requests come first */

/* A run during which the server was killed STARTS_MAX times without a save fails. */
enum { STARTS_MAX = 3, PAUSE_GROWS_MAX = 20 };

/* ---- while it runs ---- */

/* Returns the line numbers as "[3,7]", or NULL if memory is short. */
static char *bad_lines_text(hs__bad_lines *list)
{
    const size_t refusals = hs_json_refusals();
    json_t *bad = hs__bad_lines_save(list, NULL), *numbers = json_array();
    const json_t *lines = json_object_get(bad, "lines");
    for (size_t i = 0; i < json_array_size(lines); i++)
        json_array_append(numbers, json_object_get(json_array_get(lines, i), "line"));
    numbers = hs_json_whole(numbers, refusals);
    char *text = numbers ? hs_json_text(numbers, JSON_COMPACT) : NULL;
    json_decref(numbers);
    json_decref(bad);
    return text;
}

/* Adds the progress since the last report to the counters. The lock is held. */
static void progress_count(hs_runs *c, const hs__corpus_progress *now)
{
    const hs__corpus_progress *before = &c->progress;
    atomic_fetch_add(&c->counts.texts, now->texts > before->texts ? now->texts - before->texts : 0);
    atomic_fetch_add(&c->counts.bad_lines,
                     now->bad_lines > before->bad_lines ? now->bad_lines - before->bad_lines : 0);
}

/* Saves the engine's precision, once a run has started: a run cannot resume in another precision. The lock is
 * held. */
static void precision_keep(hs_runs *c)
{
    (void)hs__run_table_done(
        hs__run_table_prepare(c, "UPDATE runs SET precision = ?2 WHERE id = ?1", c->current, c->precision));
}

static void on_progress(const hs__corpus_progress *progress, void *data)
{
    hs_runs *c = data;
    const bool news = !c->bad_lines || progress->bad_lines != c->progress.bad_lines;
    char *bad_lines = news ? bad_lines_text(progress->bad) : NULL;
    pthread_mutex_lock(&c->lock);
    const bool saved = progress->saves != c->progress.saves;
    progress_count(c, progress);
    c->progress = *progress;
    c->counting = true;
    if (!c->bad_lines) /* the first report of this start, or memory was short */
        precision_keep(c);
    if (news) {
        free(c->bad_lines);
        c->bad_lines = bad_lines; /* NULL without memory: the next report tries again */
    }
    if (saved) /* what led to a save does not count; if this fails, the next save tries again */
        (void)hs__run_table_done(hs__run_table_prepare(
            c, "UPDATE runs SET starts = 0, pauses = 0, restarted = 0 WHERE id = ?1", c->current, NULL));
    pthread_mutex_unlock(&c->lock);
}

/* Counts the input from the last save, or from its beginning if there is none. */
static hs_status run_continue(hs_runs *c, const hs__run_row *row, hs__corpus_job *job, hs_error *err)
{
    static const char *const names[] = {"upload"};
    char dir[HS__RUN_PATH_MAX], input[HS__RUN_PATH_MAX];
    const char *inputs[] = {input};
    hs__run_path(c, row->id, "", dir);
    hs__run_path(c, row->id, "input", input);
    job->inputs = inputs;
    job->input_names = names;
    job->n_inputs = job->n_shards = 1;
    job->dir = dir;
    job->save_first = row->starts > 0 || row->pauses > 0 || strcmp(c->waiting, row->id) == 0;
    job->save_ms = row->starts > 0 ? SAVE_SOON_MS : SAVE_MS;
    job->resume = job->yielding = true;
    job->stop = &c->stop;
    job->progress = on_progress;
    job->progress_data = c;
    c->counting = false;
    return hs__corpus_run(job, err);
}

/* Continues the run. A restarted one whose save is damaged, or of another model or precision, begins anew. */
static hs_status run_through(hs_runs *c, const hs__run_row *row, hs__corpus_job *job, hs_error *err)
{
    hs_error why = {0};
    const hs_status st = run_continue(c, row, job, &why);
    if (st != HS_INVALID || !row->restarted || c->counting)
        return st ? hs_fail(err, st, "%s", why.text) : HS_OK;
    hs__run_path_strip(c, row->id, why.text);
    hs__log("info", "corpus run %s begins anew: %s", row->id, why.text);
    return hs__run_results_remove(c, row->id) ? run_continue(c, row, job, err)
                                              : hs_fail(err, HS_IO, "the old results cannot be removed");
}

/* Takes the progress from a checkpoint: a run that was cancelled in the middle of texts has counted more. */
static void progress_take(hs_runs *c, const hs__corpus_results *results)
{
    char *bad_lines = results->bad ? bad_lines_text(results->bad) : strdup("[]");
    pthread_mutex_lock(&c->lock);
    c->progress.texts = results->stats ? hs__texts_counted(results) : 0;
    c->progress.bad_lines = results->bad ? hs__bad_lines_count(results->bad) : 0;
    c->progress.blank_lines = results->position.n_blank;
    c->progress.empty_texts = results->n_empty + results->position.n_blank;
    free(c->bad_lines);
    c->bad_lines = bad_lines; /* NULL without memory: the row keeps its own */
    pthread_mutex_unlock(&c->lock);
}

/* Writes the report of a cancelled run if at least one text was counted. */
static hs_status part_report(hs_runs *c, const char *id, hs_error *err)
{
    char dir[HS__RUN_PATH_MAX];
    hs__corpus_results results = {0};
    hs__run_path(c, id, "", dir);
    hs_status st = hs__run_checkpoint_load(dir, &results, err);
    if (!st || st == HS_NOT_FOUND)
        progress_take(c, &results);
    if (!st && hs_corpus_stats_texts(results.stats))
        st = hs__corpus_report_write(&results, dir, NULL, err);
    hs__corpus_results_finish(&results);
    return st;
}

/* ---- before and after ---- */

/* Returns true if a run that failed so can go on when there is more of what it lacked. */
static bool is_shortage(hs_status st)
{
    return st == HS_NO_SPACE || st == HS_NO_MEMORY;
}

/* Returns the row's new state; NULL if the run resumes at the next start. */
static const char *state_after(const hs_runs *c, hs_status st)
{
    if (st == HS_OK)
        return "done";
    if (st == HS_CANCELLED)
        return c->cancel ? "cancelled" : NULL;
    return is_shortage(st) ? "queued" : "failed";
}

/* Saves the outcome in the row. Returns false if that fails. The lock is held. */
static bool row_end(hs_runs *c, const char *id, const char *state, const char *error)
{
    char dir[HS__RUN_PATH_MAX];
    hs__run_path(c, id, "", dir);
    sqlite3_stmt *s = hs__run_table_prepare(
        c,
        "UPDATE runs SET bad_lines = coalesce(?1, bad_lines), bad_lines_total = ?3,"
        " texts_done = ?4, empty_texts = ?8, starts = 0, state = coalesce(?5, state), error = ?6,"
        " pauses = pauses + (?5 IS 'queued'),"
        " bytes = iif(?5 IS NULL OR ?5 = 'queued', bytes, ?7) WHERE id = ?2",
        c->bad_lines, id);
    if (s) {
        sqlite3_bind_int64(s, 3, (sqlite3_int64)c->progress.bad_lines);
        sqlite3_bind_int64(s, 4, (sqlite3_int64)c->progress.texts);
        sqlite3_bind_int64(s, 8, (sqlite3_int64)c->progress.empty_texts);
        sqlite3_bind_text(s, 5, state, -1, SQLITE_STATIC);
        sqlite3_bind_text(s, 6, error, -1, SQLITE_STATIC);
        sqlite3_bind_int64(s, 7, (sqlite3_int64)hs__folder_bytes(dir));
    }
    const bool ok = hs__run_table_done(s);
    if (ok)
        c->begun[0] = '\0';
    else
        hs__log("error", "corpus run %s: its outcome could not be saved: %s", id, sqlite3_errmsg(c->db));
    hs__run_table_count_bytes(c);
    return ok;
}

/* Counts and logs how the run ended, or that it waits. */
static void outcome_tell(hs_runs *c, const hs__run_row *row, hs_status st, const char *why)
{
    const bool waits = is_shortage(st), waited = strcmp(c->waiting, row->id) == 0;
    if (waits && !waited && row->pauses == 0)
        hs__log("warning", "corpus run %s waits: %s", row->id, why);
    if (waits || waited) {
        snprintf(c->waiting, sizeof c->waiting, "%s", waits ? row->id : "");
        snprintf(c->waiting_why, sizeof c->waiting_why, "%.255s", why);
    }
    if (waits) {
        c->paused_ns = hs_clock_ns();
        return;
    }
    if (st != HS_CANCELLED || c->cancel)
        atomic_fetch_add(st == HS_OK          ? &c->counts.done
                         : st == HS_CANCELLED ? &c->counts.cancelled
                                              : &c->counts.failed,
                         1);
    hs__log(st && st != HS_CANCELLED ? "error" : "info", "corpus run %s: %s", row->id,
            st == HS_OK          ? "done"
            : st == HS_CANCELLED ? "stopped"
                                 : why);
}

/* The lock is held. */
static bool run_end(hs_runs *c, const hs__run_row *row, hs_status st, hs_error *err)
{
    hs__run_path_strip(c, row->id, err->text);
    const bool ok = row_end(c, row->id, state_after(c, st), st && st != HS_CANCELLED ? err->text : NULL);
    c->current[0] = '\0';
    atomic_store(&c->counts.running, false);
    free(c->bad_lines);
    c->bad_lines = NULL;
    outcome_tell(c, row, st, err->text);
    return ok;
}

/* The lock is held. */
static void run_begin(hs_runs *c, const hs__run_row *row)
{
    const bool again = strcmp(c->begun, row->id) == 0; /* its outcome could not be saved */
    snprintf(c->current, sizeof c->current, "%s", row->id);
    memcpy(c->begun, c->current, sizeof c->begun);
    c->cancel = false;
    atomic_store(&c->counts.running, true);
    c->progress = row->progress;
    atomic_store(&c->stop, c->stopping);
    /* if this fails, the state 'queued' has the same effect */
    sqlite3_stmt *s = hs__run_table_prepare(
        c, "UPDATE runs SET state = 'running', error = NULL, starts = starts + ?2 WHERE id = ?1", row->id,
        NULL);
    if (s)
        sqlite3_bind_int(s, 2, !again);
    (void)hs__run_table_done(s);
}

/* Waits, or returns early if c->changed is signalled. The lock is held. */
static void wait_ms(hs_runs *c, unsigned milliseconds)
{
    const struct timespec end = hs_clock_after_ms(milliseconds);
    if (!c->stopping)
        pthread_cond_clockwait(&c->changed, &c->lock, CLOCK_MONOTONIC, &end);
}

/* Checks memory and disk, of which requests and other programs may use some. The lock is held. */
static hs_status capacity_check(hs_runs *c, const hs__run_row *row, uint64_t n_input, hs__run_plan *plan,
                                hs_error *err)
{
    char dir[HS__RUN_PATH_MAX];
    hs__run_path(c, row->id, "", dir);
    c->memory_free = hs__runs_memory(c);
    hs_status st =
        hs__corpus_workers_fit(&plan->needs, &c->memory_free, c->n_workers, &plan->job.n_workers, err);
    if (st)
        return st;
    const uint64_t there = hs__folder_bytes(dir);
    return hs__corpus_disk_fits(&plan->needs, dir, there > n_input ? there - n_input : 0, err);
}

/* Measures the input, which must be the file that an upload wrote: a pipe has no end, and a link may show
 * another file. */
static hs_status input_measure(const hs_runs *c, const char *id, uint64_t *ret_bytes, hs_error *err)
{
    char path[HS__RUN_PATH_MAX];
    struct stat file;
    hs__run_path(c, id, "input", path);
    if (lstat(path, &file))
        return hs_fail(err, HS_IO, "cannot read the upload: %s", hs__errno_text(errno));
    *ret_bytes = (uint64_t)file.st_size;
    return S_ISREG(file.st_mode) ? HS_OK : hs_fail(err, HS_IO, "the upload is no file; send the texts again");
}

/* Plans the run and checks that it can begin. The lock is held. */
static hs_status run_prepare(hs_runs *c, const hs__run_row *row, hs__run_plan *ret_plan, hs_error *err)
{
    if (row->starts >= STARTS_MAX)
        return hs_fail(
            err, HS_INVALID,
            "the server was killed %d times during this run, perhaps because memory ran out; restart the "
            "run, or send it again with fewer layers or a smaller window",
            row->starts);
    size_t wrong;
    uint64_t n_input = 0;
    hs_status st = input_measure(c, row->id, &n_input, err);
    if (!st)
        st = hs__run_plan_make(c, row, ret_plan, &wrong, err);
    return st ? st : capacity_check(c, row, n_input, ret_plan, err);
}

/* Removes the reports of a restarted run: they are in the space of its next saves. */
static void reports_remove(const hs_runs *c, const char *id)
{
    static const char *const names[] = {HS__REPORT_JSON, HS__REPORT_NPZ, HS__REPORT_HTML};
    char path[HS__RUN_PATH_MAX];
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        hs__run_path(c, id, names[k], path);
        (void)unlink(path);
    }
}

/* Executes one run until it ends, stops or lacks something. Returns false if its outcome could not be saved.
 * The lock is held, and released meanwhile. */
static bool run_one(hs_runs *c, const hs__run_row *row, hs__run_plan *plan)
{
    hs_error err = {0}, why = {0};
    run_begin(c, row);
    hs_status st = run_prepare(c, row, plan, &err);
    if (!st) {
        c->precision = hs_engine_precision(plan->job.engine);
        pthread_mutex_unlock(&c->lock);
        if (plan->job.n_workers < c->n_workers)
            hs__log("warning", "corpus run %s: memory suffices for %zu of %zu workers", row->id,
                    plan->job.n_workers, c->n_workers);
        if (row->restarted)
            reports_remove(c, row->id);
        st = run_through(c, row, &plan->job, &err);
        pthread_mutex_lock(&c->lock);
    }
    if (is_shortage(st) && c->cancel)
        st = HS_CANCELLED;
    if (st == HS_CANCELLED && c->cancel) {
        pthread_mutex_unlock(&c->lock);
        if (part_report(c, row->id, &why) && why.status != HS_NOT_FOUND)
            hs__log("error", "corpus run %s was cancelled and has no report: %s", row->id, why.text);
        pthread_mutex_lock(&c->lock);
    }
    hs__run_plan_finish(plan);
    return run_end(c, row, st, &err);
}

/* Waits before a paused run is tried again, or until something changes. The lock is held, and released
 * meanwhile. Returns true if the run's turn has come. */
static bool pause_pass(hs_runs *c, const hs__run_row *row)
{
    const int times = row->pauses < PAUSE_GROWS_MAX ? row->pauses : PAUSE_GROWS_MAX;
    const uint64_t end = c->paused_ns + (uint64_t)times * AGAIN_MS * 1000000, now = hs_clock_ns();
    if (!row->pauses || now >= end)
        return true;
    wait_ms(c, (unsigned)((end - now) / 1000000 + 1));
    return false;
}

/* Thread function: executes runs until c->stopping. data: the hs_runs. */
static void *runs_execute(void *data)
{
    hs_runs *c = data;
    hs__run_plan *plan = c->plan;
    hs_error logged = {0};
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    /* This thread unpacks and splits texts and draws reports. It gets a lower priority, but not the idle
     * class of the workers: it takes the lock that requests wait for. */
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICENESS);
    pthread_mutex_lock(&c->lock);
    while (!c->stopping) {
        hs__run_row row;
        hs_error err = {0};
        hs_status st;
        bool failed = false;
        if (!c->db)
            failed = hs__run_folders_open(c, &err) != HS_OK;
        else if ((st = hs__run_table_next(c, &row, &err)) == HS_OK) {
            if (!pause_pass(c, &row))
                continue;
            failed = !run_one(c, &row, plan);
        } else if (st == HS_NOT_FOUND)
            pthread_cond_wait(&c->changed, &c->lock);
        else
            failed = true;
        if (failed && err.status && strcmp(err.text, logged.text) != 0)
            hs__log("error", "corpus runs wait until this works: %s", err.text);
        logged = err;
        if (failed) /* tries again after a pause */
            wait_ms(c, AGAIN_MS);
    }
    free(plan);
    c->ended = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* ---- open, start, stop, close ----
 *
 * One lock guards rows and progress. Functions hold it for a statement or two, never during a run or an
 * upload. */

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
    c->plan = calloc(1, sizeof *c->plan);
    const int why = c->plan ? pthread_create(&c->thread, NULL, runs_execute, c) : ENOMEM;
    if (why) {
        free(c->plan);
        return hs_fail(err, HS_NO_MEMORY, "no memory or thread for corpus runs: %s", hs__errno_text(why));
    }
    atomic_store(&c->started, true);
    return HS_OK;
}

hs_status hs__runs_check(hs_runs *c, hs_error *err)
{
    if (!atomic_load(&c->started))
        return hs_fail(err, HS_IO,
                       "The server has no memory or thread for corpus runs yet. Try again in a few seconds.");
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
