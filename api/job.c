/* job.c - one request from bytes to bytes, in the three steps of api.h.
 *
 * A job owns a list of sequences; a request for one text is the case of one. Those that the head cache does
 * not have wait for a pass, which may be shared with other jobs'. */
#include "api/answer_models.h"
#include "api/answer_write.h"
#include "api/formats/gzip.h"
#include "api/output_structures.h"
#include "model/clock.h"
#include "model/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The tokens of one text. */
typedef struct job_text {
    hs_encoding encoding;
    int32_t *sentences; /* [T]; the block holds ends too */
    uint8_t *ends;      /* [T]: 1 where a sentence ends */
} job_text;

/* A text through the model, changed or not. */
typedef struct job_sequence {
    const hs_encoding *encoding;
    const hs_intervention *interventions;
    size_t n_interventions;
    size_t first_changed; /* layer; 0 where nothing is changed */
    hs__heads *heads;     /* a reference; NULL until found or computed */
} job_sequence;

struct hs_job {
    hs_api *api;
    const hs_request *request;
    hs__problem problem; /* status 0: none so far */
    hs_error error;
    hs__answer_format format;
    hs__analysis_request wanted;
    job_text text;
    job_sequence sequences[2]; /* what is answered, and with interventions the baseline beside it */
    size_t n_sequences;
    uint16_t all_layers[HS_LAYERS_MAX], all_heads[HS_HEADS_MAX];
    hs_effect *effects;     /* owned; NULL until computed */
    hs_selection selection; /* what each sequence's capture must hold; taps 0: no pass is needed */
    bool unheld;            /* refused for want of room for its answer */
    size_t n_tokens_computed;
    double stage_ms[HS_STAGE_COUNT];
};

static const hs__served_model *job_model(const hs_job *job)
{
    return &job->api->models[job->wanted.model];
}

/* ---- prepare ---- */

static int refuse_error(hs_job *job)
{
    return hs__refuse(&job->problem, hs__http_status(job->error.status), NULL, "%s", job->error.text);
}

static int refuse_memory(hs_job *job, const char *what)
{
    hs_fail(&job->error, HS_NO_MEMORY, "no memory for %s", what);
    return refuse_error(job);
}

static bool ends_sentence(const hs__analysis_request *wanted, const hs_encoding *encoding, size_t i)
{
    if (!wanted->has_sentence_ends)
        return encoding->roles[i] == HS_ROLE_SENTENCE_END;
    for (size_t k = 0; k < wanted->n_sentence_ends; k++)
        if (wanted->sentence_ends[k] == encoding->ids[i])
            return true;
    return false;
}

/* Of whichever input there is. */
static hs_status encode_input(const hs_job *job, hs_encoding *ret_encoding, hs_error *err)
{
    const hs__analysis_request *wanted = &job->wanted;
    const hs_tokenizer *tokenizer = hs_model_tokenizer(job_model(job)->model);
    const hs_encode_options options = {wanted->max_tokens, wanted->split_special_tokens};
    if (wanted->input_ids)
        return hs_tokenizer_encode_ids(tokenizer, wanted->input_ids, wanted->token_type_ids, wanted->n_ids,
                                       ret_encoding, err);
    if (wanted->words)
        return hs_tokenizer_encode_words(tokenizer, wanted->words, wanted->n_words, &options, ret_encoding,
                                         err);
    return hs_tokenizer_encode(tokenizer, &wanted->text, wanted->text_pair.bytes ? &wanted->text_pair : NULL,
                               &options, ret_encoding, err);
}

/* The first layer in which any of them changes something. */
static size_t first_changed(const hs_intervention *interventions, size_t n)
{
    size_t first = n > 0 ? interventions[0].layers[0] : 0;
    for (size_t i = 1; i < n; i++)
        first = interventions[i].layers[0] < first ? interventions[i].layers[0] : first;
    return first;
}

