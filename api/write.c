/* write.c - lets the model of a request write its text: max_new_tokens. */
#include "api/internal.h"

#include "engine/analysis/generate.h"
#include "model/base/clock.h"

#include <stdlib.h>
#include <string.h>

/* Returns the language that the model writes first, where transformers has forced_bos_token_id. -1: none is
 * named, or it is the start token and no other one would follow. */
static int32_t first_language(const hs_job *job)
{
    const hs__served_model *decoder = job->analysis.model;
    const int32_t language = job->analysis.target_language,
                  forced = decoder->architecture->generation.forced_first;
    char code[HS_LANGUAGE_BYTES];
    if (!language)
        return -1;
    const bool starts = hs_target_start(decoder->model, job->analysis.target_language) == language &&
                        !hs_tokenizer_language_code(hs_model_tokenizer(decoder->model), forced, code);
    return starts ? -1 : language;
}

/* Returns the tokens that the model has before it writes: of a decoder its start token and those of the
 * request. */
static size_t given_count(const hs_job *job)
{
    const hs__analysis_request *analysis = &job->analysis;
    return analysis->model->encoder ? 1 + analysis->decoder_input.n_ids : job->texts.text.rows.n_tokens;
}

static void given_copy(const hs_job *job, int32_t *ret_ids)
{
    const hs__analysis_request *analysis = &job->analysis;
    const hs__input *target = &analysis->decoder_input;
    const hs_encoding *e = &job->texts.text.rows;
    if (!analysis->model->encoder) {
        memcpy(ret_ids, e->ids, e->n_tokens * sizeof *ret_ids);
        return;
    }
    ret_ids[0] = hs_target_start(analysis->model->model, analysis->target_language);
    if (target->n_ids > 0)
        memcpy(ret_ids + 1, target->ids, target->n_ids * sizeof *ret_ids);
}

/* Refuses more tokens than the text may have. max_tokens does not count for ids. */
static int check_length(hs_job *job, size_t n_given)
{
    const hs__analysis_request *analysis = &job->analysis;
    const size_t n = analysis->max_new_tokens, n_positions = analysis->model->shape->n_positions;
    const bool ids = hs__input_of_rows(analysis)->ids;
    const char *what = analysis->model->encoder ? "target" : "text";
    if (n_given + n > n_positions)
        return hs__refuse(&job->problem, 422, "/max_new_tokens",
                          "max_new_tokens is %zu, and the %s has %zu tokens before them; %s takes %zu tokens "
                          "in all",
                          n, what, n_given, analysis->model->name, n_positions);
    if (ids || n_given + n <= analysis->max_tokens)
        return 0;
    return hs__refuse(&job->problem, 422, "/max_new_tokens",
                      "max_new_tokens is %zu, and the %s has %zu tokens before them: together more than "
                      "max_tokens, %zu; send a larger max_tokens or fewer new tokens",
                      n, what, n_given, analysis->max_tokens);
}

/* Finds or computes the last states of the text that a decoder reads. They are kept for the pass that
 * follows, if the head cache keeps them. */
static hs_status memory_find(hs_job *job, const hs_run_control *control, hs__heads **ret_heads)
{
    const hs_selection selection = {.taps = HS_KEEP(LAST_STATE)};
    const hs__job_sequence encoder = {
        .model = job->analysis.model->encoder, .encoding = &job->texts.text.memory, .selection = &selection};
    const hs__heads_key key = hs__job_key(job, &encoder);
    const hs_engine *engine = encoder.model->engine;
    *ret_heads = hs__head_cache_find(job->api->cache, &key, &selection);
    if (*ret_heads)
        return HS_OK;
    const double start = hs_clock_ms();
    hs_sequence sequence = {.ids = key.ids, .n_tokens = key.n_tokens};
    hs_status st = hs_capture_create(hs_engine_runtime(engine), encoder.model->shape, &selection,
                                     key.n_tokens, &sequence.capture, &job->error);
    if (st)
        return st;
    hs_workspace *ws = hs__workspace_take(job->api, encoder.model);
    st = hs_engine_compute(engine, ws, &sequence, 1, NULL, control, &job->error);
    hs__workspace_return(job->api, encoder.model, ws);
    if (st) {
        hs_capture_destroy(sequence.capture);
        return st;
    }
    job->n_tokens_computed += key.n_tokens;
    *ret_heads = hs__head_cache_add(job->api->cache, &key, sequence.capture, hs_clock_ms() - start);
    return *ret_heads ? HS_OK : hs_fail(&job->error, HS_NO_MEMORY, "no memory for the states of the source");
}

