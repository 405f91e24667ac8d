/* test_pruning.c - the pruning curve's counter, with importance: its checkpoint, merged curves, and memory
 * that runs out. */
#include "engine/gradients.h"
#include "model/files/json.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/report/results.h"
#include "server/corpus/run/settings.h"
#include "tests/unit/chaos.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { T = 16, N_TEXTS = 4, N_MANY = 70, N_KEPT_MAX = 64 };

static hs_model *model;
static hs_engine *engine;
static hs_runtime *runtime;
static hs_workspace *workspace;
static hs__corpus_job job;
static hs__corpus_results results;
static atomic_int stop;

static void setup(void)
{
    const hs_corpus_options counted = {.layers = hs_all_numbers,
                                       .n_layers = 1,
                                       .n_heads = 12,
                                       .tokens_max = T,
                                       .vocab_size = 8192,
                                       .thresholds = (float[]){0.3f},
                                       .n_thresholds = 1,
                                       .attention_threshold = 0.3f,
                                       .n_parts = 1};
    const char *texts[HS__SETTINGS_MAX] = {0};
    size_t wrong;
    ck_assert_int_eq(hs_model_open_embedded(&model, NULL), HS_OK);
    ck_assert_int_eq(hs_runtime_create(1, &runtime, NULL), HS_OK);
    ck_assert_int_eq(
        hs_engine_create(runtime, hs_model_architecture(model), &(hs_engine_options){0}, &engine, NULL),
        HS_OK);
    ck_assert_int_eq(hs_workspace_create(engine, T, &workspace, NULL), HS_OK);
    ck_assert_int_eq(hs_gradients_prepare(engine, true, NULL), HS_OK);
    atomic_store(&stop, 0);
    job = (hs__corpus_job){.model = model, .engine = engine, .n_workers = 1, .n_shards = 1, .stop = &stop};
    texts[hs__setting_find("layers")] = "0";
    texts[hs__setting_find("thresholds")] = "0.3";
    texts[hs__setting_find("max_tokens")] = "16";
    texts[hs__setting_find("pruning_share")] = "1";
    texts[hs__setting_find("importance")] = "true";
    ck_assert_int_eq(hs__corpus_settings_read(texts, model, &job.settings, &wrong, NULL), HS_OK);
    results = (hs__corpus_results){.identity = json_pack("{sf sb}", "pruning_share", 1.0, "importance", 1)};
    ck_assert_int_eq(hs_corpus_stats_create(&counted, &results.stats, NULL), HS_OK);
}

static void teardown(void)
{
    hs__corpus_results_finish(&results);
    hs__corpus_settings_finish(&job.settings);
    hs_workspace_destroy(workspace);
    hs_engine_destroy(engine);
    hs_runtime_destroy(runtime);
    hs_model_close(model);
}

/* ---- runs ---- */

static hs__counting counting_of(void **counts)
{
    return (hs__counting){.counter = &hs__counter_pruning,
                          .job = &job,
                          .options = job.settings.options[HS__NUMBER_OF_pruning],
                          .results = &results,
                          .counts = counts};
}

/* Gives the texts [first, end) to a worker. */
static hs_status texts_count(hs__counting *counting, size_t first, size_t end, hs_error *err)
{
    int32_t ids[T] = {2};
    uint8_t special[T] = {[0] = 1, [T - 1] = 1}, types[T] = {0};
    void *worker = NULL;
    hs_status st = hs__counter_worker_create(counting, NULL, &worker, err);
    ids[T - 1] = 3;
    for (size_t n = first; n < end && !st; n++) {
        for (size_t i = 1; i < T - 1; i++)
            ids[i] = (int32_t)(50 + n * T + i);
        hs__text text = {.record = {.number = n},
                         .encoding = {.n_tokens = T, .ids = ids, .types = types, .special = special}};
        st = hs__counter_pruning.pass(worker, &(hs__text_pass){.texts = &text, .n = 1}, err);
    }
    hs__counter_worker_destroy(worker);
    return st;
}

/* Counts texts and computes their curve. */
static hs_status curve_make(void **ret_counts, hs_error *err)
{
    hs__counting counting = counting_of(ret_counts);
    hs_status st = hs__counter_pruning.begin(&counting, true, err);
    if (!st)
        st = texts_count(&counting, 0, N_TEXTS, err);
    return st ? st : hs__counter_pruning.complete(&counting, workspace, err);
}

