/* test_runs.c - runs of a server without its sockets: uploads, states, and what a restart finds.
 *
 * The test can hold a run's worker before its first text, and it moves the clock. */
#include "server/runs/runs.h"
#include "tests/unit/api_fixture.h"
#include "tests/unit/chaos.h"
#include "tests/unit/command_output.h"
#include "tests/unit/faults.h"
#include "tests/unit/moved_clock.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <math.h>
#include <sched.h>
#include <semaphore.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { N_TEXTS = 20, SPACE_MAX = 1 << 30 };

static api_fixture api;
static hs_catalog_options options;
static char top[] = "/tmp/headscope-runs-XXXXXX", dir[64];
static hs_runs *runs;

/* ---- a worker that waits ---- */

static sem_t begun, released, dropped;
static atomic_bool holding;

/* A worker of a run calls this before it takes its first block. */
int sched_setscheduler(pid_t pid, int policy, const struct sched_param *param)
{
    (void)pid, (void)policy, (void)param;
    if (!atomic_load(&holding))
        return 0;
    sem_post(&begun);
    while (sem_wait(&released))
        ;
    return 0;
}

/* The reader of a stopped run calls this after it has dropped the blocks that no worker took. */
int pthread_setschedparam(pthread_t thread, int policy, const struct sched_param *param)
{
    (void)thread, (void)policy, (void)param;
    sem_post(&dropped);
    return 0;
}

/* Waits until a worker is held. */
static void worker_await(void)
{
    while (sem_wait(&begun))
        ;
}

/* Waits until the run of a held worker has seen that it is to stop. */
static void stop_await(void)
{
    clock_move_ms(1000); /* it looks a few times a second */
    while (sem_wait(&dropped))
        ;
}

static void worker_release(void)
{
    atomic_store(&holding, false);
    sem_post(&released);
}

/* ---- the server's state ---- */

static void runs_open(const char *name, uint64_t bytes_max)
{
    hs_error err = {0};
    snprintf(dir, sizeof dir, "%s/%s", top, name);
    ck_assert_msg(hs__runs_open(dir, 1, bytes_max, &runs, &err) == HS_OK, "%s", err.text);
    ck_assert_msg(hs__runs_start(runs, api.api, &options, &err) == HS_OK, "%s", err.text);
}

static void setup(void)
{
    chaos_sqlite();
    api_open(&(hs_api_options){0}, &api);
    ck_assert_ptr_nonnull(mkdtemp(top));
    ck_assert_int_eq(sem_init(&begun, 0, 0) + sem_init(&released, 0, 0) + sem_init(&dropped, 0, 0), 0);
    runs_open("state", SPACE_MAX);
}

static void teardown(void)
{
    char command[100];
    ck_assert(hs__runs_close(runs));
    snprintf(command, sizeof command, "rm -r %s", top);
    ck_assert_int_eq(system(command), 0);
    sem_destroy(&begun);
    sem_destroy(&released);
    sem_destroy(&dropped);
    api_close(&api);
}

/* Leaves this server's state as it is, and opens a copy of it, as a killed server's successor does. Returns
 * the server to close. */
static hs_runs *killed_and_reopened(const char *name)
{
    char command[200];
    hs_runs *before = runs;
    snprintf(command, sizeof command, "cp -r %s %s/%s", dir, top, name);
    ck_assert_int_eq(system(command), 0);
    runs_open(name, SPACE_MAX);
    return before;
}

/* Returns the number of folders of runs. */
static size_t folders(void)
{
    char path[100];
    size_t n = 0;
    snprintf(path, sizeof path, "%s/runs", dir);
    DIR *folder = opendir(path);
    ck_assert_ptr_nonnull(folder);
    for (const struct dirent *entry; (entry = readdir(folder));)
        n += *entry->d_name != '.';
    closedir(folder);
    return n;
}

/* Fills a request with default settings but one, which may be NULL. */
static hs_run_request request_make(const char *setting, const char *value)
{
    hs_run_request request = {.name = "a run", .model = "mini"};
    for (size_t k = 0; k < hs__settings_count(); k++)
        request.settings[k] = "";
    request.settings[hs__setting_find("max_tokens")] = "8";
    request.settings[hs__setting_find("layers")] = "0";
    if (setting)
        request.settings[hs__setting_find(setting)] = value;
    return request;
}

