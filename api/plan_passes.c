/* plan_passes.c - plans and runs the passes of jobs.
 *
 * A sequence that the head cache lacks needs a pass, which may also compute sequences of other jobs. */
#include "api/internal.h"

#include "model/base/clock.h"

#include <assert.h>
#include <stdlib.h>

/* Returns the own passes that still have to run, as bits by HS__OWN_... */
static unsigned own_pending(const hs_job *job)
{
    unsigned pending = job->problem.status ? 0 : job->needs.own;
    for (unsigned kind = 0; kind < HS__OWN_COUNT; kind++)
        pending &= ~((job->own[kind] ? 1U : 0U) << kind);
    return pending;
}

static bool is_pending(const hs_job *job, const hs__job_sequence *s);

/* Returns true if a pass that is still to run takes something from this source, or reads its states. */
static bool is_needed(const hs_job *job, const hs__job_sequence *source)
{
    const bool own = own_pending(job);
    bool needed = false, is_read = false;
    for (size_t k = 0; k < job->n_sequences; k++)
        if (job->sequences[k].source == source) {
            is_read = true;
            needed |= is_pending(job, &job->sequences[k]) || (own && k == 0);
        }
    return is_read ? needed : !job->sequences[0].heads || own;
}

/* Returns true if a pass must compute the sequence. Sources are computed for other passes only. */
static bool is_pending(const hs_job *job, const hs__job_sequence *s)
{
    if (s >= &job->sequences[job->first_source] && !is_needed(job, s))
        return false;
    return !job->problem.status && s->selection->taps && !s->heads;
}

static size_t tokens_max(const hs_job *job)
{
    return job->analysis.model->shape->n_positions;
}

size_t hs__job_tokens(const hs_job *job)
{
    size_t n_tokens = 0;
    for (size_t i = 0; i < job->n_sequences; i++)
        n_tokens += is_pending(job, &job->sequences[i]) ? job->sequences[i].encoding->n_tokens : 0;
    return own_pending(job) ? tokens_max(job) : n_tokens;
}

/* ---- the planner of passes ---- */

/* One sequence of a pass, and its job. */
typedef struct pass_part {
    hs_job *job;
    hs__job_sequence *sequence;
} pass_part;

/* Returns the number of layers that the sequence's pass computes. */
static size_t layers_computed(const hs__job_sequence *s)
{
    const hs_selection *selection = s->selection;
    if (selection->taps & (HS_KEEP(LAST_STATE) | HS_KEEP(EVERY_STATE)))
        return s->model->shape->n_layers;
    return selection->n_layers ? (size_t)selection->layers[selection->n_layers - 1] + 1 : 0;
}

/* Returns true if the sequence can be computed now. A sequence with interventions that leave the first layers
 * unchanged takes these from its job's baseline, so it waits for that one, and for the sources of its
 * patches. A decoder waits for the states that it reads. */
static bool is_ready(const hs_job *job, const hs__job_sequence *s)
{
    if (!is_pending(job, s) || (s->first_changed > 0 && !job->sequences[1].heads) ||
        (s->source && !s->source->heads))
        return false;
    for (size_t k = 0; k < job->analysis.n_sources && s->n_interventions > 0; k++)
        if (!job->sequences[job->first_source + k].heads)
            return false;
    return true;
}

/* Gives patches the captures of their sources, and additions the vectors, if the sources are computed. */
static hs_status sources_bind(hs_job *job, hs_error *err)
{
    for (size_t k = 0; k < job->analysis.n_sources; k++) {
        const hs__heads *heads = job->sequences[job->first_source + k].heads;
        if (heads)
            job->sources[k].capture = heads->capture;
    }
    return hs__steering_bind(job, err);
}

/* Returns what the job's outputs read of the sequence's pass while it runs; 0: nothing. */
static unsigned observed_taps(const hs_job *job, const hs__job_sequence *s)
{
    return s == &job->sequences[0] ? job->observed_taps : 0;
}

