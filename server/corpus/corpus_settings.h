/* corpus_settings.h - what a run is asked to do.
 *
 * Each setting is a row of the table in corpus_settings.c and comes as text: an option of the command line,
 * or a parameter of POST /corpora of the same name. One that is not given has its default, that of /analyze
 * where there is such a field. */
#pragma once

#include "api/interventions.h"
#include "engine/statistics/statistics.h"
#include "model/model.h"
#include "server/corpus/corpus_format.h"

#include <jansson.h>

#define HS__SENTENCE_ENDS_LISTED_MAX 64

typedef enum hs__setting {
    HS__SETTING_MAX_TOKENS,
    HS__SETTING_LAYERS,
    HS__SETTING_THRESHOLDS,
    HS__SETTING_ATTENTION_THRESHOLD,
    HS__SETTING_SPECIAL_TOKENS,
    HS__SETTING_SPLIT_SPECIAL_TOKENS,
    HS__SETTING_SENTENCE_ENDS,
    HS__SETTING_SIMILARITY_SPACE,
    HS__SETTING_HEAD_DISTANCES,
    HS__SETTING_MASKED_SHARE,
    HS__SETTING_MASK_SEED,
    HS__SETTING_INTERVENTIONS,
    HS__SETTING_INPUT_FORMAT,
    HS__SETTING_FIELD,
    HS__SETTINGS
} hs__setting;

typedef struct hs__corpus_settings {
    size_t max_tokens;
    uint16_t layers[HS_LAYERS_MAX]; /* ascending */
    size_t n_layers;
    float thresholds[HS_CORPUS_THRESHOLDS_MAX]; /* ascending */
    size_t n_thresholds;
    float attention_threshold;
    bool special_masked;       /* special_tokens: "mask" */
    bool split_special_tokens; /* "[MASK]" in the text is only text */
    bool has_sentence_ends;    /* else a sentence ends where HS_ROLE_SENTENCE_END says */
    int32_t sentence_ends[HS__SENTENCE_ENDS_LISTED_MAX];
    size_t n_sentence_ends;
    bool residual; /* similarity_space: "residual" */
    hs_corpus_distance distances;
    float masked_share; /* of tokens, masked and predicted in a pass of their own; 0: none */
    uint64_t mask_seed;
    int32_t mask_id;                 /* of the model; -1: it has none */
    hs_interventions *interventions; /* owned; NULL: none */
    hs__input_format input;
} hs__corpus_settings;

/* "max_tokens"; the command line's have a hyphen. */
const char *hs__setting_name(hs__setting setting);

/* To be finished, also after a failure. texts: NULL or "" is the default. HS_INVALID: *ret_wrong is the one
 * at fault, and err says what it must be: "must be ...". */
HS_MUST_USE hs_status hs__corpus_settings_read(const char *const texts[HS__SETTINGS], const hs_model *model,
                                               hs__corpus_settings *ret_settings, hs__setting *ret_wrong,
                                               hs_error *err);

void hs__corpus_settings_finish(hs__corpus_settings *settings); /* zeroed is fine */

/* Into a run's identity: max_tokens, thresholds and layers, and of the others those that are not their
 * default, so that runs of earlier versions, which had no others, go on and merge. */
void hs__corpus_settings_identify(const hs__corpus_settings *settings, const hs_model *model,
                                  json_t *identity);

/* The longest window that runs of this model can have. */
size_t hs__corpus_tokens_most(const hs_shape *shape);
/* A threshold as it was written: 0.1, not the float's 0.100000001490116. */
double hs__corpus_decimal(float value);
