/* test_corpus_run.c - the states of a run: stops at chosen moments, what a resumed run makes of them, and
 * when the file of pairs appears.
 *
 * This program stands before two functions of the scheduler, which a run's threads call at known moments, so
 * that a test can hold a worker until the run has stopped. */
#include "model/base/files.h"
#include "model/files/json.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/counters/examples.h"
#include "server/corpus/counters/pairs_file.h"
#include "server/corpus/counters/words.h"
#include "server/corpus/report/comparison.h"
#include "server/corpus/report/report.h"
#include "server/corpus/run/corpus_run.h"
#include "server/corpus/run/run_checkpoint.h"
#include "tests/unit/chaos.h"
#include "tests/unit/checkpoint.h"
#include "tests/unit/command_output.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { N_TEXTS = 20 };

static hs_model *model;
static hs_engine *engine;
static hs_runtime *runtime;
static char dir[] = "/tmp/headscope-run-XXXXXX", input[64];
static atomic_int stop;

/* ---- workers that wait ---- */

static sem_t released;
static atomic_bool holding;

/* A worker of a yielding run calls this before it takes its first block. */
int sched_setscheduler(pid_t pid, int policy, const struct sched_param *param)
{
    (void)pid, (void)policy, (void)param;
    while (atomic_load(&holding) && sem_wait(&released))
        ;
    return 0;
}

/* The reader of a stopped run calls this after it has dropped the blocks that no worker took. */
int pthread_setschedparam(pthread_t thread, int policy, const struct sched_param *param)
{
    (void)thread, (void)policy, (void)param;
    if (atomic_exchange(&holding, false))
        sem_post(&released);
    return 0;
}

/* ---- runs ---- */

/* Makes an engine of the model, and a folder for its runs. */
static void begin(void)
{
    ck_assert_int_eq(hs_runtime_create(1, &runtime, NULL), HS_OK);
    ck_assert_int_eq(
        hs_engine_create(runtime, hs_model_architecture(model), &(hs_engine_options){0}, &engine, NULL),
        HS_OK);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(input, sizeof input, "%s/input", dir);
    ck_assert_int_eq(sem_init(&released, 0, 0), 0);
    atomic_store(&stop, 0);
}

static void setup(void)
{
    ck_assert_int_eq(hs_model_open_embedded(&model, NULL), HS_OK);
    begin();
}

static void teardown(void)
{
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);
    sem_destroy(&released);
    hs_engine_destroy(engine);
    hs_runtime_destroy(runtime);
    hs_model_close(model);
}

static void input_write(const char *text, size_t n)
{
    FILE *file = fopen(input, "w");
    ck_assert_ptr_nonnull(file);
    for (size_t i = 0; i < n; i++)
        fprintf(file, "%s\n", text);
    ck_assert_int_eq(fclose(file), 0);
}

/* Stops the run once its input is read. */
static void on_progress(const hs__corpus_progress *progress, void *data)
{
    (void)data;
    if (atomic_load(&holding) && progress->share >= 1)
        atomic_store(&stop, 1);
}

static hs__corpus_job job_make(void)
{
    static const char *const inputs[] = {input};
    return (hs__corpus_job){.model = model,
                            .engine = engine,
                            .model_name = HS_EMBEDDED_NAME,
                            .inputs = inputs,
                            .n_inputs = 1,
                            .dir = dir,
                            .settings = {.fields = {.max_tokens = 16,
                                                    .layers = hs_all_numbers,
                                                    .n_layers = 1,
                                                    .attention_threshold = 0.3f},
                                         .thresholds = {0.3f},
                                         .n_thresholds = 1},
                            .n_workers = 1,
                            .n_shards = 1,
                            .save_ms = 1000000,
                            .resume = true,
                            .yielding = true,
                            .stop = &stop,
                            .progress = on_progress};
}

static hs_status run(hs_error *err)
{
    const hs__corpus_job job = job_make();
    return hs__corpus_run(&job, err);
}

/* Returns the number of texts in the checkpoint. */
static uint64_t texts_saved(void)
{
    hs__corpus_results results;
    ck_assert_int_eq(hs__run_checkpoint_load(dir, &results, NULL), HS_OK);
    const uint64_t n = hs_corpus_stats_texts(results.stats);
    hs__corpus_results_finish(&results);
    return n;
}