static hs_upload *upload_begin(void)
{
    const hs_run_request request = request_make(NULL, NULL);
    const char *wrong;
    hs_error err = {0};
    hs_upload *upload = NULL;
    ck_assert_msg(hs__upload_begin(runs, &request, 0, &upload, &wrong, &err) == HS_OK, "%s", err.text);
    return upload;
}

static void text_send(hs_upload *upload, const char *text)
{
    hs_error err = {0};
    ck_assert_msg(hs__upload_add(upload, text, strlen(text), &err) == HS_OK, "%s", err.text);
}

/* Requests a run over N_TEXTS texts. */
static void run_request(char ret_id[HS_RUN_ID_MAX + 1])
{
    hs_error err = {0};
    hs_upload *upload = upload_begin();
    for (int i = 0; i < N_TEXTS; i++) {
        text_send(upload, "The river flows ");
        text_send(upload, "past the town.\n");
    }
    ck_assert_msg(hs__upload_finish(upload, ret_id, &err) == HS_OK, "%s", err.text);
}

/* Requests a run and waits until its worker is held. */
static void held_run_request(char ret_id[HS_RUN_ID_MAX + 1])
{
    atomic_store(&holding, true);
    run_request(ret_id);
    worker_await();
}

/* ---- states ---- */

/* Returns a run, or NULL. */
static json_t *run_get(const char *id)
{
    json_t *run;
    const hs_status st = hs__run_get(runs, id, &run, NULL);
    ck_assert_int_eq(st, run ? HS_OK : HS_NOT_FOUND);
    return run;
}

/* Copies a text member of a run; "" if it is null. Returns false if there is no such run. */
static bool member_get(const char *id, const char *name, char ret[300])
{
    json_t *run = run_get(id);
    const char *text = json_string_value(json_object_get(run, name));
    snprintf(ret, 300, "%s", text ? text : "");
    json_decref(run);
    return run != NULL;
}

static void check_state(const char *id, const char *expected)
{
    char state[300];
    ck_assert(member_get(id, "state", state));
    ck_assert_str_eq(state, expected);
}

/* Waits until a run is no longer queued or running. The clock goes on meanwhile: a refused allocation of the
 * run pauses it. */
static void end_await(const char *id)
{
    char state[300];
    while (member_get(id, "state", state) &&
           (strcmp(state, "queued") == 0 || strcmp(state, "running") == 0)) {
        usleep(1000);
        clock_move_ms(10);
    }
}

static json_int_t texts_done(const char *id)
{
    json_t *run = run_get(id);
    const json_int_t n = json_integer_value(json_object_get(run, "texts_done"));
    json_decref(run);
    return n;
}

static bool has_report(const char *id)
{
    uint64_t n_bytes;
    int fd;
    if (hs__run_report_open(runs, id, "report.json", &fd, &n_bytes, NULL))
        return false;
    close(fd);
    return n_bytes > 0;
}

START_TEST(an_upload_is_queued_runs_and_is_done)
{
    char first[HS_RUN_ID_MAX + 1], second[HS_RUN_ID_MAX + 1];
    held_run_request(first);
    run_request(second);
    check_state(first, "running");
    check_state(second, "queued");
    ck_assert(!has_report(first));
    worker_release();
    end_await(first);
    end_await(second);
    check_state(first, "done");
    check_state(second, "done");
    ck_assert_int_eq(texts_done(first), N_TEXTS);
    ck_assert(has_report(first) && has_report(second));
    hs_runs_counts counts;
    hs__runs_count(runs, &counts);
    ck_assert_uint_eq(counts.done, 2);
    ck_assert_uint_eq(counts.texts, 2 * N_TEXTS);
}
END_TEST

START_TEST(a_queued_run_is_cancelled_at_once_and_can_be_restarted)
{
    char first[HS_RUN_ID_MAX + 1], second[HS_RUN_ID_MAX + 1];
    held_run_request(first);
    run_request(second);
    ck_assert_int_eq(hs__run_restart(runs, second, NULL), HS_BUSY);
    ck_assert_int_eq(hs__run_cancel(runs, second, NULL), HS_OK);
    check_state(second, "cancelled");
    ck_assert_int_eq(hs__run_restart(runs, second, NULL), HS_OK);
    check_state(second, "queued");
    worker_release();
    end_await(second);
    check_state(second, "done");
    ck_assert_int_eq(hs__run_cancel(runs, second, NULL), HS_OK); /* it stays */
    check_state(second, "done");
    ck_assert_int_eq(hs__run_restart(runs, second, NULL), HS_BUSY);
}
END_TEST

