/* api.c - creates the api, and answers a job, one request or the lines of a body. */
#include "api/api.h"

#include "api/formats/json_text.h"
#include "api/internal.h"
#include "api/request/request.h"
#include "model/base/clock.h"
#include "model/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ==== the api ==== */

/* Returns the memory for captures that each worker has for itself, so that a small request does not wait for
 * large ones. It is an eighth of all, divided by the workers. The largest request still fits beside it. */
static size_t worker_bytes(const hs_api_options *options)
{
    const size_t n = options->n_workers, part = options->captures_bytes_max / 8 / n;
    const size_t spare = options->captures_bytes_max - options->capture_bytes_max;
    return n < 2 ? 0 : part < spare / (n - 1) ? part : spare / (n - 1);
}

hs_status hs_api_create(const hs_api_options *options, hs_api **ret_api, hs_error *err)
{
    hs_api *api = calloc(1, sizeof *api);
    if (!api)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the api");
    api->options = *options;
    if (!api->options.n_workers)
        api->options.n_workers = 1;
    if (!api->options.answer_bytes_max)
        api->options.answer_bytes_max = (size_t)1 << 30;
    if (!api->options.capture_bytes_max)
        api->options.capture_bytes_max = (size_t)1 << 30;
    if (api->options.captures_bytes_max < api->options.capture_bytes_max)
        api->options.captures_bytes_max = api->options.capture_bytes_max;
    api->cache = hs__head_cache_create(options->cache_bytes_max);
    if (!api->cache) {
        free(api);
        return hs_fail(err, HS_NO_MEMORY, "no memory for the head cache");
    }
    api->worker_bytes = worker_bytes(&api->options);
    hs__budget_init(&api->captures,
                    api->options.captures_bytes_max - api->options.n_workers * api->worker_bytes);
    pthread_mutex_init(&api->lock, NULL); /* these cannot fail with glibc's default attributes */
    pthread_cond_init(&api->workspace_freed, NULL);
    *ret_api = api;
    return HS_OK;
}

void hs_api_destroy(hs_api *api)
{
    if (!api)
        return;
    for (size_t i = 0; i < api->n_models; i++)
        hs__model_release(api, api->models[i]);
    hs__head_cache_destroy(api->cache);
    hs__budget_finish(&api->captures);
    pthread_cond_destroy(&api->workspace_freed);
    pthread_mutex_destroy(&api->lock);
    free(api);
}

void hs_api_cache_stats(const hs_api *api, hs_cache_stats *ret_stats)
{
    hs__head_cache_stats(api->cache, ret_stats);
}

void hs_api_cache_empty(hs_api *api)
{
    hs__head_cache_empty(api->cache);
}

/* ==== the answer of a job ==== */

static hs_status analyze(hs_job *job, hs__answer *answer)
{
    const double start = hs_clock_ms();
    *answer = hs__job_describe(job);
    memcpy(answer->results, job->results, sizeof answer->results);
    memset(job->results, 0, sizeof job->results);
    hs_status st = hs__answer_init(answer, &job->error);
    if (!st && job->request->operation == HS_ANALYZE)
        st = hs__outputs_compute(answer, &job->error);
    job->stage_ms[HS_STAGE_ANALYZE] = hs_clock_ms() - start;
    return st;
}

/* Reserves the upper bound of the answer's size, so that the buffer never grows. Untouched pages are free. */
static void body_begin(const hs_job *job, hs_buffer *body)
{
    hs_runtime *runtime = hs_engine_runtime(job->analysis.model->engine);
    body->data = hs_runtime_block_take(runtime, job->answer_bytes_max, &body->capacity);
    body->failed = !body->data;
}

static hs_status encode(hs_job *job, const hs__answer *answer, hs_buffer *body)
{
    hs_status st = HS_OK;
    if (job->request->operation == HS_TOKENIZE) {
        hs__answer_write_tokens(body, answer);
    } else if (job->format == HS__JSON) {
        body_begin(job, body);
        hs__answer_write_json(body, answer);
    } else if (hs__format_is_figure(job->format)) {
        st = hs__answer_write_figure(body, answer, job->format, &job->error);
    } else {
        body_begin(job, body);
        st = job->format == HS__NPZ ? hs__answer_write_npz(body, answer, &job->error)
                                    : hs__answer_write_safetensors(body, answer, &job->error);
    }
    if (!st && hs__answer_cancelled(answer))
        return hs_fail(&job->error, HS_CANCELLED, "cancelled");
    if (!st && body->failed)
        return hs_fail(&job->error, HS_NO_MEMORY, "no memory for the answer");
    return st;
}

/* Compression may take this fraction of the time that computing took. */
#define GZIP_FRACTION 0.25

/* malloc itself reuses smaller blocks. */
#define KEPT_BYTES_MIN ((size_t)4 << 20)

