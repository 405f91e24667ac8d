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
    HS__SETTING_NO_QUOTES,
    HS__SETTING_LABEL_FIELD,
    HS__SETTING_EFFECTS_SHARE,
    HS__SETTING_EXAMPLES,
    HS__SETTING_SEARCH_TEXTS,
    HS__SETTINGS
} hs__setting;

typedef struct hs__corpus_settings {
    hs_field_values fields;                     /* those that /analyze has too; borrowed from reader */
    hs_fields *reader;                          /* owned */
    float thresholds[HS_CORPUS_THRESHOLDS_MAX]; /* ascending */
    size_t n_thresholds;
    hs_corpus_distance distances;
    float masked_share; /* fraction of tokens to mask and predict; 0: none */
    uint64_t mask_seed;
    float effects_share; /* fraction of labelled texts whose heads are switched off in turn; 0: none */
    int32_t mask_id;     /* of the model; -1: it has none */
    hs__input_format input;
    size_t n_examples, n_search_texts; /* of text_index.h */
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