static int tokenize(hs_job *job)
{
    const hs__analysis_request *wanted = &job->wanted;
    job_text *text = &job->text;
    if (encode_input(job, &text->encoding, &job->error))
        return refuse_error(job);
    const hs_encoding *e = &text->encoding;
    text->sentences = malloc(e->n_tokens * (sizeof *text->sentences + 1));
    if (!text->sentences)
        return refuse_memory(job, "the sentences");
    text->ends = (uint8_t *)(text->sentences + e->n_tokens);
    for (size_t i = 0; i < e->n_tokens; i++)
        text->ends[i] = ends_sentence(wanted, e, i);
    hs_sentences_find(text->ends, e->texts, e->special, e->n_tokens, text->sentences);
    job->sequences[job->n_sequences++] =
        (job_sequence){.encoding = e,
                       .interventions = wanted->interventions,
                       .n_interventions = wanted->n_interventions,
                       .first_changed = first_changed(wanted->interventions, wanted->n_interventions)};
    if (wanted->n_interventions)
        job->sequences[job->n_sequences++] = (job_sequence){.encoding = e};
    return 0;
}

static const uint16_t *count_up(uint16_t *ret_numbers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ret_numbers[i] = (uint16_t)i;
    return ret_numbers;
}

/* What the outputs need of the pass. */
static void plan(hs_job *job)
{
    const hs__analysis_request *wanted = &job->wanted;
    hs_selection *selection = &job->selection;
    *selection = (hs_selection){wanted->layers, wanted->n_layers, wanted->heads, wanted->n_heads,
                                hs__outputs_taps(wanted)};
    if (wanted->predictions.lens)
        selection->taps |= HS_KEEP(EVERY_STATE);
    /* Who sees every head of a text looks at one of them next, outputs included (the viewer does): kept
     * along, d columns beside two times T, they spare that request a pass. */
    const unsigned maps = HS_KEEP(ATTENTION) | HS_KEEP(SIMILARITY);
    if ((selection->taps & maps) == maps && job->api->options.cache_bytes_max > 0)
        selection->taps |= HS_KEEP(HEAD_OUTPUT);
    if (hs__outputs_every_head(wanted->outputs)) {
        selection->n_heads = job_model(job)->shape->n_heads;
        selection->heads = count_up(job->all_heads, selection->n_heads);
    }
    if (hs__outputs_every_layer(wanted->outputs)) {
        selection->n_layers = job_model(job)->shape->n_layers;
        selection->layers = count_up(job->all_layers, selection->n_layers);
    }
}

/* Left out of every figure: special tokens where that is asked for. A text of nothing else has nothing to
 * compare, so there they always are. */
static const uint8_t *masked_tokens(const hs__analysis_request *wanted, const hs_encoding *e)
{
    const bool text = memchr(e->special, 0, e->n_tokens) != NULL;
    return wanted->special_tokens || !text ? e->special : NULL;
}

/* What there is of an answer so far. */
static hs__answer answer_describe(const hs_job *job)
{
    const job_text *text = &job->text;
    const hs__heads *heads = job->sequences[0].heads, *baseline = job->sequences[1].heads;
    return (hs__answer){.model = job_model(job),
                        .request = job->request,
                        .wanted = &job->wanted,
                        .encoding = &text->encoding,
                        .sentences = text->sentences,
                        .ends = text->ends,
                        .masked = masked_tokens(&job->wanted, &text->encoding),
                        .capture = heads ? heads->capture : NULL,
                        .baseline = baseline ? baseline->capture : NULL,
                        .effects = job->effects};
}

static size_t answer_bytes_max(const hs_job *job)
{
    return hs__answer_bytes_max(&job->wanted, job->format, job_model(job), &job->text.encoding,
                                job->request->body_bytes);
}

static size_t capture_bytes(const hs_job *job)
{
    size_t n_bytes = 0;
    for (size_t i = 0; i < job->n_sequences && job->selection.taps; i++)
        n_bytes +=
            hs_capture_bytes(job_model(job)->shape, &job->selection, job->sequences[i].encoding->n_tokens);
    const hs__answer answer = answer_describe(job);
    return n_bytes + (hs__outputs_by_passes(job->wanted.outputs) ? hs__effects_bytes(&answer) : 0);
}

