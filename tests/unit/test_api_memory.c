/* test_api_memory.c - the memory budget of requests: one bound for all, and an order for those that wait. */
#include "api/internal.h"
#include "tests/unit/api_fixture.h"
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
    Suite *suite = suite_create("api memory");
    suite_add_tcase(suite, cases);
    return tests_run(suite);
}
