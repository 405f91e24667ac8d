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

hs_status hs_api_add_model(hs_api *api, const char *name, const hs_model *model, const hs_engine *engine,
                           hs_error *err)
{
    if (api->n_models == HS__MODELS_MAX)
        return hs_fail(err, HS_INVALID, "more than %d models: serve fewer", HS__MODELS_MAX);
    for (size_t i = 0; i < api->n_models; i++) {
        if (strcmp(api->models[i].name, name) == 0)
            return hs_fail(err, HS_INVALID, "two models are named '%s': give one another name", name);
    }
    hs__served_model *served = &api->models[api->n_models];
    served->name = strdup(name);
    if (!served->name)
        return hs_fail(err, HS_NO_MEMORY, "no memory for model '%s'", name);
    served->list_command = api->options.list_command ? api->options.list_command : "GET /models";
    served->model = model;
    served->engine = engine;
    served->shape = hs_engine_shape(engine);
    api->n_models++;
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
        if (atomic_load(&served->hashed))
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
    hs_status st = HS_OK;
    for (size_t i = 0; i < api->n_models && !st; i++) {
        st = hs_workspace_create(api->models[i].engine, api->models[i].shape->n_positions,
                                 &worker->workspaces[i], err);
        worker->n_workspaces += !st;
    }
    if (st) {
        hs_api_worker_destroy(worker);
        return st;
    }
    *ret_worker = worker;
    return HS_OK;
}

void hs_api_worker_destroy(hs_api_worker *worker)
{
    if (!worker)
        return;
    for (size_t i = 0; i < worker->n_workspaces; i++)
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