START_TEST(a_stop_before_the_first_text_is_counted_is_no_empty_input)
{
    hs_error err = {0};
    input_write("The river flows past the town.", N_TEXTS);
    atomic_store(&holding, true);
    ck_assert_msg(run(&err) == HS_CANCELLED, "%s", err.text);
    ck_assert_uint_eq(texts_saved(), 0);
    atomic_store(&stop, 0);
    err = (hs_error){0};
    ck_assert_msg(run(&err) == HS_OK, "%s", err.text);
    ck_assert_uint_eq(texts_saved(), N_TEXTS);
}
END_TEST

START_TEST(an_input_without_a_text_fails)
{
    hs_error err = {0};
    input_write("", N_TEXTS);
    ck_assert_int_eq(run(&err), HS_INVALID);
    ck_assert_msg(strstr(err.text, "there is no text in it"), "%s", err.text);
}
END_TEST

/* ---- the file of pairs ---- */

static const char *const pairs_names[] = {"pairs.csv", "pairs.csv.gz", "pairs.sqlite"};
enum { N_PAIRS_NAMES = sizeof pairs_names / sizeof *pairs_names };

/* Runs with a file of pairs in the folder, or with a name that begins with '/'. */
static hs_status run_with_pairs(const char *name, bool restart, hs_error *err)
{
    char path[100];
    snprintf(path, sizeof path, "%s%s%s", *name == '/' ? "" : dir, *name == '/' ? "" : "/", name);
    const hs__pairs_options pairs = {.path = path};
    hs__corpus_job job = job_make();
    job.pairs = &pairs;
    job.restart = restart;
    return hs__corpus_run(&job, err);
}

/* Returns the number of files in the folder whose names have this in them. */
static size_t files_with(const char *name)
{
    size_t n = 0;
    DIR *folder = opendir(dir);
    ck_assert_ptr_nonnull(folder);
    for (const struct dirent *entry; (entry = readdir(folder));)
        n += strstr(entry->d_name, name) != NULL;
    closedir(folder);
    return n;
}

START_TEST(pairs_appear_when_the_run_is_complete)
{
    hs_error err = {0};
    input_write("The river flows past the town.", N_TEXTS);
    atomic_store(&holding, true);
    ck_assert_msg(run_with_pairs(pairs_names[_i], false, &err) == HS_CANCELLED, "%s", err.text);
    ck_assert_uint_eq(files_with("pairs"), 0); /* nor an unfinished one */
    atomic_store(&stop, 0);
    err = (hs_error){0};
    ck_assert_msg(run_with_pairs(pairs_names[_i], true, &err) == HS_OK, "%s", err.text);
    ck_assert_uint_eq(files_with("pairs"), 1);
    ck_assert_uint_eq(files_with("unfinished"), 0);
}
END_TEST

START_TEST(pairs_that_cannot_be_opened_leave_the_run)
{
    hs_error err = {0};
    input_write("The river flows past the town.", N_TEXTS);
    ck_assert_int_eq(run(&err), HS_OK);
    ck_assert_int_eq(run_with_pairs("missing/pairs.csv", true, &err), HS_IO);
    ck_assert_msg(strstr(err.text, "No such file or directory"), "%s", err.text);
    ck_assert_uint_eq(texts_saved(), N_TEXTS);
}
END_TEST

START_TEST(pairs_that_cannot_be_written_say_why)
{
    hs_error err = {0};
    input_write("The river flows past the town.", N_TEXTS);
    ck_assert_int_eq(run_with_pairs("/dev/full", false, &err), HS_NO_SPACE);
    ck_assert_msg(strstr(err.text, "No space left on device"), "%s", err.text);
}
END_TEST

/* ---- the end of the input ---- */