/* Returns unused memory to the system. A large body keeps its addresses for hs_response_recycle. */
static void trim(hs_buffer *body, hs_response *response)
{
    if (body->size < KEPT_BYTES_MIN) {
        hs_buffer_fit(body);
    } else {
        hs_memory_trim(body->data, body->size, body->capacity);
        response->body_capacity = body->capacity;
    }
    response->body = body->data;
    response->body_bytes = body->size;
}

/* Compresses the body if the client accepts that and it takes little time. */
static void pack(hs_job *job, hs_buffer *body, hs_response *response)
{
    if (job->format == HS__JSON) {
        response->vary_encoding = true;
        const hs__heads *heads = job->sequences[0].heads;
        const double forward_ms = heads ? heads->forward_ms : 0;
        if (hs_gzip_accepted(job->request->accept_encoding) &&
            hs__gzip(body, GZIP_FRACTION * (forward_ms + job->stage_ms[HS_STAGE_ANALYZE])))
            response->content_encoding = "gzip";
    }
    trim(body, response);
}

static void answer_texts(hs_job *job, hs_response *response)
{
    hs__answer answer;
    hs_buffer body = {0};
    hs_status st = analyze(job, &answer);
    const double start = hs_clock_ms();
    if (!st)
        st = encode(job, &answer, &body);
    hs__outputs_finish(&answer);
    if (st) {
        hs_buffer_finish(&body);
        hs__job_refuse(job);
    } else {
        response->status = 200;
        response->content_type = hs__format_media_type(job->format);
        pack(job, &body, response);
    }
    job->stage_ms[HS_STAGE_ENCODE] = hs_clock_ms() - start;
}

static void answer_json(hs_job *job, hs_response *response)
{
    hs_buffer body = {0};
    if (job->request->operation == HS_MODELS)
        hs__models_write(&body, job->api);
    else
        hs_buffer_add(&body, hs__openapi_json, hs__openapi_json_bytes);
    if (body.failed) {
        hs_buffer_finish(&body);
        hs__job_refuse_memory(job, "the answer");
        return;
    }
    response->status = 200;
    response->content_type = "application/json";
    pack(job, &body, response);
}

void hs_job_answer(hs_job *job, hs_response *ret_response)
{
    *ret_response = (hs_response){0};
    if (!job->problem.status) {
        if (job->request->operation == HS_ANALYZE || job->request->operation == HS_TOKENIZE)
            answer_texts(job, ret_response);
        else
            answer_json(job, ret_response);
    }
    if (job->problem.status) {
        if (job->problem.status == 500 || job->problem.no_memory) {
            hs_fail(&job->error, HS_NO_MEMORY, "%s", job->problem.detail);
            ret_response->error = job->error;
        }
        if (job->problem.status == 500)
            snprintf(job->problem.detail, sizeof job->problem.detail,
                     "internal error: the server's log has details under this request_id");
        hs__problem_write(&job->problem, job->request->id, ret_response);
    }
    memcpy(ret_response->stage_ms, job->stage_ms, sizeof job->stage_ms);
    ret_response->n_tokens = job->n_tokens_computed;
    if (job->n_sequences)
        memcpy(ret_response->model, job->analysis.model->name, sizeof ret_response->model);
}

/* Refuses a request for which there was no memory to create a job. */
static void refuse_without_job(const hs_request *request, hs_response *ret_response)
{
    hs__problem problem = {.request_line = request->line};
    *ret_response = (hs_response){0};
    hs_fail(&ret_response->error, HS_NO_MEMORY, "no memory for a job");
    hs__refuse_memory(&problem, ret_response->error.text);
    hs__problem_write(&problem, request->id, ret_response);
}

/* ==== one request ==== */

void hs_api_handle(hs_api *api, const hs_request *request, hs_response *ret_response)
{
    hs_job *job = hs_job_create(api, request);
    if (!job) {
        refuse_without_job(request, ret_response);
        return;
    }
    const hs_run_control control = {.cancelled = request->cancelled, .n_threads = request->n_threads};
    hs_job_run(&job, 1, &control);
    hs_job_answer(job, ret_response);
    hs_job_destroy(job);
}

void hs_response_recycle(hs_api *api, hs_response *response)
{
    if (response->body_capacity > 0) {
        hs_runtime_block_return(api->runtime, response->body, response->body_capacity);
        response->body = NULL;
    }
    hs_response_finish(response);
}

void hs_response_finish(hs_response *response)
{
    if (!response->body_static)
        free(response->body);
    *response = (hs_response){0};
}

/* ==== lines ==== */

/* Answers a body of several requests, one per line. Takes as many lines at once as HS_LINES_MAX
 * and its neighbours allow; their jobs share passes. */