/* Returns true if a pass that `first` begins could compute the sequence: of the same model and layers, and
 * with the same taps observed. Decoders, which read more texts than they compute, do not share. */
static bool is_of_kind(const pass_part *first, const hs_job *job, const hs__job_sequence *s)
{
    return s->model == first->sequence->model && !s->source &&
           observed_taps(job, s) == observed_taps(first->job, first->sequence) &&
           layers_computed(s) == layers_computed(first->sequence);
}

/* Returns true if the sequence can share the pass that `first` begins, and keeps it short. */
static bool fits_beside(const pass_part *first, const hs_job *job, const hs__job_sequence *s, size_t n_tokens)
{
    const size_t most = tokens_max(job) < HS_SHARED_TOKENS ? tokens_max(job) : HS_SHARED_TOKENS;
    return is_of_kind(first, job, s) && s->first_changed == first->sequence->first_changed &&
           n_tokens + s->encoding->n_tokens <= most;
}

/* Fills a pass with the first sequence that needs one and those that fit beside it. Returns the number of
 * sequences; 0: none is left. */
static size_t pass_fill(hs_job *const *jobs, size_t n_jobs, pass_part parts[HS_SHARED_TOKENS])
{
    size_t n = 0, n_tokens = 0;
    for (size_t i = 0; i < n_jobs; i++) {
        for (size_t k = 0; jobs[i] && k < jobs[i]->n_sequences && n < HS_SHARED_TOKENS; k++) {
            hs__job_sequence *s = &jobs[i]->sequences[k];
            if (!is_ready(jobs[i], s) || (n > 0 && !fits_beside(&parts[0], jobs[i], s, n_tokens)))
                continue;
            parts[n++] = (pass_part){jobs[i], s};
            n_tokens += s->encoding->n_tokens;
        }
    }
    return n;
}

/* Returns the first sequence of the jobs that needs a pass; its job is NULL if none does. */
static pass_part first_pending(hs_job *const *jobs, size_t n_jobs)
{
    for (size_t i = 0; i < n_jobs; i++)
        for (size_t k = 0; k < jobs[i]->n_sequences; k++)
            if (is_pending(jobs[i], &jobs[i]->sequences[k]))
                return (pass_part){jobs[i], &jobs[i]->sequences[k]};
    return (pass_part){0};
}

/* Returns true if all passes that the job needs are of this one's kind. */
static bool needs_only(const pass_part *first, const hs_job *job)
{
    for (size_t k = 0; k < job->n_sequences; k++)
        if (is_pending(job, &job->sequences[k]) && !is_of_kind(first, job, &job->sequences[k]))
            return false;
    return true;
}

bool hs_job_joins(hs_job *const *jobs, size_t n)
{
    const hs_job *last = jobs[n - 1];
    const pass_part first = first_pending(jobs, n);
    size_t n_tokens = 0, n_bytes = 0;
    for (size_t i = 0; i < n; i++) {
        n_tokens += hs__job_tokens(jobs[i]);
        n_bytes += jobs[i]->answer_bytes_max;
    }
    return last->problem.status || last->request->operation != HS_ANALYZE ||
           (!last->needs.long_after && !last->analysis.predictions.lens && !hs__job_is_long(last) &&
            !last->again && !hs__format_is_figure(last->format) && n_tokens <= HS_SHARED_TOKENS &&
            n_bytes <= HS_BATCH_ANSWER_BYTES && (!first.job || needs_only(&first, last)));
}

/* ---- run ---- */

/* Returns the state of the job's baseline from which the sequence continues. The baseline's capture has all
 * states, because the output `changes` needs them. */
static hs_start start_of(const pass_part *part)
{
    const size_t layer = part->sequence->first_changed;
    return (hs_start){
        .layer = layer,
        .unchanged = true,
        .state = hs_capture_at(part->job->sequences[1].heads->capture, HS_TAP_HIDDEN_STATE, layer, 0)};
}