/* A run that is stopped after its last text has this place. */
START_TEST(a_stream_skips_to_the_end_of_its_input)
{
    const char *const paths[] = {input};
    const hs__input_format format = {.format = HS__FORMAT_TEXT};
    hs__record_stream *stream = NULL;
    hs__input_position end;
    hs__record record = {.bytes = ""};
    hs_error err = {0};
    input_write("One text.", 3);
    ck_assert_int_eq(hs__record_stream_open(paths, 1, &format, NULL, &stream, &err), HS_OK);
    while (record.bytes)
        ck_assert_int_eq(hs__record_stream_next(stream, &record, &err), HS_OK);
    hs__record_stream_position(stream, &end);
    hs__record_stream_close(stream);
    ck_assert_int_eq(hs__record_stream_open(paths, 1, &format, NULL, &stream, &err), HS_OK);
    ck_assert_msg(hs__record_stream_skip(stream, &end, &err) == HS_OK, "%s", err.text);
    hs__record_stream_close(stream);
}
END_TEST

/* ---- the text of an example ---- */

static const struct {
    size_t n_tokens, token_bytes, reached, example;
} spans[] = {
    {3, 2, 6, 6}, {4000, 10, 40000, 16384}, {3, 40000, 16384, 16384}, /* tokens of any number of characters */
};
enum { N_SPANS = sizeof spans / sizeof *spans };

/* The text ends with its last token. A report's examples are cut shorter than those of `search`. */
START_TEST(a_text_is_kept_up_to_its_last_token)
{
    const size_t n = spans[_i].n_tokens, n_bytes = n * spans[_i].token_bytes;
    const hs__counter *examples = &hs__counter_examples;
    const hs__corpus_job job = job_make();
    void *counts = NULL, *worker = NULL;
    hs__corpus_results results = {0};
    hs__counting counting = {.counter = examples, .job = &job, .results = &results, .counts = &counts};
    char *bytes = malloc(n_bytes + 5);
    uint32_t *places = calloc(n + 1, sizeof *places);
    uint8_t *zeros = calloc(n, 1);
    ck_assert(bytes && places && zeros);
    memset(bytes, 'a', n_bytes + 5);
    for (size_t i = 0; i <= n; i++)
        places[i] = (uint32_t)(i * spans[_i].token_bytes);
    hs__text text = {
        .body = {.text = {bytes, n_bytes + 5}},
        .encoding = {.n_tokens = n, .starts = places, .ends = places + 1, .texts = zeros, .special = zeros}};
    hs__text_pass pass = {.texts = &text, .n = 1};
    ck_assert_int_eq(examples->begin(&counting, true, NULL), HS_OK);
    ck_assert_int_eq(hs__counter_worker_create(&counting, NULL, &worker, NULL), HS_OK);
    ck_assert_int_eq(examples->text(worker, &text, NULL), HS_OK);
    ck_assert_uint_eq(text.reached.n_bytes, spans[_i].reached);
    ck_assert_int_eq(examples->start(worker, &text, NULL), HS_OK);
    ck_assert_int_eq(examples->pass(worker, &pass, NULL), HS_OK);
    ck_assert_uint_eq(hs__example_first(counts)->text.n_bytes, spans[_i].example);
    hs__counter_worker_destroy(worker);
    examples->destroy(counts);
    free(bytes);
    free(places);
    free(zeros);
}
END_TEST

/* ---- memory runs out ---- */

static char small_dir[64];

static void small_setup(void)
{
    folder_create(small_dir);
    checkpoint_write(&(checkpoint){0}, small_dir);
    ck_assert_int_eq(hs_model_open(small_dir, NULL, &model, NULL), HS_OK);
    begin();
}

static void small_teardown(void)
{
    teardown();
    folder_remove(small_dir);
}

/* Inputs and settings that together use most counters. */
static const struct {
    const char *text, *names[4], *values[4];
} chaos_cases[] = {
    {"{\"text\": \"a b c d e f g h a b\"}", {"examples", "windows", "head_distances"}, {"2", "true", "js"}},
    {"1\tA\ta\tDET\t_\t_\t2\tdet\t_\t_\n2\triver\triver\tNOUN\t_\t_\t0\troot\t_\t_\n",
     {"input_format", "search_texts", "examples"},
     {"conllu", "3", "1"}},
    {"text,text_pair\na b c,d e\nc d,e f\n", {"special_tokens", "head_distances"}, {"keep", "cka"}},
};
enum { N_CHAOS_CASES = sizeof chaos_cases / sizeof *chaos_cases };