typedef struct line {
    hs_request request;
    hs_job *job; /* NULL: memory was short */
} line;

/* Finds the next line that is not blank. Returns false if there is none. */
static bool line_next(const hs_request *body, size_t *at, size_t *number, hs_request *ret_request)
{
    while (*at < body->body_bytes) {
        const char *start = body->body + *at, *end = memchr(start, '\n', body->body_bytes - *at);
        const size_t n = end ? (size_t)(end - start) : body->body_bytes - *at;
        *at += n + (end != NULL);
        *ret_request = (hs_request){.operation = HS_ANALYZE,
                                    .content_type = "application/json",
                                    .id = body->id,
                                    .line = (*number)++,
                                    .body = start,
                                    .body_bytes = n,
                                    .cancelled = body->cancelled,
                                    .n_threads = body->n_threads,
                                    .hold = body->hold,
                                    .hold_data = body->hold_data};
        for (size_t i = 0; i < n; i++)
            if (!strchr(" \t\r", start[i]) || !start[i])
                return true;
    }
    return false;
}

/* Returns an upper bound of the memory that the job and its answer take. */
static size_t job_bytes(const hs_job *job)
{
    return job->problem.status ? 0 : job->capture_bytes + job->answer_bytes_max;
}

/* Creates jobs for as many lines as the limits allow. Returns their number; *ret_n_bytes is their length. */
static size_t lines_take(hs_api *api, const hs_request *body, bool patient, line lines[HS_LINES_MAX],
                         size_t *ret_n_bytes)
{
    size_t n = 0, at = 0, number = body->line, n_job_bytes = 0, n_tokens = 0;
    *ret_n_bytes = 0;
    while (n < HS_LINES_MAX && n_job_bytes < HS_LINES_BYTES && n_tokens < HS_LINES_TOKENS &&
           line_next(body, &at, &number, &lines[n].request)) {
        lines[n].request.beside = n > 0;
        lines[n].job = hs_job_create(api, &lines[n].request);
        if (lines[n].job && (lines[n].job->crowded || (lines[n].job->over_budget && (n > 0 || patient)))) {
            hs_job_destroy(lines[n].job);
            return n;
        }
        n_job_bytes += lines[n].job ? job_bytes(lines[n].job) : 0;
        n_tokens += lines[n].job ? hs__job_tokens(lines[n].job) : 0;
        n++;
        *ret_n_bytes = at;
        if (lines[n - 1].job && hs__job_is_long(lines[n - 1].job))
            return n;
    }
    if (n == 0)
        *ret_n_bytes = at; /* blank to its end */
    return n;
}

static void line_answer(const line *l, hs_response *ret_response)
{
    hs__problem late = {.request_line = l->request.line};
    if (!l->job) {
        refuse_without_job(&l->request, ret_response);
        return;
    }
    hs_job_answer(l->job, ret_response);
    if (ret_response->status != 504)
        return;
    hs__refuse(&late, 504, NULL, "not finished by the server's deadline: request less per line");
    hs_response_finish(ret_response);
    hs__problem_write(&late, l->request.id, ret_response);
}

/* Appends one answer. The whole response has the first error and the first model. */
static void answer_add(hs_api *api, hs_response *all, hs_buffer *body, hs_response *one)
{
    hs_buffer_add(body, one->body, one->body_bytes);
    hs_buffer_text(body, "\n");
    for (int stage = 0; stage < HS_STAGE_COUNT; stage++)
        all->stage_ms[stage] += one->stage_ms[stage];
    all->n_tokens += one->n_tokens;
    if (!*all->model)
        memcpy(all->model, one->model, sizeof all->model);
    all->error = all->error.status ? all->error : one->error;
    hs_response_recycle(api, one);
}

void hs_lines_answer(hs_api *api, const hs_request *request, bool patient, const hs_run_control *control,
                     hs_response *ret_response, size_t *ret_n_bytes)
{
    line lines[HS_LINES_MAX];
    hs_job *jobs[HS_LINES_MAX];
    hs_buffer body = {0};
    const size_t n = lines_take(api, request, patient, lines, ret_n_bytes);
    *ret_response = (hs_response){.status = 200, .content_type = "application/x-ndjson"};
    for (size_t i = 0; i < n; i++)
        jobs[i] = lines[i].job;
    hs_job_run(jobs, n, control);
    for (size_t i = 0; i < n; i++) {
        hs_response one;
        line_answer(&lines[i], &one);
        hs_job_destroy(lines[i].job);
        answer_add(api, ret_response, &body, &one);
    }
    hs_buffer_fit(&body);
    if (body.failed) {
        hs_buffer_finish(&body);
        ret_response->status = 500;
    }
    ret_response->body = body.data;
    ret_response->body_bytes = body.size;
}