/* Extends ids from n_given tokens to *ret_n, at most n_max. */
static hs_status write_ids(hs_job *job, int32_t *ids, size_t n_given, size_t n_max, size_t *ret_n)
{
    hs__served_model *model = job->analysis.model;
    const hs_run_control control = {.cancelled = job->request->cancelled,
                                    .n_threads = job->request->n_threads};
    hs__heads *heads = NULL;
    hs_status st = model->encoder ? memory_find(job, &control, &heads) : HS_OK;
    if (st)
        return st;
    const hs_capture *source = heads ? heads->capture : NULL;
    hs_workspace *ws = hs__workspace_take(job->api, model);
    st =
        hs_generate(model->engine, ws, ids, n_given, n_max, source ? source->arrays[HS_TAP_LAST_STATE] : NULL,
                    source ? source->n_tokens : 0, first_language(job), &control, ret_n, &job->error);
    hs__workspace_return(job->api, model, ws);
    hs__heads_release(job->api->cache, heads);
    if (!st)
        job->n_tokens_computed += *ret_n - 1; /* no pass reads the last one */
    return st;
}

/* Takes the memory that writing needs, or refuses. */
static int reserve(hs_job *job, size_t n_max)
{
    const hs__served_model *model = job->analysis.model;
    const size_t n_source = model->encoder ? job->texts.text.memory.n_tokens : 0, limit = job->bytes_max;
    const size_t n_bytes = hs_generate_bytes(model->architecture, n_max, n_source) +
                           n_source * model->shape->hidden * sizeof(float);
    if (n_bytes <= limit)
        return hs__job_reserve(job, n_bytes, 0);
    return hs__refuse(&job->problem, 422, "/max_new_tokens",
                      "the keys and values of %zu tokens would take %.1f MB of memory, the limit is %.1f MB: "
                      "send a shorter text or fewer new tokens; --max-maps raises the limit",
                      n_max + n_source, (double)n_bytes / 1e6, (double)limit / 1e6);
}

/* Replaces an input by ids, which it owns then. */
static void input_replace(hs__input *input, int32_t *ids, size_t n_ids)
{
    free(input->words);
    free(input->ids);
    free(input->types);
    *input = (hs__input){.ids = ids, .n_ids = n_ids};
}

int hs__job_write(hs_job *job)
{
    hs__analysis_request *analysis = &job->analysis;
    const bool decodes = analysis->model->encoder;
    const size_t n_given = given_count(job), n_max = n_given + analysis->max_new_tokens;
    size_t n = 0;
    job->crowded = job->request->beside;
    if (job->crowded)
        return hs__refuse(&job->problem, 503, NULL,
                          "other requests would wait while the model writes: send it again later");
    if (check_length(job, n_given) || reserve(job, n_max))
        return job->problem.status;
    const double start = hs_clock_ms();
    int32_t *ids = malloc(n_max * sizeof *ids);
    if (!ids)
        return hs__job_refuse_memory(job, "the tokens");
    given_copy(job, ids);
    const hs_status st = write_ids(job, ids, n_given, n_max, &n);
    hs__job_release(job);
    job->stage_ms[HS_STAGE_FORWARD] += hs_clock_ms() - start;
    if (st) {
        free(ids);
        return hs__job_refuse(job);
    }
    if (decodes)
        memmove(ids, ids + 1, (n - 1) * sizeof *ids);
    input_replace(decodes ? &analysis->decoder_input : &analysis->input, ids, n - decodes);
    job->texts.text.n_given = n_given;
    return 0;
}
