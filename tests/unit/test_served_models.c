/* test_served_models.c - the list of served models: changes beside requests, and when memory runs out. */
#include "tests/unit/api_fixture.h"
#include "tests/unit/chaos.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <pthread.h>
#include <string.h>

enum { N_MODELS_MAX = 64, ALLOCATIONS_MAX = 10000, THREADS = 3 };

static const char text[] = "{\"text\":\"The old bridge closed.\",\"outputs\":[\"summary\"]}";

static void count(void *user_data)
{
    ++*(atomic_int *)user_data;
}

/* Puts the fixture's model under another name. `freed` counts how often it was freed. */
static hs_status put(const api_fixture *f, const char *name, atomic_int *freed, hs_error *err)
{
    const hs_api_model model = {name, f->model, f->engine, NULL, count, freed};
    return hs_api_model_put(f->api, &model, err);
}

static int status_of(api_fixture *f, const char *body)
{
    hs_response response = api_post(f, HS_ANALYZE, body);
    const int status = response.status;
    hs_response_finish(&response);
    return status;
}

START_TEST(a_request_keeps_the_model_that_its_name_stood_for)
{
    static const char body[] = "{\"text\":\"a b\",\"model\":\"other\",\"outputs\":[\"summary\"]}";
    api_fixture f;
    atomic_int freed = 0;
    api_open(&(hs_api_options){0}, &f);
    ck_assert_int_eq(put(&f, "other", &freed, NULL), HS_OK);
    const hs_request request = api_request(HS_ANALYZE, body);
    hs_job *job = hs_job_create(f.api, &request);
    ck_assert_int_eq(hs_api_model_remove(f.api, "other", NULL), HS_OK);
    ck_assert_int_eq(status_of(&f, body), 404);
    ck_assert_int_eq(freed, 0);
    hs_response response;
    hs_job_run(&job, 1, NULL);
    hs_job_answer(job, &response);
    hs_job_destroy(job);
    ck_assert_int_eq(freed, 1);
    ck_assert_int_eq(response.status, 200);
    ck_assert_str_eq(response.model, "other");
    hs_response_finish(&response);
    api_close(&f);
}
END_TEST

START_TEST(names_that_left_do_not_count)
{
    api_fixture f;
    atomic_int freed = 0;
    hs_error err = {0};
    char name[32];
    api_open(&(hs_api_options){0}, &f);
    for (int i = 0; i < 3 * N_MODELS_MAX; i++) {
        snprintf(name, sizeof name, "model-%d", i);
        ck_assert_int_eq(put(&f, name, &freed, NULL), HS_OK);
        ck_assert_int_eq(hs_api_model_remove(f.api, name, NULL), HS_OK);
    }
    ck_assert_int_eq(freed, 3 * N_MODELS_MAX);
    for (int i = 1; i < N_MODELS_MAX; i++) {
        snprintf(name, sizeof name, "model-%d", i);
        ck_assert_int_eq(put(&f, name, &freed, NULL), HS_OK);
    }
    ck_assert_int_eq(put(&f, "one-more", &freed, &err), HS_TOO_LARGE);
    ck_assert_ptr_nonnull(strstr(err.text, "64 models"));
    ck_assert_int_eq(put(&f, "model-7", &freed, NULL), HS_OK); /* replaces it */
    ck_assert_int_eq(hs_api_model_remove(f.api, "model-1", NULL), HS_OK);
    ck_assert_int_eq(put(&f, "one-more", &freed, NULL), HS_OK);
    api_close(&f);
    ck_assert_int_eq(freed, 4 * N_MODELS_MAX + 1);
}
END_TEST

START_TEST(models_in_use_and_the_default_stay)
{
    api_fixture f;
    atomic_int freed = 0;
    api_open(&(hs_api_options){0}, &f);
    ck_assert_int_eq(hs_api_model_remove(f.api, "mini", NULL), HS_INVALID);
    ck_assert_int_eq(hs_api_model_remove(f.api, "other", NULL), HS_NOT_FOUND);
    ck_assert_ptr_null(hs_api_model_use(f.api, "other"));
    ck_assert_int_eq(put(&f, "other", &freed, NULL), HS_OK);
    hs_served_model *used = hs_api_model_use(f.api, "other"), *first = hs_api_model_use(f.api, NULL);
    ck_assert_str_eq(hs_served_name(first), "mini");
    ck_assert_ptr_eq(hs_served_weights(used), f.model);
    ck_assert_int_eq(put(&f, "other", &freed, NULL), HS_INVALID);
    ck_assert_int_eq(hs_api_model_remove(f.api, "other", NULL), HS_INVALID);
    hs_api_model_release(f.api, used);
    hs_api_model_release(f.api, first);
    ck_assert_int_eq(freed, 0);
    ck_assert_int_eq(hs_api_model_remove(f.api, "other", NULL), HS_OK);
    ck_assert_int_eq(freed, 1);
    api_close(&f);
}
END_TEST

START_TEST(an_api_without_models_says_so)
{
    hs_api *api = NULL;
    hs_response response;
    const hs_request request = api_request(HS_ANALYZE, "{\"text\":\"a\"}");
    ck_assert_int_eq(hs_api_create(&(hs_api_options){0}, &api, NULL), HS_OK);
    hs_api_handle(api, &request, &response);
    ck_assert_int_eq(response.status, 404);
    json_t *problem = api_json(&response);
    ck_assert_str_eq(json_string_value(json_object_get(problem, "detail")),
                     "no model is loaded: start the server with --model");
    json_decref(problem);
    hs_api_destroy(api);
}
END_TEST

