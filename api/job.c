/* job.c - prepares the job of one request: reads and checks it, and lists the sequences to compute.
 *
 * A job has one sequence, or with interventions two and one for each text that they take values from. A
 * sequence that the head cache lacks needs a pass, which may also compute sequences of other jobs. */
#include "api/internal.h"

#include "model/base/clock.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- prepare ---- */

/* Adds the text whose states sequences [first, first + n) of a decoder read. */
static hs__job_sequence *encoder_add(hs_job *job, const hs__text_read *text, size_t first, size_t n)
{
    hs__job_sequence *encoder = &job->sequences[job->n_sequences++];
    for (size_t i = first; i < first + n; i++)
        job->sequences[i].source = encoder;
    *encoder = (hs__job_sequence){.model = job->analysis.model->encoder,
                                  .encoding = &text->memory,
                                  .selection = &job->encoder_selection};
    return encoder;
}

/* Adds the texts whose states the sequences of a decoder read: that of the request, also without the
 * interventions in it, and those of the sources. */
static void encoders_add(hs_job *job)
{
    const hs__analysis_request *analysis = &job->analysis;
    const size_t n_own = analysis->n_own_interventions, n_changed = analysis->n_interventions - n_own;
    hs__job_sequence *encoder = encoder_add(job, &job->texts.text, 0, n_changed > 0 ? 1 : job->first_source);
    encoder->interventions = n_changed > 0 ? analysis->interventions + n_own : NULL;
    encoder->n_interventions = n_changed;
    if (n_changed > 0)
        encoder_add(job, &job->texts.text, 1, 1);
    for (size_t k = 0; k < analysis->n_sources; k++)
        encoder_add(job, &job->texts.sources[k], job->first_source + k, 1);
}

/* Adds the texts that interventions take values from, and points patches to them. */
static void sources_add(hs_job *job)
{
    const hs__analysis_request *analysis = &job->analysis;
    const bool types = job->analysis.model->shape->n_types;
    job->first_source = job->n_sequences;
    for (size_t k = 0; k < analysis->n_sources; k++) {
        const hs_encoding *e = &job->texts.sources[k].rows;
        job->sources[k] =
            (hs_sequence){.ids = e->ids, .types = types ? e->types : NULL, .n_tokens = e->n_tokens};
        job->sequences[job->n_sequences++] = (hs__job_sequence){
            .model = analysis->model, .encoding = e, .selection = &job->source_selections[k]};
    }
    for (size_t i = 0; i < analysis->n_interventions; i++)
        if (hs_intervention_is_patch(&analysis->interventions[i]))
            analysis->interventions[i].from = &job->sources[analysis->changes[i].sources[0]];
}

/* Refuses positions of interventions beyond the text that they change. */
static int check_changed_positions(hs_job *job)
{
    const hs__analysis_request *analysis = &job->analysis;
    const hs__text_read *text = &job->texts.text;
    for (size_t i = 0; i < analysis->n_interventions; i++) {
        const hs_intervention *change = &analysis->interventions[i];
        const bool own = i < analysis->n_own_interventions;
        const size_t T = own ? text->rows.n_tokens : text->memory.n_tokens;
        char pointer[64];
        if (change->n_positions == 0 || change->positions[change->n_positions - 1] < T)
            continue;
        snprintf(pointer, sizeof pointer, "/interventions/%d/positions", analysis->named_at[i]);
        return hs__refuse(&job->problem, 422, pointer,
                          "position %zu is outside the %s, which has %zu tokens: allowed are 0 to %zu",
                          change->positions[change->n_positions - 1],
                          own && analysis->model->encoder ? "target" : "text", T, T - 1);
    }
    return 0;
}

/* Lets the model write more behind what the request gives. The request then has all of it as ids. */
static int text_write(hs_job *job)
{
    hs__texts *texts = &job->texts;
    if (job->analysis.max_new_tokens == 0)
        return 0;
    if (hs__texts_encode_given(&job->analysis, texts, &job->problem, &job->error))
        return job->problem.status;
    const int status = hs__job_write(job);
    hs_encoding_finish(&texts->text.memory);
    hs_encoding_finish(&texts->text.rows);
    return status;
}

