/* settings.c - the table of a run's settings, and a parser for each that is no field of /analyze. */
#include "server/corpus/run/settings.h"

#include "api/field_texts.h"
#include "engine/statistics/labels.h"
#include "server/corpus/report/results.h"
#include "server/corpus/search/text_index.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fails with what the setting must be: "a number in [0, 1]". */
typedef hs_status setting_reader(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                 hs_error *err);

/* Returns the largest max_tokens of a model. */
static size_t tokens_most(const hs_shape *shape)
{
    return shape->n_positions < HS_CORPUS_WINDOW_MAX ? shape->n_positions : HS_CORPUS_WINDOW_MAX;
}

/* ---- parsers of what /analyze lacks ---- */

static hs_status read_thresholds(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                 hs_error *err)
{
    (void)model;
    ret->n_thresholds = 0;
    for (const char *at = text;; at++) {
        char *end;
        const float value = strtof(at, &end);
        const float before = ret->n_thresholds ? ret->thresholds[ret->n_thresholds - 1] : 0;
        if (end == at || (*end && *end != ',') || !(value > before && value <= 1) ||
            ret->n_thresholds == HS_CORPUS_THRESHOLDS_MAX)
            return hs_fail(err, HS_INVALID, "up to %d ascending numbers in (0, 1], like 0.1,0.2,0.3",
                           HS_CORPUS_THRESHOLDS_MAX);
        ret->thresholds[ret->n_thresholds++] = value;
        at = end;
        if (!*at)
            return HS_OK;
    }
}

/* In the order of hs_corpus_distance. */
#define DISTANCE_NAMES "none|cka|js"
static const char *const distance_names[] = {"none", "cka", "js"};

static hs_status read_head_distances(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                     hs_error *err)
{
    const int at = hs_choice_find(DISTANCE_NAMES, text, strlen(text));
    (void)model;
    if (at < 0)
        return hs_fail(err, HS_INVALID, "none, cka or js");
    ret->distances = (hs_corpus_distance)at;
    return HS_OK;
}

/* Reads a number in [0, 1]. */
static hs_status read_fraction(const char *text, float *ret, hs_error *err)
{
    char *end;
    *ret = strtof(text, &end);
    return end > text && !*end && *ret >= 0 && *ret <= 1 ? HS_OK
                                                         : hs_fail(err, HS_INVALID, "a number in [0, 1]");
}

static hs_status read_masked_share(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                   hs_error *err)
{
    const hs_status st = read_fraction(text, &ret->masked_share, err);
    ret->mask_id = hs_tokenizer_special_ids(hs_model_tokenizer(model))->mask;
    if (!st && ret->masked_share > 0 && (ret->mask_id < 0 || !hs_model_predicts_masks(model)))
        return hs_fail(err, HS_INVALID,
                       "0: this model has no head that predicts masked tokens, or no mask token");
    return st;
}

static hs_status read_mask_seed(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                hs_error *err)
{
    char *end;
    (void)model;
    ret->mask_seed = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || ret->mask_seed > INT64_MAX)
        return hs_fail(err, HS_INVALID, "an integer from 0 to 2^63 - 1");
    return HS_OK;
}

static hs_status read_input_format(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                   hs_error *err)
{
    const int at = hs_choice_find(HS__INPUT_FORMAT_NAMES, text, strlen(text));
    (void)model;
    if (at < 0)
        return hs_fail(err, HS_INVALID, "one of " HS__INPUT_FORMAT_NAMES);
    ret->input.format = (hs__text_format)at;
    return HS_OK;
}

static hs_status read_name(const char *text, char *ret, size_t n_ret, hs_error *err)
{
    return snprintf(ret, n_ret, "%s", text) < (int)n_ret
               ? HS_OK
               : hs_fail(err, HS_INVALID, "a name of less than %zu bytes", n_ret);
}

static hs_status read_field(const char *text, const hs_model *model, hs__corpus_settings *ret, hs_error *err)
{
    (void)model;
    return read_name(text, ret->input.field, sizeof ret->input.field, err);
}

