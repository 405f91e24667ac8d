/* job.c - one request from bytes to bytes, in the three steps of api.h. */
#include "api/formats/arrays.h"
#include "api/formats/gzip.h"
#include "model/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum route { ROUTE_NONE, ROUTE_ANALYZE, ROUTE_TOKENIZE, ROUTE_MODELS, ROUTE_OPENAPI } route;

struct hs_job {
    hs_api *api;
    const hs_request *request;
    route route;
    hs__problem problem; /* status 0: none so far */
    hs_error error;
    hs__format format;
    hs__ask ask;
    hs_encoding encoding;
    int32_t *sentences; /* [T] */
    uint16_t all_heads[HS_HEADS_MAX];
    hs_selection selection; /* what the capture must hold; keep 0: no pass is needed */
    hs__heads *heads;       /* a reference; NULL until found or computed */
    size_t n_tokens_computed;
    double stage_ms[HS_STAGE_COUNT];
};

static const hs__served_model *job_model(const hs_job *job)
{
    return &job->api->models[job->ask.model];
}

/* ---- routing ---- */

static const struct {
    const char *path;
    route route;
    bool post;
} routes[] = {
    {"/analyze", ROUTE_ANALYZE, true},
    {"/tokenize", ROUTE_TOKENIZE, true},
    {"/models", ROUTE_MODELS, false},
    {"/openapi.json", ROUTE_OPENAPI, false},
};

static int find_route(const hs_request *request, route *ret_route, hs__problem *problem)
{
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (strcmp(request->path, routes[i].path) != 0)
            continue;
        const char *method = request->method;
        if (routes[i].post ? strcmp(method, "POST") == 0
                           : strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0) {
            *ret_route = routes[i].route;
            return 0;
        }
        problem->allow = routes[i].post ? "POST" : "GET, HEAD";
        return hs__refuse(problem, 405, NULL, "%s answers %s only", routes[i].path, problem->allow);
    }
    return hs__refuse(problem, 404, NULL,
                      "there is nothing at this path; GET /openapi.json lists what there is");
}

/* ---- prepare ---- */

static int refuse_error(hs_job *job)
{
    return hs__refuse(&job->problem, hs__http_status(job->error.status), NULL, "%s", job->error.text);
}

static int tokenize(hs_job *job)
{
    const hs__ask *ask = &job->ask;
    const hs_encode_options options = {ask->max_tokens, ask->split_special_tokens};
    if (hs_tokenizer_encode(hs_model_tokenizer(job_model(job)->model), &ask->text,
                            ask->has_pair ? &ask->pair : NULL, &options, &job->encoding, &job->error))
        return refuse_error(job);
    const hs_encoding *e = &job->encoding;
    job->sentences = malloc(e->n_tokens * (sizeof *job->sentences + 1));
    if (!job->sentences) {
        hs_fail(&job->error, HS_NO_MEMORY, "no memory for the sentences");
        return refuse_error(job);
    }
    uint8_t *ends = (uint8_t *)(job->sentences + e->n_tokens);
    for (size_t i = 0; i < e->n_tokens; i++)
        ends[i] = hs__ask_ends_sentence(ask, e, i);
    hs_sentences_find(ends, e->types, e->special, e->n_tokens, job->sentences);
    return 0;
}

/* What the outputs need of the pass. Segments are a matter of the layer, so of all its heads. */
static void plan(hs_job *job)
{
    const hs__ask *ask = &job->ask;
    hs_selection *selection = &job->selection;
    *selection = (hs_selection){ask->layers, ask->n_layers, ask->heads, ask->n_heads, 0};
    if (ask->outputs & (HS__ATTENTIONS | HS__REGIONS | HS__SEGMENTS | HS__SUMMARY))
        selection->taps |= HS_KEEP(ATTENTION);
    if (ask->outputs & (HS__SIMILARITIES | HS__PAIRS | HS__REGIONS | HS__SEGMENTS | HS__SUMMARY))
        selection->taps |= HS_KEEP(SIMILARITY);
    if (ask->outputs & HS__HEAD_OUTPUTS)
        selection->taps |= HS_KEEP(HEAD_OUTPUT);
    if (ask->outputs & HS__HIDDEN_STATES)
        selection->taps |= HS_KEEP(HIDDEN_STATE);
    /* Who sees every head of a text looks at one of them next, outputs included (the viewer does): kept
     * along, d columns beside two times T, they spare that request a pass. */
    const unsigned maps = HS_KEEP(ATTENTION) | HS_KEEP(SIMILARITY);
    if ((selection->taps & maps) == maps && job->api->options.cache_bytes_max > 0)
        selection->taps |= HS_KEEP(HEAD_OUTPUT);
    if (ask->outputs & HS__SEGMENTS) {
        selection->n_heads = job_model(job)->shape->n_heads;
        for (size_t h = 0; h < selection->n_heads; h++)
            job->all_heads[h] = (uint16_t)h;
        selection->heads = job->all_heads;
    }
}