/* Returns the sequence of a part for the engine, without start and capture. */
static hs_sequence sequence_of(const hs__job_sequence *s)
{
    const hs_encoding *e = s->encoding;
    const hs_capture *source = s->source ? s->source->heads->capture : NULL;
    return (hs_sequence){.ids = e->ids,
                         .types = s->model->shape->n_types ? e->types : NULL,
                         .n_tokens = e->n_tokens,
                         .interventions = s->interventions,
                         .n_interventions = s->n_interventions,
                         .memory = source ? source->arrays[HS_TAP_LAST_STATE] : NULL,
                         .n_memory = source ? source->n_tokens : 0};
}

/* ---- maps that are shown and not kept ---- */

/* A pass whose jobs have outputs that observe it. */
typedef struct showing {
    const pass_part *parts;
    hs__answer *answers; /* [n], owned */
    float *maps;         /* owned: of each thread */
    size_t n_bytes;      /* of maps */
    atomic_int failed;
    hs_observer observer;
} showing;

/* Returns the position of a number that may be in the list, or n. */
static size_t position_of(uint16_t number, const uint16_t *list, size_t n)
{
    size_t i = 0;
    while (i < n && list[i] != number)
        i++;
    return i;
}

static void head_show(void *context, size_t s, size_t l, size_t h, const hs_observed_head *maps)
{
    showing *shown = context;
    const hs_job *job = shown->parts[s].job;
    const hs__analysis_request *analysis = &job->analysis;
    const size_t layer = position_of(job->selection.layers[l], analysis->layers, analysis->n_layers);
    const size_t head = position_of(job->selection.heads[h], analysis->heads, analysis->n_heads);
    hs_error err = {0};
    if (layer < analysis->n_layers && head < analysis->n_heads && !hs__answer_cancelled(&shown->answers[s]) &&
        hs__outputs_add_head(&shown->answers[s], job->results, layer * analysis->n_heads + head, maps, &err))
        atomic_store(&shown->failed, 1);
}

/* Makes the observer, with maps for the longest text, and begins the results of all jobs. */
static hs_status showing_begin(const pass_part *parts, size_t n, const hs_run_control *control,
                               showing *shown, hs_error *err)
{
    const hs_job *first = parts[0].job;
    const unsigned taps = first->observed_taps;
    assert(n > 0);
    size_t T = 0, K = 0, n_slots = control->n_threads > 1 ? control->n_threads : 1;
    for (size_t i = 0; i < n; i++) {
        const hs_job *job = parts[i].job;
        const size_t n_keys = job->selection.n_memory;
        T = job->texts.text.rows.n_tokens > T ? job->texts.text.rows.n_tokens : T;
        K = n_keys > K ? n_keys : K;
        n_slots = job->n_slots < n_slots ? job->n_slots : n_slots;
    }
    K = K > 0 ? K : T;
    const size_t n_attention = taps & HS_KEEP(ATTENTION) ? n_slots * T * K : 0;
    const size_t n_similarity = taps & ~HS_KEEP(ATTENTION) ? n_slots * T * T : 0;
    const size_t n_lengths = n_similarity ? n_slots * T : 0;
    shown->parts = parts;
    shown->answers = calloc(n, sizeof *shown->answers);
    shown->maps = hs_runtime_block_take(hs_engine_runtime(parts[0].sequence->model->engine),
                                        (n_attention + n_similarity + n_lengths) * sizeof *shown->maps,
                                        &shown->n_bytes);
    if (!shown->answers || !shown->maps)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the maps");
    shown->observer = (hs_observer){.attention = n_attention ? shown->maps : NULL,
                                    .similarity = n_similarity ? shown->maps + n_attention : NULL,
                                    .lengths = n_lengths ? shown->maps + n_attention + n_similarity : NULL,
                                    .show = head_show,
                                    .context = shown,
                                    .n_threads = n_slots,
                                    .kind = hs__similarity_kind(&first->analysis)};
    hs_status st = HS_OK;
    for (size_t i = 0; i < n && !st; i++) {
        hs_job *job = parts[i].job;
        shown->answers[i] = hs__job_describe(job);
        st = hs__outputs_begin(&shown->answers[i], job->observed, job->results, err);
    }
    return st;
}

