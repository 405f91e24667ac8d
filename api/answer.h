/* answer.h - one sequence's captures and results, as outputs and writers read them.
 *
 * A capture may have more layers and heads than requested: it may come from the cache, or segments need every
 * head. l and h below count the requested layers and heads; layer_at and head_at are their places in the
 * capture. Zeroed memory is an empty answer. Members are borrowed from the job unless marked as owned. */
#pragma once

#include "api/request/request.h"
#include "engine/analysis/analysis.h"
#include "engine/analysis/effects.h"

/* Outputs that run passes of their own (api/outputs.h), in the order in which they run. */
enum { HS__OWN_EFFECTS, HS__OWN_HEAD_SCORES, HS__OWN_PATCH_MAP, HS__OWN_VALUE_ZEROING, HS__OWN_COUNT };

typedef struct hs__answer {
    const hs__served_model *model;
    const hs_request *request;
    const hs__analysis_request *analysis;
    const hs_encoding *encoding;
    size_t n_prompt;            /* tokens of the prompt and before it; see api/prompt.h */
    const int32_t *sentences;   /* [T] */
    const uint8_t *ends;        /* [T]: 1 where a sentence ends */
    const uint8_t *masked;      /* [T] or NULL */
    const hs_capture *capture;  /* NULL when the outputs need none */
    const hs_capture *baseline; /* of the pass without interventions; NULL if there are none */

    const hs_capture *other; /* of the text that effects_of patches from; NULL if there is none */

    const void *own[HS__OWN_COUNT]; /* results of own passes; NULL if not requested */

    uint16_t layer_at[HS_LAYERS_MAX], head_at[HS_HEADS_MAX];
    uint16_t baseline_layer_at[HS_LAYERS_MAX], baseline_head_at[HS_HEADS_MAX];
    float *rollouts;                  /* owned: [l][T][T], or NULL */
    float *contributions, *alti;      /* owned: the same */
    char *scratch;                    /* owned: for parts of array outputs, by slot; see below */
    size_t n_slots;                   /* threads that may work on the answer at once */
    void *results[HS__OUTPUTS_COUNT]; /* owned: results of structures by output; see outputs.h */
} hs__answer;

/* Finds the requested layers and heads in the captures and allocates scratch. HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__answer_init(hs__answer *answer, hs_error *err);

/* Returns the pooling of sentence vectors: the requested one or the checkpoint's, from the first token that
 * counts on. */
hs_pooling hs__answer_pooling(const hs__answer *answer);

/* Returns the text with its capture and interventions, as further passes over it need it. */
hs_sequence hs__answer_sequence(const hs__answer *answer);

/* Finds the answer's target; kind NONE if there is none. states [T][H] are the baseline's last ones, which
 * the predicted class is read from; NULL: any class stands for it. */
HS_MUST_USE hs_status hs__target_find(const hs__answer *answer, const float *states, hs_target *ret_target,
                                      hs_error *err);

/* Returns the tap that holds similarities in the requested space. */
hs_tap hs__answer_similarity(const hs__answer *answer);

/* Returns the captured array of the requested layer l and head h. */
const float *hs__answer_at(const hs__answer *answer, hs_tap tap, size_t l, size_t h);

/* Returns the same array of the baseline. */
const float *hs__answer_baseline_at(const hs__answer *answer, hs_tap tap, size_t l, size_t h);

/* Returns a slot's scratch: two parts, then the scratch of hs_effective_attention. */
float *hs__answer_scratch(const hs__answer *answer, size_t slot);
/* Returns the floats of a part in scratch: T * max(T, d), rounded up to cache lines. */
size_t hs__answer_part_floats(const hs__answer *answer);

/* Returns the vocabulary's string of token i. */
const char *hs__answer_token(const hs__answer *answer, size_t i);

/* Returns the part [start, end) of a text, in code points. */
hs_text hs__text_part(const hs_text *text, size_t start, size_t end);

bool hs__answer_cancelled(const hs__answer *answer);

/* Returns how many threads should share the work on n_numbers: 1 for few numbers, else n_slots. */
size_t hs__answer_threads(const hs__answer *answer, size_t n_numbers);
/* Shares tasks among threads as hs_runtime_share does. */
void hs__answer_share(const hs__answer *answer, size_t n_threads, size_t n_tasks,
                      void (*task)(void *context, size_t i, size_t slot), void *context);