static hs_status read_no_quotes(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                hs_error *err)
{
    static const hs_field flag = {.kind = HS_FIELD_FLAG};
    hs_error why = {0};
    (void)model;
    json_t *value = hs_field_json(&flag, text, &why);
    ret->input.no_quotes = json_is_true(value);
    json_decref(value);
    return value ? HS_OK : hs_fail(err, HS_INVALID, "true or false");
}

/* Returns true if the model gives each text one of the labels that can be counted. */
static bool gives_labels(const hs_model *model)
{
    const hs_task_head *head = &hs_model_architecture(model)->task_head;
    return head->task == HS_TASK_SEQUENCE && head->problem == HS_SINGLE_LABEL && head->n_classes >= 2 &&
           head->n_classes <= HS_LABELS_COUNTED_MAX;
}

static hs_status read_label_field(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                  hs_error *err)
{
    if (!gives_labels(model))
        return hs_fail(err, HS_INVALID,
                       "left out: it needs a model that gives each text one of 2 to %d labels",
                       HS_LABELS_COUNTED_MAX);
    return read_name(text, ret->input.label_field, sizeof ret->input.label_field, err);
}

static hs_status read_effects_share(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                    hs_error *err)
{
    const hs_status st = read_fraction(text, &ret->effects_share, err);
    (void)model;
    if (!st && ret->effects_share > 0 && !*ret->input.label_field)
        return hs_fail(err, HS_INVALID, "0 without a label_field");
    return st;
}

/* Reads an integer from 0 to most. */
static hs_status read_count(const char *text, size_t most, size_t *ret, hs_error *err)
{
    char *end;
    const unsigned long long n = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || n > most)
        return hs_fail(err, HS_INVALID, "an integer from 0 to %zu", most);
    *ret = (size_t)n;
    return HS_OK;
}

static hs_status read_examples(const char *text, const hs_model *model, hs__corpus_settings *ret,
                               hs_error *err)
{
    (void)model;
    return read_count(text, HS__TOP_TEXTS_MAX, &ret->n_examples, err);
}

static hs_status read_search_texts(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                   hs_error *err)
{
    (void)model;
    return read_count(text, HS__INDEX_TEXTS_MAX, &ret->n_search_texts, err);
}

/* ---- the table ---- */

typedef struct setting_row {
    hs_field field;
    setting_reader *read;     /* NULL: as the field of /analyze with this name */
    const char *default_text; /* NULL: that of /analyze, or none */
} setting_row;