static void showing_finish(const pass_part *parts, showing *shown)
{
    hs_runtime_block_return(hs_engine_runtime(parts[0].sequence->model->engine), shown->maps, shown->n_bytes);
    free(shown->answers);
}

/* Computes the sequences of a pass, and shows their maps to outputs that observe it. */
static hs_status pass_compute(const pass_part *parts, size_t n, hs_workspace *ws,
                              const hs_run_control *control, const hs_sequence *sequences, hs_error *err)
{
    const hs_engine *engine = parts[0].sequence->model->engine;
    showing shown = {0};
    if (!observed_taps(parts[0].job, parts[0].sequence))
        return hs_engine_compute(engine, ws, sequences, n, NULL, control, err);
    hs_status st = showing_begin(parts, n, control, &shown, err);
    if (!st)
        st = hs_engine_compute(engine, ws, sequences, n, &shown.observer, control, err);
    if (!st && atomic_load(&shown.failed))
        st = hs_fail(err, HS_NO_MEMORY, "no memory for the figures of heads");
    showing_finish(parts, &shown);
    return st;
}

static hs_status pass_run(const pass_part *parts, size_t n, const hs_run_control *control,
                          hs_sequence *sequences, hs_error *err)
{
    hs_api *api = parts[0].job->api;
    hs__served_model *model = parts[0].sequence->model;
    const hs_engine *engine = model->engine;
    const hs_shape *shape = hs_engine_shape(engine);
    hs_start starts[HS_SHARED_TOKENS];
    hs_status st = HS_OK;
    for (size_t i = 0; i < n && !st; i++)
        st = sources_bind(parts[i].job, err);
    for (size_t i = 0; i < n && !st; i++) {
        const bool shares = parts[i].sequence->first_changed > 0;
        if (shares)
            starts[i] = start_of(&parts[i]);
        sequences[i] = sequence_of(parts[i].sequence);
        sequences[i].start = shares ? &starts[i] : NULL;
        st = hs_capture_create(hs_engine_runtime(engine), shape, parts[i].sequence->selection,
                               sequences[i].n_tokens, &sequences[i].capture, err);
    }
    if (st)
        return st;
    hs_workspace *ws = hs__workspace_take(api, model);
    st = pass_compute(parts, n, ws, control, sequences, err);
    hs__workspace_return(api, model, ws);
    return st;
}

/* Takes ownership of a computed capture. fraction is the part of the pass's time that counts for it. */
static void part_finish(const pass_part *part, hs_capture *capture, double forward_ms, double fraction)
{
    hs_job *job = part->job;
    const hs__heads_key key = hs__job_key(job, part->sequence);
    if (part->sequence->first_changed > 0)
        hs_capture_copy_below(job->sequences[1].heads->capture, capture, part->sequence->first_changed);
    job->n_tokens_computed += part->sequence->encoding->n_tokens;
    job->stage_ms[HS_STAGE_FORWARD] += forward_ms;
    part->sequence->heads = hs__head_cache_add(job->api->cache, &key, capture, forward_ms * fraction);
    if (!part->sequence->heads)
        hs__job_refuse_memory(job, "the heads");
}

/* Takes the captures of a pass that was computed. */
static void pass_finish(const pass_part *parts, size_t n, const hs_sequence *sequences, double forward_ms)
{
    const bool shared = parts[0].job != parts[n - 1].job;
    size_t n_tokens = 0;
    for (size_t i = 0; i < n; i++)
        n_tokens += parts[i].sequence->encoding->n_tokens;
    for (size_t i = 0; i < n; i++) {
        const double fraction = (double)parts[i].sequence->encoding->n_tokens / (double)n_tokens;
        parts[i].job->shared |= shared;
        part_finish(&parts[i], sequences[i].capture, forward_ms, fraction);
    }
}

