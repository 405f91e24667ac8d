/* test_api_memory.c - the memory budget of requests: one bound for all, and an order for those that wait. */
#include "api/internal.h"
#include "api/request/texts.h"
#include "engine/gradients.h"
#include "tests/unit/api_fixture.h"
#include "tests/unit/chaos.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BODY "{\"text\":\"The war ended.\",\"layers\":\"all\",\"outputs\":[\"attentions\"]}"

/* Memory that BODY is computed in. */
static size_t capture_bytes_of_body(void)
{
    api_fixture f;
    api_open(&(hs_api_options){0}, &f);
    const hs_request request = api_request(HS_ANALYZE, BODY);
    hs_job *job = hs_job_create(f.api, &request);
    const size_t n_bytes = f.api->captures.bytes;
    hs_job_destroy(job);
    ck_assert_uint_eq(f.api->captures.bytes, 0);
    api_close(&f);
    return n_bytes;
}

/* An api in which one request is computed at a time. */
static void open_for_one(api_fixture *f)
{
    const size_t n_bytes = capture_bytes_of_body();
    api_open(&(hs_api_options){.capture_bytes_max = n_bytes, .captures_bytes_max = n_bytes + n_bytes / 2}, f);
}

START_TEST(a_job_beside_others_does_not_wait)
{
    api_fixture f;
    open_for_one(&f);
    hs_request requests[2] = {api_request(HS_ANALYZE, BODY), api_request(HS_ANALYZE, BODY)};
    requests[1].beside = true;
    hs_job *first = hs_job_create(f.api, &requests[0]), *second = hs_job_create(f.api, &requests[1]);
    ck_assert(!hs_job_crowded(first));
    ck_assert(hs_job_crowded(second));
    hs_job_destroy(first);
    hs_job_destroy(second);
    second = hs_job_create(f.api, &requests[1]);
    ck_assert(!hs_job_crowded(second));
    hs_job_destroy(second);
    api_close(&f);
}
END_TEST

static const char *const three_lines = BODY "\n" BODY "\n" BODY "\n";

START_TEST(lines_are_answered_as_far_as_memory_goes)
{
    api_fixture f;
    open_for_one(&f);
    size_t at = 0, n_bytes = 1, n_calls = 0;
    for (; three_lines[at]; at += n_bytes, n_calls++) {
        hs_response response;
        hs_request request = api_request(HS_ANALYZE, three_lines + at);
        request.content_type = "application/x-ndjson";
        hs_lines_answer(f.api, &request, false, NULL, &response, &n_bytes);
        ck_assert_int_eq(response.status, 200);
        ck_assert_ptr_nonnull(strstr(response.body, "\"attentions\":"));
        ck_assert_uint_eq(n_bytes, strlen(BODY) + 1);
        hs_response_finish(&response);
    }
    ck_assert_uint_eq(n_calls, 3);
    api_close(&f);
}
END_TEST

typedef struct asker {
    api_fixture *f;
    hs_request request;
    hs_job *job;
} asker;

static void *ask(void *data)
{
    asker *a = data;
    a->job = hs_job_create(a->f->api, &a->request);
    return NULL;
}

static bool somebody_waits(hs__budget *budget)
{
    pthread_mutex_lock(&budget->mutex);
    const bool waits = budget->first;
    pthread_mutex_unlock(&budget->mutex);
    return waits;
}

/* A thread whose job waits for that of this one. */
static pthread_t wait_behind(asker *a)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, ask, a), 0);
    while (!somebody_waits(&a->f->api->captures))
        sched_yield();
    return thread;
}

START_TEST(a_job_waits_for_memory)
{
    api_fixture f;
    open_for_one(&f);
    asker waiting = {.f = &f, .request = api_request(HS_ANALYZE, BODY)};
    const hs_request request = api_request(HS_ANALYZE, BODY);
    hs_job *job = hs_job_create(f.api, &request);
    const pthread_t thread = wait_behind(&waiting);
    hs_job_destroy(job);
    pthread_join(thread, NULL);
    ck_assert(hs__job_tokens(waiting.job) > 0);
    ck_assert_double_gt(waiting.job->waited_ms, 0);
    hs_job_destroy(waiting.job);
    api_close(&f);
}
END_TEST

