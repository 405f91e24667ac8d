/* api.c - the served models, the workers, and hs_api_handle. */
#include "api/api.h"

#include "api/internal.h"
#include "api/problem.h"

#include <stdlib.h>
#include <string.h>

hs_status hs_api_create(const hs_api_options *options, hs_api **ret_api, hs_error *err)
{
    hs_api *api = calloc(1, sizeof *api);
    if (!api)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the api");
    api->options = *options;
    if (!api->options.answer_bytes_max)
        api->options.answer_bytes_max = (size_t)256 << 20;
    if (!api->options.capture_bytes_max)
        api->options.capture_bytes_max = (size_t)1 << 30;
    if (api->options.captures_bytes_max < api->options.capture_bytes_max)
        api->options.captures_bytes_max = api->options.capture_bytes_max;
    api->cache = hs__head_cache_create(options->cache_bytes_max);
    if (!api->cache) {
        free(api);
        return hs_fail(err, HS_NO_MEMORY, "no memory for the head cache");
    }
    hs__budget_init(&api->captures, api->options.captures_bytes_max);
    *ret_api = api;
    return HS_OK;
}

/* Returns the slot of a name, whether served or removed; n_models if there is none. */
static size_t slot_named(const hs_api *api, const char *name)
{
    size_t i = 0;
    while (i < api->n_models && strcmp(api->models[i].name, name) != 0)
        i++;
    return i;
}

static void slot_fill(hs_api *api, hs__served_model *served, const hs_model *model, const hs_engine *engine)
{
    served->list_command = api->options.list_command ? api->options.list_command : "GET /models";
    served->serial = model ? ++api->last_serial : 0;
    served->model = model;
    served->engine = engine;
    served->shape = engine ? hs_engine_shape(engine) : NULL;
    atomic_store(&served->hashed, false);
}

hs_status hs_api_add_model(hs_api *api, const char *name, const hs_model *model, const hs_engine *engine,
                           hs_error *err)
{
    const size_t i = slot_named(api, name);
    if (i == HS__MODELS_MAX)
        return hs_fail(err, HS_INVALID, "more than %d models: serve fewer", HS__MODELS_MAX);
    if (i < api->n_models && api->models[i].serial)
        return hs_fail(err, HS_INVALID, "two models are named '%s': give one another name", name);
    hs__served_model *served = &api->models[i];
    if (i == api->n_models && !(served->name = strdup(name)))
        return hs_fail(err, HS_NO_MEMORY, "no memory for model '%s'", name);
    slot_fill(api, served, model, engine);
    api->n_models += i == api->n_models;
    return HS_OK;
}

hs_status hs_api_replace_model(hs_api *api, const char *name, const hs_model *model, const hs_engine *engine,
                               hs_error *err)
{
    const size_t i = slot_named(api, name);
    if (i == api->n_models || !api->models[i].serial)
        return hs_fail(err, HS_NOT_FOUND, "no model is named '%s'", name);
    if (i == 0 && !model)
        return hs_fail(err, HS_INVALID, "'%s' is the default model, which cannot be removed", name);
    slot_fill(api, &api->models[i], model, engine);
    return HS_OK;
}

void hs_api_destroy(hs_api *api)
{
    if (!api)
        return;
    for (size_t i = 0; i < api->n_models; i++)
        free(api->models[i].name);
    hs__head_cache_destroy(api->cache);
    hs__budget_finish(&api->captures);
    free(api);
}

void hs_api_hash_models(hs_api *api)
{
    for (size_t i = 0; i < api->n_models; i++) {
        hs__served_model *served = &api->models[i];
        if (!served->serial || atomic_load(&served->hashed))
            continue;
        hs_model_sha256(served->model, served->sha256);
        atomic_store(&served->hashed, served->sha256[0] != '\0');
    }
}

hs_status hs_api_worker_create(const hs_api *api, hs_api_worker **ret_worker, hs_error *err)
{
    hs_api_worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
    const hs_status st = hs_api_worker_update(worker, api, err);
    if (st) {
        hs_api_worker_destroy(worker);
        return st;
    }
    *ret_worker = worker;
    return HS_OK;
}

hs_status hs_api_worker_update(hs_api_worker *worker, const hs_api *api, hs_error *err)
{
    for (size_t i = 0; i < api->n_models; i++) {
        const hs__served_model *served = &api->models[i];
        hs_workspace *made = NULL;
        if (worker->engines[i] == served->engine)
            continue;
        const hs_status st = served->engine
                                 ? hs_workspace_create(served->engine, served->shape->n_positions, &made, err)
                                 : HS_OK;
        if (st)
            return st;
        hs_workspace_destroy(worker->workspaces[i]);
        worker->workspaces[i] = made;
        worker->engines[i] = served->engine;
    }
    return HS_OK;
}

void hs_api_worker_destroy(hs_api_worker *worker)
{
    if (!worker)
        return;
    for (size_t i = 0; i < HS__MODELS_MAX; i++)
        hs_workspace_destroy(worker->workspaces[i]);
    free(worker);
}

void hs_api_cache_stats(const hs_api *api, hs_cache_stats *ret_stats)
{
    hs__head_cache_stats(api->cache, ret_stats);
}

void hs_api_handle(hs_api *api, hs_api_worker *worker, const hs_request *request, hs_response *ret_response)
{
    hs_job *job = hs_job_create(api, request);
    if (!job) {
        hs__problem problem = {0};
        *ret_response = (hs_response){0};
        hs_fail(&ret_response->error, HS_NO_MEMORY, "no memory for a job");
        hs__refuse(&problem, 500, NULL, "internal error: the server's log has details under this request_id");
        hs__problem_write(&problem, request->id, ret_response);
        return;
    }
    const hs_run_control control = {.cancelled = request->cancelled, .n_threads = request->n_threads};
    hs_job_run(worker, &job, 1, &control);
    hs_job_answer(job, ret_response);
    hs_job_destroy(job);
}

void hs_response_recycle(hs_api *api, hs_response *response)
{
    if (response->body_capacity > 0) {
        hs_runtime_block_return(hs_engine_runtime(api->models[0].engine), response->body,
                                response->body_capacity);
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