static const setting_row rows[HS__SETTINGS] = {
    [HS__SETTING_MAX_TOKENS] = {{"max_tokens", HS_FIELD_INTEGER, "N",
                                 "truncate texts to this many tokens (128, or the model's maximum)",
                                 .low = 2}},
    [HS__SETTING_LAYERS] = {{"layers", HS_FIELD_NUMBERS, "LIST", "all, last, or numbers like 0,3,-1 (all)",
                             .choices = "last|all"},
                            .default_text = "all"},
    [HS__SETTING_THRESHOLDS] = {{"thresholds", HS_FIELD_TEXT, "LIST",
                                 "similarity thresholds (0.1,0.2,0.3,0.4,0.5); maps use the one nearest 0.3"},
                                read_thresholds,
                                "0.1,0.2,0.3,0.4,0.5"},
    [HS__SETTING_ATTENTION_THRESHOLD] = {{"attention_threshold", HS_FIELD_FRACTION, "T",
                                          "threshold of high attention, in (0, 1] (0.3)", .high = 1}},
    [HS__SETTING_SPECIAL_TOKENS] = {{"special_tokens", HS_FIELD_ENUM, "HOW",
                                     "keep, or mask: exclude those around a text from all figures (keep)",
                                     .choices = "keep|mask"}},
    [HS__SETTING_SPLIT_SPECIAL_TOKENS] = {{"split_special_tokens", HS_FIELD_FLAG, NULL,
                                           "treat [MASK] in a text as ordinary text"}},
    [HS__SETTING_PROMPT_NAME] = {{"prompt_name", HS_FIELD_TEXT, "NAME",
                                  "prompt of a sentence encoder, put before each text (none)"},
                                 .default_text = ""},
    [HS__SETTING_SENTENCE_ENDS] = {{"sentence_ends", HS_FIELD_STRINGS, "LIST",
                                    "tokens that end a sentence (.,!,?)"}},
    [HS__SETTING_SIMILARITY_SPACE] = {{"similarity_space", HS_FIELD_ENUM, "SPACE",
                                       "head (outputs) or residual (projected outputs) (head)",
                                       .choices = "head|residual"}},
    [HS__SETTING_HEAD_DISTANCES] = {{"head_distances", HS_FIELD_ENUM, "KIND",
                                     "distances between all heads: none, cka or js (none)",
                                     .choices = DISTANCE_NAMES},
                                    read_head_distances},
    [HS__SETTING_MASKED_SHARE] = {{"masked_share", HS_FIELD_TEXT, "SHARE",
                                   "fraction of tokens to mask and predict, in an extra pass (0)"},
                                  read_masked_share,
                                  "0"},
    [HS__SETTING_MASK_SEED] = {{"mask_seed", HS_FIELD_TEXT, "N", "seed for the choice of masked tokens (0)"},
                               read_mask_seed},
    [HS__SETTING_INTERVENTIONS] = {{"interventions", HS_FIELD_OBJECTS, "FILE",
                                    "JSON list of changes to heads, as for /analyze"}},
    [HS__SETTING_INPUT_FORMAT] = {{"input_format", HS_FIELD_ENUM, "NAME",
                                   "format of the files: " HS__INPUT_FORMAT_NAMES " (auto)",
                                   .choices = HS__INPUT_FORMAT_NAMES},
                                  read_input_format},
    [HS__SETTING_FIELD] = {{"field", HS_FIELD_TEXT, "NAME",
                            "member of JSON objects (a.b for nested ones) or column with the text (text)"},
                           read_field},
    [HS__SETTING_NO_QUOTES] = {{"no_quotes", HS_FIELD_FLAG, NULL,
                                "treat quotation marks in CSV and TSV as ordinary characters"},
                               read_no_quotes},
    [HS__SETTING_LABEL_FIELD] =
        {{"label_field", HS_FIELD_TEXT, "NAME",
          "member or column with each text's label, for a model that classifies texts"},
         read_label_field},
    [HS__SETTING_EFFECTS_SHARE] = {{"effects_share", HS_FIELD_TEXT, "SHARE",
                                    "fraction of labelled texts whose heads are switched off in turn (0)"},
                                   read_effects_share},
    [HS__SETTING_EXAMPLES] = {{"examples", HS_FIELD_TEXT, "N",
                               "keep for each head and figure the N texts where it is highest (0)"},
                              read_examples},
    [HS__SETTING_SEARCH_TEXTS] = {{"search_texts", HS_FIELD_TEXT, "N",
                                   "keep the strongest pairs of the first N texts for 'search' (0)"},
                                  read_search_texts},
};

const hs_field *hs__setting_field(hs__setting setting)
{
    return &rows[setting].field;
}

static hs_status setting_read(const setting_row *row, const char *text, const hs_model *model,
                              hs__corpus_settings *ret, hs_error *err)
{
    hs_error why = {0};
    if (!row->read)
        return hs_fields_set(ret->reader, row->field.name, text, err);
    const hs_status st = row->read(text, model, ret, &why);
    return st ? hs_fail(err, st, " is \"%.40s\"; it must be %s", text, why.text) : HS_OK;
}

hs_status hs__corpus_settings_read(const char *const texts[HS__SETTINGS], const hs_model *model,
                                   hs__corpus_settings *ret, hs__setting *ret_wrong, hs_error *err)
{
    *ret = (hs__corpus_settings){0};
    *ret_wrong = HS__SETTING_MAX_TOKENS;
    hs_status st = hs_fields_create(model, tokens_most(hs_model_shape(model)), &ret->reader, err);
    for (int k = 0; !st && k < HS__SETTINGS; k++) {
        const char *text = texts[k] && *texts[k] ? texts[k] : rows[k].default_text;
        *ret_wrong = (hs__setting)k;
        if (text)
            st = setting_read(&rows[k], text, model, ret, err);
    }
    if (!st)
        ret->fields = hs_fields_values(ret->reader);
    return st;
}

