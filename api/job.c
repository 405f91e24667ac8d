/* job.c - prepares the job of one request: reads and checks it, tokenizes its texts, plans what passes keep.
 *
 * A job has one sequence, or with interventions two and one for each text that they patch from. A sequence
 * that the head cache lacks needs a pass, which may also compute sequences of other jobs. */
#include "api/internal.h"

#include "model/base/clock.h"
#include "model/base/memory.h"
#include "model/base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- prepare ---- */

/* Adds the text whose states sequences [first, first + n) of a decoder read. */
static hs__job_sequence *encoder_add(hs_job *job, const hs_encoding *text, size_t first, size_t n)
{
    hs__job_sequence *encoder = &job->sequences[job->n_sequences++];
    for (size_t i = first; i < first + n; i++)
        job->sequences[i].source = encoder;
    *encoder = (hs__job_sequence){
        .model = hs__job_model(job)->encoder, .encoding = text, .selection = &job->encoder_selection};
    return encoder;
}

/* Adds the texts whose states the sequences of a decoder read: that of the request, also without the
 * interventions in it, and those of the sources. */
static void encoders_add(hs_job *job)
{
    const hs__analysis_request *analysis = &job->analysis;
    const size_t n_own = analysis->n_own_interventions, n_changed = analysis->n_interventions - n_own;
    hs__job_sequence *encoder =
        encoder_add(job, &job->texts.encoder, 0, n_changed > 0 ? 1 : job->first_source);
    encoder->interventions = n_changed > 0 ? analysis->interventions + n_own : NULL;
    encoder->n_interventions = n_changed;
    if (n_changed > 0)
        encoder_add(job, &job->texts.encoder, 1, 1);
    for (size_t k = 0; k < analysis->n_sources; k++)
        encoder_add(job, &job->texts.source_encoders[k], job->first_source + k, 1);
}