static hs_status small_run(int which, const char *out, hs_error *err)
{
    const char *texts[HS__SETTINGS_MAX] = {0};
    size_t wrong;
    hs__corpus_job job = job_make();
    texts[hs__setting_find("layers")] = "0";
    texts[hs__setting_find("thresholds")] = "0.3";
    for (size_t k = 0; chaos_cases[which].names[k]; k++)
        texts[hs__setting_find(chaos_cases[which].names[k])] = chaos_cases[which].values[k];
    hs_status st = hs__corpus_settings_read(texts, model, &job.settings, &wrong, err);
    job.dir = out;
    if (!st)
        st = hs__corpus_run(&job, err);
    hs__corpus_settings_finish(&job.settings);
    return st;
}

/* Reads the arrays of a report: all before the last member of report.npz, which holds dates. */
static void arrays_read(const char *out, hs_bytes *ret)
{
    enum { HEADER_BYTES = 30 }; /* of a member, before its name */
    char path[128];
    snprintf(path, sizeof path, "%s/report.npz", out);
    ck_assert_int_eq(hs_path_read(path, path, 1 << 24, ret, NULL), HS_OK);
    const uint8_t *last = memmem(ret->data, ret->size, "provenance.npy", 14);
    ck_assert_ptr_nonnull(last);
    ret->size = (size_t)(last - (const uint8_t *)ret->data) - HEADER_BYTES;
}

static void folder_empty(const char *out)
{
    char command[200];
    snprintf(command, sizeof command, "rm -rf %s; mkdir %s", out, out);
    ck_assert_int_eq(system(command), 0);
}

/* Each token of a text is masked and predicted, in a pass of its own. A pass that fails frees only what it
 * made, not the capture that the text has; of that, the runtime may keep blocks. */
START_TEST(a_pass_of_masked_tokens_survives_every_refused_allocation)
{
    enum { T = 6 };
    const hs__counter *masked = &hs__counter_masked_tokens;
    const hs_selection selection = {.taps = HS_KEEP(LAST_STATE)};
    const hs_corpus_options counted = {.layers = hs_all_numbers,
                                       .n_layers = 1,
                                       .n_heads = 12,
                                       .tokens_max = 16,
                                       .vocab_size = 8192,
                                       .thresholds = (float[]){0.3f},
                                       .n_thresholds = 1,
                                       .attention_threshold = 0.3f,
                                       .n_parts = 1,
                                       .masked = true};
    const char *texts[HS__SETTINGS_MAX] = {0};
    int32_t ids[T] = {2, 50, 51, 52, 53, 3};
    uint8_t special[T] = {1, 0, 0, 0, 0, 1};
    hs__text text = {.encoding = {.n_tokens = T, .ids = ids, .special = special}};
    hs__text_pass pass = {.texts = &text, .n = 1, .sequences = {{.ids = ids, .n_tokens = T}}};
    hs__corpus_job job = job_make();
    hs__corpus_results results = {.identity = json_pack("{sf}", "masked_share", 1.0)};
    hs__counting counting = {.counter = masked, .job = &job, .results = &results, .statistics = &counted};
    void *worker = NULL;
    size_t wrong;
    bool refused = true;
    texts[hs__setting_find("layers")] = "0";
    texts[hs__setting_find("thresholds")] = "0.3";
    texts[hs__setting_find("masked_share")] = "1";
    ck_assert_int_eq(hs__corpus_settings_read(texts, model, &job.settings, &wrong, NULL), HS_OK);
    counting.options = job.settings.options[HS__NUMBER_OF_masked_tokens];
    ck_assert_int_eq(hs_corpus_stats_create(&counted, &pass.statistics, NULL), HS_OK);
    ck_assert_int_eq(hs_workspace_create(engine, 16, &pass.workspace, NULL), HS_OK);
    ck_assert_int_eq(
        hs_capture_create(NULL, hs_engine_shape(engine), &selection, T, &pass.sequences[0].capture, NULL),
        HS_OK);
    ck_assert_int_eq(hs__counter_worker_create(&counting, NULL, &worker, NULL), HS_OK);
    for (size_t nth = 0; refused; nth++) {
        const size_t live = chaos_live();
        chaos_refuse(nth);
        const hs_status st = masked->pass(worker, &pass, NULL);
        refused = chaos_stop();
        ck_assert_int_eq(st, refused ? HS_NO_MEMORY : HS_OK);
        ck_assert_uint_ge(chaos_live(), live);
    }
    ck_assert_uint_eq(hs_corpus_masked_read(pass.statistics).n, 4);
    hs__counter_worker_destroy(worker);
    hs_capture_destroy(pass.sequences[0].capture);
    hs_workspace_destroy(pass.workspace);
    hs_corpus_stats_destroy(pass.statistics);
    json_decref(results.identity);
    hs__corpus_settings_finish(&job.settings);
}
END_TEST

