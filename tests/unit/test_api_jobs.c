/* test_api_jobs.c - the three steps of a request: several in one pass, cancelled, too large, encoded for the
 * client. */
#include "api/internal.h"
#include "tests/unit/api_fixture.h"
#include "tests/unit/chaos.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <math.h>
#include <string.h>
#include <zlib.h>

static api_fixture f;

static void open_fixture(void)
{
    api_open(&(hs_api_options){.answer_bytes_max = 256 << 20, .capture_bytes_max = 8 << 20}, &f);
}

static void close_fixture(void)
{
    api_close(&f);
}

static const char *const bodies[] = {
    /* No pairs: the last bit of a similarity decides about their order. */
    "{\"text\":\"The war ended. It changed central "
    "Europe.\",\"outputs\":[\"attentions\",\"similarities\"],\"digits\":9}",
    "{\"text\":\"\",\"layers\":\"all\",\"outputs\":[\"attentions\",\"hidden_states\"],\"digits\":9}",
    "{\"text\":\"One cat.\",\"text_pair\":\"Two "
    "dogs.\",\"layers\":[0,5],\"heads\":[1,2],\"outputs\":[\"attentions\",\"head_outputs\"],\"digits\":9}",
    "{\"text\":\"a\",\"layers\":[3],\"outputs\":[\"similarities\",\"summary\",\"segments\",\"regions\"],"
    "\"digits\":9}",
};
#define N_BODIES (sizeof bodies / sizeof *bodies)

static void check_close(const json_t *a, const json_t *b)
{
    ck_assert_int_eq(json_is_number(a) ? JSON_REAL : json_typeof(a),
                     json_is_number(b) ? JSON_REAL : json_typeof(b));
    if (json_is_number(a)) {
        const double x = json_number_value(a), y = json_number_value(b);
        ck_assert_double_le(fabs(x - y), 1e-5 * fmax(1, fabs(x)));
    } else if (json_is_array(a)) {
        ck_assert_uint_eq(json_array_size(a), json_array_size(b));
        for (size_t i = 0; i < json_array_size(a); i++)
            check_close(json_array_get(a, i), json_array_get(b, i));
    } else if (json_is_object(a)) {
        const char *name;
        json_t *value;
        ck_assert_uint_eq(json_object_size(a), json_object_size(b));
        json_object_foreach((json_t *)a, name, value)
        {
            check_close(value, json_object_get(b, name));
        }
    } else {
        ck_assert(json_equal(a, b));
    }
}

START_TEST(jobs_in_one_pass_answer_as_alone)
{
    hs_request requests[N_BODIES];
    hs_job *jobs[N_BODIES];
    for (size_t i = 0; i < N_BODIES; i++) {
        requests[i] = api_request(HS_ANALYZE, bodies[i]);
        jobs[i] = hs_job_create(f.api, &requests[i]);
        ck_assert_ptr_nonnull(jobs[i]);
        ck_assert_uint_gt(hs__job_tokens(jobs[i]), 0);
    }
    hs_job_run(jobs, N_BODIES, NULL);
    for (size_t i = 0; i < N_BODIES; i++) {
        hs_response together, alone = api_post(&f, HS_ANALYZE, bodies[i]);
        ck_assert_uint_eq(hs__job_tokens(jobs[i]), 0);
        hs_job_answer(jobs[i], &together);
        hs_job_destroy(jobs[i]);
        ck_assert_int_eq(together.status, 200);
        ck_assert_uint_eq(together.n_tokens, alone.n_tokens);
        json_t *a = api_json(&together), *b = api_json(&alone);
        check_close(a, b);
        json_decref(a);
        json_decref(b);
    }
}
END_TEST

