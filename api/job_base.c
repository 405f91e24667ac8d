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
    const size_t own = job->request->beside ? 0 : job->api->worker_bytes;
    const size_t shared = n_bytes > own ? n_bytes - own : 0;
    job->capture_bytes = n_bytes;
    if (shared == 0 || hs__budget_try(budget, shared)) {
        job->shared_bytes = shared;
        return 0;
    }
    job->crowded = job->request->beside;
    if (job->crowded)
        return hs__refuse(&job->problem, 503, NULL,
                          "other requests use all memory for computing: send it again later");
    const double start = hs_clock_ms();
    const bool taken = hs__budget_take(budget, shared, job->request->cancelled);
    job->waited_ms = hs_clock_ms() - start;
    if (taken) {
        job->shared_bytes = shared;
        return 0;
    }
    hs_fail(&job->error, HS_CANCELLED, "cancelled");
    return hs__job_refuse(job);
}

bool hs__job_is_long(const hs_job *job)
{
    return job->analysis.max_new_tokens > 0 || hs__outputs_own(&job->analysis);
}

void hs__job_release(hs_job *job)
{
    if (job->shared_bytes)
        hs__budget_give_back(&job->api->captures, job->shared_bytes);
    job->capture_bytes = job->shared_bytes = 0;
}

/* ---- what a decoder reads ---- */

/* Returns true if the tokenizer puts the language of a target behind it, and transformers' shift_tokens_right
 * makes it the start token: mBART. */
static bool language_starts(const hs_model *model)
{
    return hs_model_decoder(model)->starts_with_language &&
           hs_tokenizer_languages(hs_model_target_tokenizer(model))->last;
}

int32_t hs_target_start(const hs_model *model, int32_t language)
{
    const int32_t start = hs_model_decoder(model)->start_id;
    if (!language_starts(model))
        return start;
    if (language)
        return language;
    return start >= 0 ? start : hs_model_target_language(model);
}

hs_status hs_target_encode(const hs_model *model, const hs_text *text, const hs_encode_options *options,
                           hs_encoding *ret, hs_error *err)
{
    const hs_tokenizer *tokenizer = hs_model_target_tokenizer(model);
    const int32_t named = options->language, language = named ? named : hs_model_target_language(model);
    const bool moves = language_starts(model);
    hs_encode_options of_text = *options;
    int32_t start = hs_target_start(model, named);
    of_text.tokens_max -= !moves;
    of_text.language = language > 0 ? language : 0;
    hs_status st = hs_tokenizer_encode(tokenizer, text, NULL, &of_text, ret, err);
    if (st)
        return st;
    if (moves)
        start = ret->ids[--ret->n_tokens];
    st = hs_encoding_begin(tokenizer, start, ret, err);
    if (st)
        hs_encoding_finish(ret);
    return st;
}

int32_t hs__job_start(const hs_job *job, const hs__served_model *decoder)
{
    return hs_target_start(decoder->model, job->analysis.target_language);
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
