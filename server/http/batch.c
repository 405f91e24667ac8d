/* batch.c - short texts of one model and depth are packed into a pass, first fit, as long as there are any.
 */
#include "server/http/batch.h"

/* Tokens still to be computed for somebody. */
static size_t tokens_wanted(const hs_task *task, const hs_job *job)
{
    return job && !atomic_load(&task->cancelled) ? hs_job_tokens(job) : 0;
}

static bool fits_beside(const hs_job *job, const hs_job *first, size_t n_tokens)
{
    const size_t room = hs_job_room(first) < HS_SHARED_TOKENS ? hs_job_room(first) : HS_SHARED_TOKENS;
    return hs_job_model(job) == hs_job_model(first) && hs_job_layers(job) == hs_job_layers(first) &&
           n_tokens + hs_job_tokens(job) <= room;
}

/* The first job that needs a pass, and what fits beside it. Returns how many; 0: nothing is left. */
static size_t pass_fill(hs_task *const *tasks, hs_job *const *jobs, size_t n, hs_job **ret_pass)
{
    size_t n_pass = 0, n_tokens = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t wanted = tokens_wanted(tasks[i], jobs[i]);
        if (!wanted || (n_pass && !fits_beside(jobs[i], ret_pass[0], n_tokens)))
            continue;
        ret_pass[n_pass++] = jobs[i];
        n_tokens += wanted;
    }
    return n_pass;
}

/* Cancelled, what is left of them is answered with 504. */
static void lines_answer(hs_api *api, hs_api_worker *worker, hs_task *task, size_t n_threads)
{
    const hs_run_control control = {.cancelled = &task->cancelled, .n_threads = n_threads};
    hs_lines_answer(api, worker, &task->request, task->patient, &control, &task->response, &task->n_bytes);
}

size_t hs__batch_answer(hs_api *api, hs_api_worker *worker, hs_task *const *tasks, size_t n,
                        const hs_run_control *control)
{
    hs_job *jobs[HS_BATCH_MAX] = {0}, *pass[HS_BATCH_MAX];
    size_t n_shared = 0;
    for (size_t i = 0; i < n; i++)
        if (tasks[i]->lines)
            lines_answer(api, worker, tasks[i], control->n_threads);
    for (size_t i = 0; i < n; i++)
        if (!tasks[i]->lines && !atomic_load(&tasks[i]->cancelled))
            jobs[i] = hs_job_create(api, &tasks[i]->request);
    for (size_t n_pass; (n_pass = pass_fill(tasks, jobs, n, pass));) {
        hs_job_run(worker, pass, n_pass, control);
        n_shared += n_pass > 1 ? n_pass : 0;
    }
    for (size_t i = 0; i < n; i++) {
        const bool wanted = !tasks[i]->lines && !atomic_load(&tasks[i]->cancelled);
        if (wanted && jobs[i])
            hs_job_answer(jobs[i], &tasks[i]->response);
        else if (wanted) /* memory was short beside the others */
            hs_api_handle(api, worker, &tasks[i]->request, &tasks[i]->response);
        hs_job_destroy(jobs[i]);
    }
    return n_shared;
}