START_TEST(only_short_texts_of_the_same_layers_share_a_pass)
{
    static const struct {
        const char *body;
        bool cancelled;
    } cases[] = {
        {"{\"text\":\"a first text\",\"layers\":[0]}", false},
        {"{\"text\":\"deeper\",\"layers\":\"last\"}", false},
        {"{\"text\":\"nobody waits for it\",\"layers\":[0]}", true},
        {"{\"text\":\"a second text\",\"layers\":[0]}", false},
        {"{\"text\":1}", false},
    };
    enum { N = sizeof cases / sizeof *cases };
    atomic_int cancelled = 1;
    hs_request requests[N];
    hs_job *jobs[N + 1] = {NULL}; /* one for which memory was short */
    for (size_t i = 0; i < N; i++) {
        requests[i] = api_request(HS_ANALYZE, cases[i].body);
        requests[i].cancelled = cases[i].cancelled ? &cancelled : NULL;
        jobs[i] = hs_job_create(f.api, &requests[i]);
    }
    ck_assert_uint_eq(hs_job_run(jobs, N + 1, NULL), 2);
    for (size_t i = 0; i < N; i++) {
        hs_response response;
        ck_assert_uint_eq(hs__job_tokens(jobs[i]), 0);
        hs_job_answer(jobs[i], &response);
        hs_job_destroy(jobs[i]);
        ck_assert_int_eq(response.status, cases[i].cancelled ? 504 : i + 1 == N ? 422 : 200);
        hs_response_finish(&response);
    }
}
END_TEST

START_TEST(contradictions_are_refused_before_any_pass)
{
    static const char *const cases[] = {
        "[{\"kind\":\"uniform\",\"layers\":[0],\"heads\":[0]},"
        "{\"kind\":\"identity\",\"layers\":[0],\"heads\":[0]}]",
        "[{\"kind\":\"identity\",\"layers\":[0,1],\"heads\":[3]},{\"kind\":\"patch\",\"from\":{\"text\":"
        "\"b\"},"
        "\"layers\":[0],\"heads\":[0]},{\"kind\":\"uniform\",\"layers\":[1,2],\"heads\":[2,3]}]",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[1024];
        snprintf(body, sizeof body, "{\"text\":\"a\",\"interventions\":%s}", cases[i]);
        hs_request request = api_request(HS_ANALYZE, body);
        hs_job *job = hs_job_create(f.api, &request);
        ck_assert_int_eq(job->problem.status, 422);
        ck_assert_str_eq(job->problem.pointer, "/interventions");
        ck_assert_ptr_nonnull(strstr(job->problem.detail, "is asked to be uniform and the identity"));
        hs_job_destroy(job);
    }
}
END_TEST

/* Jobs of one pass, of which some observe it, and one whose vector is made before its own pass. */
static const char *const beside_each_other[] = {
    "{\"text\":\"a\",\"layers\":[0],\"outputs\":[\"summary\",\"profiles\"]}",
    "{\"text\":\"b\",\"layers\":[0],\"outputs\":[\"summary\",\"profiles\"]}",
    "{\"text\":\"c\",\"layers\":[0],\"outputs\":[\"attentions\",\"similarities\"]}",
    "{\"text\":\"d\",\"layers\":[0],\"outputs\":[\"attentions\",\"similarities\"]}",
    "{\"text\":\"e\",\"layers\":[0],\"outputs\":[\"attentions\"],\"interventions\":[{\"kind\":\"add\","
    "\"what\":\"hidden\",\"layers\":[0,2],\"from\":[{\"text\":\"f\"},{\"text\":\"g\"}]}]}",
};

START_TEST(memory_that_is_refused_to_a_pass_refuses_one_job)
{
    enum { N = sizeof beside_each_other / sizeof *beside_each_other };
    bool refused = true;
    size_t n_failed = 0;
    for (size_t nth = 0; refused; nth++) {
        hs_request requests[N];
        hs_job *jobs[N];
        size_t n = 0;
        for (size_t i = 0; i < N; i++) {
            requests[i] = api_request(HS_ANALYZE, beside_each_other[i]);
            jobs[i] = hs_job_create(f.api, &requests[i]);
        }
        chaos_refuse(nth);
        hs_job_run(jobs, N, NULL);
        refused = chaos_stop();
        for (size_t i = 0; i < N; i++) {
            hs_response response;
            hs_job_answer(jobs[i], &response);
            hs_job_destroy(jobs[i]);
            n += response.status != 200;
            hs_response_finish(&response);
        }
        ck_assert_msg(n <= 1, "allocation %zu refused: %zu jobs failed", nth, n);
        n_failed += n;
    }
    ck_assert_uint_gt(n_failed, 0);
}
END_TEST

