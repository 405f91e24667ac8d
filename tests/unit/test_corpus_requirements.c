/* test_corpus_requirements.c - the memory that a run reports to need, against the memory that it takes. */
#include "server/corpus/run/requirements.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MB (UINT64_C(1) << 20)

static hs_model *model;
static hs_engine *engine;
static hs_runtime *runtime;
static char dir[] = "/tmp/headscope-needs-XXXXXX", input[64];

static void setup(void)
{
    ck_assert_int_eq(hs_model_open_embedded(&model, NULL), HS_OK);
    ck_assert_int_eq(hs_runtime_create(1, &runtime, NULL), HS_OK);
    ck_assert_int_eq(
        hs_engine_create(runtime, hs_model_architecture(model), &(hs_engine_options){0}, &engine, NULL),
        HS_OK);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(input, sizeof input, "%s/input", dir);
    FILE *file = fopen(input, "w");
    for (int i = 0; i < 200; i++)
        fprintf(file, "The %d. text of them tells of a river, and of the town beside it.\n", i);
    fclose(file);
}

static void teardown(void)
{
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);
    hs_engine_destroy(engine);
    hs_runtime_destroy(runtime);
    hs_model_close(model);
}

static hs__corpus_settings settings_make(size_t n_layers, size_t max_tokens)
{
    return (hs__corpus_settings){.fields = {.max_tokens = max_tokens,
                                            .layers = hs_all_numbers,
                                            .n_layers = n_layers,
                                            .attention_threshold = 0.3f},
                                 .thresholds = {0.1f, 0.3f},
                                 .n_thresholds = 2};
}

static hs__corpus_job job_make(const char *const *inputs, size_t n_layers, size_t max_tokens)
{
    return (hs__corpus_job){.model = model,
                            .engine = engine,
                            .model_name = HS_EMBEDDED_NAME,
                            .inputs = inputs,
                            .n_inputs = 1,
                            .dir = dir,
                            .settings = settings_make(n_layers, max_tokens),
                            .n_workers = 1,
                            .n_shards = 1,
                            .save_ms = 1000000};
}

static uint64_t file_bytes(const char *name)
{
    char path[100];
    struct stat file;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    ck_assert_int_eq(stat(path, &file), 0);
    return (uint64_t)file.st_size;
}

static uint64_t memory_peak(void)
{
    char line[200];
    uint64_t peak = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status))
        if (strncmp(line, "VmHWM:", 6) == 0)
            peak = 1024 * strtoull(line + 6, NULL, 10);
    fclose(status);
    return peak;
}

/* The sanitizers keep shadow bytes beside each byte touched, and the address sanitizer also keeps freed
 * blocks. */
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { SHADOWED = true };
#else
enum { SHADOWED = false };
#endif

static const struct {
    size_t n_layers, max_tokens;
} sizes[] = {{1, 8}, {2, 64}, {12, 32}, {12, 128}};

/* The memory above that of the least run, which allows for the longest lines and is mostly unused, is near
 * the truth. The text of a checkpoint and the reports are counted both, but they are not there together. */
START_TEST(a_run_takes_no_more_than_it_is_said_to_need)
{
    const char *const inputs[] = {input};
    const hs__corpus_job job = job_make(inputs, sizes[_i].n_layers, sizes[_i].max_tokens);
    const hs__corpus_job least_job = job_make(inputs, sizes[0].n_layers, sizes[0].max_tokens);
    hs__requirements needs, least_needs;
    ck_assert_int_eq(hs__requirements_measure(&job, &needs, NULL), HS_OK);
    ck_assert_int_eq(hs__requirements_measure(&least_job, &least_needs, NULL), HS_OK);
    const uint64_t said = needs.memory + needs.memory_worker;
    const uint64_t least = least_needs.memory + least_needs.memory_worker;
    const uint64_t before = memory_peak();
    ck_assert_int_eq(hs__corpus_run(&job, NULL), HS_OK);
    const uint64_t taken = memory_peak() - before, state = file_bytes("state");
    const uint64_t reports = file_bytes("report.npz") + file_bytes("report.html") + file_bytes("report.json");
    if (!SHADOWED) {
        ck_assert_uint_le(taken, said);
        ck_assert_uint_le(said - least, 2 * taken); /* the peak varies with the threads by a few percent */
    }
    ck_assert_uint_le(state + (state > reports ? state : reports), needs.disk);
    ck_assert_uint_ge(needs.disk, 2 * state);
}
END_TEST