START_TEST(a_client_that_leaves_does_not_wait_on)
{
    api_fixture f;
    atomic_int cancelled = 0;
    hs_response response;
    open_for_one(&f);
    asker waiting = {.f = &f, .request = api_request(HS_ANALYZE, BODY)};
    waiting.request.cancelled = &cancelled;
    const hs_request request = api_request(HS_ANALYZE, BODY);
    hs_job *job = hs_job_create(f.api, &request);
    const pthread_t thread = wait_behind(&waiting);
    atomic_store(&cancelled, 1);
    pthread_join(thread, NULL);
    hs_job_answer(waiting.job, &response);
    ck_assert_int_eq(response.status, 504);
    hs_response_finish(&response);
    hs_job_destroy(waiting.job);
    hs_job_destroy(job);
    api_close(&f);
}
END_TEST

/* Figures of a text of 400 tokens, whose maps the cache of 1 GiB keeps. */
#define FIGURES(rest)                                                                                        \
    "{\"input_ids\":[%s],\"max_tokens\":512,\"digits\":9,\"outputs\":[\"pairs\",\"regions\","                \
    "\"summary\",\"profiles\"],\"layers\":" rest "}"
#define REDUCED(rest)                                                                                        \
    "{\"input_ids\":[%s],\"max_tokens\":512,\"digits\":9,\"layers\":[3,7],\"outputs\":["                     \
    "\"mean_pooled_attentions\",\"max_pooled_attentions\",\"sliced_attentions\","                            \
    "\"word_attentions\",\"word_similarities\","                                                             \
    "\"mean_pooled_similarities\",\"max_pooled_similarities\",\"sliced_similarities\"]," rest "}"
static const char *const figures[] = {
    FIGURES("\"all\""),
    FIGURES("[2,11],\"heads\":[0,5],\"max_pairs\":7"),
    FIGURES("[0,3],\"center\":\"text\",\"special_tokens\":\"mask\""),
    FIGURES("[1,4],\"heads\":[3,7],\"similarity_space\":\"residual\",\"threshold\":0.7"),
    "{\"input_ids\":[%s],\"max_tokens\":512,\"layers\":[5],\"outputs\":[\"attentions\",\"summary\"]}",
    "{\"input_ids\":[%s],\"max_tokens\":512,\"layers\":[5],\"outputs\":[\"regions\",\"pairs\",\"head_"
    "outputs\"]}",
    REDUCED("\"pool\":37,\"rows\":[17,90],\"columns\":[40,400]"),
    REDUCED("\"normalize\":\"max\",\"special_tokens\":\"mask\",\"reduce\":\"mean\",\"center\":\"text\","
            "\"rows\":[0,9]"),
    "{\"input_ids\":[%s],\"max_tokens\":512,\"layers\":[5],\"heads\":[1,5,9],\"outputs\":[\"hidden_states\","
    "\"profiles\"]}",
};

/* Makes a body of 400 tokens. The caller frees it. */
static char *long_body(const char *format)
{
    static char ids[400 * 4];
    size_t n = 0;
    for (size_t i = 0; i < 400; i++)
        n += (size_t)snprintf(ids + n, sizeof ids - n, i ? ",%zu" : "%zu", 5 + i * i % 89);
    char *body = malloc(n + strlen(format) + 1);
    ck_assert_ptr_nonnull(body);
    snprintf(body, n + strlen(format) + 1, format, ids);
    return body;
}

/* Answers on two threads. Returns the memory that the job took; *ret_observes says whether outputs observed
 * the pass. */
static size_t answer_long(api_fixture *f, const char *body, hs_response *ret_response, bool *ret_observes)
{
    hs_request request = api_request(HS_ANALYZE, body);
    request.n_threads = 2;
    hs_job *job = hs_job_create(f->api, &request);
    const size_t n_bytes = job->capture_bytes;
    *ret_observes = job->observed;
    hs_job_run(&job, 1, &(hs_run_control){.n_threads = 2});
    hs_job_answer(job, ret_response);
    ck_assert_int_eq(ret_response->status, 200);
    hs_job_destroy(job);
    return n_bytes;
}