/* Reads the request's texts, and lists the sequences to compute. */
static int texts_read(hs_job *job)
{
    const hs__analysis_request *analysis = &job->analysis;
    if (text_write(job) || hs__texts_encode(analysis, &job->texts, &job->problem, &job->error))
        return job->problem.status;
    const hs_encoding *e = &job->texts.text.rows;
    const size_t n_own = analysis->n_own_interventions;
    const bool starts = n_own == analysis->n_interventions; /* no layer has the baseline's states otherwise */
    job->sequences[job->n_sequences++] = (hs__job_sequence){
        .model = analysis->model,
        .encoding = e,
        .interventions = analysis->interventions,
        .n_interventions = n_own,
        .selection = &job->selection,
        .first_changed = starts ? hs_interventions_first_layer(analysis->interventions, n_own,
                                                               job->analysis.model->shape->n_layers)
                                : 0};
    if (analysis->n_interventions)
        job->sequences[job->n_sequences++] =
            (hs__job_sequence){.model = analysis->model, .encoding = e, .selection = &job->selection};
    sources_add(job);
    if (analysis->model->encoder)
        encoders_add(job);
    return check_changed_positions(job);
}

/* Refuses a sentence vector if nothing is left to pool beside the prompt. */
static int check_pooling(hs_job *job)
{
    const hs__analysis_request *analysis = &job->analysis;
    const bool pools = analysis->outputs & HS__OUTPUT_BIT(embedding) ||
                       analysis->target.kind == HS_TARGET_VECTOR || analysis->target.kind == HS_TARGET_COSINE;
    if (!pools || job->texts.text.n_prompt < job->texts.text.rows.n_tokens ||
        !job->analysis.model->architecture->sentence.without_prompt)
        return 0;
    return hs__refuse(
        &job->problem, 422, "/text",
        "the sentence vector of %s leaves out the %zu tokens of the prompt, and the text has no "
        "other; send a longer text, or prompt_name \"\"",
        job->analysis.model->name, job->texts.text.n_prompt);
}

/* Refuses positions of predictions and of the target beyond the text's tokens. Positions ascend. */
static int check_positions(hs_job *job)
{
    const hs__prediction_request *analysis = &job->analysis.predictions;
    const size_t n = analysis->n_positions, T = job->texts.text.rows.n_tokens;
    if (n == 0 || analysis->positions[n - 1] < T)
        return hs__target_check(&job->analysis, hs__text_followed(&job->texts.text)->n_tokens, &job->problem);
    return hs__refuse(
        &job->problem, 422, "/predictions/positions",
        "predictions: position %zu is outside the text, which has %zu tokens: allowed are 0 to %zu",
        analysis->positions[n - 1], T, T - 1);
}

static int check_reduced(hs_job *job)
{
    const hs__text_read *text = &job->texts.text;
    return hs__reduced_check(&job->analysis, text->rows.n_tokens, text->keys->n_tokens, &job->problem);
}

static int check_gradients(hs_job *job)
{
    return hs__gradients_check(&job->analysis, hs__text_followed(&job->texts.text), &job->problem);
}

/* Refuses interventions that the passes would refuse, which other requests may share. */
static int check_interventions(hs_job *job)
{
    const hs__analysis_request *analysis = &job->analysis;
    const hs__served_model *model = analysis->model;
    const size_t n_own = analysis->n_own_interventions, n_other = analysis->n_interventions - n_own;
    hs_status st = hs_interventions_check(model->architecture, analysis->interventions, n_own, &job->error);
    if (!st && n_other)
        st = hs_interventions_check(model->encoder->architecture, analysis->interventions + n_own, n_other,
                                    &job->error);
    return st ? hs__refuse(&job->problem, 422, "/interventions", "%s", job->error.text) : 0;
}

/* Refuses a job beside others that runs passes of its own, for which they would wait. */
static int check_beside(hs_job *job)
{
    job->crowded = job->request->beside && hs__job_is_long(job);
    return job->crowded ? hs__refuse(&job->problem, 503, NULL,
                                     "other requests wait for this one's thread: send it again later")
                        : 0;
}

