/* api.c - creates and destroys the api, and hs_api_handle. */
#include "api/api.h"

#include "api/internal.h"

#include <stdlib.h>

hs_status hs_api_create(const hs_api_options *options, hs_api **ret_api, hs_error *err)
{
    hs_api *api = calloc(1, sizeof *api);
    if (!api)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the api");
    api->options = *options;
    if (!api->options.n_workers)
        api->options.n_workers = 1;
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

void hs_api_handle(hs_api *api, const hs_request *request, hs_response *ret_response)
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
