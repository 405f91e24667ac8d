/* batch.c - makes jobs of a batch's requests, runs them together and answers each. */
#include "server/http/batch.h"

/* Answers a body of lines. If it is cancelled, the remaining lines get 504. */
static void lines_answer(hs_api *api, hs_task *task, size_t n_threads)
{
    const hs_run_control control = {.cancelled = &task->work.cancelled, .n_threads = n_threads};
    hs_lines_answer(api, &task->request, task->patient, &control, &task->response, &task->n_bytes);
}

/* Creates a job; NULL if memory is short. beside: this thread has other jobs already, so the new one must not
 * wait for memory. */
static hs_job *job_beside(hs_api *api, hs_request *request, bool beside)
{
    request->beside = beside;
    hs_job *job = hs_job_create(api, request);
    if (!job || !hs_job_crowded(job))
        return job;
    hs_job_destroy(job);
    return NULL;
}

size_t hs__batch_answer(hs_api *api, hs_task *const *tasks, size_t n, const hs_run_control *control)
{
    hs_job *jobs[HS_BATCH_MAX] = {0};
    for (size_t i = 0; i < n; i++)
        if (tasks[i]->lines)
            lines_answer(api, tasks[i], control->n_threads);
    for (size_t i = 0; i < n; i++)
        if (!tasks[i]->lines && !atomic_load(&tasks[i]->work.cancelled))
            jobs[i] = job_beside(api, &tasks[i]->request, i > 0);
    const size_t n_shared = hs_job_run(jobs, n, control);
    bool alone[HS_BATCH_MAX] = {0};
    for (size_t i = 0; i < n; i++) {
        const bool batchable = !tasks[i]->lines && !atomic_load(&tasks[i]->work.cancelled);
        if (batchable && jobs[i])
            hs_job_answer(jobs[i], &tasks[i]->response);
        alone[i] = batchable && !jobs[i];
        hs_job_destroy(jobs[i]);
    }
    for (size_t i = 0; i < n; i++)
        if (alone[i]) { /* memory was short beside the other jobs */
            tasks[i]->request.beside = false;
            hs_api_handle(api, &tasks[i]->request, &tasks[i]->response);
        }
    return n_shared;
}