/* Runs a pass. If it fails, its jobs are as before. */
static hs_status pass_try(const pass_part *parts, size_t n, const hs_run_control *control, hs_error *err)
{
    const double start = hs_clock_ms();
    hs_sequence sequences[HS_SHARED_TOKENS] = {0};
    const hs_status st = pass_run(parts, n, control, sequences, err);
    if (!st) {
        pass_finish(parts, n, sequences, hs_clock_ms() - start);
        return HS_OK;
    }
    for (size_t i = 0; i < n; i++) {
        hs_capture_destroy(sequences[i].capture);
        if (observed_taps(parts[i].job, parts[i].sequence))
            hs__results_destroy(parts[i].job->results);
    }
    return st;
}

/* Runs a pass of one sequence, or refuses its job. */
static void part_run(const pass_part *part, const hs_run_control *control)
{
    hs_error err = {0};
    const hs_status st = part->job->problem.status ? HS_OK : pass_try(part, 1, control, &err);
    if (!st)
        return;
    hs_fail(&part->job->error, st, "%s", err.text);
    hs__job_refuse(part->job);
}

/* Runs a pass. If several sequences share it and it fails, each is computed alone, so that only the jobs that
 * made it fail are refused. */
static void run_one_pass(const pass_part *parts, size_t n, const hs_run_control *control)
{
    hs_error err = {0};
    if (n > 1 && !pass_try(parts, n, control, &err))
        return;
    for (size_t i = 0; i < n; i++)
        part_run(&parts[i], control);
}

/* Runs the job's own passes, which stop when its client disconnects. */
static void own_passes_run(hs_job *job, const hs_run_control *control)
{
    const double start = hs_clock_ms();
    const hs__answer answer = hs__job_describe(job);
    const hs_run_control own = {.cancelled =
                                    job->request->cancelled ? job->request->cancelled : control->cancelled,
                                .n_threads = control->n_threads};
    if (sources_bind(job, &job->error)) {
        hs__job_refuse(job);
        return;
    }
    hs_workspace *ws = hs__workspace_take(job->api, job->analysis.model);
    for (unsigned kind = 0; kind < HS__OWN_COUNT; kind++) {
        const hs__own_passes *passes = hs__own_passes_by_kind[kind];
        if (!(own_pending(job) >> kind & 1))
            continue;
        job->own[kind] = malloc(passes->result_bytes(&answer));
        if (!job->own[kind])
            hs__job_refuse_memory(job, passes->result);
        else if ((kind == HS__OWN_GRADIENTS && hs__job_weights_make(job)) ||
                 passes->run(&answer, ws, &own, job->own[kind], &job->error))
            hs__job_refuse(job);
    }
    hs__workspace_return(job->api, job->analysis.model, ws);
    job->stage_ms[HS_STAGE_FORWARD] += hs_clock_ms() - start;
}

/* Refuses jobs whose clients have disconnected. */
static void cancelled_refuse(hs_job *const *jobs, size_t n_jobs)
{
    for (size_t i = 0; i < n_jobs; i++) {
        const atomic_int *cancelled = jobs[i] ? jobs[i]->request->cancelled : NULL;
        if (!cancelled || !atomic_load(cancelled) || !hs__job_tokens(jobs[i]))
            continue;
        hs_fail(&jobs[i]->error, HS_CANCELLED, "cancelled");
        hs__job_refuse(jobs[i]);
    }
}

size_t hs_job_run(hs_job *const *jobs, size_t n_jobs, const hs_run_control *control)
{
    static const hs_run_control alone = {0};
    pass_part parts[HS_SHARED_TOKENS];
    size_t n_shared = 0;
    control = control ? control : &alone;
    cancelled_refuse(jobs, n_jobs);
    /* Terminates: each round computes its sequences or refuses their jobs. */
    for (size_t n; (n = pass_fill(jobs, n_jobs, parts)); cancelled_refuse(jobs, n_jobs))
        run_one_pass(parts, n, control);
    for (size_t i = 0; i < n_jobs; i++) {
        if (jobs[i] && own_pending(jobs[i]))
            own_passes_run(jobs[i], control);
        n_shared += jobs[i] && jobs[i]->shared;
    }
    return n_shared;
}