START_TEST(outputs_that_observe_a_pass_answer_the_same)
{
    api_fixture keeping, showing;
    char *body = long_body(figures[_i]);
    hs_response kept, shown;
    bool observes;
    api_open_cores(&(hs_api_options){.cache_bytes_max = (size_t)1 << 30}, 2, &keeping);
    api_open_cores(&(hs_api_options){0}, 2, &showing);
    const size_t n_kept = answer_long(&keeping, body, &kept, &observes);
    ck_assert(!observes);
    const size_t n_shown = answer_long(&showing, body, &shown, &observes);
    ck_assert(observes);
    ck_assert_uint_lt(n_shown, n_kept);
    ck_assert_uint_eq(kept.body_bytes, shown.body_bytes);
    ck_assert_mem_eq(kept.body, shown.body, kept.body_bytes);
    hs_response_finish(&shown);
    api_close(&showing);
    /* Memory for the maps of one head: two threads share its rows. */
    api_open_cores(&(hs_api_options){.capture_bytes_max = n_shown - 1}, 2, &showing);
    ck_assert_uint_lt(answer_long(&showing, body, &shown, &observes), n_shown);
    ck_assert(observes);
    ck_assert_uint_eq(kept.body_bytes, shown.body_bytes);
    ck_assert_mem_eq(kept.body, shown.body, kept.body_bytes);
    hs_response_finish(&kept);
    hs_response_finish(&shown);
    free(body);
    api_close(&keeping);
    api_close(&showing);
}
END_TEST

/* Two heads on two threads keep their maps, 1.3 MB, unless these do not fit. */
START_TEST(maps_that_do_not_fit_are_shown)
{
    api_fixture f;
    char *body = long_body("{\"input_ids\":[%s],\"max_tokens\":512,\"layers\":[5],\"heads\":[0,1],"
                           "\"outputs\":[\"summary\"]}");
    hs_response response;
    bool observes;
    api_open_cores(&(hs_api_options){0}, 2, &f);
    answer_long(&f, body, &response, &observes);
    ck_assert(!observes);
    hs_response_finish(&response);
    api_close(&f);
    api_open_cores(&(hs_api_options){.capture_bytes_max = 2 << 20, .cache_bytes_max = 256 << 20}, 2, &f);
    ck_assert_uint_le(answer_long(&f, body, &response, &observes), 2 << 20);
    ck_assert(observes);
    hs_response_finish(&response);
    free(body);
    api_close(&f);
}
END_TEST

/* Outputs that read one map after the other. */
#define AGAIN(outputs, rest)                                                                                 \
    "{\"input_ids\":[%s],\"max_tokens\":512,\"digits\":9,\"outputs\":[" outputs "]," rest "}"
static const char *const again[] = {
    AGAIN("\"segments\"", "\"layers\":[2,5],\"special_tokens\":\"mask\""),
    AGAIN("\"segments\",\"profiles\"", "\"layers\":\"all\",\"heads\":[3],\"similarity_space\":\"residual\""),
    AGAIN("\"head_distances\"", "\"layers\":\"all\",\"center\":\"text\",\"similarity_space\":\"residual\""),
    AGAIN("\"head_distances\"", "\"layers\":[1,4],\"heads\":[0,2,7]"),
    AGAIN("\"head_distances\"", "\"layers\":[1,4],\"head_distance\":\"js\""),
    AGAIN("\"contributions\"", "\"layers\":[2,4]"),
    AGAIN("\"contributions\",\"alti\"", "\"layers\":[0,3]"),
    AGAIN("\"rollout\"", "\"layers\":[1,4]"),
    AGAIN("\"summary\"", "\"interventions\":[{\"layers\":[2],\"heads\":[1],\"kind\":\"zero\"}]"),
    AGAIN("\"pairs\",\"rollout\"", "\"layers\":[1,4],\"heads\":[0,7],\"center\":\"text\",\"interventions\":"
                                   "[{\"layers\":[1,3],\"heads\":[0,2],\"kind\":\"mean\"}]"),
    AGAIN("\"effects\"", "\"layers\":[9,10],\"heads\":[1,2,3],\"predictions\":{\"positions\":[3,9]}"),
};

