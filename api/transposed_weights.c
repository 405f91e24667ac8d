/* transposed_weights.c - the transposed weights that gradients read: made once for each model, and their
 * memory.
 *
 * They are as large as a model's layers, so a model has none before its first request for gradients. That
 * request takes their memory from the budget, which is smaller for good then, until the model is removed. A
 * part of the budget is never for weights, so that clients that ask many models for gradients leave memory
 * for other requests. */
#include "api/internal.h"

#include "engine/gradients.h"

/* Lists the models whose weights the job's gradients read transposed. Returns their number. */
static size_t transposed_models(const hs_job *job, hs__served_model *ret_models[2])
{
    hs__served_model *model = job->analysis.model;
    const bool read = hs__target_model(&job->analysis) != model;
    ret_models[0] = model;
    ret_models[1] = model->encoder ? model->encoder : model->decoder;
    return !hs__needs_gradient(&job->analysis) ? 0 : model->encoder || read ? 2 : 1;
}

size_t hs__job_weights_bytes(const hs_job *job)
{
    hs__served_model *models[2];
    const size_t n = transposed_models(job, models);
    size_t n_bytes = 0;
    pthread_mutex_lock(&job->api->lock);
    for (size_t i = 0; i < n; i++)
        n_bytes += models[i]->has_transposed ? 0 : hs_gradients_weights_bytes(models[i]->engine);
    pthread_mutex_unlock(&job->api->lock);
    return n_bytes;
}

/* Returns the part of the budget that weights leave, an eighth of all memory for captures. */
static size_t least_budget(const hs_api *api)
{
    return api->options.captures_bytes_max / 8;
}

size_t hs__weights_bytes_max(hs_api *api)
{
    const size_t least = least_budget(api), bytes_max = hs__budget_bytes_max(&api->captures);
    return bytes_max > least ? bytes_max - least : 0;
}

/* Leaves the memory of a model's weights taken if no job has yet. The job has taken it: has_transposed is
 * never reset, so hs__job_reserve counted these weights. They stay counted if making them fails. */
static hs_status weights_keep(hs_job *job, hs__served_model *model)
{
    hs_api *api = job->api;
    const size_t n_bytes = hs_gradients_weights_bytes(model->engine);
    pthread_mutex_lock(&api->lock);
    const bool keeps = !model->has_transposed,
               kept = keeps && hs__budget_remove(&api->captures, n_bytes, least_budget(api));
    if (kept) {
        model->has_transposed = true;
        model->transposed_bytes = n_bytes;
        job->shared_bytes -= n_bytes;
    }
    pthread_mutex_unlock(&api->lock);
    return !keeps || kept ? HS_OK
                          : hs_fail(&job->error, HS_TOO_LARGE,
                                    "the transposed weights of other models leave no %.1f MB of memory for "
                                    "those of %s; --max-maps raises the limit",
                                    (double)n_bytes / 1e6, model->name);
}

hs_status hs__job_weights_make(hs_job *job)
{
    hs__served_model *models[2];
    const size_t n = transposed_models(job, models);
    hs_status st = HS_OK;
    for (size_t i = 0; i < n && !st; i++) {
        st = weights_keep(job, models[i]);
        if (!st)
            st = hs_gradients_prepare(models[i]->engine, false, &job->error);
    }
    return st;
}