/* Returns what a checkpoint holds of the counts. */
static json_t *saved(void *counts)
{
    json_t *checkpoint = json_object();
    hs_error err = {0};
    ck_assert_msg(hs__counter_pruning.save(&results, counts, checkpoint, &err) == HS_OK, "%s", err.text);
    return checkpoint;
}

static json_t *texts_of(json_t *checkpoint)
{
    return json_object_get(json_object_get(checkpoint, "pruning"), "texts");
}

static void saved_compare(void *counts, const json_t *expected)
{
    json_t *actual = saved(counts);
    ck_assert(json_equal(actual, expected));
    json_decref(actual);
}

static void *loaded(const json_t *checkpoint)
{
    void *counts = NULL;
    hs_error err = {0};
    ck_assert_msg(hs__counter_pruning.load(&results, checkpoint, &counts, &err) == HS_OK, "%s", err.text);
    return counts;
}

/* Returns a copy of an array of the counts. */
static double *array_read(const void *counts, const char *name, size_t *ret_n)
{
    hs_corpus_array arrays[HS__COUNTER_ARRAYS_MAX];
    const size_t n = hs__counter_pruning.list(counts, arrays);
    for (size_t k = 0; k < n; k++) {
        if (strcmp(arrays[k].name, name) != 0)
            continue;
        double *values = calloc(*ret_n = arrays[k].n_elements, sizeof *values);
        ck_assert(values && arrays[k].is_float);
        hs__counter_pruning.read(counts, &arrays[k], 0, *ret_n, values);
        return values;
    }
    ck_abort_msg("there is no array %s", name);
}

/* ---- tests ---- */

/* Counts texts in two sessions, and some texts in both. */
static void *sessions_count(size_t n_texts)
{
    void *half = NULL, *rest;
    hs__counting counting = counting_of(&half);
    ck_assert_int_eq(hs__counter_pruning.begin(&counting, true, NULL), HS_OK);
    ck_assert_int_eq(texts_count(&counting, 0, n_texts / 2, NULL), HS_OK);
    json_t *checkpoint = saved(half);
    rest = loaded(checkpoint);
    saved_compare(rest, checkpoint);
    counting = counting_of(&rest);
    ck_assert_int_eq(hs__counter_pruning.begin(&counting, false, NULL), HS_OK);
    ck_assert(hs__counter_pruning.matches(&counting));
    ck_assert_int_eq(texts_count(&counting, n_texts / 3, n_texts, NULL), HS_OK);
    hs__counter_pruning.destroy(half);
    json_decref(checkpoint);
    return rest;
}

START_TEST(a_checkpoint_between_texts_changes_nothing)
{
    void *whole = NULL, *counts = sessions_count(N_TEXTS);
    hs__counting counting = counting_of(&counts);
    ck_assert_int_eq(curve_make(&whole, NULL), HS_OK);
    ck_assert_int_eq(hs__counter_pruning.complete(&counting, workspace, NULL), HS_OK);
    json_t *expected = saved(whole);
    saved_compare(counts, expected);
    hs__counter_pruning.destroy(whole);
    hs__counter_pruning.destroy(counts);
    json_decref(expected);
}
END_TEST

/* More texts than are kept: those with the lowest hashes remain. */
START_TEST(a_checkpoint_keeps_the_choice_of_texts)
{
    void *whole = NULL, *counts = sessions_count(N_MANY);
    hs__counting counting = counting_of(&whole);
    ck_assert_int_eq(hs__counter_pruning.begin(&counting, true, NULL), HS_OK);
    ck_assert_int_eq(texts_count(&counting, 0, N_MANY, NULL), HS_OK);
    json_t *expected = saved(whole);
    ck_assert_uint_eq(json_array_size(texts_of(expected)), N_KEPT_MAX);
    saved_compare(counts, expected);
    hs__counter_pruning.destroy(whole);
    hs__counter_pruning.destroy(counts);
    json_decref(expected);
}
END_TEST

START_TEST(a_stop_leaves_the_passes_to_the_next_session)
{
    void *counts = NULL, *again;
    ck_assert_int_eq(curve_make(&counts, NULL), HS_OK);
    json_t *expected = saved(counts);
    hs__counting counting = counting_of(&counts);
    atomic_store(&stop, 1);
    ck_assert_int_eq(hs__counter_pruning.complete(&counting, workspace, NULL), HS_CANCELLED);
    json_t *checkpoint = saved(counts);
    ck_assert(json_equal(texts_of(checkpoint), texts_of(expected)) && !json_equal(checkpoint, expected));
    again = loaded(checkpoint);
    atomic_store(&stop, 0);
    counting = counting_of(&again);
    ck_assert_int_eq(hs__counter_pruning.complete(&counting, workspace, NULL), HS_OK);
    saved_compare(again, expected);
    hs__counter_pruning.destroy(counts);
    hs__counter_pruning.destroy(again);
    json_decref(checkpoint);
    json_decref(expected);
}
END_TEST