START_TEST(a_running_run_is_cancelled_but_not_deleted)
{
    char id[HS_RUN_ID_MAX + 1];
    hs_error err = {0};
    held_run_request(id);
    ck_assert_int_eq(hs__run_delete(runs, id, &err), HS_BUSY);
    ck_assert_int_eq(hs__run_cancel(runs, id, NULL), HS_OK);
    stop_await();
    check_state(id, "running"); /* its worker has not ended */
    worker_release();
    end_await(id);
    check_state(id, "cancelled");
    ck_assert(!has_report(id)); /* no text was counted */
    ck_assert_int_eq(hs__run_delete(runs, id, NULL), HS_OK);
    ck_assert_ptr_null(run_get(id));
    ck_assert_uint_eq(folders(), 0);
}
END_TEST

START_TEST(nothing_is_done_to_runs_that_are_not_there)
{
    static const char *const ids[] = {"0123456789abcdef", "", "../../../etc/pass"};
    for (size_t k = 0; k < sizeof ids / sizeof *ids; k++) {
        ck_assert_ptr_null(run_get(ids[k]));
        ck_assert_int_eq(hs__run_cancel(runs, ids[k], NULL), HS_NOT_FOUND);
        ck_assert_int_eq(hs__run_restart(runs, ids[k], NULL), HS_NOT_FOUND);
        ck_assert_int_eq(hs__run_delete(runs, ids[k], NULL), HS_NOT_FOUND);
        ck_assert(!has_report(ids[k]));
    }
}
END_TEST

/* ---- uploads ---- */

START_TEST(an_upload_that_ends_early_leaves_nothing)
{
    hs_runs_counts counts;
    hs_upload *upload = upload_begin();
    text_send(upload, "The river flows past the town.\n");
    ck_assert_uint_eq(folders(), 1);
    hs__upload_abandon(upload);
    json_t *list;
    ck_assert_int_eq(hs__runs_list(runs, 0, HS_RUNS_PAGE, &list, NULL), HS_OK);
    ck_assert_uint_eq(json_array_size(json_object_get(list, "corpora")), 0);
    json_decref(list);
    ck_assert_uint_eq(folders(), 0);
    hs__runs_count(runs, &counts);
    ck_assert_uint_eq(counts.bytes, 0);
}
END_TEST

START_TEST(an_upload_without_a_text_is_refused)
{
    char id[HS_RUN_ID_MAX + 1];
    hs_error err = {0};
    hs_upload *upload = upload_begin();
    text_send(upload, " \n\n");
    ck_assert_int_eq(hs__upload_finish(upload, id, &err), HS_INVALID);
    ck_assert_ptr_null(strstr(err.text, top)); /* the server's paths are not for clients */
    ck_assert_ptr_null(run_get(id));
    ck_assert_uint_eq(folders(), 0);
}
END_TEST

static const struct {
    const char *model, *setting, *value, *wrong;
    hs_status status;
} mistakes[] = {
    {"none", NULL, NULL, "model", HS_NOT_FOUND},
    {"mini", "max_tokens", "1", "max_tokens", HS_INVALID},
    {"mini", "layers", "99", "layers", HS_INVALID},
    {"mini", "thresholds", "0.3,0.2", "thresholds", HS_INVALID},
    {"mini", "search_texts", "-1", "search_texts", HS_INVALID},
};
enum { N_MISTAKES = sizeof mistakes / sizeof *mistakes };

START_TEST(a_wrong_option_is_named_before_any_text_is_read)
{
    for (size_t k = 0; k < N_MISTAKES; k++) {
        hs_run_request request = request_make(mistakes[k].setting, mistakes[k].value);
        const char *wrong = NULL;
        hs_upload *upload = NULL;
        request.model = mistakes[k].model;
        ck_assert_int_eq(hs__upload_begin(runs, &request, 0, &upload, &wrong, NULL), mistakes[k].status);
        ck_assert_ptr_null(upload);
        ck_assert_ptr_nonnull(wrong);
        ck_assert_str_eq(wrong, mistakes[k].wrong);
    }
    ck_assert_uint_eq(folders(), 0);
}
END_TEST

