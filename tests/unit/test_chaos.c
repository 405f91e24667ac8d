/* test_chaos.c - engine and api when memory runs out: each allocation fails in turn, nothing leaks, and the
 * next try succeeds. */
#include "api/api.h"
#include "api/figures/picture.h"
#include "tests/unit/chaos.h"
#include "tests/unit/checkpoint.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <jansson.h>
#include <string.h>

#define ALLOCATIONS_MAX 100000 /* far beyond what any call here makes */

static char dir[64];
static hs_model *model;
static hs_runtime *runtimes[2]; /* of one core, of three */
static hs_engine *engine;

static void setup(void)
{
    const checkpoint options = {0};
    folder_create(dir);
    checkpoint_write(&options, dir);
    ck_assert_int_eq(hs_model_open(dir, NULL, &model, NULL), HS_OK);
    ck_assert_int_eq(hs_runtime_create(1, &runtimes[0], NULL), HS_OK);
    ck_assert_int_eq(hs_runtime_create(3, &runtimes[1], NULL), HS_OK);
    ck_assert_int_eq(
        hs_engine_create(runtimes[0], hs_model_architecture(model), &(hs_engine_options){0}, &engine, NULL),
        HS_OK);
}

static void teardown(void)
{
    hs_engine_destroy(engine);
    hs_runtime_destroy(runtimes[0]);
    hs_runtime_destroy(runtimes[1]);
    hs_model_close(model);
    folder_remove(dir);
}

/* Refuses the first allocation of an attempt, then the second, and so on until none was refused. An attempt
 * releases what it made. Stops early if the CPU lacks something. */
static void refuse_each(hs_status (*attempt)(const void *data), const void *data)
{
    const size_t live = chaos_live();
    bool refused = true;
    for (size_t nth = 0; refused; nth++) {
        ck_assert_uint_lt(nth, ALLOCATIONS_MAX);
        chaos_refuse(nth);
        const hs_status st = attempt(data);
        refused = chaos_stop();
        if (st == HS_UNSUPPORTED)
            break;
        ck_assert_msg(st == (refused ? HS_NO_MEMORY : HS_OK), "allocation %zu: %s", nth, hs_status_text(st));
        ck_assert_msg(chaos_live() == live, "allocation %zu refused: something leaked", nth);
    }
}

/* Returns the status of a creation, or HS_INVALID if what it returned contradicts that. Attempts have no
 * assertions, because those allocate, too. */
static hs_status checked(hs_status st, const void *created)
{
    return (created != NULL) == (st == HS_OK) ? st : HS_INVALID;
}

static hs_status runtime_attempt(const void *data)
{
    hs_runtime *created = NULL;
    const hs_status st = hs_runtime_create(1, &created, NULL);
    (void)data;
    const hs_status result = checked(st, created);
    hs_runtime_destroy(created);
    return result;
}

START_TEST(runtime_create_survives_every_refused_allocation)
{
    refuse_each(runtime_attempt, NULL);
}
END_TEST

typedef struct engine_case {
    size_t runtime;
    hs_engine_options options;
} engine_case;

static const engine_case engines[] = {{0, {.products = HS_PRODUCTS_DEFAULT}},
                                      {0, {.products = HS_PRODUCTS_CBLAS}},
                                      {0, {.precision = HS_PRECISION_INT8}},
                                      {1, {.products = HS_PRODUCTS_DEFAULT}}};

static hs_status engine_attempt(const void *data)
{
    const engine_case *made = data;
    hs_engine *created = NULL;
    const hs_status st = hs_engine_create(runtimes[made->runtime], hs_model_architecture(model),
                                          &made->options, &created, NULL);
    const bool missing = st == HS_UNSUPPORTED && made->options.precision == HS_PRECISION_FP32;
    const hs_status result = missing ? HS_INVALID : checked(st, created);
    hs_engine_destroy(created);
    return result;
}

START_TEST(engine_create_survives_every_refused_allocation)
{
    refuse_each(engine_attempt, &engines[_i]);
}
END_TEST

