/* decoder_texts.c - encodes the two texts of a record, and keeps the encoder's states of the first for the
 * decoder. */
#include "server/corpus/decoder_texts.h"

#include "model/base/sizes.h"

#include <stdlib.h>

/* ---- tokens ---- */

hs_status hs__decoder_texts_encode(const hs__corpus_job *job, const hs_text *source, const hs_text *target,
                                   size_t max_tokens, hs_encoding *ret_source, hs_encoding *ret_target,
                                   hs_error *err)
{
    const hs_field_values *fields = &job->settings.fields;
    const size_t n_source = hs_min(max_tokens, hs_engine_shape(job->encoder)->n_positions),
                 n_target = hs_min(max_tokens, hs_engine_shape(job->engine)->n_positions);
    const hs_encode_options of_source = {.tokens_max = n_source,
                                         .split_special_tokens = fields->split_special_tokens,
                                         .language = fields->source_language},
                            of_target = {.tokens_max = n_target,
                                         .split_special_tokens = fields->split_special_tokens,
                                         .language = fields->target_language};
    *ret_source = *ret_target = (hs_encoding){0};
    hs_status st =
        hs_tokenizer_encode(hs_model_tokenizer(job->model), source, NULL, &of_source, ret_source, err);
    if (st)
        return st;
    st = hs_target_encode(job->model, target, &of_target, ret_target, err);
    if (st)
        hs_encoding_finish(ret_source);
    return st;
}

/* ---- states ---- */

struct hs__source_states {
    const hs__corpus_job *job;
    hs_workspace *workspace;
    hs_capture *captures[HS_CORPUS_BATCH]; /* reused for sources of the same length */
};

static const hs_selection selection = {.taps = HS_KEEP(LAST_STATE)};

hs_status hs__source_states_create(const hs__corpus_job *job, size_t n_texts, size_t max_tokens,
                                   hs__source_states **ret, hs_error *err)
{
    hs__source_states *states = calloc(1, sizeof *states);
    if (!states)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the texts that the decoder reads");
    states->job = job;
    const hs_status st = hs_workspace_create(job->encoder, n_texts * max_tokens, &states->workspace, err);
    if (st)
        free(states);
    else
        *ret = states;
    return st;
}

void hs__source_states_destroy(hs__source_states *states)
{
    for (size_t k = 0; states && k < HS_CORPUS_BATCH; k++)
        hs_capture_destroy(states->captures[k]);
    if (states)
        hs_workspace_destroy(states->workspace);
    free(states);
}

uint64_t hs__source_states_bytes(const hs__corpus_job *job, size_t n_texts, size_t max_tokens)
{
    return job->encoder
               ? hs_workspace_bytes(job->encoder, n_texts * max_tokens) +
                     n_texts * hs_capture_bytes(hs_engine_shape(job->encoder), &selection, max_tokens)
               : 0;
}

static hs_status capture_fit(const hs__source_states *states, hs_capture **capture, size_t n_tokens,
                             hs_error *err)
{
    const hs_engine *encoder = states->job->encoder;
    if (*capture && (*capture)->n_tokens == n_tokens)
        return HS_OK;
    hs_capture_destroy(*capture);
    *capture = NULL;
    return hs_capture_create(hs_engine_runtime(encoder), hs_engine_shape(encoder), &selection, n_tokens,
                             capture, err);
}

hs_status hs__source_states_compute(hs__source_states *states, const hs_encoding *const *sources, size_t n,
                                    const hs_run_control *control, hs_sequence *sequences, hs_error *err)
{
    const hs_field_values *fields = &states->job->settings.fields;
    hs_sequence passes[HS_CORPUS_BATCH] = {{0}};
    hs_status st = HS_OK;
    for (size_t k = 0; !st && k < n; k++) {
        st = capture_fit(states, &states->captures[k], sources[k]->n_tokens, err);
        passes[k] = (hs_sequence){.ids = sources[k]->ids,
                                  .types = sources[k]->types,
                                  .n_tokens = sources[k]->n_tokens,
                                  .capture = states->captures[k],
                                  .interventions = fields->source_interventions,
                                  .n_interventions = fields->n_source_interventions};
    }
    if (!st)
        st = hs_engine_compute(states->job->encoder, states->workspace, passes, n, NULL, control, err);
    for (size_t k = 0; !st && k < n; k++) {
        sequences[k].memory = states->captures[k]->arrays[HS_TAP_LAST_STATE];
        sequences[k].n_memory = sources[k]->n_tokens;
    }
    return st;
}