/* Refuses before computing what could not be sent or held. */
static int check_limits(hs_job *job)
{
    const hs_api_options *options = &job->api->options;
    const char *hint = "ask for fewer layers, heads or outputs, or a smaller max_tokens";
    const size_t answer = hs__answer_bytes_max(&job->ask, job->format, job_model(job), &job->encoding,
                                               job->request->body_bytes);
    if (answer > options->answer_bytes_max)
        return hs__refuse(&job->problem, 422, NULL,
                          "the answer could take %.1f MB, the limit is %.1f MB: %s%s", (double)answer / 1e6,
                          (double)options->answer_bytes_max / 1e6, hint,
                          job->format == HS__JSON    ? ", fewer digits, or for ?format=npz"
                          : job->ask.dtype == HS__F4 ? ", or dtype f2 or u1"
                                                     : "");
    const size_t capture = hs_capture_bytes(job_model(job)->shape, &job->selection, job->encoding.n_tokens);
    if (job->selection.taps && capture > options->capture_bytes_max)
        return hs__refuse(&job->problem, 422, NULL,
                          "the heads would take %.1f MB while they are computed, the limit is %.1f MB: %s",
                          (double)capture / 1e6, (double)options->capture_bytes_max / 1e6, hint);
    return 0;
}

static hs__heads_key job_key(const hs_job *job)
{
    const hs_encoding *e = &job->encoding;
    return (hs__heads_key){job->ask.model, e->ids, e->types, e->n_tokens};
}

static void prepare_analyze(hs_job *job)
{
    const hs_request *request = job->request;
    hs__problem *problem = &job->problem;
    if (hs__format_choose(request->query, request->accept, &job->format, problem) ||
        hs__content_type_check(request->content_type, problem) ||
        hs__ask_read(job->api, request, false, &job->ask, problem) ||
        hs__ask_check_format(&job->ask, job->format, problem) || tokenize(job))
        return;
    plan(job);
    if (check_limits(job) || !job->selection.taps)
        return;
    const hs__heads_key key = job_key(job);
    job->heads = hs__head_cache_find(job->api->cache, &key, &job->selection);
}

static void prepare_tokenize(hs_job *job)
{
    const hs_request *request = job->request;
    hs__format format;
    if (hs__format_choose(request->query, NULL, &format, &job->problem))
        return;
    if (format != HS__JSON)
        hs__refuse(&job->problem, 406, NULL, "this path answers application/json only");
    else if (!hs__json_accepted(request->accept, &job->problem) &&
             !hs__content_type_check(request->content_type, &job->problem) &&
             !hs__ask_read(job->api, request, true, &job->ask, &job->problem))
        tokenize(job);
}

hs_job *hs_job_create(hs_api *api, const hs_request *request)
{
    const double start = hs_clock_ms();
    hs_job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->api = api;
    job->request = request;
    if (!find_route(request, &job->route, &job->problem)) {
        if (job->route == ROUTE_ANALYZE)
            prepare_analyze(job);
        else if (job->route == ROUTE_TOKENIZE)
            prepare_tokenize(job);
        else
            hs__json_accepted(request->accept, &job->problem);
    }
    job->stage_ms[HS_STAGE_TOKENIZE] = hs_clock_ms() - start;
    return job;
}

void hs_job_destroy(hs_job *job)
{
    if (!job)
        return;
    hs__heads_release(job->api->cache, job->heads);
    hs_encoding_finish(&job->encoding);
    hs__ask_finish(&job->ask);
    free(job->sentences);
    free(job);
}

size_t hs_job_tokens(const hs_job *job)
{
    const bool needs_pass = !job->problem.status && job->selection.taps && !job->heads;
    return needs_pass ? job->encoding.n_tokens : 0;
}

size_t hs_job_model(const hs_job *job)
{
    return job->ask.model;
}

size_t hs_job_room(const hs_job *job)
{
    return job_model(job)->shape->n_positions;
}