/* Changes the database as another program may. */
static void database_change(const char *sql)
{
    char path[100];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/corpora.db", dir);
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

START_TEST(a_server_keeps_a_thousand_runs)
{
    const hs_run_request request = request_make(NULL, NULL);
    const char *wrong;
    hs_error err = {0};
    hs_upload *upload = NULL;
    database_change("WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < 999)"
                    " INSERT INTO runs(id, name, model, max_tokens, layers, thresholds, state)"
                    " SELECT printf('%016x', k), 'old', 'mini', 8, '0', '0.3', 'done' FROM n");
    hs__upload_abandon(upload_begin());
    database_change("INSERT INTO runs(id, name, model, max_tokens, layers, thresholds, state)"
                    " VALUES(printf('%016x', 1000), 'last', 'mini', 8, '0', '0.3', 'failed')");
    ck_assert_int_eq(hs__upload_begin(runs, &request, 0, &upload, &wrong, &err), HS_NO_SPACE);
    ck_assert_msg(strstr(err.text, "keeps 1000 runs"), "%s", err.text);
    ck_assert_ptr_null(upload);
    ck_assert_uint_eq(folders(), 0);
    ck_assert_int_eq(hs__run_delete(runs, "00000000000003e8", NULL), HS_OK);
    hs__upload_abandon(upload_begin());
}
END_TEST

START_TEST(a_large_upload_is_written_whole)
{
    enum { PIECE = 1 << 20, N_PIECES = 9 };
    char pattern[100];
    struct stat input;
    glob_t found;
    hs_upload *upload = upload_begin();
    char *piece = malloc(PIECE + 1);
    ck_assert_ptr_nonnull(piece);
    memset(piece, 'a', PIECE);
    piece[PIECE - 1] = '\n';
    piece[PIECE] = 0;
    for (int k = 0; k < N_PIECES; k++)
        text_send(upload, piece);
    snprintf(pattern, sizeof pattern, "%s/runs/*/*", dir);
    ck_assert_int_eq(glob(pattern, GLOB_PERIOD, NULL, &found), 0);
    ck_assert_int_eq(stat(found.gl_pathv[found.gl_pathc - 1], &input), 0);
    ck_assert_int_eq(input.st_size, (off_t)N_PIECES * PIECE);
    globfree(&found);
    hs__upload_abandon(upload);
    ck_assert_uint_eq(folders(), 0);
    free(piece);
}
END_TEST

/* A run takes the bytes of its input, and of what it is said to need. */
START_TEST(runs_and_uploads_share_the_space)
{
    char id[HS_RUN_ID_MAX + 1];
    hs_runs_counts one;
    hs_error err = {0};
    const char *wrong;
    hs_upload *upload = NULL;
    const hs_run_request request = request_make(NULL, NULL);
    held_run_request(id);
    hs__runs_count(runs, &one);
    worker_release();
    end_await(id);
    ck_assert(hs__runs_close(runs));
    runs_open("narrow", one.bytes + 100);
    ck_assert_int_eq(hs__upload_begin(runs, &request, one.bytes, &upload, &wrong, &err), HS_NO_SPACE);
    ck_assert_ptr_nonnull(strstr(err.text, "--max-state leaves"));
    ck_assert_ptr_null(wrong);
    hs_upload *first = upload_begin(), *second = upload_begin(); /* headers cost nothing */
    char *much = calloc(1, one.bytes + 100);
    ck_assert_ptr_nonnull(much);
    text_send(first, "One text.\n");
    ck_assert_int_eq(hs__upload_add(second, much, one.bytes + 100, NULL), HS_NO_SPACE);
    free(much);
    hs__upload_abandon(second);
    ck_assert_int_eq(hs__upload_finish(first, id, NULL), HS_OK);
    end_await(id);
    check_state(id, "done");
}
END_TEST

/* ---- after a restart ---- */

START_TEST(a_run_goes_on_after_the_server_was_closed)
{
    char id[HS_RUN_ID_MAX + 1];
    held_run_request(id);
    hs__runs_stop(runs);
    stop_await();
    worker_release();
    ck_assert(hs__runs_close(runs));
    runs_open("state", SPACE_MAX);
    end_await(id);
    check_state(id, "done");
    ck_assert_int_eq(texts_done(id), N_TEXTS);
}
END_TEST

/* Moves the clock past the end of the wait of hs__runs_close. */
static void *clock_pass(void *data)
{
    const uint64_t before = *(const uint64_t *)data;
    while (atomic_load(&clock_awaited_ns) < before + 3 * CLOCK_SECOND_NS)
        usleep(1000);
    clock_move_ms(2999);
    usleep(20000);
    clock_move_ms(1);
    return NULL;
}

START_TEST(a_run_that_does_not_stop_is_left_after_three_seconds)
{
    char id[HS_RUN_ID_MAX + 1];
    uint64_t before;
    pthread_t thread;
    held_run_request(id);
    before = atomic_load(&clock_now_ns);
    ck_assert_int_eq(pthread_create(&thread, NULL, clock_pass, &before), 0);
    ck_assert(!hs__runs_close(runs));
    ck_assert_uint_eq(atomic_load(&clock_now_ns), before + 3 * CLOCK_SECOND_NS);
    pthread_join(thread, NULL);
    worker_release();
    ck_assert(hs__runs_close(runs)); /* the program would have ended */
    runs_open("state", SPACE_MAX);
    end_await(id);
    check_state(id, "done");
}
END_TEST

START_TEST(a_server_that_was_killed_removes_what_was_not_accepted)
{
    char id[HS_RUN_ID_MAX + 1];
    hs_upload *upload = upload_begin();
    text_send(upload, "The river flows past the town.\n");
    held_run_request(id);
    hs_runs *before = killed_and_reopened("second");
    ck_assert_uint_eq(folders(), 1);
    worker_await(); /* the same run, in the copy */
    check_state(id, "running");
    worker_release();
    worker_release();
    end_await(id);
    check_state(id, "done");
    hs__upload_abandon(upload);
    ck_assert(hs__runs_close(before));
}
END_TEST

START_TEST(a_run_during_which_the_server_is_killed_three_times_fails)
{
    static const char *const names[] = {"second", "third", "fourth"};
    char id[HS_RUN_ID_MAX + 1], error[300];
    hs_runs *before[3];
    held_run_request(id);
    for (int k = 0; k < 3; k++) {
        check_state(id, "running");
        before[k] = killed_and_reopened(names[k]);
        if (k < 2)
            worker_await();
    }
    end_await(id);
    check_state(id, "failed");
    ck_assert(member_get(id, "error", error));
    ck_assert_ptr_nonnull(strstr(error, "killed 3 times"));
    for (int k = 0; k < 3; k++)
        worker_release();
    ck_assert_int_eq(hs__run_restart(runs, id, NULL), HS_OK);
    end_await(id);
    check_state(id, "done");
    for (int k = 0; k < 3; k++)
        ck_assert(hs__runs_close(before[k]));
}
END_TEST

/* ---- memory runs out ---- */

static hs_status run_read(const char *id, json_t **ret, hs_error *err)
{
    return hs__run_get(runs, id, ret, err);
}

static hs_status list_read(const char *id, json_t **ret, hs_error *err)
{
    (void)id;
    return hs__runs_list(runs, 0, 1, ret, err);
}

static hs_status comparison_read(const char *id, json_t **ret, hs_error *err)
{
    return hs__runs_compare(runs, id, NAN, NULL, ret, err);
}

static hs_status search_read(const char *id, json_t **ret, hs_error *err)
{
    const char *wrong;
    const hs__search_query query = {.layer = "0", .head = "0", .limit = "3"};
    return hs__run_search(runs, id, hs__search_pairs, &query, ret, &wrong, err);
}

static hs_status examples_read(const char *id, json_t **ret, hs_error *err)
{
    const char *wrong;
    const hs__search_query query = {.layer = "0", .head = "0", .by = "self"};
    return hs__run_search(runs, id, hs__search_examples, &query, ret, &wrong, err);
}

static hs_status upload_try(const char *id, json_t **ret, hs_error *err)
{
    const char *wrong;
    const hs_run_request request = request_make("search_texts", "3");
    hs_upload *upload = NULL;
    (void)id;
    *ret = NULL;
    const hs_status st = hs__upload_begin(runs, &request, 0, &upload, &wrong, err);
    hs__upload_abandon(upload);
    return st;
}

static hs_status (*const reads[])(const char *id, json_t **ret, hs_error *err) = {
    run_read, list_read, comparison_read, search_read, examples_read, upload_try};
enum { N_READS = sizeof reads / sizeof *reads };

/* Requests a run with examples and texts to search, one of them unreadable, and waits for its end. */
static void small_run(char ret_id[HS_RUN_ID_MAX + 1])
{
    hs_run_request request = request_make("search_texts", "3");
    const char *wrong;
    hs_error err = {0};
    hs_upload *upload;
    request.settings[hs__setting_find("examples")] = "2";
    request.settings[hs__setting_find("input_format")] = "jsonl";
    ck_assert_msg(hs__upload_begin(runs, &request, 0, &upload, &wrong, &err) == HS_OK, "%s", err.text);
    text_send(upload, "\"The river flows past the town.\"\n{\n\"A bank of the river.\"\n");
    ck_assert_msg(hs__upload_finish(upload, ret_id, &err) == HS_OK, "%s", err.text);
    end_await(ret_id);
    check_state(ret_id, "done");
}

/* An answer for which an allocation was refused is whole, or there is none. */
START_TEST(answers_are_whole_or_refused)
{
    char id[HS_RUN_ID_MAX + 1];
    json_t *expected, *json;
    hs_error err = {0};
    bool refused = true;
    small_run(id);
    ck_assert_msg(reads[_i](id, &expected, &err) == HS_OK, "%s", err.text);
    const size_t live = chaos_live();
    for (size_t nth = 0; refused; nth += 1 + nth / 16) {
        err = (hs_error){0};
        chaos_refuse(nth);
        const hs_status st = reads[_i](id, &json, &err);
        refused = chaos_stop();
        ck_assert_msg(st == HS_OK || (refused && st == HS_NO_MEMORY), "allocation %zu: %s", nth, err.text);
        ck_assert_msg(st || json == expected || json_equal(json, expected), "allocation %zu: not whole", nth);
        if (st)
            ck_assert_ptr_null(json);
        json_decref(json);
        ck_assert_msg(chaos_live() == live, "allocation %zu: something leaked", nth);
    }
    json_decref(expected);
}
END_TEST

/* A database that cannot be read is no lack of memory. */
START_TEST(an_unreadable_database_is_named)
{
    hs_error err = {0};
    json_t *json;
    database_change("ALTER TABLE runs RENAME TO others");
    ck_assert_int_eq(reads[_i]("0123456789abcdef", &json, &err), HS_IO);
    ck_assert_msg(strstr(err.text, "corpora.db: no such table"), "%s", err.text);
    ck_assert_ptr_null(json);
}
END_TEST

/* The thread's next look at the database fails. */
START_TEST(a_thread_that_cannot_go_on_says_why)
{
    char path[100], text[4096] = "";
    ck_assert(hs__runs_close(runs));
    ck_assert_int_eq(hs__runs_open(dir, 1, SPACE_MAX, &runs, NULL), HS_OK);
    database_change("ALTER TABLE runs RENAME TO others");
    snprintf(path, sizeof path, "%s/messages", top);
    ck_assert_ptr_nonnull(freopen(path, "w", stderr));
    ck_assert_int_eq(hs__runs_start(runs, api.api, &options, NULL), HS_OK);
    while (!strchr(text, '\n')) {
        command_file_read(path, text, sizeof text - 1);
        usleep(1000);
    }
    ck_assert_msg(strstr(text, "corpus runs wait until this works: ") && strstr(text, "no such table: runs"),
                  "%s", text);
}
END_TEST

/* Uploads a run of one text. */
static hs_status run_send(char ret_id[HS_RUN_ID_MAX + 1], hs_error *err)
{
    static const char text[] = "The river flows past the town.\n";
    const hs_run_request request = request_make(NULL, NULL);
    const char *wrong;
    hs_upload *upload;
    hs_status st = hs__upload_begin(runs, &request, 0, &upload, &wrong, err);
    if (st)
        return st;
    st = hs__upload_add(upload, text, sizeof text - 1, err);
    if (!st)
        return hs__upload_finish(upload, ret_id, err);
    hs__upload_abandon(upload);
    return st;
}

static void call_fail(size_t nth)
{
    faults_begin(nth, EIO);
}

/* A trouble that happens once: a refused allocation, or a call to the system that fails. */
static const struct {
    void (*begin)(size_t nth);
    bool (*end)(void);
    const char *what;
} troubles[] = {{chaos_refuse, chaos_stop, "allocation"}, {call_fail, faults_end, "call"}};
enum { N_TROUBLES = sizeof troubles / sizeof *troubles };

/* Returns whether such a trouble explains the status. */
static bool explains(int trouble, bool happened, hs_status st)
{
    return st == HS_OK || (happened && (st == HS_NO_MEMORY) == (trouble == 0));
}

/* A new run is queued or there is no trace of it, while another one is held. */
START_TEST(an_upload_is_accepted_or_leaves_nothing)
{
    char held[HS_RUN_ID_MAX + 1], id[HS_RUN_ID_MAX + 1];
    bool refused = true;
    held_run_request(held);
    for (size_t nth = 0; refused; nth += 1 + nth / 16) {
        hs_error err = {0};
        troubles[_i].begin(nth);
        const hs_status st = run_send(id, &err);
        refused = troubles[_i].end();
        ck_assert_msg(explains(_i, refused, st), "%s %zu: %s", troubles[_i].what, nth, err.text);
        if (!st) {
            check_state(id, "queued");
            ck_assert_int_eq(hs__run_delete(runs, id, NULL), HS_OK);
        }
        ck_assert_msg(folders() == 1, "%s %zu: a folder stays", troubles[_i].what, nth);
    }
    worker_release();
    end_await(held);
}
END_TEST

/* Changes of a run that waits for another one. */
static const struct {
    hs_status (*make)(hs_runs *runs, const char *id, hs_error *err),
        (*undo)(hs_runs *runs, const char *id, hs_error *err);
    const char *before, *after;
} changes[] = {
    {hs__run_cancel, hs__run_restart, "queued", "cancelled"},
    {hs__run_restart, hs__run_cancel, "cancelled", "queued"},
};
enum { N_CHANGES = sizeof changes / sizeof *changes };

START_TEST(a_change_is_made_or_refused)
{
    const int change = _i % N_CHANGES, trouble = _i / N_CHANGES;
    char held[HS_RUN_ID_MAX + 1], id[HS_RUN_ID_MAX + 1];
    hs_error err = {0};
    bool refused = true;
    held_run_request(held);
    ck_assert_msg(run_send(id, &err) == HS_OK, "%s", err.text);
    if (strcmp(changes[change].before, "cancelled") == 0)
        ck_assert_int_eq(hs__run_cancel(runs, id, NULL), HS_OK);
    for (size_t nth = 0; refused; nth += 1 + nth / 16) {
        err = (hs_error){0};
        troubles[trouble].begin(nth);
        const hs_status st = changes[change].make(runs, id, &err);
        refused = troubles[trouble].end();
        ck_assert_msg(explains(trouble, refused, st), "%s %zu: %s", troubles[trouble].what, nth, err.text);
        check_state(id, st ? changes[change].before : changes[change].after);
        if (!st)
            ck_assert_int_eq(changes[change].undo(runs, id, NULL), HS_OK);
    }
    worker_release();
    end_await(held);
}
END_TEST

/* Without memory there is no thread, and the caller knows. */
START_TEST(a_thread_without_memory_is_refused)
{
    hs_error err = {0};
    ck_assert(hs__runs_close(runs));
    ck_assert_int_eq(hs__runs_open(dir, 1, SPACE_MAX, &runs, NULL), HS_OK);
    chaos_refuse(0);
    ck_assert_int_eq(hs__runs_start(runs, api.api, &options, &err), HS_NO_MEMORY);
    ck_assert(chaos_stop());
    ck_assert_int_eq(hs__runs_check(runs, NULL), HS_IO);
    ck_assert_int_eq(hs__runs_start(runs, api.api, &options, NULL), HS_OK);
}
END_TEST

/* A run is deleted, or the caller knows that it is not and the next start deletes it. */
START_TEST(a_run_is_deleted_now_or_at_the_next_start)
{
    char held[HS_RUN_ID_MAX + 1], id[HS_RUN_ID_MAX + 1];
    bool happened = true;
    size_t n_left = 0;
    held_run_request(held);
    for (size_t nth = 0; happened; nth++) {
        hs_error err = {0};
        ck_assert_msg(run_send(id, &err) == HS_OK, "%s", err.text);
        call_fail(nth);
        const hs_status st = hs__run_delete(runs, id, &err);
        happened = faults_end();
        ck_assert_msg(st == HS_OK || (happened && st == HS_IO), "call %zu: %s", nth, err.text);
        n_left += st != HS_OK;
        ck_assert_msg(folders() == 1 + n_left, "call %zu: not all or nothing", nth);
    }
    ck_assert(n_left);
    worker_release();
    end_await(held);
    ck_assert(hs__runs_close(runs));
    runs_open("state", SPACE_MAX);
    ck_assert_uint_eq(folders(), 1);
}
END_TEST

/* A server that cannot read its folder or database neither replaces the latter nor moves runs aside. */
START_TEST(a_start_that_fails_leaves_the_runs)
{
    const char *const what = troubles[_i].what;
    char id[HS_RUN_ID_MAX + 1], aside[100];
    bool refused = true;
    small_run(id);
    ck_assert(hs__runs_close(runs));
    snprintf(aside, sizeof aside, "%s/aside", dir);
    const size_t live = chaos_live();
    for (size_t nth = 0; refused; nth += 1 + nth / 32) {
        hs_error err = {0};
        runs = NULL;
        troubles[_i].begin(nth);
        const hs_status st = hs__runs_open(dir, 1, SPACE_MAX, &runs, &err);
        refused = troubles[_i].end();
        ck_assert_msg(explains(_i, refused, st), "%s %zu: status %d, %s", what, nth, (int)st, err.text);
        ck_assert(hs__runs_close(runs));
        ck_assert_msg(access(aside, F_OK), "%s %zu: something was moved aside: %s", what, nth, err.text);
        ck_assert_msg(chaos_live() == live, "%s %zu: something leaked", what, nth);
    }
    runs_open("state", SPACE_MAX);
    check_state(id, "done");
    ck_assert(has_report(id));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("runs");
    TCase *states = tcase_create("states"), *uploads = tcase_create("uploads"),
          *restarts = tcase_create("restarts"), *chaos = tcase_create("memory runs out");
    TCase *const all[] = {states, uploads, restarts, chaos};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        tcase_add_checked_fixture(all[k], setup, teardown);
        suite_add_tcase(suite, all[k]);
    }
    tcase_add_test(states, an_upload_is_queued_runs_and_is_done);
    tcase_add_test(states, a_queued_run_is_cancelled_at_once_and_can_be_restarted);
    tcase_add_test(states, a_running_run_is_cancelled_but_not_deleted);
    tcase_add_test(states, nothing_is_done_to_runs_that_are_not_there);
    tcase_add_test(uploads, an_upload_that_ends_early_leaves_nothing);
    tcase_add_test(uploads, an_upload_without_a_text_is_refused);
    tcase_add_test(uploads, a_wrong_option_is_named_before_any_text_is_read);
    tcase_add_test(uploads, a_server_keeps_a_thousand_runs);
    tcase_add_test(uploads, a_large_upload_is_written_whole);
    tcase_add_test(uploads, runs_and_uploads_share_the_space);
    tcase_add_test(restarts, a_run_goes_on_after_the_server_was_closed);
    tcase_add_test(restarts, a_run_that_does_not_stop_is_left_after_three_seconds);
    tcase_add_test(restarts, a_server_that_was_killed_removes_what_was_not_accepted);
    tcase_add_test(restarts, a_run_during_which_the_server_is_killed_three_times_fails);
    tcase_add_loop_test(chaos, answers_are_whole_or_refused, 0, N_READS);
    tcase_add_loop_test(restarts, an_unreadable_database_is_named, 0, 2); /* a run, and the list */
    tcase_add_test(restarts, a_thread_that_cannot_go_on_says_why);
    tcase_add_loop_test(chaos, an_upload_is_accepted_or_leaves_nothing, 0, N_TROUBLES);
    tcase_add_loop_test(chaos, a_change_is_made_or_refused, 0, N_CHANGES * N_TROUBLES);
    tcase_add_test(chaos, a_run_is_deleted_now_or_at_the_next_start);
    tcase_add_test(chaos, a_thread_without_memory_is_refused);
    tcase_add_loop_test(chaos, a_start_that_fails_leaves_the_runs, 0, N_TROUBLES);
    return tests_run(suite);
}