START_TEST(a_name_that_is_too_long_is_refused)
{
    api_fixture f;
    atomic_int freed = 0;
    hs_error err = {0};
    char name[HS_MODEL_NAME_BYTES + 1] = "";
    memset(name, 'a', HS_MODEL_NAME_BYTES);
    api_open(&(hs_api_options){0}, &f);
    ck_assert_int_eq(put(&f, name, &freed, &err), HS_INVALID);
    ck_assert_str_eq(err.text, "a model's name has at most 255 bytes");
    name[HS_MODEL_NAME_BYTES - 1] = '\0';
    ck_assert_int_eq(put(&f, name, &freed, &err), HS_OK);
    ck_assert_int_eq(hs_api_model_remove(f.api, name, NULL), HS_OK);
    api_close(&f);
}
END_TEST

/* Memory runs out in each of the allocations for three workers: the model from before is served as before. */
START_TEST(a_change_that_fails_for_memory_changes_nothing)
{
    api_fixture f;
    atomic_int old_freed = 0, new_freed = 0;
    bool refused = true;
    api_open(&(hs_api_options){.n_workers = 3}, &f);
    ck_assert_int_eq(put(&f, "mini", &old_freed, NULL), HS_OK);
    const size_t live = chaos_live();
    for (size_t nth = 0; refused; nth++) {
        ck_assert_uint_lt(nth, ALLOCATIONS_MAX);
        chaos_refuse(nth);
        const hs_status st = put(&f, "mini", &new_freed, NULL);
        refused = chaos_stop();
        ck_assert_int_eq(st, refused ? HS_NO_MEMORY : HS_OK);
        ck_assert_int_eq(old_freed, !refused);
        ck_assert_int_eq(new_freed, 0);
        ck_assert_uint_eq(chaos_live(), live);
        ck_assert_int_eq(status_of(&f, text), 200);
    }
    api_close(&f);
    ck_assert_int_eq(new_freed, 1);
}
END_TEST

START_TEST(a_digest_that_failed_for_memory_is_tried_again)
{
    char hex[HS_SHA256_HEX];
    hs_model *model = NULL;
    ck_assert_int_eq(hs_model_open_embedded(&model, NULL), HS_OK);
    ck_assert(!hs_model_sha256_known(model, hex));
    chaos_refuse(0);
    hs_model_sha256(model, hex);
    ck_assert(chaos_stop());
    ck_assert_str_eq(hex, "");
    ck_assert(!hs_model_sha256_known(model, hex));
    hs_model_sha256(model, hex);
    ck_assert_uint_eq(strlen(hex), HS_SHA256_HEX - 1);
    char again[HS_SHA256_HEX];
    ck_assert(hs_model_sha256_known(model, again));
    ck_assert_str_eq(again, hex);
    hs_model_close(model);
}
END_TEST

/* More threads ask than the model has workspaces, while it is replaced and hashed. */
typedef struct asker {
    api_fixture *f;
    atomic_int *over;
    int n_wrong;
} asker;

static void *ask(void *data)
{
    asker *a = data;
    while (!atomic_load(a->over)) {
        a->n_wrong += status_of(a->f, text) != 200;
        hs_response models = api_post(a->f, HS_MODELS, "");
        a->n_wrong += models.status != 200;
        hs_response_finish(&models);
    }
    return NULL;
}

START_TEST(models_change_while_threads_ask)
{
    api_fixture f;
    atomic_int over = 0, freed = 0;
    asker askers[THREADS];
    pthread_t threads[THREADS];
    api_open(&(hs_api_options){.n_workers = THREADS - 1}, &f);
    for (int i = 0; i < THREADS; i++) {
        askers[i] = (asker){&f, &over, 0};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
    }
    for (int i = 0; i < 50; i++) {
        ck_assert_int_eq(put(&f, "mini", &freed, NULL), HS_OK);
        ck_assert_int_eq(put(&f, "other", &freed, NULL), HS_OK);
        hs_api_hash_models(f.api);
        ck_assert_int_eq(hs_api_model_remove(f.api, "other", NULL), HS_OK);
    }
    atomic_store(&over, 1);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_int_eq(askers[i].n_wrong, 0);
    }
    ck_assert_int_eq(freed, 50 + 49);
    api_close(&f);
    ck_assert_int_eq(freed, 100);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("served models");
    tcase_add_test(tests, a_request_keeps_the_model_that_its_name_stood_for);
    tcase_add_test(tests, names_that_left_do_not_count);
    tcase_add_test(tests, models_in_use_and_the_default_stay);
    tcase_add_test(tests, an_api_without_models_says_so);
    tcase_add_test(tests, a_name_that_is_too_long_is_refused);
    tcase_add_test(tests, a_change_that_fails_for_memory_changes_nothing);
    tcase_add_test(tests, a_digest_that_failed_for_memory_is_tried_again);
    tcase_add_test(tests, models_change_while_threads_ask);
    Suite *suite = suite_create("served models");
    suite_add_tcase(suite, tests);
    return tests_run(suite);
}