/* A map of the window is held while the page's are made. */
START_TEST(a_wide_window_needs_memory_for_a_map_of_it)
{
    const char *const inputs[] = {input};
    const hs__corpus_job narrow = job_make(inputs, 1, 2048), wide = job_make(inputs, 1, 4096);
    hs__requirements some, more;
    ck_assert_int_eq(hs__requirements_measure(&narrow, &some, NULL), HS_OK);
    ck_assert_int_eq(hs__requirements_measure(&wide, &more, NULL), HS_OK);
    ck_assert_uint_ge(more.memory - some.memory, (4096 * 4096 - 2048 * 2048) * sizeof(double));
}
END_TEST

START_TEST(workers_are_as_many_as_memory_is_enough_for)
{
    const hs__requirements needs = {.memory = 10 * MB, .memory_worker = 100 * MB};
    size_t n = 0;
    hs_error err = {0};
    hs__run_memory memory = {.bytes = 150 * MB - 1, .kept = 40 * MB, .what = "are free"};
    ck_assert_int_eq(hs__corpus_workers_fit(&needs, &memory, 4, &n, &err), HS_NO_MEMORY);
    ck_assert_ptr_nonnull(strstr(err.text, "needs 110 MB of memory; 149 MB are free, and 40 MB are kept"));
    memory.bytes = 30 * MB; /* less than is kept */
    err = (hs_error){0};
    ck_assert_int_eq(hs__corpus_workers_fit(&needs, &memory, 4, &n, &err), HS_NO_MEMORY);
    ck_assert_ptr_nonnull(strstr(err.text, "30 MB are free, and 40 MB are kept"));
    memory.bytes = 150 * MB;
    ck_assert_int_eq(hs__corpus_workers_fit(&needs, &memory, 4, &n, NULL), HS_OK);
    ck_assert_uint_eq(n, 1);
    memory.bytes = 439 * MB;
    ck_assert_int_eq(hs__corpus_workers_fit(&needs, &memory, 4, &n, NULL), HS_OK);
    ck_assert_uint_eq(n, 3);
    memory.bytes = UINT64_MAX;
    ck_assert_int_eq(hs__corpus_workers_fit(&needs, &memory, 4, &n, NULL), HS_OK);
    ck_assert_uint_eq(n, 4);
}
END_TEST

START_TEST(the_time_left_follows_the_pace_of_this_session)
{
    hs__corpus_progress p = {.seconds = 10, .share_before = 0.9, .share = 0.95};
    ck_assert_double_eq_tol(hs__corpus_seconds_left(&p), 10, 1e-6);
    p.share_before = 0;
    p.share = 0.25;
    ck_assert_double_eq_tol(hs__corpus_seconds_left(&p), 30, 1e-6);
    p.share_before = 0.25; /* nothing was read yet */
    ck_assert_double_lt(hs__corpus_seconds_left(&p), 0);
    p.share = p.share_before = -1; /* standard input */
    ck_assert_double_lt(hs__corpus_seconds_left(&p), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("corpus_needs");
    TCase *tests = tcase_create("all");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, a_run_takes_no_more_than_it_is_said_to_need, 0,
                        (int)(sizeof sizes / sizeof *sizes));
    tcase_add_test(tests, the_time_left_follows_the_pace_of_this_session);
    tcase_add_test(tests, a_wide_window_needs_memory_for_a_map_of_it);
    tcase_add_test(tests, workers_are_as_many_as_memory_is_enough_for);
    suite_add_tcase(suite, tests);
    return tests_run(suite);
}