/* Adds the texts that patches take values from, and checks the patches' positions. */
static int sources_add(hs_job *job)
{
    const hs__analysis_request *analysis = &job->analysis;
    const bool types = hs__job_model(job)->shape->n_types;
    const size_t T = job->texts.text.encoding.n_tokens;
    job->first_source = job->n_sequences;
    for (size_t k = 0; k < analysis->n_sources; k++) {
        const hs_encoding *e = &job->texts.sources[k];
        job->sources[k] = (hs_sequence){.ids = e->ids, .types = types ? e->types : NULL, .n_tokens = T};
        job->sequences[job->n_sequences++] = (hs__job_sequence){
            .model = analysis->model, .encoding = e, .selection = &job->source_selections[k]};
    }
    for (size_t i = 0; i < analysis->n_interventions; i++) {
        hs_intervention *patch = &analysis->interventions[i];
        char pointer[64];
        if (!hs_intervention_is_patch(patch))
            continue;
        patch->from = &job->sources[analysis->source_of[i]];
        snprintf(pointer, sizeof pointer, "/interventions/%d/positions", analysis->named_at[i]);
        if (patch->n_positions > 0 && patch->positions[patch->n_positions - 1] >= T)
            return hs__refuse(&job->problem, 422, pointer,
                              "position %zu is outside the text, which has %zu tokens: allowed are 0 to %zu",
                              patch->positions[patch->n_positions - 1], T, T - 1);
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
    hs_encoding_finish(&texts->encoder);
    hs_encoding_finish(&texts->text.encoding);
    return status;
}

/* Reads the request's texts, and lists the sequences to compute. */
static int texts_read(hs_job *job)
{
    const hs__analysis_request *analysis = &job->analysis;
    if (text_write(job) || hs__texts_encode(analysis, &job->texts, &job->problem, &job->error))
        return job->problem.status;
    const hs_encoding *e = &job->texts.text.encoding;
    const size_t n_own = analysis->n_own_interventions;
    const bool starts = n_own == analysis->n_interventions; /* no layer has the baseline's states otherwise */
    job->sequences[job->n_sequences++] = (hs__job_sequence){
        .model = analysis->model,
        .encoding = e,
        .interventions = analysis->interventions,
        .n_interventions = n_own,
        .selection = &job->selection,
        .first_changed = starts ? hs_interventions_first_layer(analysis->interventions, n_own,
                                                               hs__job_model(job)->shape->n_layers)
                                : 0};
    if (analysis->n_interventions)
        job->sequences[job->n_sequences++] =
            (hs__job_sequence){.model = analysis->model, .encoding = e, .selection = &job->selection};
    if (sources_add(job))
        return job->problem.status;
    if (analysis->model->encoder)
        encoders_add(job);
    return 0;
}

/* Selects all that any patch takes from its source. Cross heads have a key for each token that they read. */
static void plan_sources(hs_job *job)
{
    const hs_shape *shape = hs__job_model(job)->shape;
    hs_selection *selection = &job->source_selections[0];
    bool layers[HS_LAYERS_MAX] = {false}, heads[HS_HEADS_MAX] = {false};
    *selection = (hs_selection){.layers = job->source_layers, .heads = job->source_heads};
    if (job->analysis.effects_of.kind == HS_INTERVENE_PATCH) {
        selection->taps = HS_KEEP(HEAD_OUTPUT) | HS_KEEP(EVERY_STATE);
        memset(layers, true, sizeof layers);
        memset(heads, true, sizeof heads);
    }
    for (size_t i = 0; i < job->analysis.n_interventions; i++) {
        const hs_intervention *patch = &job->analysis.interventions[i];
        const bool state = patch->kind == HS_INTERVENE_PATCH_STATE;
        if (!hs_intervention_is_patch(patch))
            continue;
        selection->taps |= state ? HS_KEEP(HIDDEN_STATE) : HS_KEEP(HEAD_OUTPUT);
        for (size_t l = 0; l < patch->n_layers; l++)
            if (!state || patch->layers[l] > 0) /* the embeddings are state 0 */
                layers[patch->layers[l] - state] = true;
        for (size_t h = 0; !state && h < patch->n_heads; h++)
            heads[patch->heads[h]] = true;
    }
    for (size_t l = 0; l < shape->n_layers; l++)
        if (layers[l])
            job->source_layers[selection->n_layers++] = (uint16_t)l;
    for (size_t h = 0; h < shape->n_heads; h++)
        if (heads[h])
            job->source_heads[selection->n_heads++] = (uint16_t)h;
    for (size_t k = job->analysis.n_sources; k-- > 0;) {
        job->source_selections[k] = *selection;
        job->source_selections[k].n_memory =
            job->analysis.stack == HS_STACK_CROSS ? job->texts.source_encoders[k].n_tokens : 0;
    }
}

/* Returns what these outputs of the request read of the pass, and the lens. */
static unsigned taps_of(const hs_job *job, hs__outputs outputs)
{
    const hs__analysis_request *analysis = &job->analysis;
    return hs__outputs_taps(analysis, outputs, job->again) |
           (analysis->predictions.lens ? HS_KEEP(EVERY_STATE) : 0);
}

static hs__measures measures_of(const hs_job *job)
{
    const hs__answer answer = hs__job_describe(job);
    const hs__analysis_request *analysis = &job->analysis;
    return (hs__measures){.analysis = analysis,
                          .architecture = answer.model->architecture,
                          .shape = answer.model->shape,
                          .n_tokens = job->texts.text.encoding.n_tokens,
                          .n_keys = hs__answer_keys(&answer),
                          .n_heads = analysis->n_layers * analysis->n_heads,
                          .n_threads = job->request->n_threads > 1 ? job->request->n_threads : 1};
}

/* Returns an upper bound of the bytes of results that are made head by head. */
static size_t results_bytes(const hs_job *job)
{
    const hs__measures m = measures_of(job);
    return hs__outputs_result_bytes(&m, hs__outputs_observing(job->analysis.outputs));
}

/* Returns an upper bound of the bytes that the job takes beside maps that are shown. */
static size_t capture_bytes(const hs_job *job)
{
    size_t n_bytes = 0;
    for (size_t i = 0; i < job->n_sequences && job->selection.taps; i++)
        n_bytes += hs_capture_bytes(job->sequences[i].model->shape, job->sequences[i].selection,
                                    job->sequences[i].encoding->n_tokens);
    const hs__answer answer = hs__job_describe(job);
    const hs__measures m = measures_of(job);
    const unsigned requested = hs__outputs_own(&job->analysis);
    for (unsigned kind = 0; kind < HS__OWN_COUNT; kind++)
        n_bytes += requested >> kind & 1 ? hs__own_passes_by_kind[kind]->bytes_max(&answer) : 0;
    return n_bytes + results_bytes(job) + hs__outputs_prepare_bytes(&m) +
           hs__outputs_again_bytes(&m, job->again);
}

/* Returns true if an intervention replaces a head's attention, which then is another than its queries and
 * keys give. */
static bool replaces_attention(const hs__analysis_request *analysis)
{
    for (size_t i = 0; i < analysis->n_interventions; i++)
        if (analysis->interventions[i].kind == HS_INTERVENE_UNIFORM ||
            analysis->interventions[i].kind == HS_INTERVENE_IDENTITY)
            return true;
    return false;
}

/* Lets outputs that read one map after the other compute them again if --max-maps does not allow to keep
 * them. Maps are kept if attention is replaced, and for outputs that read rectangular maps. */
static void plan_again(hs_job *job)
{
    hs__outputs repeating = hs__outputs_repeating(job->analysis.outputs);
    if (job->analysis.stack == HS_STACK_CROSS)
        repeating &= ~(HS__OUTPUT_BIT(contributions) | HS__OUTPUT_BIT(rollout) |
                       (job->analysis.head_distance == HS__DISTANCE_JS ? HS__OUTPUT_BIT(head_distances) : 0));
    if (!repeating || replaces_attention(&job->analysis) ||
        capture_bytes(job) <= job->api->options.capture_bytes_max)
        return;
    job->again = repeating;
    job->selection.taps = taps_of(job, job->analysis.outputs);
}

/* Lets outputs that read each head alone observe the pass, so that it keeps only the maps that others need.
 * Maps that the head cache would keep for the next request are kept, and maps of so few heads that each
 * thread would need as many, if --max-maps allows them. With interventions maps are kept if they fit: the
 * pass can then start in a layer whose maps the baseline has computed. */
static void plan_observed(hs_job *job)
{
    const hs__analysis_request *analysis = &job->analysis;
    hs_selection *selection = &job->selection;
    const size_t n_bytes =
        hs_capture_bytes(hs__job_model(job)->shape, selection, job->texts.text.encoding.n_tokens);
    const hs__outputs observing = hs__outputs_observing(analysis->outputs);
    const unsigned kept = taps_of(job, analysis->outputs & ~observing),
                   shown = hs__outputs_taps(analysis, observing, 0);
    const bool serves = n_bytes <= job->api->options.cache_bytes_max / 2 ||
                        selection->n_layers * selection->n_heads <= job->request->n_threads;
    const size_t n_taken = analysis->n_interventions > 0 ? capture_bytes(job) : n_bytes + results_bytes(job);
    const bool fits = n_taken <= job->api->options.capture_bytes_max;
    if (((serves || analysis->n_interventions > 0) && fits) || !(shown & ~kept))
        return;
    job->sequences[0].first_changed = 0;
    job->observed = observing;
    job->observed_taps = shown;
    selection->taps = kept | HS_KEEP(COLUMNS); /* a pass needs something to keep */
}

/* Returns the bytes of the maps that a thread of a pass shows the job's outputs. */
static size_t observed_bytes(const hs_job *job)
{
    const size_t T = job->texts.text.encoding.n_tokens,
                 K = job->selection.n_memory ? job->selection.n_memory : T;
    const unsigned taps = job->observed_taps;
    return (T * K * ((taps & HS_KEEP(ATTENTION)) != 0) + T * T * ((taps & ~HS_KEEP(ATTENTION)) != 0)) *
           sizeof(float);
}

/* Returns the bytes of the search for pairs in one map (hs_pair_pool). */
static size_t search_bytes(const hs_job *job)
{
    const size_t T = job->texts.text.encoding.n_tokens, n_all = T * (T - 1) / 2,
                 n = 4 * job->analysis.max_pairs;
    return (job->observed & HS__OUTPUT_BIT(pairs) ? n < n_all ? n : n_all : 0) * sizeof(hs_pair);
}

/* Selects the layers, heads and taps that the outputs need. */
static void plan(hs_job *job)
{
    const hs__analysis_request *analysis = &job->analysis;
    hs_selection *selection = &job->selection;
    *selection =
        (hs_selection){.layers = analysis->layers,
                       .n_layers = analysis->n_layers,
                       .heads = analysis->heads,
                       .n_heads = analysis->n_heads,
                       .taps = taps_of(job, analysis->outputs),
                       .n_memory = analysis->stack == HS_STACK_CROSS ? job->texts.encoder.n_tokens : 0};
    /* The viewer requests the outputs of single heads after the maps. Head outputs are small (d columns next
     * to 2 T), and capturing them now saves the pass of that request. */
    const unsigned maps = HS_KEEP(ATTENTION) | HS_KEEP(SIMILARITY);
    if ((selection->taps & maps) == maps && job->api->options.cache_bytes_max > 0)
        selection->taps |= HS_KEEP(HEAD_OUTPUT);
    if (hs__outputs_every_head(analysis->outputs)) {
        selection->n_heads = hs__job_model(job)->shape->n_heads;
        selection->heads = hs_all_numbers;
    }
    if (hs__outputs_every_layer(analysis->outputs)) {
        selection->n_layers = hs__job_model(job)->shape->n_layers;
        selection->layers = hs_all_numbers;
    }
    job->encoder_selection.taps = selection->taps ? HS_KEEP(LAST_STATE) : 0;
    plan_sources(job);
    plan_again(job);
    plan_observed(job);
}

/* Returns the mask of tokens that figures leave out: the special ones if requested, else NULL. A text of
 * special tokens only is always masked, because it has nothing to compare. */
static const uint8_t *masked_tokens(const hs__analysis_request *analysis, const hs_encoding *e)
{
    const bool text = memchr(e->special, 0, e->n_tokens) != NULL;
    return analysis->special_tokens || !text ? e->special : NULL;
}

/* Returns the answer without its results. */
hs__answer hs__job_describe(const hs_job *job)
{
    const hs__job_text *text = &job->texts.text;
    const hs__analysis_request *analysis = &job->analysis;
    const hs__heads *heads = job->sequences[0].heads,
                    *baseline = analysis->n_interventions ? job->sequences[1].heads : NULL,
                    *memory = job->sequences[0].source ? job->sequences[0].source->heads : NULL,
                    *other = analysis->effects_of.kind == HS_INTERVENE_PATCH
                                 ? job->sequences[job->first_source + analysis->effects_of.source].heads
                                 : NULL;
    hs__answer answer = {.model = hs__job_model(job),
                         .request = job->request,
                         .analysis = analysis,
                         .encoding = &text->encoding,
                         .windows = &text->windows,
                         .source = hs__job_model(job)->encoder ? &job->texts.encoder : NULL,
                         .reader = job->texts.reader.n_tokens ? &job->texts.reader : NULL,
                         .n_prompt = text->n_prompt,
                         .n_given = text->n_given,
                         .sentences = text->sentences,
                         .ends = text->ends,
                         .masked = masked_tokens(analysis, &text->encoding),
                         .capture = heads ? heads->capture : NULL,
                         .baseline = baseline ? baseline->capture : NULL,
                         .again = job->again,
                         .other = other ? other->capture : NULL,
                         .memory = memory ? memory->capture : NULL};
    memcpy(answer.own, job->own, sizeof answer.own);
    return answer;
}

/* Refuses a sentence vector if nothing is left to pool beside the prompt. */
static int check_pooling(hs_job *job)
{
    const hs__analysis_request *analysis = &job->analysis;
    const bool pools = analysis->outputs & HS__OUTPUT_BIT(embedding) ||
                       analysis->target.kind == HS_TARGET_VECTOR || analysis->target.kind == HS_TARGET_COSINE;
    if (!pools || job->texts.text.n_prompt < job->texts.text.encoding.n_tokens ||
        !hs__job_model(job)->architecture->sentence.without_prompt)
        return 0;
    return hs__refuse(
        &job->problem, 422, "/text",
        "the sentence vector of %s leaves out the %zu tokens of the prompt, and the text has no "
        "other; send a longer text, or prompt_name \"\"",
        hs__job_model(job)->name, job->texts.text.n_prompt);
}

/* Refuses positions of predictions and of the target beyond the text's tokens. Positions ascend. */
static int check_positions(hs_job *job)
{
    const hs__prediction_request *analysis = &job->analysis.predictions;
    const size_t n = analysis->n_positions, T = job->texts.text.encoding.n_tokens;
    if (n == 0 || analysis->positions[n - 1] < T)
        return hs__target_check(&job->analysis, job->texts.reader.n_tokens ? job->texts.reader.n_tokens : T,
                                &job->problem);
    return hs__refuse(
        &job->problem, 422, "/predictions/positions",
        "predictions: position %zu is outside the text, which has %zu tokens: allowed are 0 to %zu",
        analysis->positions[n - 1], T, T - 1);
}

static int check_reduced(hs_job *job)
{
    const hs__answer answer = hs__job_describe(job);
    return hs__reduced_check(&job->analysis, job->texts.text.encoding.n_tokens, hs__answer_keys(&answer),
                             &job->problem);
}

/* Chooses how many threads of a pass show maps, as many as fit beside n_kept bytes. Returns the bytes of
 * these maps, and of the search for pairs in each. */
static size_t slots_plan(hs_job *job, size_t n_kept)
{
    const size_t n_bytes = observed_bytes(job) + search_bytes(job),
                 limit = job->api->options.capture_bytes_max;
    const size_t n_fit = n_bytes > 0 && n_kept < limit ? (limit - n_kept) / n_bytes : 0;
    job->n_slots = n_fit < job->request->n_threads ? n_fit : job->request->n_threads;
    job->n_slots = job->n_slots > 1 ? job->n_slots : 1;
    return n_bytes * job->n_slots;
}

/* Refuses a request whose maps take more than one request may. */
static int refuse_maps(hs_job *job, size_t n_bytes, const char *hint)
{
    const size_t limit = job->api->options.capture_bytes_max, T = job->texts.text.encoding.n_tokens;
    hs_selection one = job->selection;
    one.n_layers = one.n_heads = 1;
    const size_t head =
        job->observed ? observed_bytes(job) : hs_capture_bytes(hs__job_model(job)->shape, &one, T);
    char keeping[400];
    const bool keeps = *hs__outputs_keeping(&job->analysis, job->again, keeping, sizeof keeping);
    return hs__refuse(&job->problem, 422, NULL,
                      "computing the heads would take %.1f MB of memory, the limit is %.1f MB: %s. Of %zu "
                      "tokens one head takes %.1f MB%s%s%s; --max-maps raises the limit",
                      (double)n_bytes / 1e6, (double)limit / 1e6, hint, T, (double)head / 1e6,
                      keeps ? ", and the maps of all heads are kept for " : "", keeping,
                      keeps && replaces_attention(&job->analysis)
                          ? ", since interventions uniform and identity replace attention"
                          : "");
}

/* Refuses a request whose answer or heads could exceed the limits, before any pass. */
static int check_limits(hs_job *job)
{
    const hs_api_options *options = &job->api->options;
    const char *hint =
        job->analysis.outputs & HS__OUTPUT_BIT(value_zeroing)
            ? "value_zeroing computes a layer once for each token, so ask for a smaller max_tokens"
            : "ask for fewer layers, heads or outputs, or a smaller max_tokens";
    const size_t kept = capture_bytes(job);
    const size_t capture = kept + slots_plan(job, kept);
    const size_t answer =
        hs__answer_bytes_max(&job->analysis, job->format, hs__job_model(job), &job->texts.text.encoding,
                             &job->texts.encoder, job->request->body_bytes);
    if (answer > options->answer_bytes_max)
        return hs__refuse(&job->problem, 422, NULL,
                          "the answer could take %.1f MB, the limit is %.1f MB: %s%s", (double)answer / 1e6,
                          (double)options->answer_bytes_max / 1e6, hint,
                          job->format == HS__JSON ? ", fewer digits, or for the format npz"
                          : hs__format_is_figure(job->format) || job->analysis.dtype != HS__DTYPE_F4
                              ? ""
                              : ", or dtype f2 or u1");
    if (capture > options->capture_bytes_max)
        return refuse_maps(job, capture, hint);
    job->answer_bytes_max = answer;
    if (hs__job_reserve(job, capture))
        return job->problem.status;
    job->over_budget = job->request->hold && !job->request->hold(job->request->hold_data, answer);
    if (job->over_budget)
        return hs__refuse(&job->problem, 503, NULL,
                          "no memory for %.1f MB more until clients read earlier answers: try again later",
                          (double)answer / 1e6);
    return 0;
}

/* Refuses interventions that the passes would refuse, which other requests may share. */
static int check_interventions(hs_job *job)
{
    const hs__analysis_request *analysis = &job->analysis;
    const hs__served_model *model = analysis->model;
    const size_t n_own = analysis->n_own_interventions, n_other = analysis->n_interventions - n_own;
    hs_status st = hs_interventions_check(model->shape, analysis->interventions, n_own, &job->error);
    if (!st && n_other)
        st = hs_interventions_check(model->encoder->shape, analysis->interventions + n_own, n_other,
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
    return job->analysis.max_new_tokens > 0 || hs__outputs_own(&job->analysis);
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
    if (hs__figure_prepare(&job->analysis, hs__format_is_figure(job->format), problem) ||
        (job->format != HS__JSON && !hs__format_is_figure(job->format) &&
         hs__outputs_check_dtype(&job->analysis, problem)) ||
        hs__outputs_check_interventions(&job->analysis, problem) ||
        hs__outputs_check_stack(&job->analysis, problem) || check_interventions(job) ||
        hs__effects_of_check(&job->analysis, hs__target_model(&job->analysis)->architecture, problem) ||
        check_beside(job) || texts_read(job) || check_pooling(job) || check_positions(job) ||
        check_reduced(job))
        return;
    plan(job);
    if (check_limits(job) || !job->selection.taps)
        return;
    /* Only a pass shows maps to outputs that observe it. */
    for (size_t i = job->observed ? 1 : 0; i < job->n_sequences; i++) {
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