/* Refuses a position that the text, now that its tokens are known, does not have. They ascend. */
static int check_positions(hs_job *job)
{
    const hs__prediction_request *wanted = &job->wanted.predictions;
    const size_t n = wanted->n_positions, T = job->text.encoding.n_tokens;
    if (n == 0 || wanted->positions[n - 1] < T)
        return 0;
    return hs__refuse(&job->problem, 422, "/predictions/positions",
                      "predictions: position %zu is asked for, the text has %zu tokens",
                      wanted->positions[n - 1], T);
}

/* Refuses before computing what could not be sent or held. */
static int check_limits(hs_job *job)
{
    const hs_api_options *options = &job->api->options;
    const char *hint = "ask for fewer layers, heads or outputs, or a smaller max_tokens";
    const size_t answer = answer_bytes_max(job), capture = capture_bytes(job);
    if (answer > options->answer_bytes_max)
        return hs__refuse(&job->problem, 422, NULL,
                          "the answer could take %.1f MB, the limit is %.1f MB: %s%s", (double)answer / 1e6,
                          (double)options->answer_bytes_max / 1e6, hint,
                          job->format == HS__JSON             ? ", fewer digits, or for ?format=npz"
                          : job->wanted.dtype == HS__DTYPE_F4 ? ", or dtype f2 or u1"
                                                              : "");
    if (capture > options->capture_bytes_max)
        return hs__refuse(&job->problem, 422, NULL,
                          "the heads would take %.1f MB while they are computed, the limit is %.1f MB: %s",
                          (double)capture / 1e6, (double)options->capture_bytes_max / 1e6, hint);
    job->unheld = job->request->hold && !job->request->hold(job->request->hold_data, answer);
    if (job->unheld)
        return hs__refuse(&job->problem, 503, NULL,
                          "%.1f MB more cannot be held just now: earlier answers were not read yet",
                          (double)answer / 1e6);
    return 0;
}

static hs__heads_key sequence_key(const hs_job *job, const job_sequence *s)
{
    return (hs__heads_key){.model = job->wanted.model,
                           .ids = s->encoding->ids,
                           .types = s->encoding->types,
                           .n_tokens = s->encoding->n_tokens,
                           .interventions = s->interventions,
                           .n_interventions = s->n_interventions};
}

static void prepare_analyze(hs_job *job)
{
    const hs_request *request = job->request;
    hs__problem *problem = &job->problem;
    bool hooks = false;
    if (hs__format_choose(request->query, request->accept, &job->format, &hooks, problem) ||
        hs__content_type_check(request->content_type, problem) ||
        hs__analysis_request_read(job->api, request, false, &job->wanted, problem) ||
        (job->format != HS__JSON && hs__outputs_check_dtype(&job->wanted, problem)) || tokenize(job) ||
        check_positions(job))
        return;
    job->wanted.hooks = hooks;
    plan(job);
    if (check_limits(job) || !job->selection.taps)
        return;
    for (size_t i = 0; i < job->n_sequences; i++) {
        const hs__heads_key key = sequence_key(job, &job->sequences[i]);
        job->sequences[i].heads = hs__head_cache_find(job->api->cache, &key, &job->selection);
    }
}

static void prepare_tokenize(hs_job *job)
{
    const hs_request *request = job->request;
    hs__answer_format format;
    if (hs__format_choose(request->query, NULL, &format, NULL, &job->problem))
        return;
    if (format != HS__JSON)
        hs__refuse(&job->problem, 406, NULL, "this path answers application/json only");
    else if (!hs__json_accepted(request->accept, &job->problem) &&
             !hs__content_type_check(request->content_type, &job->problem) &&
             !hs__analysis_request_read(job->api, request, true, &job->wanted, &job->problem))
        tokenize(job);
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
    job->stage_ms[HS_STAGE_TOKENIZE] = hs_clock_ms() - start;
    return job;
}

void hs_job_destroy(hs_job *job)
{
    if (!job)
        return;
    for (size_t i = 0; i < job->n_sequences; i++) {
        hs__heads_release(job->api->cache, job->sequences[i].heads);
    }
    hs_encoding_finish(&job->text.encoding);
    free(job->text.sentences);
    hs__analysis_request_finish(&job->wanted);
    free(job->effects);
    free(job);
}

static bool effects_pending(const hs_job *job)
{
    return !job->problem.status && hs__outputs_by_passes(job->wanted.outputs) && !job->effects;
}