/* A run that an allocation has ended continues to the same arrays. */
START_TEST(a_run_survives_every_refused_allocation)
{
    char out[80];
    hs_bytes expected, actual;
    hs_error err = {0};
    bool refused = true;
    snprintf(out, sizeof out, "%s/out", dir);
    input_write(chaos_cases[_i].text, 9);
    folder_empty(out);
    ck_assert_msg(small_run(_i, out, &err) == HS_OK, "%s", err.text);
    arrays_read(out, &expected);
    const size_t live = chaos_live();
    size_t nth = 0;
    for (; refused; nth += 1 + nth / 2) {
        folder_empty(out);
        err = (hs_error){0};
        chaos_refuse(nth);
        const hs_status st = small_run(_i, out, &err);
        refused = chaos_stop();
        ck_assert_msg(st == HS_OK || st == HS_NO_MEMORY, "allocation %zu refused: %s", nth, err.text);
        ck_assert_msg(chaos_live() == live, "allocation %zu refused: something leaked", nth);
        err = (hs_error){0};
        ck_assert_msg(small_run(_i, out, &err) == HS_OK, "allocation %zu refused: %s", nth, err.text);
        arrays_read(out, &actual);
        ck_assert_msg(actual.size == expected.size && memcmp(actual.data, expected.data, actual.size) == 0,
                      "allocation %zu refused: other arrays", nth);
        free((void *)actual.data);
    }
    free((void *)expected.data);
}
END_TEST

/* Adds statistics of labels and effects of heads, which only a model with labels gives. */
static void labels_add(hs__corpus_results *results)
{
    const hs_corpus_options o = hs_corpus_stats_options(results->stats);
    const size_t lengths[HS_LENGTHS] = {
        [HS_THRESHOLDS] = o.n_thresholds, [HS_LAYERS] = o.n_layers, [HS_HEADS] = o.n_heads, [HS_LABELS] = 2};
    results->counts[HS__NUMBER_OF_labelled_texts] = hs_sums_create(&hs_labels_kind, lengths, NULL);
    results->counts[HS__NUMBER_OF_head_effects] =
        hs_sums_create(hs__counter_head_effects.sums, lengths, NULL);
    json_object_set_new(results->names, "labels", json_loads("[\"bad\",\"good\"]", 0, NULL));
}

/* A part that is missing for lack of memory counts as refused, so that the whole report is. */
START_TEST(no_part_of_a_report_is_left_out_silently)
{
    enum { CONLLU = 1, N_REFUSED = 12 }; /* their own memory is what parts take first */
    char out[80];
    hs__corpus_results results;
    hs_error err = {0};
    snprintf(out, sizeof out, "%s/out", dir);
    input_write(chaos_cases[CONLLU].text, 9);
    folder_empty(out);
    ck_assert_msg(small_run(CONLLU, out, &err) == HS_OK, "%s", err.text);
    ck_assert_int_eq(hs__run_checkpoint_load(out, &results, NULL), HS_OK);
    labels_add(&results);
    json_t *whole = hs__corpus_report_json(&results);
    ck_assert_ptr_nonnull(whole);
    for (size_t c = 0; c < HS__N_COUNTERS; c++)
        for (size_t nth = 0; hs__counters[c]->report && nth < N_REFUSED; nth++) {
            json_t *report = json_deep_copy(whole);
            const size_t refusals = hs_json_refusals();
            chaos_refuse(nth);
            hs__counters[c]->report(&results, results.counts[c], report);
            const bool refused = chaos_stop();
            ck_assert_msg(refused == (hs_json_refusals() != refusals), "%s: allocation %zu",
                          hs__counters[c]->name, nth);
            json_decref(report);
        }
    json_decref(whole);
    hs__corpus_results_finish(&results);
}
END_TEST