/* A pass does not know an id that only the tokenizer has. */
START_TEST(a_text_that_no_pass_takes_leaves_its_neighbours)
{
    enum { N = 3 };
    hs_request requests[N];
    hs_job *jobs[N];
    for (size_t i = 0; i < N; i++) {
        requests[i] = api_request(HS_ANALYZE, beside_each_other[i == 1 ? 0 : i]);
        jobs[i] = hs_job_create(f.api, &requests[i]);
    }
    jobs[1]->texts.text.rows.ids[1] = 1 << 20;
    hs_job_run(jobs, N, NULL);
    for (size_t i = 0; i < N; i++) {
        hs_response response;
        hs_job_answer(jobs[i], &response);
        hs_job_destroy(jobs[i]);
        ck_assert_int_eq(response.status, i == 1 ? 422 : 200);
        hs_response_finish(&response);
    }
}
END_TEST

START_TEST(only_jobs_that_add_little_time_join)
{
    static const struct {
        const char *body, *query;
        hs_operation operation;
        bool joins; /* itself, and behind a short job of layer 0 */
        bool joins_first;
    } cases[] = {
        {"{\"text\":\"a\",\"layers\":[0]}", NULL, HS_ANALYZE, true, true},
        {"{\"text\":\"a\",\"layers\":[0],\"heads\":[3],\"outputs\":[\"mean_pooled_attentions\"],\"blocks\":"
         "2}",
         NULL, HS_ANALYZE, true, true},
        {"{\"text\":\"a\",\"layers\":[3]}", NULL, HS_ANALYZE, true, false},
        {"{\"text\":1}", NULL, HS_ANALYZE, true, true},
        {"{\"text\":\"a\"}", NULL, HS_TOKENIZE, true, true},
        {"{\"text\":\"a\",\"outputs\":[\"predictions\"],\"predictions\":{\"lens\":true}}", NULL, HS_ANALYZE,
         false, false},
        {"{\"text\":\"a\",\"layers\":[0],\"outputs\":[\"contributions\"]}", NULL, HS_ANALYZE, false, false},
        {"{\"text\":\"a\",\"layers\":[0]}", "format=svg", HS_ANALYZE, false, false},
        {"{\"text\":\"a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q "
         "r s "
         "t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z\",\"layers\":[0]}",
         NULL, HS_ANALYZE, false, false},
        {"{\"text\":\"a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n\","
         "\"layers\":\"all\"}",
         NULL, HS_ANALYZE, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hs_request requests[2] = {api_request(HS_ANALYZE, beside_each_other[2]),
                                  api_request(cases[i].operation, cases[i].body)};
        requests[1].query = cases[i].query;
        hs_job *jobs[2];
        for (int k = 0; k < 2; k++) {
            requests[k].beside = true;
            jobs[k] = hs_job_create(f.api, &requests[k]);
            ck_assert(!hs_job_crowded(jobs[k]));
        }
        ck_assert_msg(hs_job_joins(&jobs[1], 1) == cases[i].joins, "%s", cases[i].body);
        ck_assert_msg(hs_job_joins(jobs, 2) == cases[i].joins_first, "%s", cases[i].body);
        hs_job_destroy(jobs[0]);
        hs_job_destroy(jobs[1]);
    }
}
END_TEST

START_TEST(jobs_with_passes_of_their_own_are_no_neighbours)
{
    static const char *const cases[] = {
        "{\"text\":\"a\",\"outputs\":[\"effects\"]}",
        "{\"text\":\"a\",\"outputs\":[\"head_scores\"]}",
        "{\"text\":\"a\",\"outputs\":[\"value_zeroing\"]}",
        "{\"text\":\"a [MASK]\",\"outputs\":[\"patch_map\"],"
        "\"effects_of\":{\"kind\":\"patch\",\"from\":{\"text\":\"b "
        "[MASK]\"}},\"target\":{\"token\":\"cat\",\"position\":2}}",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hs_request request = api_request(HS_ANALYZE, cases[i]);
        for (int beside = 0; beside < 2; beside++) {
            request.beside = beside;
            hs_job *job = hs_job_create(f.api, &request);
            ck_assert_msg(hs_job_crowded(job) == beside, "%s: %s", cases[i], job->problem.detail);
            ck_assert_msg(job->problem.status == (beside ? 503 : 0), "%s: %s", cases[i], job->problem.detail);
            hs_job_destroy(job);
        }
    }
}
END_TEST

START_TEST(jobs_that_need_no_pass_have_no_tokens)
{
    static const struct {
        hs_operation operation;
        const char *body;
        int status;
    } cases[] = {
        {HS_ANALYZE, "{\"text\":\"a\",\"outputs\":[]}", 200},
        {HS_ANALYZE, "{\"text\":1}", 422},
        {HS_TOKENIZE, "{\"text\":\"a\"}", 200},
        {HS_MODELS, "", 200},
        {HS_OPENAPI, "", 200},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hs_request request = api_request(cases[i].operation, cases[i].body);
        hs_job *job = hs_job_create(f.api, &request);
        ck_assert_ptr_nonnull(job);
        ck_assert_uint_eq(hs__job_tokens(job), 0);
        hs_response response;
        hs_job_answer(job, &response);
        hs_job_destroy(job);
        ck_assert_int_eq(response.status, cases[i].status);
        json_decref(api_json(&response));
    }
}
END_TEST

START_TEST(cancelled_requests_end_with_504)
{
    atomic_int cancelled = 1;
    static const char *const queries[] = {NULL, "format=npz", "format=safetensors"};
    for (size_t i = 0; i < 3; i++) {
        /* Before the pass, and after it: while the answer is made. */
        hs_request request = api_request(HS_ANALYZE, bodies[0]);
        request.query = queries[i];
        request.cancelled = &cancelled;
        hs_response response;
        hs_api_handle(f.api, &request, &response);
        ck_assert_int_eq(response.status, 504);
        hs_response_finish(&response);

        atomic_store(&cancelled, 0);
        hs_job *job = hs_job_create(f.api, &request);
        hs_job_run(&job, 1, NULL);
        atomic_store(&cancelled, 1);
        hs_job_answer(job, &response);
        hs_job_destroy(job);
        ck_assert_int_eq(response.status, 504);
        hs_response_finish(&response);
    }
}
END_TEST

/* Gets the progress: gives up after two layers. */
typedef struct giving_up {
    atomic_int cancelled;
    size_t n_done;
} giving_up;

static void give_up(void *data, size_t n_done)
{
    giving_up *g = data;
    g->n_done = n_done;
    atomic_store(&g->cancelled, n_done >= 24);
}

START_TEST(effects_end_between_passes)
{
    giving_up g = {0};
    hs_request request =
        api_request(HS_ANALYZE, "{\"text\":\"One cat.\",\"layers\":\"all\",\"outputs\":[\"effects\"]}");
    request.cancelled = &g.cancelled;
    request.progress = give_up;
    request.progress_data = &g;
    hs_response response;
    hs_api_handle(f.api, &request, &response);
    ck_assert_int_eq(response.status, 504);
    ck_assert_uint_eq(g.n_done, 24);
    hs_response_finish(&response);
}
END_TEST

/* Writes a body with a text of at least 512 tokens. */
static void long_text(char ret_body[4096], const char *rest)
{
    strcpy(ret_body, "{\"text\":\"");
    for (int i = 0; i < 520; i++)
        strcat(ret_body, "a ");
    strcat(ret_body, "\",");
    strcat(ret_body, rest);
}

START_TEST(too_much_is_refused_before_it_is_computed)
{
    static const struct {
        const char *rest, *query, *says;
    } cases[] = {
        {"\"max_tokens\":512,\"layers\":\"all\"}", NULL, "digits"},
        {"\"max_tokens\":512,\"layers\":\"all\"}", "format=npz", "dtype f2"},
        {"\"max_tokens\":512,\"layers\":\"all\",\"outputs\":[\"segments\"]}", NULL, "computing the heads"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[4096];
        long_text(body, cases[i].rest);
        hs_request request = api_request(HS_ANALYZE, body);
        request.query = cases[i].query;
        hs_response response;
        hs_api_handle(f.api, &request, &response);
        ck_assert_int_eq(response.status, 422);
        ck_assert_uint_eq(response.n_tokens, 0);
        json_t *problem = api_json(&response);
        const char *detail = json_string_value(json_object_get(problem, "detail"));
        ck_assert_msg(strstr(detail, cases[i].says) && strstr(detail, " MB"), "%s", detail);
        json_decref(problem);
    }
}
END_TEST

START_TEST(the_bound_on_the_size_holds)
{
    /* The limit is checked on a bound, so an answer may never be larger: at its limit it is still accepted.
     */
    static const char *const rests[] = {
        "\"layers\":[0,1],\"digits\":9}",
        "\"layers\":\"all\",\"digits\":9,\"threshold\":0.001,\"max_pairs\":1000000,\"outputs\":[\"pairs\"],"
        "\"max_tokens\":40}",
        "\"layers\":\"all\",\"digits\":1,\"outputs\":[\"regions\",\"segments\",\"summary\"],\"attention_"
        "threshold\":0.001,\"max_tokens\":60}",
        "\"layers\":\"all\",\"outputs\":[\"head_outputs\",\"hidden_states\"],\"max_tokens\":3}",
        "\"outputs\":[],\"max_tokens\":512}",
    };
    static const char *const queries[] = {NULL, "format=npz", "format=safetensors"};
    for (size_t i = 0; i < sizeof rests / sizeof *rests * 3; i++) {
        char body[4096];
        long_text(body, rests[i / 3]);
        hs_request request = api_request(HS_ANALYZE, body);
        request.query = queries[i % 3];
        hs_response response;
        hs_api_handle(f.api, &request, &response);
        ck_assert_int_eq(response.status, 200);
        const size_t bytes = response.body_bytes;
        hs_response_finish(&response);
        /* With one byte less than the answer has, the bound must refuse. */
        hs_api *tight = NULL;
        ck_assert_int_eq(hs_api_create(&(hs_api_options){.answer_bytes_max = bytes - 1}, &tight, NULL),
                         HS_OK);
        ck_assert_int_eq(
            hs_api_model_put(tight, &(hs_api_model){.name = "mini", .model = f.model, .engine = f.engine},
                             NULL),
            HS_OK);
        hs_api_handle(tight, &request, &response);
        ck_assert_int_eq(response.status, 422);
        hs_response_finish(&response);
        hs_api_destroy(tight);
    }
}
END_TEST

static size_t inflated(const hs_response *response, char *ret, size_t n_ret)
{
    z_stream stream = {.next_in = (unsigned char *)response->body,
                       .avail_in = (uInt)response->body_bytes,
                       .next_out = (unsigned char *)ret,
                       .avail_out = (uInt)n_ret};
    ck_assert_int_eq(inflateInit2(&stream, 16 + MAX_WBITS), Z_OK);
    ck_assert_int_eq(inflate(&stream, Z_FINISH), Z_STREAM_END);
    inflateEnd(&stream);
    return stream.total_out;
}

START_TEST(json_is_packed_for_who_accepts_it)
{
    static const struct {
        const char *accept_encoding, *query;
        bool packed;
    } cases[] = {
        {NULL, NULL, false},
        {"gzip, deflate, br", NULL, true},
        {"GZIP;q=0.5", NULL, true},
        {"*", NULL, true},
        {"identity", NULL, false},
        {"gzip;q=0", NULL, false},
        {"br, *;q=0", NULL, false},
        {"*;q=0, gzip", NULL, true},
        {"gzip;q=0.1, identity;q=0.5", NULL, false},
        {"gzip", "format=npz", false},
    };
    hs_response plain = api_post(&f, HS_ANALYZE, bodies[3]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hs_request request = api_request(HS_ANALYZE, bodies[3]);
        request.accept_encoding = cases[i].accept_encoding;
        request.query = cases[i].query;
        hs_response response;
        hs_api_handle(f.api, &request, &response);
        ck_assert_int_eq(response.status, 200);
        ck_assert_int_eq(response.content_encoding != NULL, cases[i].packed);
        ck_assert_int_eq(response.vary_encoding, !cases[i].query);
        if (cases[i].packed) {
            static char unpacked[1 << 20];
            ck_assert_uint_lt(response.body_bytes, plain.body_bytes);
            ck_assert_uint_eq(inflated(&response, unpacked, sizeof unpacked), plain.body_bytes);
            ck_assert_mem_eq(unpacked, plain.body, plain.body_bytes);
        }
        hs_response_finish(&response);
    }
    hs_response_finish(&plain);
}
END_TEST

START_TEST(formats_follow_accept_and_query)
{
    static const struct {
        const char *accept, *query, *type;
    } cases[] = {
        {NULL, NULL, "application/json"},
        {"*/*", NULL, "application/json"},
        {"application/*", NULL, "application/json"},
        {"text/html, application/xhtml+xml, */*;q=0.8", NULL, "application/json"},
        {"application/x-npz", NULL, "application/x-npz"},
        {"application/x-npz, */*", NULL, "application/x-npz"},
        {"application/json;q=0.5, application/x-safetensors", NULL, "application/x-safetensors"},
        {"application/json, application/x-npz", NULL, "application/json"},
        {"Application/X-NPZ ; q=1.0", NULL, "application/x-npz"},
        {"application/json;q=0, */*", NULL, "application/x-npz"},
        {"application/json", "format=npz", "application/x-npz"},
        {"image/png", "format=json", "application/json"},
        {NULL, "format=s%61fetensors", "application/x-safetensors"},
        {NULL, "&format=n%70z&", "application/x-npz"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hs_request request = api_request(HS_ANALYZE, "{\"text\":\"a\"}");
        request.accept = cases[i].accept;
        request.query = cases[i].query;
        request.content_type =
            i % 2 ? "application/json; charset=utf8" : "application/json; charset=\"UTF-8\"";
        hs_response response;
        hs_api_handle(f.api, &request, &response);
        ck_assert_int_eq(response.status, 200);
        ck_assert_str_eq(response.content_type, cases[i].type);
        hs_response_finish(&response);
    }
}
END_TEST

#define LETTERS_100                                                                                          \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

/* Values a careful service takes. */
START_TEST(sound_requests_are_taken)
{
    static const struct {
        const char *body, *name;
        const char *expected; /* JSON of the member of that name */
    } cases[] = {
        {"{\"text\":\"a\",\"max_tokens\":2.0}", "tokens", "[\"[CLS]\",\"[SEP]\"]"},
        {"{\"text\":\"a\",\"max_tokens\":2}", "truncated", "true"},
        {"{\"words\":[\"Hello there\",\"\",\"[MASK]\"],\"outputs\":[]}", "word_ids", "[null,0,0,0,2,null]"},
        {"{\"words\":[\"Hello there\",\"a\"],\"outputs\":[]}", "offset_mapping",
         "[[0,0],[0,4],[4,5],[6,11],[0,1],[0,0]]"},
        {"{\"words\":[],\"outputs\":[]}", "tokens", "[\"[CLS]\",\"[SEP]\"]"},
        {"{\"words\":[\"a\",\"a a\"],\"max_tokens\":4,\"outputs\":[]}", "truncated", "true"},
        {"{\"words\":[\"a\",\"a\"],\"max_tokens\":4,\"outputs\":[]}", "truncated", "false"},
        {"{\"input_ids\":[2,50,4,3,50,0],\"outputs\":[]}", "special_tokens_mask", "[1,0,0,1,0,1]"},
        {"{\"input_ids\":[2,50,3],\"outputs\":[]}", "offset_mapping", "null"},
        {"{\"input_ids\":[2,50,3,50,3],\"token_type_ids\":[0,0,0,1,1],\"outputs\":[]}", "sentence_ids",
         "[0,0,0,1,1]"},
        {"{\"input_ids\":[8191],\"outputs\":[]}", "word_ids", "[null]"},
        {"{\"text\":\"\"}", "pairs", "[]"},
        {"{\"text\":\"\"}", "pairs_total", "0"},
        {"{\"text\":\"\\u0000a\\u0000\"}", "offset_mapping", "[[0,0],[1,2],[0,0]]"},
        {"{\"text\":\"\\ud83d\\ude00a\",\"outputs\":[]}", "truncated", "false"},
        {"{\"text\":\"a\",\"layers\":[-1,0,11,0],\"outputs\":[]}", "layers", "[0,11]"},
        {"{\"text\":\"a\",\"heads\":[5,-12,1e0],\"outputs\":[]}", "heads", "[0,1,5]"},
        {"{\"text\":\"a\",\"layers\":[-0],\"outputs\":[\"pairs\",\"pairs\"]}", "layers", "[0]"},
        {" \n{\"text\" : \"a\"}\r\n ", "word_ids", "[null,0,null]"},
        {"{\"text\":\"[MASK]\",\"outputs\":[]}", "special_tokens_mask", "[1,0,1]"},
        {"{\"text\":\"a. b\",\"outputs\":[]}", "sentence_ids", "[0,0,0,1,1]"},
        {"{\"text\":\"a, b. a\",\"sentence_ends\":[\",\"],\"outputs\":[]}", "sentence_ids",
         "[0,0,0,1,1,1,1]"},
        {"{\"text\":\"a. b\",\"sentence_ends\":[],\"outputs\":[]}", "sentence_ids", "[0,0,0,0,0]"},
        {"{\"text\":\"a\",\"text_pair\":\"b\",\"outputs\":[]}", "token_type_ids", "[0,0,0,1,1]"},
        {"{\"text\":\"a b\",\"max_pairs\":0}", "pairs", "[]"},
        {"{\"text\":\"a\",\"threshold\":1,\"attention_threshold\":1e-9,\"outputs\":[]}", "heads",
         "[0,1,2,3,4,5,6,7,8,9,10,11]"},
        {"{\"text\":\"a\",\"dtype\":\"u1\",\"outputs\":[]}", "layers", "[11]"},
        /* a long word is one token, and each layer repeats it */
        {"{\"text\":\"" LETTERS_100 LETTERS_100 LETTERS_100 LETTERS_100
         "\",\"layers\":\"all\",\"outputs\":[\"segments\"]}",
         "offset_mapping", "[[0,0],[0,400],[0,0]]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hs_response response = api_post(&f, HS_ANALYZE, cases[i].body);
        ck_assert_msg(response.status == 200, "%s: %.*s", cases[i].body, (int)response.body_bytes,
                      response.body);
        json_t *answer = api_json(&response),
               *expected = json_loads(cases[i].expected, JSON_DECODE_ANY, NULL);
        json_t *member = json_object_get(answer, cases[i].name);
        ck_assert_msg(json_equal(member, expected), "%s: %s", cases[i].body,
                      json_dumps(member, JSON_ENCODE_ANY));
        json_decref(answer);
        json_decref(expected);
    }
}
END_TEST

int main(void)
{
    TCase *cases = tcase_create("jobs");
    tcase_add_unchecked_fixture(cases, open_fixture, close_fixture);
    tcase_add_test(cases, jobs_in_one_pass_answer_as_alone);
    tcase_add_test(cases, only_short_texts_of_the_same_layers_share_a_pass);
    tcase_add_test(cases, contradictions_are_refused_before_any_pass);
    tcase_add_test(cases, memory_that_is_refused_to_a_pass_refuses_one_job);
    tcase_add_test(cases, a_text_that_no_pass_takes_leaves_its_neighbours);
    tcase_add_test(cases, only_jobs_that_add_little_time_join);
    tcase_add_test(cases, jobs_with_passes_of_their_own_are_no_neighbours);
    tcase_add_test(cases, jobs_that_need_no_pass_have_no_tokens);
    tcase_add_test(cases, cancelled_requests_end_with_504);
    tcase_add_test(cases, effects_end_between_passes);
    tcase_add_test(cases, too_much_is_refused_before_it_is_computed);
    tcase_add_test(cases, the_bound_on_the_size_holds);
    tcase_add_test(cases, json_is_packed_for_who_accepts_it);
    tcase_add_test(cases, formats_follow_accept_and_query);
    tcase_add_test(cases, sound_requests_are_taken);
    Suite *suite = suite_create("api jobs");
    suite_add_tcase(suite, cases);
    return tests_run(suite);
}