/* Whether a pass must still compute it. */
static bool is_pending(const hs_job *job, const job_sequence *s)
{
    return !job->problem.status && job->selection.taps && !s->heads;
}

size_t hs_job_tokens(const hs_job *job)
{
    size_t n_tokens = 0;
    for (size_t i = 0; i < job->n_sequences; i++)
        n_tokens += is_pending(job, &job->sequences[i]) ? job->sequences[i].encoding->n_tokens : 0;
    return effects_pending(job) ? hs_job_room(job) : n_tokens;
}

size_t hs_job_bytes(const hs_job *job)
{
    return job->problem.status ? 0 : capture_bytes(job) + answer_bytes_max(job);
}

bool hs_job_unheld(const hs_job *job)
{
    return job->unheld;
}

size_t hs_job_model(const hs_job *job)
{
    return job->wanted.model;
}

size_t hs_job_room(const hs_job *job)
{
    return job_model(job)->shape->n_positions;
}

size_t hs_job_layers(const hs_job *job)
{
    const hs_selection *selection = &job->selection;
    if (selection->taps & (HS_KEEP(LAST_STATE) | HS_KEEP(EVERY_STATE)))
        return job_model(job)->shape->n_layers;
    return selection->n_layers ? (size_t)selection->layers[selection->n_layers - 1] + 1 : 0;
}

/* ---- run ---- */

#define PASS_MAX 64 /* sequences of one pass */

/* One sequence of a pass, and whose it is. */
typedef struct pass_part {
    hs_job *job;
    job_sequence *sequence;
} pass_part;

/* Layers that a sequence shares with its job's baseline, and so waits for. */
static bool is_ready(const hs_job *job, const job_sequence *s)
{
    return is_pending(job, s) && (s->first_changed == 0 || job->sequences[1].heads);
}

/* What still waits for a pass from the same layer on, as far as it fits. Returns how many sequences; 0:
 * nothing is left. */
static size_t pass_fill(hs_job *const *jobs, size_t n_jobs, pass_part parts[PASS_MAX])
{
    size_t n = 0, n_tokens = 0;
    for (size_t i = 0; i < n_jobs; i++) {
        for (size_t k = 0; k < jobs[i]->n_sequences; k++) {
            job_sequence *s = &jobs[i]->sequences[k];
            const size_t T = s->encoding->n_tokens;
            if (!is_ready(jobs[i], s) || n == PASS_MAX || n_tokens + T > hs_job_room(jobs[i]) ||
                (n > 0 &&
                 (n_tokens + T > HS_SHARED_TOKENS || s->first_changed != parts[0].sequence->first_changed)))
                continue;
            parts[n++] = (pass_part){jobs[i], s};
            n_tokens += T;
        }
    }
    return n;
}

/* Where a sequence goes on from its job's baseline: interventions are answered with the change of all states,
 * so these are kept. */
static hs_start start_of(const pass_part *part)
{
    const size_t layer = part->sequence->first_changed;
    return (hs_start){
        .layer = layer,
        .state = hs_capture_at(part->job->sequences[1].heads->capture, HS_TAP_HIDDEN_STATE, layer, 0)};
}

static hs_status pass_run(const pass_part *parts, size_t n, hs_api_worker *worker,
                          const hs_run_control *control, hs_sequence *sequences, hs_error *err)
{
    const hs_job *first = parts[0].job;
    const hs_engine *engine = job_model(first)->engine;
    const hs_shape *shape = hs_engine_shape(engine);
    hs_start starts[PASS_MAX];
    hs_plan plan;
    hs_status st = HS_OK;
    for (size_t i = 0; i < n && !st; i++) {
        const hs_encoding *e = parts[i].sequence->encoding;
        const bool shares = parts[i].sequence->first_changed > 0;
        if (shares)
            starts[i] = start_of(&parts[i]);
        sequences[i] = (hs_sequence){.ids = e->ids,
                                     .types = shape->n_types ? e->types : NULL,
                                     .n_tokens = e->n_tokens,
                                     .interventions = parts[i].sequence->interventions,
                                     .n_interventions = parts[i].sequence->n_interventions,
                                     .start = shares ? &starts[i] : NULL};
        st = hs_capture_create(hs_engine_runtime(engine), shape, &parts[i].job->selection, e->n_tokens,
                               &sequences[i].capture, err);
    }
    if (!st)
        st = hs_plan_make(hs_engine_recipe(engine), sequences, n, NULL, &plan, err);
    return st ? st : hs_engine_run(engine, worker->workspaces[first->wanted.model], &plan, control, err);
}