/* ---- comparison ---- */

START_TEST(as_many_runs_as_allowed_are_compared)
{
    static const char report[] = "{\"provenance\":{\"model\":{\"name\":\"mini\"},\"input\":{\"sha256\":"
                                 "\"cd\"},\"options\":{\"thresholds\":"
                                 "[0.3],\"threshold\":0.3}},\"layers\":[0],\"heads\":1,\"head_figures\":[]}";
    const size_t live = chaos_live();
    hs__comparison *comparison = hs__comparison_create((double)NAN);
    hs_error err = {0};
    ck_assert_ptr_nonnull(comparison);
    for (size_t r = 0; r < HS__COMPARED_RUNS_MAX; r++)
        ck_assert_int_eq(hs__comparison_add(comparison, "a", report, sizeof report - 1, NULL), HS_OK);
    ck_assert_int_eq(hs__comparison_add(comparison, "a", report, sizeof report - 1, &err), HS_TOO_LARGE);
    ck_assert_ptr_nonnull(strstr(err.text, "at most 100 runs"));
    hs__comparison_destroy(comparison);
    ck_assert_uint_eq(chaos_live(), live);
}
END_TEST

/* ---- states that are damaged where no checksum says so ---- */

#define READ(relations)       "{\"syntax\":{\"read\":1,\"unread\":0,\"relations\":" relations "}}"
#define WORDS(counter, words) "{\"" counter "\":{\"words\":\"" words "\"}}"
#define PRUNED(texts)         "{\"pruning\":{\"measure\":0,\"texts\":" texts ",\"words\":\"\"}}"

static const struct {
    const hs__counter *counter;
    const char *checkpoint, *says;
    const char *labels; /* among the names; NULL: two */
} damages[] = {
    {&hs__counter_windows, "{}", "the saved numbers of windows are damaged", NULL},
    {&hs__counter_windows, WORDS("windows", "AgAAAAAAAAABAAAAAAAAAAAAAAAAAAAA"), "windows are damaged",
     NULL}, /* 2 texts, 1 window, 0 cut */
    {&hs__counter_windows, WORDS("windows", "AQAAAAAAAABjAAAAAAAAAAAAAAAAAAAA"), "windows are damaged",
     NULL}, /* 1, 99, 0 */
    {&hs__counter_windows, WORDS("windows", "AQAAAAAAAAABAAAAAAAAAP//////////"), "windows are damaged",
     NULL}, /* 1, 1, -1 */
    {&hs__counter_treebank, "{\"syntax\":1}", "the counts of relations are damaged", NULL},
    {&hs__counter_treebank, "{\"syntax\":{\"read\":-1,\"unread\":0,\"relations\":{}}}",
     "relations are damaged", NULL},
    {&hs__counter_treebank, READ("[]"), "the counts of relations are damaged", NULL},
    {&hs__counter_treebank, READ("{\"det\":1}"), "the counts of the relation det are damaged", NULL},
    {&hs__counter_treebank, READ("{\"det\":{\"count\":-1}}"), "the relation det are damaged", NULL},
    {&hs__counter_treebank, READ("{\"det\":{\"count\":1,\"offsets\":[1],\"right\":[]}}"), "det are damaged",
     NULL},
    {&hs__counter_labelled_texts, "{\"labels\":[]}", "the statistics of labels are damaged", NULL},
    {&hs__counter_labelled_texts, "{}", "the statistics of labels are damaged", NULL},
    {&hs__counter_labelled_texts, WORDS("labels", ""), "the statistics of labels are damaged", "[]"},
    {&hs__counter_same_distance, WORDS("same_distance", "AA=="),
     "the chances at the same distance are damaged", NULL},
    {&hs__counter_same_distance, "{}", "the chances at the same distance are damaged", NULL},
    {&hs__counter_long_range, "{\"long_range\":7}", "the far pairs of the same token are damaged", NULL},
    {&hs__counter_strata, "{\"strata\":{}}", "the strata of distances are damaged", NULL},
    {&hs__counter_head_effects, WORDS("held_out_effects", "AA=="), "the effects of heads are damaged", NULL},
    {&hs__counter_head_importance, WORDS("importance", "AA=="), "the importances of heads are damaged", NULL},
    {&hs__counter_cut_attention, WORDS("cut_attention", "AA=="), "the losses of cut attention are damaged",
     NULL},
    {&hs__counter_untrained_control, WORDS("untrained", "AA=="),
     "the sums of the untrained network are damaged", NULL},
    {&hs__counter_pruning, "{}", "the saved pruning curve is damaged", NULL},
    {&hs__counter_pruning, "{\"pruning\":{\"measure\":99,\"texts\":[],\"words\":\"\"}}", "curve is damaged",
     NULL},
    {&hs__counter_pruning, PRUNED("[]"), "the saved pruning curve is damaged", NULL},
};
enum { N_DAMAGES = sizeof damages / sizeof *damages };

