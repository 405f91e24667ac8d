/* job_base.c - what the steps of a job share: refusals, memory, and the key of its heads. */
#include "api/internal.h"

#include "model/base/clock.h"

const hs__served_model *hs__job_model(const hs_job *job)
{
    return job->analysis.model;
}

int hs__job_refuse(hs_job *job)
{
    return hs__refuse(&job->problem, hs__http_status(job->error.status), NULL, "%s", job->error.text);
}

int hs__job_refuse_memory(hs_job *job, const char *what)
{
    hs_fail(&job->error, HS_NO_MEMORY, "no memory for %s", what);
    return hs__job_refuse(job);
}

int hs__job_reserve(hs_job *job, size_t n_bytes)
{
    hs__budget *budget = &job->api->captures;
    if (n_bytes == 0 || hs__budget_try(budget, n_bytes)) {
        job->capture_bytes = n_bytes;
        return 0;
    }
    job->crowded = job->request->beside;
    if (job->crowded)
        return hs__refuse(&job->problem, 503, NULL,
                          "other requests use all memory for computing: send it again later");
    const double start = hs_clock_ms();
    const bool taken = hs__budget_take(budget, n_bytes, job->request->cancelled);
    job->waited_ms = hs_clock_ms() - start;
    if (taken) {
        job->capture_bytes = n_bytes;
        return 0;
    }
    hs_fail(&job->error, HS_CANCELLED, "cancelled");
    return hs__job_refuse(job);
}

void hs__job_release(hs_job *job)
{
    if (job->capture_bytes)
        hs__budget_give_back(&job->api->captures, job->capture_bytes);
    job->capture_bytes = 0;
}

int32_t hs__job_start(const hs_job *job, const hs__served_model *decoder)
{
    const hs_architecture *architecture = decoder->architecture;
    const int32_t named = job->analysis.target_language;
    if (!architecture->starts_with_language ||
        !hs_tokenizer_languages(hs_model_target_tokenizer(decoder->model))->last)
        return architecture->start_id;
    if (named)
        return named;
    return architecture->start_id >= 0 ? architecture->start_id : hs_model_target_language(decoder->model);
}

hs__heads_key hs__job_key(const hs_job *job, const hs__job_sequence *s)
{
    return (hs__heads_key){.model = s->model->serial,
                           .ids = s->encoding->ids,
                           .types = s->encoding->types,
                           .n_tokens = s->encoding->n_tokens,
                           .interventions = s->interventions,
                           .n_interventions = s->n_interventions,
                           .source = s->source ? s->source->encoding : NULL,
                           .source_interventions = s->source ? s->source->interventions : NULL,
                           .n_source_interventions = s->source ? s->source->n_interventions : 0,
                           .cross = s->selection->n_memory > 0,
                           .patch_sources = job->source_encoder_texts,
                           .source_of = job->analysis.source_of};
}