bool hs__job_is_long(const hs_job *job)
{
    return job->analysis.max_new_tokens > 0 || job->needs.own;
}

static int body_read(hs_job *job, bool tokens_only)
{
    if (hs__analysis_request_parse(job->request, tokens_only, &job->analysis, &job->problem))
        return job->problem.status;
    job->analysis.model =
        hs__model_choose(job->api, json_object_get(job->analysis.body, "model"), &job->problem);
    if (!job->analysis.model || hs__stack_choose(&job->analysis, &job->problem))
        return job->problem.status;
    return hs__analysis_request_read(&job->analysis, &job->problem);
}

static void prepare_analyze(hs_job *job)
{
    const hs_request *request = job->request;
    hs__problem *problem = &job->problem;
    bool hooks = false;
    if (hs__format_choose(request->query, request->accept, &job->format, &hooks, problem) ||
        hs__content_type_check(request->content_type, problem) || body_read(job, false))
        return;
    job->analysis.hooks = hooks;
    if (hs__figure_prepare(&job->analysis, hs__format_is_figure(job->format), problem))
        return;
    job->needs = hs__outputs_needs(&job->analysis, job->analysis.outputs, 0);
    if ((job->format != HS__JSON && !hs__format_is_figure(job->format) &&
         hs__outputs_check_dtype(&job->analysis, problem)) ||
        hs__outputs_check_interventions(&job->analysis, problem) ||
        hs__outputs_check_stack(&job->analysis, problem) || check_interventions(job) ||
        hs__effects_of_check(&job->analysis, hs__target_model(&job->analysis)->architecture, problem) ||
        hs__attribution_check(&job->analysis, problem) || check_beside(job) || texts_read(job) ||
        check_pooling(job) || check_positions(job) || check_reduced(job) || check_gradients(job) ||
        hs__maps_plan(job))
        return;
    /* Only a pass shows maps to outputs that observe it. */
    for (size_t i = job->observed ? 1 : 0; i < job->n_sequences; i++) {
        if (!job->sequences[i].selection->taps)
            continue;
        const hs__heads_key key = hs__job_key(job, &job->sequences[i]);
        job->sequences[i].heads = hs__head_cache_find(job->api->cache, &key, job->sequences[i].selection);
    }
}

static void prepare_tokenize(hs_job *job)
{
    const hs_request *request = job->request;
    hs__answer_format format;
    if (hs__format_choose(request->query, NULL, &format, NULL, &job->problem))
        return;
    if (format != HS__JSON)
        hs__refuse(&job->problem, 406, NULL,
                   "the answer of this path is always application/json: ask for that, or send no Accept");
    else if (!hs__json_accepted(request->accept, &job->problem) &&
             !hs__content_type_check(request->content_type, &job->problem) && !body_read(job, true) &&
             !hs__outputs_check_stack(&job->analysis, &job->problem))
        texts_read(job);
}

hs_job *hs_job_create(hs_api *api, const hs_request *request)
{
    const double start = hs_clock_ms();
    hs_job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->api = api;
    job->request = request;
    job->bytes_max = hs__bytes_max(api);
    job->problem.request_line = request->line;
    if (request->operation == HS_ANALYZE)
        prepare_analyze(job);
    else if (request->operation == HS_TOKENIZE)
        prepare_tokenize(job);
    else
        hs__json_accepted(request->accept, &job->problem);
    job->stage_ms[HS_STAGE_TOKENIZE] =
        hs_clock_ms() - start - job->waited_ms - job->stage_ms[HS_STAGE_FORWARD];
    return job;
}

void hs_job_destroy(hs_job *job)
{
    if (!job)
        return;
    for (size_t i = 0; i < job->n_sequences; i++) {
        hs__heads_release(job->api->cache, job->sequences[i].heads);
    }
    hs__results_destroy(job->results);
    hs__texts_finish(&job->texts);
    hs__model_release(job->api, job->analysis.model);
    hs__analysis_request_finish(&job->analysis);
    for (unsigned kind = 0; kind < HS__OWN_COUNT; kind++)
        free(job->own[kind]);
    hs__job_release(job);
    free(job);
}

bool hs_job_crowded(const hs_job *job)
{
    return job->crowded;
}