START_TEST(damaged_counts_are_refused)
{
    hs__corpus_results results;
    hs_error err = {0};
    void *counts = NULL;
    const char *labels = damages[_i].labels;
    input_write("a b c", 3);
    ck_assert_msg(run(&err) == HS_OK, "%s", err.text);
    ck_assert_int_eq(hs__run_checkpoint_load(dir, &results, NULL), HS_OK);
    json_object_set_new(results.identity, "windows", json_true());
    json_object_set_new(results.identity, "pruning_share", json_real(1));
    json_object_set_new(results.identity, "label_field", json_string("label"));
    json_object_set_new(results.identity, "effects_share", json_real(1));
    json_object_set_new(results.identity, "importance", json_true());
    json_object_set_new(results.identity, "cut_attention", json_integer(8));
    json_object_set_new(results.identity, "control", json_string("untrained:0"));
    json_object_set_new(results.identity, "max_tokens", json_integer(130));
    json_object_set_new(results.names, "labels", json_loads(labels ? labels : "[\"bad\",\"good\"]", 0, NULL));
    json_t *saved = json_loads(damages[_i].checkpoint, 0, NULL);
    ck_assert_ptr_nonnull(saved);
    const size_t live = chaos_live();
    ck_assert_int_eq(hs__counter_load(damages[_i].counter, &results, saved, &counts, &err), HS_INVALID);
    ck_assert_msg(strstr(err.text, damages[_i].says), "%s", err.text);
    ck_assert_ptr_null(counts);
    ck_assert_uint_eq(chaos_live(), live);
    json_decref(saved);
    hs__corpus_results_finish(&results);
}
END_TEST

/* Parses a checkpoint whose text is this, with the statistics of another. */
static hs_status checkpoint_parse(const json_t *text, const char *statistics, size_t n_statistics,
                                  hs_error *err)
{
    hs__corpus_results results;
    char *dumped = json_dumps(text, JSON_COMPACT), *head = NULL;
    ck_assert_ptr_nonnull(dumped);
    const size_t n = strlen(dumped);
    const int n_head = asprintf(&head, "headscope-corpus 1 %zu %08lx\n%s", n,
                                crc32_z(0, (const unsigned char *)dumped, n), dumped);
    ck_assert_int_gt(n_head, 0);
    char *whole = malloc((size_t)n_head + n_statistics);
    ck_assert_ptr_nonnull(whole);
    memcpy(whole, head, (size_t)n_head);
    memcpy(whole + n_head, statistics, n_statistics);
    const hs_status st =
        hs__run_checkpoint_parse(whole, (size_t)n_head + n_statistics, "state", &results, err);
    if (!st)
        hs__corpus_results_finish(&results);
    free(whole);
    free(head);
    free(dumped);
    return st;
}

static const char *const positions[][2] = {
    {"place", "lines"}, {"place", "bytes"}, {"place", "blank"}, {NULL, "empty"}};