size_t hs_job_layers(const hs_job *job)
{
    const hs_selection *selection = &job->selection;
    return selection->n_layers ? (size_t)selection->layers[selection->n_layers - 1] + 1 : 0;
}

/* ---- run ---- */

/* One pass over the jobs; sequences is room for them. */
static hs_status run_pass(const hs__served_model *model, hs_workspace *ws, hs_job *const *jobs, size_t n_jobs,
                          const hs_run_control *control, hs_sequence *sequences, hs_error *err)
{
    for (size_t i = 0; i < n_jobs; i++) {
        const hs_encoding *e = &jobs[i]->encoding;
        sequences[i] = (hs_sequence){
            .ids = e->ids, .types = model->shape->n_types ? e->types : NULL, .n_tokens = e->n_tokens};
        hs_status st = hs_capture_create(hs_engine_runtime(model->engine), model->shape, &jobs[i]->selection,
                                         e->n_tokens, &sequences[i].capture, err);
        if (st)
            return st;
    }
    hs_plan plan;
    const hs_status st = hs_plan_make(hs_engine_recipe(model->engine), sequences, n_jobs, NULL, &plan, err);
    return st ? st : hs_engine_run(model->engine, ws, &plan, control, err);
}

void hs_job_run(hs_api_worker *worker, hs_job *const *jobs, size_t n_jobs, const hs_run_control *control)
{
    const hs__served_model *model = job_model(jobs[0]);
    const double start = hs_clock_ms();
    hs_error err = {0};
    hs_sequence *sequences = calloc(n_jobs, sizeof *sequences);
    hs_status st = sequences ? run_pass(model, worker->workspaces[jobs[0]->ask.model], jobs, n_jobs, control,
                                        sequences, &err)
                             : hs_fail(&err, HS_NO_MEMORY, "no memory for a pass");
    const double forward_ms = hs_clock_ms() - start;
    size_t n_tokens = 0;
    for (size_t i = 0; i < n_jobs; i++)
        n_tokens += jobs[i]->encoding.n_tokens;
    for (size_t i = 0; i < n_jobs; i++) {
        hs_job *job = jobs[i];
        const double share = (double)job->encoding.n_tokens / (double)n_tokens;
        hs_capture *capture = sequences ? sequences[i].capture : NULL;
        job->stage_ms[HS_STAGE_FORWARD] = forward_ms;
        if (st) {
            hs_capture_destroy(capture);
            hs_fail(&job->error, st, "%s", err.text);
            refuse_error(job);
            continue;
        }
        const hs__heads_key key = job_key(job);
        job->n_tokens_computed = job->encoding.n_tokens;
        job->heads = hs__head_cache_add(job->api->cache, &key, capture, forward_ms * share);
        if (!job->heads) {
            hs_fail(&job->error, HS_NO_MEMORY, "no memory for the heads");
            refuse_error(job);
        }
    }
    free(sequences);
}

/* ---- answer ---- */

/* GET /models. Names as in HuggingFace's config.json where it has one. */
static void write_models(hs__bytes *b, hs_api *api)
{
    hs__bytes_text(b, "{\"models\":[");
    for (size_t i = 0; i < api->n_models; i++) {
        hs__served_model *model = &api->models[i];
        const hs_shape *s = model->shape;
        char text[512];
        hs__bytes_text(b, i ? ",{\"name\":" : "{\"name\":");
        hs__json_string(b, model->name, strlen(model->name));
        snprintf(
            text, sizeof text,
            ",\"default\":%s,\"type\":\"%s\",\"num_layers\":%zu,\"num_heads\":%zu,\"hidden_size\":%zu,"
            "\"head_size\":%zu,\"intermediate_size\":%zu,\"type_vocab_size\":%zu,\"vocab_size\":%zu,"
            "\"max_tokens\":%zu,\"weight_bytes\":%zu,\"backend\":\"%s\",\"precision\":\"%s\",\"sha256\":",
            i ? "false" : "true", hs_model_recipe(model->model)->family, s->n_layers, s->n_heads, s->hidden,
            s->head_width, s->ffn, s->n_types, s->vocab_size, s->n_positions, hs_model_bytes(model->model),
            hs_engine_products(model->engine), hs_engine_precision(model->engine));
        hs__bytes_text(b, text);
        if (atomic_load(&model->hashed))
            hs__json_string(b, model->sha256, strlen(model->sha256));
        else
            hs__bytes_text(b, "null");
        hs__bytes_text(b, "}");
    }
    hs__bytes_text(b, "]}");
}

/* Left out of every figure: special tokens where that is asked for. A text of nothing else has nothing to
 * compare, so there they always are. */
