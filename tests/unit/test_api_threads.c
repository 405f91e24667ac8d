/* test_api_threads.c - answers that several threads write together: the same bytes as one thread's, an early
 * end after the client left, and a problem when memory runs out. Threads do not survive a fork, so each test
 * starts its own. */
#include "tests/unit/api_fixture.h"
#include "tests/unit/chaos.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 3 };

/* Words enough for maps that are worth sharing: 144 of 40 x 40 numbers. */
#define TEXT                                                                                                 \
    "{\"text\":\"The old stone bridge across the river was built in the twelfth century, when the town was " \
    "still small. It was destroyed in the war and built again by the people of the town, who had little.\"," \
    "\"layers\":\"all\","

static const char *const rests[] = {
    "\"max_tokens\":40}",
    "\"max_tokens\":40,\"normalize\":\"max\",\"digits\":9,\"dtype\":\"f2\"}",
    "\"max_tokens\":40,\"reduce\":\"mean\",\"outputs\":[\"weighted_norms\",\"hidden_states\"]}",
    "\"max_tokens\":39,\"outputs\":[\"effective_attentions\",\"head_outputs\",\"rollout\",\"value_norms\"]}",
    "\"max_tokens\":24,\"reduce\":\"sum\",\"outputs\":[\"scores\",\"queries\",\"regions\",\"segments\"]}",
};
static const char *const queries[] = {NULL, "format=npz", "format=safetensors", "format=npz&names=hooks"};

#define N_RESTS   (sizeof rests / sizeof *rests)
#define N_QUERIES (sizeof queries / sizeof *queries)

static void open_with_threads(api_fixture *f)
{
    api_open_cores(&(hs_api_options){0}, THREADS, f);
}

static hs_response ask(api_fixture *f, const char *query, const char *body, size_t n_threads)
{
    hs_response response;
    hs_request request = api_request(HS_ANALYZE, body);
    request.query = query;
    request.n_threads = n_threads;
    hs_api_handle(f->api, &request, &response);
    ck_assert_msg(response.status == 200, "%s", response.body);
    return response;
}

static void body_of(const char *rest, char *ret, size_t n_ret)
{
    snprintf(ret, n_ret, "%s%s", TEXT, rest);
}

START_TEST(threads_write_the_same_bytes)
{
    api_fixture f;
    char body[1024];
    open_with_threads(&f);
    for (size_t i = 0; i < N_RESTS * N_QUERIES; i++) {
        const char *query = queries[i % N_QUERIES];
        body_of(rests[i / N_QUERIES], body, sizeof body);
        hs_response alone = ask(&f, query, body, 1);
        for (size_t round = 0; round < ROUNDS; round++) {
            hs_response shared = ask(&f, query, body, THREADS);
            ck_assert_uint_eq(shared.body_bytes, alone.body_bytes);
            ck_assert_mem_eq(shared.body, alone.body, alone.body_bytes);
            hs_response_recycle(f.api, &shared);
        }
        hs_response_finish(&alone);
    }
    api_close(&f);
}
END_TEST

/* Each is written where the other one was. */
START_TEST(a_kept_body_shows_nothing_of_the_one_before)
{
    static const char *const longer = "\"max_tokens\":44,\"digits\":9}", *const shorter =
                                                                             "\"max_tokens\":43}";
    api_fixture f;
    char bodies[2][1024];
    open_with_threads(&f);
    body_of(longer, bodies[0], sizeof bodies[0]);
    body_of(shorter, bodies[1], sizeof bodies[1]);
    hs_response fresh[2] = {ask(&f, NULL, bodies[0], 1), ask(&f, NULL, bodies[1], 1)};
    ck_assert_uint_gt(fresh[0].body_capacity, 0);
    for (size_t i = 0; i < 6; i++) {
        hs_response again = ask(&f, NULL, bodies[i % 2], THREADS);
        ck_assert_uint_eq(again.body_bytes, fresh[i % 2].body_bytes);
        ck_assert_mem_eq(again.body, fresh[i % 2].body, again.body_bytes);
        hs_response_recycle(f.api, &again);
        ck_assert_ptr_null(again.body);
    }
    hs_response_finish(&fresh[0]);
    hs_response_finish(&fresh[1]);
    api_close(&f);
}
END_TEST

START_TEST(a_client_that_left_ends_all_threads)
{
    api_fixture f;
    char body[1024];
    open_with_threads(&f);
    body_of(rests[0], body, sizeof body);
    for (size_t i = 0; i < N_QUERIES; i++) {
        atomic_int cancelled = 0;
        hs_response response;
        hs_request request = api_request(HS_ANALYZE, body);
        request.query = queries[i];
        request.n_threads = THREADS;
        request.cancelled = &cancelled;
        hs_job *job = hs_job_create(f.api, &request);
        hs_job_run(&job, 1, NULL);
        atomic_store(&cancelled, 1);
        hs_job_answer(job, &response);
        ck_assert_int_eq(response.status, 504);
        hs_response_finish(&response);
        hs_job_destroy(job);
    }
    api_close(&f);
}
END_TEST

/* The thread whose allocation fails differs from run to run. */
START_TEST(refused_memory_is_a_problem_on_every_thread)
{
    api_fixture f;
    char body[1024];
    open_with_threads(&f);
    body_of(rests[4], body, sizeof body);
    hs_response expected = ask(&f, NULL, body, 1);
    bool refused = true;
    for (size_t nth = 0; refused; nth++) {
        hs_response response;
        hs_request request = api_request(HS_ANALYZE, body);
        request.n_threads = THREADS;
        hs_job *job = hs_job_create(f.api, &request);
        hs_job_run(&job, 1, NULL);
        const size_t live = chaos_live();
        chaos_refuse(nth);
        hs_job_answer(job, &response);
        refused = chaos_stop();
        ck_assert_int_eq(response.status, refused && response.status != 200 ? 503 : 200);
        if (response.status == 200) {
            ck_assert_uint_eq(response.body_bytes, expected.body_bytes);
            ck_assert_mem_eq(response.body, expected.body, expected.body_bytes);
        }
        hs_response_finish(&response);
        ck_assert_msg(chaos_live() == live, "allocation %zu refused: something leaked", nth);
        hs_job_destroy(job);
    }
    hs_response_finish(&expected);
    api_close(&f);
}
END_TEST

int main(void)
{
    TCase *cases = tcase_create("threads");
    tcase_add_test(cases, threads_write_the_same_bytes);
    tcase_add_test(cases, a_kept_body_shows_nothing_of_the_one_before);
    tcase_add_test(cases, a_client_that_left_ends_all_threads);
    tcase_add_test(cases, refused_memory_is_a_problem_on_every_thread);
    Suite *suite = suite_create("api threads");
    suite_add_tcase(suite, cases);
    return tests_run(suite);
}