/* Takes what was computed over. share: of the pass's time. */
static void part_finish(const pass_part *part, hs_capture *capture, double forward_ms, double share)
{
    hs_job *job = part->job;
    const hs__heads_key key = sequence_key(job, part->sequence);
    if (part->sequence->first_changed > 0)
        hs_capture_copy_below(job->sequences[1].heads->capture, capture, part->sequence->first_changed);
    job->n_tokens_computed += part->sequence->encoding->n_tokens;
    job->stage_ms[HS_STAGE_FORWARD] += forward_ms;
    part->sequence->heads = hs__head_cache_add(job->api->cache, &key, capture, forward_ms * share);
    if (!part->sequence->heads)
        refuse_memory(job, "the heads");
}

static void run_one_pass(const pass_part *parts, size_t n, hs_api_worker *worker,
                         const hs_run_control *control)
{
    const double start = hs_clock_ms();
    hs_sequence sequences[PASS_MAX] = {0};
    hs_error err = {0};
    const hs_status st = pass_run(parts, n, worker, control, sequences, &err);
    const double forward_ms = hs_clock_ms() - start;
    size_t n_tokens = 0;
    for (size_t i = 0; i < n; i++)
        n_tokens += parts[i].sequence->encoding->n_tokens;
    for (size_t i = 0; i < n; i++) {
        const double share = (double)parts[i].sequence->encoding->n_tokens / (double)n_tokens;
        if (!st) {
            part_finish(&parts[i], sequences[i].capture, forward_ms, share);
            continue;
        }
        hs_capture_destroy(sequences[i].capture);
        hs_fail(&parts[i].job->error, st, "%s", err.text);
        refuse_error(parts[i].job);
    }
}

/* Passes of its own, which end when their own client leaves. */
static void effects_run(hs_job *job, hs_api_worker *worker, const hs_run_control *control)
{
    const double start = hs_clock_ms();
    const hs__answer answer = answer_describe(job);
    const hs_run_control own = {.cancelled =
                                    job->request->cancelled ? job->request->cancelled : control->cancelled,
                                .n_threads = control->n_threads};
    job->effects = malloc(job->wanted.n_layers * job->wanted.n_heads * sizeof *job->effects);
    if (!job->effects)
        refuse_memory(job, "effects");
    else if (hs__effects_run(&answer, worker->workspaces[job->wanted.model], &own, job->effects, &job->error))
        refuse_error(job);
    job->stage_ms[HS_STAGE_FORWARD] += hs_clock_ms() - start;
}

void hs_job_run(hs_api_worker *worker, hs_job *const *jobs, size_t n_jobs, const hs_run_control *control)
{
    static const hs_run_control alone = {0};
    pass_part parts[PASS_MAX];
    control = control ? control : &alone;
    /* Ends: each round computes its sequences or refuses their jobs. */
    for (size_t n; (n = pass_fill(jobs, n_jobs, parts));)
        run_one_pass(parts, n, worker, control);
    for (size_t i = 0; i < n_jobs; i++)
        if (effects_pending(jobs[i]))
            effects_run(jobs[i], worker, control);
}

/* ---- answer ---- */

static hs_status analyze(hs_job *job, hs__answer *answer)
{
    const double start = hs_clock_ms();
    *answer = answer_describe(job);
    hs_status st = hs__answer_init(answer, &job->error);
    if (!st && answer->capture)
        st = hs__outputs_compute(answer, &job->error);
    job->stage_ms[HS_STAGE_ANALYZE] = hs_clock_ms() - start;
    return st;
}

/* Room for the longest answer at once: nothing is copied for growth, untouched pages cost nothing. */
static void body_begin(const hs_job *job, hs__buffer *body)
{
    hs_runtime *runtime = hs_engine_runtime(job_model(job)->engine);
    body->data = hs_runtime_block_take(runtime, answer_bytes_max(job), &body->capacity);
    body->failed = !body->data;
}