START_TEST(positions_below_zero_or_missing_are_refused)
{
    enum { STATE_BYTES = 8 << 20 };
    char path[100], *state = malloc(STATE_BYTES);
    size_t n_text;
    int n_head;
    hs_error err = {0};
    ck_assert_ptr_nonnull(state);
    input_write("a b c", 3);
    ck_assert_msg(run(&err) == HS_OK, "%s", err.text);
    snprintf(path, sizeof path, "%s/" HS__RUN_CHECKPOINT_FILE, dir);
    const size_t n = command_file_read(path, state, STATE_BYTES - 1);
    state[n] = 0;
    ck_assert_int_eq(sscanf(state, "headscope-corpus 1 %zu %*x%n", &n_text, &n_head), 1);
    const char *text = state + n_head + 1, *statistics = text + n_text;
    json_t *json = json_loadb(text, n_text, 0, NULL);
    ck_assert_ptr_nonnull(json);
    const size_t n_statistics = n - (size_t)(statistics - state);
    ck_assert_msg(checkpoint_parse(json, statistics, n_statistics, &err) == HS_OK, "%s", err.text);
    for (size_t k = 0; k < sizeof positions / sizeof *positions; k++) {
        json_t *damaged = json_deep_copy(json);
        json_t *in = positions[k][0] ? json_object_get(damaged, positions[k][0]) : damaged;
        ck_assert_ptr_nonnull(json_object_get(in, positions[k][1]));
        json_object_set_new(in, positions[k][1], json_integer(-1));
        err = (hs_error){0};
        ck_assert_int_eq(checkpoint_parse(damaged, statistics, n_statistics, &err), HS_INVALID);
        ck_assert_msg(strstr(err.text, "the file is damaged"), "%s", err.text);
        json_object_del(in, positions[k][1]);
        ck_assert_int_eq(checkpoint_parse(damaged, statistics, n_statistics, &err), HS_INVALID);
        json_decref(damaged);
    }
    json_decref(json);
    free(state);
}
END_TEST

/* Drawing and packing weights takes as much memory as the model's, and seconds. */
START_TEST(a_control_makes_its_network_for_records_that_are_left)
{
    static const struct {
        bool done, stopped;
        uint64_t n_lines;
    } begins[] = {
        {false, false, 0}, {false, false, 1984}, {false, false, 2000}, {true, false, 1984}, {false, true, 0}};
    const hs__corpus_job job = job_make();
    const hs__counter *control = &hs__counter_untrained_control;
    hs__corpus_results results = {.done = begins[_i].done, .position.n_lines = begins[_i].n_lines};
    hs__counting counting = {.counter = control, .job = &job, .results = &results};
    void *options = calloc(1, control->options_bytes);
    ck_assert_int_eq(control->settings->read("untrained:3", model, NULL, options, NULL), HS_OK);
    counting.options = options;
    atomic_store(&stop, begins[_i].stopped);
    ck_assert_int_eq(control->begin(&counting, false, NULL), HS_OK);
    ck_assert_int_eq(counting.shared != NULL, _i < 2);
    control->end(&counting);
    free(options);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("corpus run");
    TCase *tc = tcase_create("corpus run");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_stop_before_the_first_text_is_counted_is_no_empty_input);
    tcase_add_test(tc, an_input_without_a_text_fails);
    tcase_add_test(tc, a_stream_skips_to_the_end_of_its_input);
    tcase_add_loop_test(tc, a_text_is_kept_up_to_its_last_token, 0, N_SPANS);
    tcase_add_test(tc, as_many_runs_as_allowed_are_compared);
    tcase_add_test(tc, a_pass_of_masked_tokens_survives_every_refused_allocation);
    tcase_add_loop_test(tc, pairs_appear_when_the_run_is_complete, 0, N_PAIRS_NAMES);
    tcase_add_test(tc, pairs_that_cannot_be_opened_leave_the_run);
    tcase_add_test(tc, pairs_that_cannot_be_written_say_why);
    tcase_add_loop_test(tc, a_control_makes_its_network_for_records_that_are_left, 0, 5);
    suite_add_tcase(suite, tc);
    TCase *damaged = tcase_create("damaged states");
    tcase_add_checked_fixture(damaged, small_setup, small_teardown);
    tcase_add_loop_test(damaged, damaged_counts_are_refused, 0, N_DAMAGES);
    tcase_add_test(damaged, positions_below_zero_or_missing_are_refused);
    suite_add_tcase(suite, damaged);
    TCase *chaos = tcase_create("memory runs out");
    tcase_add_checked_fixture(chaos, small_setup, small_teardown);
    tcase_add_loop_test(chaos, a_run_survives_every_refused_allocation, 0, N_CHAOS_CASES);
    tcase_add_test(chaos, no_part_of_a_report_is_left_out_silently);
    suite_add_tcase(suite, chaos);
    return tests_run(suite);
}
