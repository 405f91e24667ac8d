/* answer.h - what one sequence's maps show, in the form that outputs and writers read.
 *
 * The captured maps may be more than what was asked for (from the cache, or because segments need every
 * head): l and h below count the request's own layers and heads, and layer_at, head_at say where those lie in
 * the capture. Zeroed memory is an empty answer; all but what is named here as owned is borrowed from the
 * job. */
#pragma once

#include "api/analysis_request.h"
#include "engine/analysis/analysis.h"
#include "engine/analysis/effects.h"

#define HS__OUTPUTS_MAX 32 /* a set of them is an unsigned */

typedef struct hs__answer {
    const hs__served_model *model;
    const hs_request *request;
    const hs__analysis_request *wanted;
    const hs_encoding *encoding;
    const int32_t *sentences;   /* [T] */
    const uint8_t *ends;        /* [T]: 1 where a sentence ends */
    const uint8_t *masked;      /* [T] or NULL */
    const hs_capture *capture;  /* NULL when the outputs need none */
    const hs_capture *baseline; /* of the pass without interventions; NULL when there are none */

    const hs_effect *effects; /* [n_layers][n_heads] as asked for; NULL when they were not */

    uint16_t layer_at[HS_LAYERS_MAX], head_at[HS_HEADS_MAX];
    uint16_t baseline_layer_at[HS_LAYERS_MAX], baseline_head_at[HS_HEADS_MAX];
    hs_capture seen, baseline_seen; /* where similarities are another space's: the captures as answered */
    float *rollouts;                /* owned: [l][T][T], or NULL */
    char *scratch;                  /* owned: for parts of array outputs, by slot; see below */
    size_t n_slots;                 /* threads that may work on the answer at once */
    void *results[HS__OUTPUTS_MAX]; /* owned: what an output computed, by its number; see outputs.h */
} hs__answer;

/* Finds layers and heads in the capture, chooses the similarities and makes scratch. */
HS_MUST_USE hs_status hs__answer_init(hs__answer *answer, hs_error *err);

/* The captured array of one head asked for. */
const float *hs__answer_at(const hs__answer *answer, hs_tap tap, size_t l, size_t h);

/* The same of the baseline. */
const float *hs__answer_baseline_at(const hs__answer *answer, hs_tap tap, size_t l, size_t h);

/* Room of a slot: two parts, then what hs_effective_attention works in. */
float *hs__answer_scratch(const hs__answer *answer, size_t slot);
/* Of one part: T * max(T, d), in whole cache lines. */
size_t hs__answer_part_floats(const hs__answer *answer);

/* The vocabulary's name of token i. */
const char *hs__answer_token(const hs__answer *answer, size_t i);

bool hs__answer_cancelled(const hs__answer *answer);

/* Threads that may write so many numbers together, n_slots at most: few are not worth waking anybody. */
size_t hs__answer_threads(const hs__answer *answer, size_t n_numbers);
/* As hs_runtime_share. */
void hs__answer_share(const hs__answer *answer, size_t n_threads, size_t n_tasks,
                      void (*task)(void *context, size_t i, size_t slot), void *context);