START_TEST(curves_of_shards_add_up)
{
    void *counts = NULL;
    size_t n, n_sums;
    ck_assert_int_eq(curve_make(&counts, NULL), HS_OK);
    json_t *checkpoint = saved(counts);
    void *other = loaded(checkpoint), *none = NULL;
    double *once = array_read(counts, "pruning_loss_sum", &n);
    for (size_t k = 0; k < 2; k++) /* the second shard counted nothing */
        ck_assert_int_eq(hs__counter_pruning.merge(&results, &counts, &results, k ? &none : &other, "", NULL),
                         HS_OK);
    double *sums = array_read(counts, "pruning_loss_sum", &n_sums);
    ck_assert_uint_eq(n, n_sums);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(once[i] > 0 && sums[i] == 2 * once[i], "%zu: %g, %g", i, once[i], sums[i]);
    free(once);
    free(sums);
    hs__counter_pruning.destroy(counts);
    hs__counter_pruning.destroy(other);
    json_decref(checkpoint);
}
END_TEST

/* A member of the curve, or of its first text, and what stands there instead. */
static const struct {
    bool of_text;
    const char *name, *value;
} damages[] = {
    {false, "measure", "-1"},
    {false, "measure", "3"},
    {false, "measure", "null"},
    {false, "words", "\"AAAA\""},
    {false, "words", "[]"},
    {false, "texts", "[1]"},
    {true, "number", "-1"},
    {true, "number", "\"0\""},
    {true, "label", "-1"},
    {true, "ids", "[]"},
    {true, "ids", "[2,3]"},
    {true, "ids", "[-1,51,52,53,54,55,56,57,58,59,60,61,62,63,64,3]"},
    {true, "ids", "[8192,51,52,53,54,55,56,57,58,59,60,61,62,63,64,3]"},
    {true, "ids", "[2.5,51,52,53,54,55,56,57,58,59,60,61,62,63,64,3]"},
    {true, "ids", "[2,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65,3]"}, /* 17 of at most 16 */
    {true, "types", "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]"},
    {true, "types", "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,256]"},
    {true, "types", "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,-1]"},
    {true, "positions", "[]"}, /* nothing to predict */
    {true, "positions", "[16]"},
    {true, "positions", "[-1]"},
    {true, "positions", "[3,3]"},
    {true, "positions", "[3,2]"},
    {true, "positions", "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]"},
};
enum { N_DAMAGES = sizeof damages / sizeof *damages };

static void damage_check(const json_t *checkpoint)
{
    const size_t live = chaos_live();
    void *counts = NULL;
    hs_error err = {0};
    ck_assert_int_eq(hs__counter_pruning.load(&results, checkpoint, &counts, &err), HS_INVALID);
    ck_assert_str_eq(err.text, "the saved pruning curve is damaged");
    ck_assert_ptr_null(counts);
    ck_assert_uint_eq(chaos_live(), live);
}

START_TEST(damaged_checkpoints_are_refused)
{
    void *counts = NULL;
    ck_assert_int_eq(curve_make(&counts, NULL), HS_OK);
    json_t *sound = saved(counts);
    for (size_t k = 0; k < N_DAMAGES; k++) {
        json_t *damaged = json_deep_copy(sound), *value = json_loads(damages[k].value, JSON_DECODE_ANY, NULL);
        json_t *in =
            damages[k].of_text ? json_array_get(texts_of(damaged), 0) : json_object_get(damaged, "pruning");
        ck_assert_msg(value && json_object_get(in, damages[k].name), "%s", damages[k].name);
        json_object_set_new(in, damages[k].name, value);
        damage_check(damaged);
        json_decref(damaged);
    }
    json_t *twice = json_deep_copy(sound), *many = json_deep_copy(sound);
    json_array_append(texts_of(twice), json_array_get(texts_of(twice), 0));
    damage_check(twice);
    while (json_array_size(texts_of(many)) <= N_KEPT_MAX)
        json_array_append(texts_of(many), json_null());
    damage_check(many);
    json_decref(many);
    json_decref(twice);
    json_decref(sound);
    hs__counter_pruning.destroy(counts);
}
END_TEST