START_TEST(outputs_that_compute_maps_again_answer_the_same)
{
    api_fixture keeping, repeating;
    char *body = long_body(again[_i]);
    hs_response kept, repeated;
    bool observes;
    api_open_cores(&(hs_api_options){0}, 2, &keeping);
    const size_t n_kept = answer_long(&keeping, body, &kept, &observes);
    api_open_cores(&(hs_api_options){.capture_bytes_max = n_kept - 1}, 2, &repeating);
    ck_assert_uint_lt(answer_long(&repeating, body, &repeated, &observes), n_kept);
    ck_assert_uint_eq(kept.body_bytes, repeated.body_bytes);
    ck_assert_mem_eq(kept.body, repeated.body, kept.body_bytes);
    hs_response_finish(&kept);
    hs_response_finish(&repeated);
    free(body);
    api_close(&keeping);
    api_close(&repeating);
}
END_TEST

START_TEST(a_cached_map_does_not_stand_for_a_pass)
{
    api_fixture f;
    char *maps = long_body("{\"input_ids\":[%s],\"max_tokens\":512,\"outputs\":[\"attentions\"]}");
    char *body = long_body(FIGURES("\"all\""));
    hs_response response;
    bool observes;
    api_open_cores(&(hs_api_options){.cache_bytes_max = 64 << 20}, 2, &f);
    answer_long(&f, maps, &response, &observes);
    ck_assert(!observes);
    hs_response_finish(&response);
    answer_long(&f, body, &response, &observes);
    ck_assert(observes);
    ck_assert_uint_gt(response.n_tokens, 0);
    hs_response_finish(&response);
    free(maps);
    free(body);
    api_close(&f);
}
END_TEST

START_TEST(a_refusal_says_what_one_head_takes)
{
    api_fixture f;
    hs_response response;
    char *body = long_body("{\"input_ids\":[%s],\"max_tokens\":512,\"layers\":\"all\",\"outputs\":"
                           "[\"effective_attentions\",\"similarities\"]}");
    api_open(&(hs_api_options){.capture_bytes_max = 1 << 20}, &f);
    const hs_request request = api_request(HS_ANALYZE, body);
    hs_api_handle(f.api, &request, &response);
    ck_assert_int_eq(response.status, 422);
    ck_assert_ptr_nonnull(strstr(response.body, "the limit is 1.0 MB"));
    ck_assert_ptr_nonnull(strstr(response.body, "Of 400 tokens one head takes 1.3 MB"));
    ck_assert_ptr_nonnull(strstr(
        response.body, "the maps of all heads are kept for similarities, effective_attentions; --max-maps"));
    hs_response_finish(&response);
    free(body);
    api_close(&f);
}
END_TEST

START_TEST(a_refused_take_changes_nothing)
{
    hs__budget budget;
    atomic_int cancelled = 0;
    hs__budget_init(&budget, 10);
    ck_assert(hs__budget_take(&budget, 6, NULL));
    ck_assert(hs__budget_try(&budget, 4));
    ck_assert(!hs__budget_try(&budget, 1));
    hs__budget_give_back(&budget, 4);
    atomic_store(&cancelled, 1);
    ck_assert(!hs__budget_take(&budget, 5, &cancelled));
    ck_assert(hs__budget_try(&budget, 1));
    hs__budget_give_back(&budget, 7);
    ck_assert_uint_eq(budget.bytes, 0);
    hs__budget_finish(&budget);
}
END_TEST