static hs_status encode(hs_job *job, const hs__answer *answer, hs__buffer *body)
{
    hs_status st = HS_OK;
    if (job->request->operation == HS_TOKENIZE) {
        hs__answer_write_tokens(body, answer);
    } else if (job->format == HS__JSON) {
        body_begin(job, body);
        hs__answer_write_json(body, answer);
    } else {
        body_begin(job, body);
        st = job->format == HS__NPZ ? hs__answer_write_npz(body, answer, &job->error)
                                    : hs__answer_write_safetensors(body, answer, &job->error);
    }
    if (!st && hs__answer_cancelled(answer))
        return hs_fail(&job->error, HS_CANCELLED, "cancelled");
    if (!st && body->failed)
        return hs_fail(&job->error, HS_NO_MEMORY, "no memory for the answer");
    return st;
}

/* Of the time that computing the heads took, how much compressing the answer may add. */
#define GZIP_SHARE 0.25

/* Smaller ones malloc keeps itself. */
#define KEPT_BYTES_MIN ((size_t)4 << 20)

/* Gives unused memory back, but for addresses of what is kept. */
static void trim(hs__buffer *body, hs_response *response)
{
    if (body->size < KEPT_BYTES_MIN) {
        hs__buffer_fit(body);
    } else {
        hs_memory_trim(body->data, body->size, body->capacity);
        response->body_room = body->capacity;
    }
    response->body = body->data;
    response->body_bytes = body->size;
}

/* Compresses where the client takes it and it adds little. */
static void pack(hs_job *job, hs__buffer *body, hs_response *response)
{
    if (job->format == HS__JSON) {
        response->vary_encoding = true;
        const hs__heads *heads = job->sequences[0].heads;
        const double forward_ms = heads ? heads->forward_ms : 0;
        if (hs_gzip_accepted(job->request->accept_encoding) &&
            hs__gzip(body, GZIP_SHARE * (forward_ms + job->stage_ms[HS_STAGE_ANALYZE])))
            response->content_encoding = "gzip";
    }
    trim(body, response);
}

static void answer_texts(hs_job *job, hs_response *response)
{
    hs__answer answer;
    hs__buffer body = {0};
    hs_status st = analyze(job, &answer);
    const double start = hs_clock_ms();
    if (!st)
        st = encode(job, &answer, &body);
    hs__outputs_finish(&answer);
    if (st) {
        hs__buffer_finish(&body);
        refuse_error(job);
    } else {
        response->status = 200;
        response->content_type = hs__format_media_type(job->format);
        pack(job, &body, response);
    }
    job->stage_ms[HS_STAGE_ENCODE] = hs_clock_ms() - start;
}

static void answer_json(hs_job *job, hs_response *response)
{
    hs__buffer body = {0};
    if (job->request->operation == HS_MODELS)
        hs__models_write(&body, job->api);
    else
        hs__buffer_add(&body, hs__openapi_json, hs__openapi_json_bytes);
    if (body.failed) {
        hs__buffer_finish(&body);
        refuse_memory(job, "the answer");
        return;
    }
    response->status = 200;
    response->content_type = "application/json";
    pack(job, &body, response);
}

void hs_job_answer(hs_job *job, hs_response *ret_response)
{
    *ret_response = (hs_response){0};
    if (!job->problem.status) {
        if (job->request->operation == HS_ANALYZE || job->request->operation == HS_TOKENIZE)
            answer_texts(job, ret_response);
        else
            answer_json(job, ret_response);
    }
    if (job->problem.status) {
        if (job->problem.status == 500) {
            hs_fail(&job->error, HS_NO_MEMORY, "%s", job->problem.detail);
            ret_response->error = job->error;
            snprintf(job->problem.detail, sizeof job->problem.detail,
                     "something went wrong on our side; the log says more under this request_id");
        }
        hs__problem_write(&job->problem, job->request->id, ret_response);
    }
    memcpy(ret_response->stage_ms, job->stage_ms, sizeof job->stage_ms);
    ret_response->n_tokens = job->n_tokens_computed;
    ret_response->model = job->n_sequences ? job_model(job)->name : NULL;
}