START_TEST(every_refused_allocation_is_survived)
{
    void *counts = NULL;
    hs_error err = {0};
    bool refused = true;
    ck_assert_msg(curve_make(&counts, &err) == HS_OK, "%s", err.text);
    json_t *expected = saved(counts);
    hs__counter_pruning.destroy(counts);
    for (size_t nth = 0; refused; nth += 1 + nth / 4) {
        counts = NULL;
        const size_t live = chaos_live();
        chaos_refuse(nth);
        const hs_status st = curve_make(&counts, NULL);
        refused = chaos_stop();
        ck_assert_int_eq(st, refused ? HS_NO_MEMORY : HS_OK);
        if (!refused)
            saved_compare(counts, expected);
        if (counts)
            hs__counter_pruning.destroy(counts);
        ck_assert_uint_le(chaos_live(), live + 8); /* the runtime may keep blocks of captures */
    }
    refused = true;
    const size_t live = chaos_live();
    for (size_t nth = 0; refused; nth++) {
        counts = NULL;
        chaos_refuse(nth);
        const hs_status st = hs__counter_pruning.load(&results, expected, &counts, &err);
        refused = chaos_stop();
        ck_assert_int_eq(st == HS_OK, counts != NULL);
        if (!counts)
            continue;
        saved_compare(counts, expected); /* jansson has done without the memory */
        hs__counter_pruning.destroy(counts);
    }
    ck_assert_uint_eq(chaos_live(), live);
    json_decref(expected);
}
END_TEST

START_TEST(the_stated_sizes_hold_the_arrays)
{
    void *counts = NULL;
    hs_corpus_array arrays[HS__COUNTER_ARRAYS_MAX];
    hs__counter_size size = {0};
    size_t n_elements = 0;
    ck_assert_int_eq(curve_make(&counts, NULL), HS_OK);
    const size_t n = hs__counter_pruning.list(counts, arrays);
    for (size_t k = 0; k < n; k++)
        n_elements += arrays[k].n_elements;
    hs__counter_measure(&hs__counter_pruning, &job, NULL, &size);
    ck_assert_uint_ge(size.elements, n_elements);
    ck_assert_uint_ge(size.listed, n_elements);
    hs__counter_pruning.destroy(counts);
}
END_TEST

static uint64_t importance_shared(void)
{
    hs__counter_size size = {0};
    hs__counter_measure(&hs__counter_head_importance, &job, NULL, &size);
    return size.shared;
}

/* A server's model lives on when a run has ended. */
START_TEST(a_run_releases_the_weights_of_gradients)
{
    void *counts = NULL;
    hs__counting counting = counting_of(&counts);
    counting.counter = &hs__counter_head_importance;
    results.names = json_object();
    const uint64_t with_weights = importance_shared();
    hs_gradients_release(engine); /* of setup */
    ck_assert_uint_eq(importance_shared(), with_weights + hs_gradients_weights_bytes(engine));
    ck_assert_int_eq(hs__counter_begin(&counting, true, NULL), HS_OK);
    ck_assert(hs_gradients_are_prepared(engine));
    hs__counter_head_importance.end(&counting);
    ck_assert(!hs_gradients_are_prepared(engine));
    atomic_store(&stop, 1);
    ck_assert_int_eq(hs__counter_begin(&counting, false, NULL), HS_OK);
    ck_assert(!hs_gradients_are_prepared(engine)); /* no pass will begin */
    hs__counter_head_importance.end(&counting);
    hs__counter_destroy(&hs__counter_head_importance, counts);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pruning curve");
    TCase *tc = tcase_create("pruning curve");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_checkpoint_between_texts_changes_nothing);
    tcase_add_test(tc, a_checkpoint_keeps_the_choice_of_texts);
    tcase_add_test(tc, a_stop_leaves_the_passes_to_the_next_session);
    tcase_add_test(tc, curves_of_shards_add_up);
    tcase_add_test(tc, damaged_checkpoints_are_refused);
    tcase_add_test(tc, every_refused_allocation_is_survived);
    tcase_add_test(tc, the_stated_sizes_hold_the_arrays);
    tcase_add_test(tc, a_run_releases_the_weights_of_gradients);
    suite_add_tcase(suite, tc);
    return tests_run(suite);
}