START_TEST(memory_that_is_kept_leaves_the_budget)
{
    hs__budget budget;
    hs__budget_init(&budget, 10);
    ck_assert(hs__budget_try(&budget, 8));
    ck_assert(!hs__budget_remove(&budget, 5, 7));
    ck_assert_uint_eq(hs__budget_bytes_max(&budget), 10);
    ck_assert(hs__budget_remove(&budget, 3, 7));
    ck_assert_uint_eq(hs__budget_bytes_max(&budget), 7);
    hs__budget_give_back(&budget, 5);
    ck_assert(hs__budget_try(&budget, 7));
    ck_assert(!hs__budget_remove(&budget, 1, 7));
    ck_assert(!hs__budget_take(&budget, 8, NULL)); /* can never fit */
    hs__budget_add(&budget, 3);
    ck_assert(hs__budget_try(&budget, 3));
    hs__budget_finish(&budget);
}
END_TEST

#define GRADIENTS(model)                                                                                     \
    "{\"text\":\"The [MASK] ended.\",\"outputs\":[\"head_attributions\"],\"model\":\"" model "\"}"

/* Returns the status of an answer that has this part. */
static int answer_gradients(api_fixture *f, const char *body, const char *part)
{
    hs_response response = api_post(f, HS_ANALYZE, body);
    ck_assert_msg(strstr(response.body, part), "%s", response.body);
    const int status = response.status;
    hs_response_finish(&response);
    return status;
}

static void engine_free(void *engine)
{
    hs_engine_destroy(engine);
}

/* Serves the fixture's model under another name, with an engine of its own, which has other weights. */
static void serve_again(api_fixture *f, const char *name)
{
    hs_engine *engine;
    ck_assert_int_eq(
        hs_engine_create(f->runtime, hs_model_architecture(f->model), &(hs_engine_options){0}, &engine, NULL),
        HS_OK);
    const hs_api_model model = {
        .name = name, .model = f->model, .engine = engine, .free = engine_free, .user_data = engine};
    ck_assert_int_eq(hs_api_model_put(f->api, &model, NULL), HS_OK);
}

/* Returns the bound of the memory that the heads of a request take. */
static size_t captures_of(api_fixture *f, const char *body)
{
    const hs_request request = api_request(HS_ANALYZE, body);
    hs_job *job = hs_job_create(f->api, &request);
    const size_t n_bytes = job->capture_bytes;
    hs_job_destroy(job);
    return n_bytes;
}

/* Opens an api with three models and a budget of n_bytes, of which one request may take seven eighths. */
static void open_with_budget(api_fixture *f, size_t n_bytes)
{
    api_close(f);
    api_open(&(hs_api_options){.n_workers = 2,
                               .capture_bytes_max = n_bytes / 8 * 7,
                               .captures_bytes_max = n_bytes},
             f);
    serve_again(f, "second");
    serve_again(f, "third");
}

START_TEST(weights_of_gradients_stay_counted)
{
    api_fixture f;
    api_open(&(hs_api_options){0}, &f);
    const size_t n_weights = hs_gradients_weights_bytes(f.engine);
    open_with_budget(&f, captures_of(&f, GRADIENTS("mini")) + n_weights / 2 * 3); /* holds two weights */
    const size_t bytes_max = f.api->captures.bytes_max;
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(answer_gradients(&f, GRADIENTS("mini"), "head_attributions"), 200);
    ck_assert_uint_eq(f.api->captures.bytes_max, bytes_max - n_weights);
    ck_assert_int_eq(answer_gradients(&f, GRADIENTS("second"), "head_attributions"), 200);
    ck_assert_uint_eq(f.api->captures.bytes_max, bytes_max - 2 * n_weights);
    ck_assert_int_eq(
        answer_gradients(&f, GRADIENTS("third"), "beside the weights that gradients keep in memory"), 422);
    ck_assert_int_eq(answer_gradients(&f, GRADIENTS("third"), "--max-maps raises the limits"), 422);
    ck_assert_int_eq(answer_gradients(&f, GRADIENTS("mini"), "head_attributions"), 200);
    ck_assert_uint_eq(f.api->captures.bytes_max, bytes_max - 2 * n_weights);
    ck_assert_uint_eq(f.api->captures.bytes, 0);
    ck_assert_int_eq(hs_api_model_remove(f.api, "second", NULL), HS_OK);
    ck_assert_int_eq(answer_gradients(&f, GRADIENTS("third"), "head_attributions"), 200);
    api_close(&f);
}
END_TEST