void hs__corpus_settings_finish(hs__corpus_settings *s)
{
    hs_fields_destroy(s->reader);
    *s = (hs__corpus_settings){0};
}

static json_t *numbers_json(const uint16_t *numbers, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(numbers[i]));
    return list;
}

/* Returns the interventions in the form of /analyze, with the numbers of all layers and heads; NULL if none.
 */
static json_t *interventions_json(const hs_intervention *list, size_t n)
{
    static const char *const kinds[] = {"zero", "scale", "mean", "uniform", "identity"};
    json_t *all = n ? json_array() : NULL;
    for (size_t i = 0; i < n; i++) {
        json_t *one =
            json_pack("{so so ss}", "layers", numbers_json(list[i].layers, list[i].n_layers), "heads",
                      numbers_json(list[i].heads, list[i].n_heads), "kind", kinds[list[i].kind]);
        if (list[i].kind == HS_INTERVENE_SCALE)
            json_object_set_new(one, "factor", json_real(hs__report_decimal(list[i].factor)));
        json_array_append_new(all, one);
    }
    return all;
}

/* Adds the settings of experiments. */
static void experiments_identify(const hs__corpus_settings *s, json_t *identity)
{
    json_t *interventions = interventions_json(s->fields.interventions, s->fields.n_interventions);
    if (s->fields.residual)
        json_object_set_new(identity, "similarity_space", json_string("residual"));
    if (s->distances)
        json_object_set_new(identity, "head_distances", json_string(distance_names[s->distances]));
    if (s->masked_share > 0) {
        json_object_set_new(identity, "masked_share", json_real(hs__report_decimal(s->masked_share)));
        json_object_set_new(identity, "mask_seed", json_integer((json_int_t)s->mask_seed));
    }
    if (interventions)
        json_object_set_new(identity, "interventions", interventions);
}

void hs__corpus_settings_identify(const hs__corpus_settings *s, const hs_model *model, json_t *identity)
{
    const hs_field_values *fields = &s->fields;
    json_t *thresholds = json_array(), *ends = json_array();
    for (size_t t = 0; t < s->n_thresholds; t++)
        json_array_append_new(thresholds, json_real(hs__report_decimal(s->thresholds[t])));
    for (size_t i = 0; i < fields->n_sentence_ends; i++)
        json_array_append_new(
            ends, json_string(hs_tokenizer_token(hs_model_tokenizer(model), fields->sentence_ends[i])));
    json_object_set_new(identity, "max_tokens", json_integer((json_int_t)fields->max_tokens));
    json_object_set_new(identity, "thresholds", thresholds);
    json_object_set_new(identity, "layers", numbers_json(fields->layers, fields->n_layers));
    if (fields->attention_threshold != 0.3f)
        json_object_set_new(identity, "attention_threshold",
                            json_real(hs__report_decimal(fields->attention_threshold)));
    if (fields->special_masked)
        json_object_set_new(identity, "special_tokens", json_string("mask"));
    if (fields->split_special_tokens)
        json_object_set_new(identity, "split_special_tokens", json_true());
    if (fields->prompt) { /* its text, too: the file that has it is in no other member */
        json_object_set_new(identity, "prompt_name", json_string(fields->prompt->name));
        json_object_set_new(identity, "prompt", json_string(fields->prompt->text));
    }
    if (fields->has_sentence_ends)
        json_object_set(identity, "sentence_ends", ends);
    json_decref(ends);
    experiments_identify(s, identity);
    if (s->input.format)
        json_object_set_new(identity, "input_format", json_string(hs__input_format_name(s->input.format)));
    if (*s->input.field)
        json_object_set_new(identity, "field", json_string(s->input.field));
    if (s->input.no_quotes)
        json_object_set_new(identity, "no_quotes", json_true());
    if (*s->input.label_field)
        json_object_set_new(identity, "label_field", json_string(s->input.label_field));
    if (s->effects_share > 0)
        json_object_set_new(identity, "effects_share", json_real(hs__report_decimal(s->effects_share)));
    if (s->n_examples)
        json_object_set_new(identity, "examples", json_integer((json_int_t)s->n_examples));
    if (s->n_search_texts)
        json_object_set_new(identity, "search_texts", json_integer((json_int_t)s->n_search_texts));
}