static hs_status make_capture(unsigned taps, hs_capture **ret_capture)
{
    const hs_selection selection = hs_select_all(hs_engine_shape(engine), taps);
    return hs_capture_create(runtimes[0], hs_engine_shape(engine), &selection, CHECKPOINT_POSITIONS,
                             ret_capture, NULL);
}

static hs_status scratch_attempt(const void *data)
{
    const unsigned taps =
        HS_KEEP(ATTENTION) | HS_KEEP(SIMILARITY) | HS_KEEP(HEAD_OUTPUT) | HS_KEEP(HIDDEN_STATE);
    hs_workspace *ws = NULL;
    hs_capture *capture = NULL;
    hs_status st = hs_workspace_create(engine, CHECKPOINT_POSITIONS, &ws, NULL);
    (void)data;
    if (!st)
        st = make_capture(taps, &capture);
    hs_capture_destroy(capture);
    hs_workspace_destroy(ws);
    return st;
}

START_TEST(scratch_survives_every_refused_allocation)
{
    refuse_each(scratch_attempt, NULL);
}
END_TEST

/* Prepares the plan while each allocation in turn is refused. */
static void check_prepare(const hs_engine *fresh, const hs_plan *plan)
{
    bool refused = true;
    for (size_t nth = 0; refused; nth++) {
        ck_assert_uint_lt(nth, ALLOCATIONS_MAX);
        chaos_refuse(nth);
        const hs_status st = hs_engine_prepare(fresh, plan, NULL);
        refused = chaos_stop();
        ck_assert_int_eq(st, refused ? HS_NO_MEMORY : HS_OK);
    }
}

static hs_status run_refusing(const hs_engine *fresh, hs_workspace *ws, const hs_plan *plan)
{
    chaos_refuse(0);
    const hs_status st = hs_engine_run(fresh, ws, plan, NULL, NULL);
    ck_assert(!chaos_stop());
    return st;
}

START_TEST(a_pass_allocates_nothing)
{
    static const int32_t ids[CHECKPOINT_POSITIONS] = {2, 5, 6, 3, 5, 7, 8, 3};
    const size_t live = chaos_live();
    hs_engine *fresh = NULL;
    hs_workspace *ws = NULL;
    hs_capture *capture = NULL;
    hs_plan plan;
    ck_assert_int_eq(
        hs_engine_create(runtimes[0], hs_model_architecture(model), &(hs_engine_options){0}, &fresh, NULL),
        HS_OK);
    ck_assert_int_eq(hs_workspace_create(fresh, CHECKPOINT_POSITIONS, &ws, NULL), HS_OK);
    ck_assert_int_eq(make_capture(~HS_KEEP(CROSS_STATE), &capture), HS_OK);
    const hs_sequence sequence = {.ids = ids, .n_tokens = CHECKPOINT_POSITIONS, .capture = capture};
    ck_assert_int_eq(hs_plan_make(hs_engine_architecture(fresh), &sequence, 1, NULL, &plan, NULL), HS_OK);
    ck_assert_int_eq(run_refusing(fresh, ws, &plan),
                     HS_INVALID); /* it needs factors, and makes none itself */
    check_prepare(fresh, &plan);
    ck_assert_int_eq(run_refusing(fresh, ws, &plan), HS_OK);
    hs_capture_destroy(capture);
    hs_workspace_destroy(ws);
    hs_engine_destroy(fresh);
    ck_assert_uint_eq(chaos_live(), live);
}
END_TEST