/* The maps of seven layers fit in all memory, but not beside the weights of a model. */
START_TEST(a_job_that_weights_leave_no_memory_for_does_not_wait)
{
    api_fixture f;
    hs_response response;
    char *body = long_body("{\"input_ids\":[%s],\"max_tokens\":512,\"layers\":[0,1,2,3,4,5,6],"
                           "\"outputs\":[\"attentions\"]}");
    api_open(&(hs_api_options){0}, &f);
    open_with_budget(&f, (captures_of(&f, body) / 7 + 1) * 8);
    const hs_request gradients = api_request(HS_ANALYZE, GRADIENTS("mini"));
    asker waiting = {.f = &f, .request = api_request(HS_ANALYZE, body)};
    hs_job *job = hs_job_create(f.api, &gradients);
    const pthread_t thread = wait_behind(&waiting);
    hs_job_run(&job, 1, NULL); /* keeps weights */
    pthread_join(thread, NULL);
    hs_job_answer(waiting.job, &response);
    ck_assert_int_eq(response.status, 503);
    hs_response_finish(&response);
    hs_job_destroy(waiting.job);
    hs_job_destroy(job);
    response = api_post(&f, HS_ANALYZE, body);
    ck_assert_int_eq(response.status, 422);
    ck_assert_ptr_nonnull(strstr(response.body, "MB beside the weights that gradients keep in memory"));
    hs_response_finish(&response);
    free(body);
    api_close(&f);
}
END_TEST

/* A value that the system has no memory to read is no wrong value. */
START_TEST(a_field_without_memory_is_not_wrong)
{
    hs_model *model;
    hs_fields *fields;
    bool refused = true;
    ck_assert_int_eq(hs_model_open_embedded(&model, NULL), HS_OK);
    ck_assert_int_eq(hs_fields_create(model, HS_STACK_ENCODER, 512, &fields, NULL), HS_OK);
    for (size_t nth = 0; refused; nth++) {
        chaos_refuse(nth);
        const hs_status st = hs_fields_set(fields, "interventions",
                                           "[{\"kind\":\"zero\",\"layers\":[0],\"heads\":[0]}]", NULL);
        refused = chaos_stop();
        ck_assert_int_eq(st, refused ? HS_NO_MEMORY : HS_OK);
    }
    ck_assert_int_eq(hs_fields_set(fields, "interventions", "[{\"kind\":\"one\"}]", NULL), HS_INVALID);
    hs_fields_destroy(fields);
    hs_model_close(model);
}
END_TEST

int main(void)
{
    TCase *cases = tcase_create("memory");
    tcase_add_test(cases, a_job_beside_others_does_not_wait);
    tcase_add_test(cases, lines_are_answered_as_far_as_memory_goes);
    tcase_add_test(cases, a_job_waits_for_memory);
    tcase_add_test(cases, a_client_that_leaves_does_not_wait_on);
    tcase_add_loop_test(cases, outputs_that_observe_a_pass_answer_the_same, 0,
                        (int)(sizeof figures / sizeof *figures));
    tcase_add_loop_test(cases, outputs_that_compute_maps_again_answer_the_same, 0,
                        (int)(sizeof again / sizeof *again));
    tcase_add_test(cases, maps_that_do_not_fit_are_shown);
    tcase_add_test(cases, a_cached_map_does_not_stand_for_a_pass);
    tcase_add_test(cases, a_refusal_says_what_one_head_takes);
    tcase_add_test(cases, a_refused_take_changes_nothing);
    tcase_add_test(cases, memory_that_is_kept_leaves_the_budget);
    tcase_add_test(cases, weights_of_gradients_stay_counted);
    tcase_add_test(cases, a_job_that_weights_leave_no_memory_for_does_not_wait);
    tcase_add_test(cases, a_field_without_memory_is_not_wrong);
    Suite *suite = suite_create("api memory");
    suite_add_tcase(suite, cases);
    return tests_run(suite);
}
