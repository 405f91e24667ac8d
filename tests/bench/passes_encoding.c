/* passes_encoding.c - answers of every format beside a copy of the same bytes into memory of its own.
 *
 * All heads, attentions and similarities of one text, in every layer. gzip has the last layer only, because
 * answers that take longer to compress than to compute are not compressed. The head cache has the heads after
 * the first request, so that those measured do nothing but encode. */
#include "tests/bench/passes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 7, ROUNDS_QUICK = 3, TOKENS = 128 };

static const char text[] =
    "The old stone bridge across the river was built in the twelfth century, when the town was still "
    "small. It was destroyed in the war and built again by the people of the town, who had little money "
    "but many stones. The river rose three times and each time the bridge held. Today a wide road crosses"
    " the river further down, and the old bridge belongs to those who walk, to the fishermen and to the "
    "pigeons. In summer there is music on it, and once a year the town closes it for a day, so that "
    "nobody may forget whose bridge it is. A story says that the last stone was laid by a child, and that"
    " whoever finds it may ask the river for one thing. Nobody has found the stone so far, although many "
    "have looked.";

typedef struct answer_format {
    const char *name, *query, *encoding, *layers;
} answer_format;
static const answer_format formats[] = {
    {"json", "format=json", NULL, "all"},
    {"json, last layer", "format=json", NULL, "last"},
    {"the same, gzip", "format=json", "gzip", "last"},
    {"npz", "format=npz", NULL, "all"},
    {"safetensors", "format=safetensors", NULL, "all"},
};

/* The service that answers, and the length of its text. */
typedef struct answerer {
    hs_api *api;
    size_t n_tokens;
} answerer;

static hs_status ask(const answerer *who, const answer_format *format, hs_response *ret_response,
                     hs_error *err)
{
    char body[sizeof text + 200];
    snprintf(body, sizeof body,
             "{\"text\": \"%s\", \"max_tokens\": %zu, \"layers\": \"%s\", \"outputs\": [\"attentions\", "
             "\"similarities\"]}",
             text, who->n_tokens, format->layers);
    const hs_request request = {.operation = HS_ANALYZE,
                                .query = format->query,
                                .content_type = "application/json",
                                .accept_encoding = format->encoding,
                                .id = "bench",
                                .body = body,
                                .body_bytes = strlen(body),
                                .n_threads = 1};
    hs_api_handle(who->api, &request, ret_response);
    if (ret_response->status == 200)
        return HS_OK;
    const int n = ret_response->body_bytes < 300 ? (int)ret_response->body_bytes : 300;
    return hs_fail(err, HS_INVALID, "%s: %d %.*s", format->name, ret_response->status, n, ret_response->body);
}

/* Milliseconds; into fresh memory, as an answer's. */
static double copy(const char *bytes, size_t n)
{
    const double start = hs_clock_ms();
    char *to = malloc(n);
    if (to)
        memcpy(to, bytes, n);
    const double ms = hs_clock_ms() - start;
    const volatile char sink = to ? to[n / 2] : 0; /* or the compiler would leave the copy out */
    (void)sink;
    free(to);
    return ms;
}

/* *raw_bytes: of the last answer that was not compressed. */
static hs_status measure(const answerer *who, const answer_format *format, size_t n_rounds, size_t *raw_bytes,
                         json_t *figures, hs_error *err)
{
    double ms[ROUNDS], over_copy[ROUNDS];
    size_t n_bytes = 0;
    bool packed = false;
    for (size_t i = 0; i < n_rounds; i++) {
        hs_response response = {0};
        const hs_status st = ask(who, format, &response, err);
        if (!st) {
            ms[i] = response.stage_ms[HS_STAGE_ENCODE];
            over_copy[i] = ms[i] / copy(response.body, response.body_bytes);
            n_bytes = response.body_bytes;
            packed = response.content_encoding != NULL;
        }
        hs_response_recycle(who->api, &response);
        if (st)
            return st;
    }
    *raw_bytes = packed ? *raw_bytes : n_bytes;
    const double median = median_of(ms, n_rounds), rate = (double)*raw_bytes / median / 1e3;
    const double ratio = median_of(over_copy, n_rounds);
    printf("%-18s %9.2f %9.2f %9.0f %9.2f%s\n", format->name, (double)n_bytes / 1e6, median, rate, ratio,
           format->encoding && !packed ? "   left as it was: longer than computing" : "");
    json_array_append_new(figures, json_pack("{s:s, s:b, s:I, s:f, s:f, s:f}", "format", format->name, "gzip",
                                             packed, "bytes", (json_int_t)n_bytes, "ms", median, "mb_per_s",
                                             rate, "over_copy", ratio));
    return HS_OK;
}

hs_status encoding_measure(const bench_subject *subject, json_t **ret_figures, hs_error *err)
{
    const size_t n_positions = hs_engine_shape(subject->engine)->n_positions;
    answerer who = {.api = subject->api, .n_tokens = n_positions < TOKENS ? n_positions : TOKENS};
    hs_response first = {0};
    size_t raw_bytes = 0;
    json_t *figures = json_array();
    hs_status st = ask(&who, &formats[0], &first, err);
    if (!st)
        printf("%-18s %9s %9s %9s %9s\n", "format", "MB sent", "ms", "MB/s", "x copy");
    for (size_t i = 0; !st && i < sizeof formats / sizeof *formats; i++)
        st = measure(&who, &formats[i], subject->quick ? ROUNDS_QUICK : ROUNDS, &raw_bytes, figures, err);
    if (!st)
        *ret_figures = json_incref(figures);
    json_decref(figures);
    hs_response_finish(&first);
    return st;
}