static const struct {
    hs_operation operation;
    const char *accept, *accept_encoding, *body;
} requests[] = {
    {HS_ANALYZE, NULL, NULL, "{\"text\":\"a b d\"}"},
    {HS_ANALYZE, NULL, "gzip",
     "{\"text\":\"a b d\",\"layers\":\"all\",\"outputs\":[\"attentions\",\"similarities\"]}"},
    {HS_ANALYZE, "application/x-npz", NULL,
     "{\"text\":\"a bc "
     "d\",\"layers\":\"all\",\"outputs\":[\"attentions\",\"pairs\",\"regions\",\"segments\",\"summary\","
     "\"hidden_states\"]}"},
    {HS_ANALYZE, "application/x-safetensors", NULL,
     "{\"text\":\"a bc "
     "d\",\"layers\":\"all\",\"outputs\":[\"attentions\",\"pairs\",\"regions\",\"segments\",\"summary\","
     "\"hidden_states\"]}"},
    {HS_ANALYZE, NULL, NULL,
     "{\"words\":[\"a\",\"bc\"],\"interventions\":[{\"kind\":\"mean\",\"layers\":[0]},{\"kind\":\"zero\","
     "\"heads\":[1]}]}"},
    {HS_ANALYZE, "application/x-npz", NULL,
     "{\"input_ids\":[2,5,3],\"outputs\":[\"value_norms\",\"rollout\"],\"interventions\":[{\"kind\":"
     "\"uniform\"}]}"},
    {HS_ANALYZE, NULL, NULL, "{\"text\":\"a bc\",\"outputs\":[\"effects\"]}"},
    {HS_ANALYZE, NULL, NULL,
     "{\"text\":\"a bc\",\"outputs\":[\"effects\",\"patch_map\"],\"target\":{\"token\":7,\"position\":1},"
     "\"effects_of\":{\"kind\":\"patch\",\"from\":{\"text\":\"bc a\"}}}"},
    {HS_ANALYZE, NULL, NULL, "{\"text\":\"a bc\",\"outputs\":[\"alti\",\"value_zeroing\"]}"},
    {HS_ANALYZE, "image/svg+xml", NULL, "{\"text\":\"a bc\",\"figure\":{\"show\":\"both\"}}"},
    {HS_ANALYZE, "text/csv", NULL, "{\"text\":\"a bc\",\"figure\":{\"kind\":\"effects\"}}"},
    {HS_ANALYZE, "application/pdf", NULL, "{\"text\":\"a bc\",\"figure\":{\"kind\":\"layer\"}}"},
    {HS_TOKENIZE, NULL, NULL, "{\"text\":\"a bc e\"}"},
    {HS_ANALYZE, NULL, NULL, "{\"text\":7}"},
    {HS_ANALYZE, NULL, NULL, "{\"digits\":0.12345678901234567890123456789012345}"},
    {HS_ANALYZE, NULL, NULL, "{\"input_ids\":[2,3,4],\"outputs\":[\"attention_flow\"],\"max_tokens\":3}"},
    {HS_MODELS, NULL, NULL, NULL},
};

static hs_request make_request(size_t i)
{
    return (hs_request){
        .operation = requests[i].operation,
        .content_type = requests[i].body ? "application/json" : NULL,
        .accept = requests[i].accept,
        .accept_encoding = requests[i].accept_encoding,
        .id = "chaos",
        .body = requests[i].body,
        .body_bytes = requests[i].body ? strlen(requests[i].body) : 0,
    };
}

static hs_response answer(hs_api *api, size_t i)
{
    hs_request request = make_request(i);
    hs_response response = {0};
    hs_api_handle(api, &request, &response);
    return response;
}

/* Checks the answer after a refused allocation. It must be right, or a problem that says to send the request
 * again. */
static void check_answer(const hs_response *response, const hs_response *expected)
{
    if (response->status == expected->status)
        return;
    ck_assert_msg(response->status == 503, "%.*s", (int)response->body_bytes, response->body);
    ck_assert_str_eq(response->content_type, "application/problem+json");
    json_t *problem = json_loadb(response->body, response->body_bytes, 0, NULL);
    ck_assert_msg(json_integer_value(json_object_get(problem, "status")) == response->status, "%.*s",
                  (int)response->body_bytes, response->body);
    json_decref(problem);
}

