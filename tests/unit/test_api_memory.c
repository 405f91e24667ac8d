/* test_api_memory.c - the memory budget of requests: one bound for all, and an order for those that wait. */
#include "api/internal.h"
#include "tests/unit/api_fixture.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
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
    tcase_set_timeout(cases, 120);
    tcase_add_test(cases, a_job_beside_others_does_not_wait);
    tcase_add_test(cases, lines_are_answered_as_far_as_memory_goes);
    tcase_add_test(cases, a_job_waits_for_memory);
    tcase_add_test(cases, a_client_that_leaves_does_not_wait_on);
    tcase_add_test(cases, a_refused_take_changes_nothing);
    Suite *suite = suite_create("api memory");
    suite_add_tcase(suite, cases);
    return tests_run(suite);
}
