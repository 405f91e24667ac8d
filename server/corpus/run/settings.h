/* settings.h - the options of a corpus run.
 *
 * Each setting is a row of the table in settings.c, from which the parameters of POST /corpora, the options
 * of `headscope corpus`, its help and its manual page are made. A value is text. Settings that /analyze has
 * too are read as its fields. */
#pragma once

#include "api/api.h"
#include "api/run_fields.h"
#include "engine/statistics/statistics.h"
#include "model/model.h"
#include "server/corpus/input/text_format.h"

#include <jansson.h>

typedef enum hs__setting {
    HS__SETTING_MAX_TOKENS,
    HS__SETTING_LAYERS,
    HS__SETTING_THRESHOLDS,
    HS__SETTING_ATTENTION_THRESHOLD,
    HS__SETTING_SPECIAL_TOKENS,
    HS__SETTING_SPLIT_SPECIAL_TOKENS,
    HS__SETTING_PROMPT_NAME,
    HS__SETTING_SENTENCE_ENDS,
    HS__SETTING_SIMILARITY_SPACE,
    HS__SETTING_HEAD_DISTANCES,
    HS__SETTING_MASKED_SHARE,
    HS__SETTING_MASK_SEED,
    HS__SETTING_INTERVENTIONS,
    HS__SETTING_INPUT_FORMAT,
    HS__SETTING_FIELD,
    HS__SETTING_LABEL_FIELD,
    HS__SETTING_EFFECTS_SHARE,
    HS__SETTING_EXAMPLES,
    HS__SETTING_SEARCH_TEXTS,
    HS__SETTINGS
} hs__setting;

typedef struct hs__corpus_settings {
    size_t max_tokens;
    uint16_t layers[HS_LAYERS_MAX]; /* ascending */
    size_t n_layers;
    float thresholds[HS_CORPUS_THRESHOLDS_MAX]; /* ascending */
    size_t n_thresholds;
    float attention_threshold;
    bool special_masked;          /* special_tokens: "mask" */
    bool split_special_tokens;    /* treat "[MASK]" in the text as ordinary text */
    const hs_prompt *prompt;      /* of the model, before each text; NULL: none */
    bool has_sentence_ends;       /* else a sentence ends where HS_ROLE_SENTENCE_END says */
    const int32_t *sentence_ends; /* borrowed from fields */
    size_t n_sentence_ends;
    bool residual; /* similarity_space: "residual" */
    hs_corpus_distance distances;
    float masked_share; /* fraction of tokens to mask and predict; 0: none */
    uint64_t mask_seed;
    float effects_share; /* fraction of labelled texts whose heads are switched off in turn; 0: none */
    int32_t mask_id;     /* of the model; -1: it has none */
    const hs_intervention *interventions; /* borrowed from fields */
    size_t n_interventions;
    hs__input_format input;
    size_t n_examples, n_search_texts; /* of text_index.h */
    hs_fields *fields;                 /* owned: the settings that /analyze has too */
} hs__corpus_settings;

/* Returns the setting's name ("max_tokens"), kind, choices, and its argument and help on a command line. */
const hs_field *hs__setting_field(hs__setting setting);

/* Parses texts into settings; NULL or "" stands for the default. Call hs__corpus_settings_finish after a
 * failure too. HS_INVALID: *ret_wrong is the wrong setting, and the message continues its name, as in
 * hs_field_problem. */
HS_MUST_USE hs_status hs__corpus_settings_read(const char *const texts[HS__SETTINGS], const hs_model *model,
                                               hs__corpus_settings *ret_settings, hs__setting *ret_wrong,
                                               hs_error *err);

void hs__corpus_settings_finish(hs__corpus_settings *settings); /* zeroed is fine */

/* Adds the settings to a run's identity: always max_tokens, thresholds and layers, the others only if they
 * are not the default. So runs of earlier versions, which had no other settings, can be resumed and merged.
 */
void hs__corpus_settings_identify(const hs__corpus_settings *settings, const hs_model *model,
                                  json_t *identity);

/* Returns the largest max_tokens of a model. */
size_t hs__corpus_tokens_most(const hs_shape *shape);