static const uint8_t *masked_tokens(const hs_job *job)
{
    const hs_encoding *e = &job->encoding;
    const bool text = memchr(e->special, 0, e->n_tokens) != NULL;
    return job->ask.mask_special || !text ? e->special : NULL;
}

static hs_status analyze(hs_job *job, hs__answer *answer)
{
    const double start = hs_clock_ms();
    *answer = (hs__answer){.model = job_model(job),
                           .request = job->request,
                           .ask = &job->ask,
                           .encoding = &job->encoding,
                           .sentences = job->sentences,
                           .masked = masked_tokens(job),
                           .capture = job->heads ? job->heads->capture : NULL};
    const hs_status st = hs__answer_analyze(answer, &job->error);
    job->stage_ms[HS_STAGE_ANALYZE] = hs_clock_ms() - start;
    return st;
}

static hs_status encode(hs_job *job, const hs__answer *answer, hs__bytes *body)
{
    hs_status st = HS_OK;
    if (job->route == ROUTE_TOKENIZE) {
        hs__json_write_tokens(body, answer);
        hs__bytes_text(body, "}");
    } else if (job->format == HS__JSON) {
        /* Room for the longest answer at once: nothing is copied for growth, untouched pages cost nothing. */
        hs__bytes_room(body, hs__answer_bytes_max(&job->ask, job->format, job_model(job), &job->encoding,
                                                  job->request->body_bytes));
        hs__json_write(body, answer);
    } else {
        st = job->format == HS__NPZ ? hs__npz_write(body, answer, &job->error)
                                    : hs__safetensors_write(body, answer, &job->error);
    }
    if (!st && hs__answer_cancelled(answer))
        return hs_fail(&job->error, HS_CANCELLED, "cancelled");
    if (!st && body->failed)
        return hs_fail(&job->error, HS_NO_MEMORY, "no memory for the answer");
    return st;
}

/* Of the time that computing the heads took, how much compressing the answer may add. */
#define GZIP_SHARE 0.25

/* Compresses where the client takes it and it adds little; then gives unused memory back. */
static void pack(hs_job *job, hs__bytes *body, hs_response *response)
{
    if (job->format == HS__JSON) {
        response->vary_encoding = true;
        const double forward_ms = job->heads ? job->heads->forward_ms : 0;
        if (hs__gzip_accepted(job->request->accept_encoding) &&
            hs__gzip(body, GZIP_SHARE * (forward_ms + job->stage_ms[HS_STAGE_ANALYZE])))
            response->content_encoding = "gzip";
    }
    hs__bytes_fit(body);
    response->body = body->data;
    response->body_bytes = body->size;
}

static void answer_texts(hs_job *job, hs_response *response)
{
    hs__answer answer;
    hs__bytes body = {0};
    hs_status st = analyze(job, &answer);
    const double start = hs_clock_ms();
    if (!st)
        st = encode(job, &answer, &body);
    hs__answer_finish(&answer);
    if (st) {
        hs__bytes_finish(&body);
        refuse_error(job);
    } else {
        response->status = 200;
        response->content_type = hs__format_media_type(job->format);
        pack(job, &body, response);
    }
    job->stage_ms[HS_STAGE_ENCODE] = hs_clock_ms() - start;
}

static void answer_json(hs_job *job, hs_response *response)
{
    hs__bytes body = {0};
    if (job->route == ROUTE_MODELS)
        write_models(&body, job->api);
    else
        hs__bytes_add(&body, hs__openapi_json, hs__openapi_json_bytes);
    if (body.failed) {
        hs__bytes_finish(&body);
        hs_fail(&job->error, HS_NO_MEMORY, "no memory for the answer");
        refuse_error(job);
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
        if (job->route == ROUTE_ANALYZE || job->route == ROUTE_TOKENIZE)
            answer_texts(job, ret_response);
        else
            answer_json(job, ret_response);
    }
    if (job->problem.status) {
        if (job->problem.status == 500) {
            hs_fail(&job->error, HS_NO_MEMORY, "%s", job->problem.detail);
            ret_response->error = job->error;
            snprintf(job->problem.detail, sizeof job->problem.detail,
                     "something went wrong on our side; the log says more under this request_id");
        }
        hs__problem_write(&job->problem, job->request->id, ret_response);
    }
    memcpy(ret_response->stage_ms, job->stage_ms, sizeof job->stage_ms);
    ret_response->n_tokens = job->n_tokens_computed;
}