START_TEST(a_request_survives_every_refused_allocation)
{
    hs_api *api = NULL;
    ck_assert_int_eq(hs_api_create(&(hs_api_options){0}, &api, NULL), HS_OK);
    ck_assert_int_eq(
        hs_api_model_put(api, &(hs_api_model){.name = "tiny", .model = model, .engine = engine}, NULL),
        HS_OK);
    hs_response expected = answer(api, (size_t)_i);
    ck_assert_msg(expected.status == 200 || expected.status == 422, "%.*s", (int)expected.body_bytes,
                  expected.body);
    const size_t live = chaos_live();
    bool refused = true;
    for (size_t nth = 0; refused; nth++) {
        ck_assert_uint_lt(nth, ALLOCATIONS_MAX);
        chaos_refuse(nth);
        hs_response response = answer(api, (size_t)_i);
        refused = chaos_stop();
        check_answer(&response, &expected);
        ck_assert(refused || response.status == expected.status);
        hs_response_finish(&response);
        ck_assert_msg(chaos_live() == live, "allocation %zu refused: something leaked", nth);
    }
    hs_response_finish(&expected);
    hs_api_destroy(api);
}
END_TEST

static hs_status make_api(hs_api **ret_api)
{
    hs_status st = hs_api_create(&(hs_api_options){.cache_bytes_max = 1 << 20}, ret_api, NULL);
    if (!st)
        st = hs_api_model_put(*ret_api, &(hs_api_model){.name = "tiny", .model = model, .engine = engine},
                              NULL);
    return st;
}

static hs_status api_attempt(const void *data)
{
    hs_api *api = NULL;
    const hs_status st = make_api(&api);
    (void)data;
    hs_api_destroy(api);
    return st;
}

START_TEST(api_create_survives_every_refused_allocation)
{
    refuse_each(api_attempt, NULL);
}
END_TEST

/* With a cache, what is kept differs from try to try; everything must be gone with the api. */
START_TEST(the_cache_survives_every_refused_allocation)
{
    const size_t live = chaos_live();
    bool refused = true;
    for (size_t nth = 0; refused; nth++) {
        ck_assert_uint_lt(nth, ALLOCATIONS_MAX);
        hs_api *api = NULL;
        ck_assert_int_eq(make_api(&api), HS_OK);
        hs_response expected = answer(api, 1);
        chaos_refuse(nth);
        hs_response first = answer(api, 0);
        hs_response again = answer(api, 1);
        refused = chaos_stop();
        check_answer(&first, &expected);
        check_answer(&again, &expected);
        hs_response_finish(&first);
        hs_response_finish(&again);
        hs_response_finish(&expected);
        hs_api_destroy(api);
        ck_assert_msg(chaos_live() == live, "allocation %zu refused: something leaked", nth);
    }
}
END_TEST

static hs_status pdf_attempt(const void *data)
{
    (void)data;
    hs_buffer page = {0};
    hs_picture picture = {.width = 100, .height = 100};
    hs__mark where = {.x = 1, .y = 50, .size = 9};
    hs__draw_text(&picture, &where, "text", 99);
    hs__draw_box(&picture, 1, 1, 9, 9, 0, true);
    const hs_status st = picture.failed ? HS_NO_MEMORY : hs_picture_pdf(&picture, NULL, &page, NULL);
    hs_picture_finish(&picture);
    hs_buffer_finish(&page);
    return st;
}

START_TEST(a_pdf_survives_every_refused_allocation)
{
    refuse_each(pdf_attempt, NULL);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("chaos");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, runtime_create_survives_every_refused_allocation);
    tcase_add_loop_test(tests, engine_create_survives_every_refused_allocation, 0,
                        sizeof engines / sizeof *engines);
    tcase_add_test(tests, scratch_survives_every_refused_allocation);
    tcase_add_test(tests, a_pass_allocates_nothing);
    tcase_add_test(tests, api_create_survives_every_refused_allocation);
    tcase_add_loop_test(tests, a_request_survives_every_refused_allocation, 0,
                        sizeof requests / sizeof *requests);
    tcase_add_test(tests, a_pdf_survives_every_refused_allocation);
    tcase_add_test(tests, the_cache_survives_every_refused_allocation);
    Suite *suite = suite_create("chaos");
    suite_add_tcase(suite, tests);
    return tests_run(suite);
}
