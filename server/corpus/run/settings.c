/* settings.c - the table of a run's settings but those of counters, and a parser for each that is no field of
 * /analyze. */
#include "server/corpus/run/settings.h"

#include "api/request/texts.h"
#include "model/base/read_number.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/report/report_value.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STACK_NAMES "encoder|decoder|cross"
static const char *const stack_names[] = {"encoder", "decoder", "cross"};

/* Returns the largest max_tokens of a model. */
static size_t tokens_most(const hs_shape *shape)
{
    return shape->n_positions < HS_CORPUS_WINDOW_MAX ? shape->n_positions : HS_CORPUS_WINDOW_MAX;
}

/* ---- parsers of what /analyze lacks ---- */

/* Reads whose heads are counted. The names are those of the field of /analyze. */
static hs_status read_stack(const char *text, const hs_model *model, hs__corpus_settings *ret, void *options,
                            hs_error *err)
{
    const int at = hs_choice_find(STACK_NAMES, text, strlen(text));
    (void)options;
    if (at < 0)
        return hs_fail(err, HS_INVALID, "encoder, decoder or cross");
    ret->stack = (hs_stack)at;
    ret->input.has_target = at != HS_STACK_ENCODER;
    if (at != HS_STACK_ENCODER && !hs_model_decoder(model))
        return hs_fail(err, HS_INVALID, "left out: this model has one stack of layers");
    return HS_OK;
}

static hs_status read_thresholds(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                 void *options, hs_error *err)
{
    (void)model, (void)options;
    ret->n_thresholds = 0;
    for (const char *at = text;; at++) {
        double number = 0;
        const hs_number_fault fault = hs_real_read(at + strspn(at, " "), &at, &number);
        const float value = (float)number;
        const float before = ret->n_thresholds ? ret->thresholds[ret->n_thresholds - 1] : 0;
        if (fault || (*at && *at != ',') || !(value > before && value <= 1) ||
            ret->n_thresholds == HS_CORPUS_THRESHOLDS_MAX)
            return hs_fail(err, HS_INVALID, "up to %d ascending numbers in (0, 1], like 0.1,0.2,0.3",
                           HS_CORPUS_THRESHOLDS_MAX);
        ret->thresholds[ret->n_thresholds++] = value;
        if (!*at)
            return HS_OK;
    }
}

static hs_status read_map_bins(const char *text, const hs_model *model, hs__corpus_settings *ret,
                               void *options, hs_error *err)
{
    int64_t n;
    (void)model, (void)options;
    if (hs_integer_read(text, NULL, 2, HS__MAP_BINS_MAX, &n))
        return hs_fail(err, HS_INVALID, "an integer from 2 to %d", HS__MAP_BINS_MAX);
    ret->map_bins = (size_t)n;
    return HS_OK;
}

size_t hs__corpus_map_step(const hs__corpus_settings *settings)
{
    const size_t T = settings->fields.max_tokens, n = settings->map_bins ? settings->map_bins : T;
    return T > n ? (T + n - 1) / n : 1;
}

/* In the order of hs_corpus_distance. */
#define DISTANCE_NAMES "none|cka|js"
static const char *const distance_names[] = {"none", "cka", "js"};

static hs_status read_head_distances(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                     void *options, hs_error *err)
{
    const int at = hs_choice_find(DISTANCE_NAMES, text, strlen(text));
    (void)model, (void)options;
    if (at < 0)
        return hs_fail(err, HS_INVALID, "none, cka or js");
    ret->distances = (hs_corpus_distance)at;
    return HS_OK;
}

static hs_status read_input_format(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                   void *options, hs_error *err)
{
    const int at = hs_choice_find(HS__INPUT_FORMAT_NAMES, text, strlen(text));
    (void)model, (void)options;
    if (at < 0)
        return hs_fail(err, HS_INVALID, "one of " HS__INPUT_FORMAT_NAMES);
    ret->input.format = (hs__text_format)at;
    return HS_OK;
}

static hs_status read_field(const char *text, const hs_model *model, hs__corpus_settings *ret, void *options,
                            hs_error *err)
{
    (void)model, (void)options;
    return hs__name_read(text, ret->input.field, sizeof ret->input.field, err);
}

static hs_status read_pair_field(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                 void *options, hs_error *err)
{
    (void)model, (void)options;
    return hs__name_read(text, ret->input.pair_field, sizeof ret->input.pair_field, err);
}

static hs_status read_no_quotes(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                void *options, hs_error *err)
{
    (void)model, (void)options;
    return hs__flag_read(text, &ret->input.no_quotes, err);
}

/* ---- the table ---- */

static const hs__setting_row rows[] = {
    {.field = {"max_tokens", HS_FIELD_INTEGER, "N",
               "truncate texts to this many tokens (128, or the model's maximum)", .low = 2}},
    {.field = {"stack", HS_FIELD_ENUM, "STACK",
               "encoder; of encoder-decoder models also decoder or cross, of text_target (encoder)",
               .choices = STACK_NAMES},
     .read = read_stack,
     .default_text = "encoder",
     .default_json = "\"encoder\""},
    {.field = {"layers", HS_FIELD_NUMBERS, "LIST", "all, last, or numbers like 0,3,-1 (all)",
               .choices = "last|all"},
     .default_text = "all"},
    {.field = {"thresholds", HS_FIELD_TEXT, "LIST",
               "similarity thresholds (0.1,0.2,0.3,0.4,0.5); maps use the one nearest 0.3"},
     .read = read_thresholds,
     .default_text = "0.1,0.2,0.3,0.4,0.5"},
    {.field = {"map_bins", HS_FIELD_TEXT, "N",
               "maps of more positions are summed into N x N cells at most (128)"},
     .read = read_map_bins,
     .default_text = HS__MAP_BINS},
    {.field = {"attention_threshold", HS_FIELD_FRACTION, "T", "threshold of high attention, in (0, 1] (0.3)",
               .high = 1}},
    {.field = {"special_tokens", HS_FIELD_ENUM, "HOW",
               "keep, or mask: exclude those around a text from all figures (keep)", .choices = "keep|mask"}},
    {.field = {"split_special_tokens", HS_FIELD_FLAG, NULL, "treat [MASK] in a text as ordinary text"}},
    {.field = {"source_language", HS_FIELD_TEXT, "CODE",
               "of NLLB, M2M100 and mBART: language of the texts, such as eng_Latn"}},
    {.field = {"target_language", HS_FIELD_TEXT, "CODE",
               "with stack decoder or cross: language of text_target"}},
    {.field = {"prompt_name", HS_FIELD_TEXT, "NAME",
               "prompt of a sentence encoder, put before each text (none)"},
     .default_text = ""},
    {.field = {"sentence_ends", HS_FIELD_STRINGS, "LIST", "tokens that end a sentence (.,!,?)"}},
    {.field = {"similarity_space", HS_FIELD_ENUM, "SPACE",
               "head (outputs) or residual (projected outputs) (head)", .choices = "head|residual"}},
    {.field = {"center", HS_FIELD_ENUM, "HOW",
               "text: similarities of outputs less their mean over each text; none or text (none)",
               .choices = "none|text"}},
    {.field = {"head_distances", HS_FIELD_ENUM, "KIND", "distances between all heads: none, cka or js (none)",
               .choices = DISTANCE_NAMES},
     .read = read_head_distances},
    {.field = {"interventions", HS_FIELD_OBJECTS, "FILE", "JSON list of changes to heads, as for /analyze"},
     .part = HS__SETTINGS_OF_EXPERIMENTS,
     .default_json = "[]"},
    {.field = {"input_format", HS_FIELD_ENUM, "NAME",
               "format of the files: " HS__INPUT_FORMAT_NAMES " (auto)", .choices = HS__INPUT_FORMAT_NAMES},
     .part = HS__SETTINGS_OF_INPUT,
     .read = read_input_format},
    {.field = {"field", HS_FIELD_TEXT, "NAME",
               "member of JSON objects (a.b: nested) or column with the text (text, or tokens)"},
     .part = HS__SETTINGS_OF_INPUT,
     .read = read_field},
    {.field = {"pair_field", HS_FIELD_TEXT, "NAME",
               "the same for the second of a pair (text_pair, if there), or a decoder (text_target)"},
     .part = HS__SETTINGS_OF_INPUT,
     .read = read_pair_field},
    {.field = {"no_quotes", HS_FIELD_FLAG, NULL,
               "treat quotation marks in CSV and TSV as ordinary characters"},
     .part = HS__SETTINGS_OF_INPUT,
     .read = read_no_quotes},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

/* A setting: its row, and the number of its counter; HS__N_COUNTERS if it is of none. */
typedef struct setting {
    const hs__setting_row *row;
    size_t counter;
} setting;

/* Finds setting k among the rows of one part, or reduces k by their number. */
static bool part_find(hs__setting_part part, size_t *k, setting *ret)
{
    for (size_t c = 0; c <= HS__N_COUNTERS; c++) {
        const bool own = c == HS__N_COUNTERS;
        const hs__setting_row *list = own ? rows : hs__counters[c]->settings;
        const size_t n = own ? N_ROWS : hs__counters[c]->n_settings;
        for (size_t i = 0; i < n; i++)
            if (list[i].part == part && (*k)-- == 0) {
                *ret = (setting){&list[i], own ? HS__N_COUNTERS : c};
                return true;
            }
    }
    return false;
}

/* Returns setting k; its row is NULL if there are only k. */
static setting setting_at(size_t k)
{
    setting found = {NULL, HS__N_COUNTERS};
    for (int part = 0; part < HS__SETTING_PARTS; part++)
        if (part_find((hs__setting_part)part, &k, &found))
            break;
    return found;
}

const hs_field *hs__setting_field(size_t k)
{
    const setting found = setting_at(k);
    return found.row ? &found.row->field : NULL;
}

const char *hs__setting_default_json(size_t k)
{
    return setting_at(k).row->default_json;
}

size_t hs__settings_count(void)
{
    size_t n = N_ROWS;
    for (size_t c = 0; c < HS__N_COUNTERS; c++)
        n += hs__counters[c]->n_settings;
    return n;
}

size_t hs__setting_find(const char *name)
{
    size_t k = 0;
    while (strcmp(hs__setting_field(k)->name, name) != 0)
        k++;
    return k;
}

static hs_status setting_read(const setting *s, const char *text, const hs_model *model,
                              hs__corpus_settings *ret, hs_error *err)
{
    const hs__setting_row *row = s->row;
    hs_error why = {0};
    if (!row->read)
        return hs_fields_set(ret->reader, row->field.name, text, err);
    void *options = s->counter < HS__N_COUNTERS ? ret->options[s->counter] : NULL;
    const hs_status st = row->read(text, model, ret, options, &why);
    return st ? hs_fail(err, st, " is \"%.40s\"; it must be %s", text, why.text) : HS_OK;
}

static hs_status options_create(hs__corpus_settings *settings, hs_error *err)
{
    for (size_t c = 0; c < HS__N_COUNTERS; c++) {
        settings->options[c] = calloc(1, hs__counters[c]->options_bytes + 1);
        if (!settings->options[c])
            return hs_fail(err, HS_NO_MEMORY, ": no memory for the settings");
    }
    return HS_OK;
}

/* Checks that the decoder's first token and the language of its text are known, as for /analyze. */
static hs_status target_check(const hs__corpus_settings *s, const hs_model *model, size_t *ret_wrong,
                              hs_error *err)
{
    const int32_t language = s->fields.target_language;
    const bool has_languages = hs_tokenizer_languages(hs_model_target_tokenizer(model))->source >= 0;
    *ret_wrong = hs__setting_find("target_language");
    if (!s->stack)
        return language ? hs_fail(err, HS_INVALID,
                                  ": only the text of a decoder has it: add stack decoder or cross")
                        : HS_OK;
    if (has_languages && !language && hs_model_target_language(model) < 0)
        return hs_fail(err, HS_INVALID,
                       " is missing: the target needs a language, one of those in 'headscope models' "
                       "or GET /models");
    if (hs_target_start(model, language) >= 0)
        return HS_OK;
    *ret_wrong = hs__setting_find("stack");
    return hs_fail(err, HS_INVALID,
                   " needs to know which token the decoder reads first: add decoder_start_token_id to "
                   "config.json");
}

/* Checks what windows and stride need of other settings. */
static hs_status windows_check(const hs__corpus_settings *s, const hs_model *model, size_t *ret_wrong,
                               hs_error *err)
{
    int32_t ids[HS_FRAME_MAX];
    size_t n_before;
    const size_t n_around = hs_tokenizer_frame(hs_model_tokenizer(model), ids, &n_before);
    *ret_wrong = hs__setting_find(s->windows && s->fields.prompt ? "windows" : "stride");
    if (s->windows && s->fields.prompt)
        return hs_fail(err, HS_INVALID,
                       " is true; it must be false with a prompt_name, because only the first "
                       "window of a text would have the prompt");
    if (s->fields.stride && !s->windows)
        return hs_fail(err, HS_INVALID, " is %zu; it must be 0 without windows", s->fields.stride);
    if (s->windows && s->fields.stride + n_around >= s->fields.max_tokens)
        return hs_fail(
            err, HS_INVALID,
            " is %zu; it must be less than max_tokens, %zu, without the %zu special tokens of a window",
            s->fields.stride, s->fields.max_tokens, n_around);
    return HS_OK;
}

/* Refuses settings that have no meaning for a decoder. */
static hs_status stack_check(const char *const texts[HS__SETTINGS_MAX], const hs__corpus_settings *s,
                             size_t *ret_wrong, hs_error *err)
{
    static const char *const names[] = {"windows",       "stride",     "masked_share",  "label_field",
                                        "effects_share", "importance", "pruning_share", "cut_attention",
                                        "prompt_name",   "control"},
                             *const off[] = {"", "0", "false", "none", "auto"};
    for (size_t i = 0; s->stack && i < sizeof names / sizeof *names; i++) {
        const size_t k = hs__setting_find(names[i]);
        bool is_off = !texts[k];
        for (size_t o = 0; !is_off && o < sizeof off / sizeof *off; o++)
            is_off = strcmp(texts[k], off[o]) == 0;
        if (is_off)
            continue;
        *ret_wrong = k;
        return hs_fail(err, HS_INVALID,
                       " is not allowed with stack %s: leave it out, or count the encoder's heads",
                       stack_names[s->stack]);
    }
    return HS_OK;
}

/* Reads the stack, which decides how the other settings are read, and makes their reader. */
static hs_status reader_create(const char *const texts[HS__SETTINGS_MAX], const hs_model *model,
                               hs__corpus_settings *ret, size_t *ret_wrong, hs_error *err)
{
    const size_t k = *ret_wrong = hs__setting_find("stack");
    const setting s = setting_at(k);
    hs_status st = setting_read(&s, texts[k] && *texts[k] ? texts[k] : s.row->default_text, model, ret, err);
    if (!st)
        st = stack_check(texts, ret, ret_wrong, err);
    const hs_architecture *decoder = hs_model_decoder(model);
    return st ? st
              : hs_fields_create(model, ret->stack,
                                 tokens_most(ret->stack ? &decoder->shape : hs_model_shape(model)),
                                 &ret->reader, err);
}

hs_status hs__corpus_settings_read(const char *const texts[HS__SETTINGS_MAX], const hs_model *model,
                                   hs__corpus_settings *ret, size_t *ret_wrong, hs_error *err)
{
    *ret = (hs__corpus_settings){0};
    *ret_wrong = 0;
    hs_status st = reader_create(texts, model, ret, ret_wrong, err);
    if (!st)
        st = options_create(ret, err);
    for (size_t k = 0; !st && k < hs__settings_count(); k++) {
        const setting s = setting_at(k);
        const char *text = texts[k] && *texts[k] ? texts[k] : s.row->default_text;
        *ret_wrong = k;
        if (text)
            st = setting_read(&s, text, model, ret, err);
    }
    if (!st)
        ret->fields = hs_fields_values(ret->reader);
    if (!st)
        st = target_check(ret, model, ret_wrong, err);
    return st ? st : windows_check(ret, model, ret_wrong, err);
}

void hs__corpus_settings_finish(hs__corpus_settings *s)
{
    hs_fields_destroy(s->reader);
    for (size_t c = 0; c < HS__N_COUNTERS; c++)
        free(s->options[c]);
    *s = (hs__corpus_settings){0};
}

static json_t *numbers_json(const uint16_t *numbers, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(numbers[i]));
    return list;
}

/* Adds interventions in heads of a stack in the form of /analyze, with the numbers of all layers and heads.
 */
static void interventions_add(const hs_intervention *list, size_t n, const char *stack, json_t *all)
{
    static const char *const kinds[] = {
        [HS_INTERVENE_ZERO] = "zero",         [HS_INTERVENE_SCALE] = "scale",
        [HS_INTERVENE_MEAN] = "mean",         [HS_INTERVENE_UNIFORM] = "uniform",
        [HS_INTERVENE_IDENTITY] = "identity", [HS_INTERVENE_CUT] = "cut",
    };
    static_assert(sizeof kinds / sizeof *kinds == HS_INTERVENE_PATCH, "runs take the kinds before patch");
    for (size_t i = 0; i < n; i++) {
        json_t *one =
            json_pack("{so so ss}", "layers", numbers_json(list[i].layers, list[i].n_layers), "heads",
                      numbers_json(list[i].heads, list[i].n_heads), "kind", kinds[list[i].kind]);
        if (list[i].kind == HS_INTERVENE_SCALE)
            json_object_set_new(one, "factor", json_real(hs__report_decimal(list[i].factor)));
        if (list[i].kind == HS_INTERVENE_CUT)
            json_object_set_new(one, "distance", json_integer((json_int_t)list[i].distance));
        if (stack)
            json_object_set_new(one, "stack", json_string(list[i].cross ? "cross" : stack));
        json_array_append_new(all, one);
    }
}

/* Returns all interventions; NULL if there are none. */
static json_t *interventions_json(const hs__corpus_settings *s)
{
    const hs_field_values *fields = &s->fields;
    json_t *all = fields->n_interventions || fields->n_source_interventions ? json_array() : NULL;
    interventions_add(fields->interventions, fields->n_interventions, s->stack ? "decoder" : NULL, all);
    interventions_add(fields->source_interventions, fields->n_source_interventions, "encoder", all);
    return all;
}

/* Adds the settings of experiments. */
static void experiments_identify(const hs__corpus_settings *s, json_t *identity)
{
    json_t *interventions = interventions_json(s);
    if (s->fields.similarity.residual)
        json_object_set_new(identity, "similarity_space", json_string("residual"));
    if (s->fields.similarity.centered)
        json_object_set_new(identity, "center", json_string("text"));
    if (s->distances)
        json_object_set_new(identity, "head_distances", json_string(distance_names[s->distances]));
    if (interventions)
        json_object_set_new(identity, "interventions", interventions);
}

static void language_identify(const hs_model *model, int32_t id, const char *name, json_t *identity)
{
    char code[HS_LANGUAGE_BYTES];
    if (id > 0 && hs_tokenizer_language_code(hs_model_tokenizer(model), id, code))
        json_object_set_new(identity, name, json_string(code));
}

/* Adds the stack, the languages, and the token before each target. generation_config.json may decide the last
 * two, and is in no other member. */
static void stack_identify(const hs__corpus_settings *s, const hs_model *model, json_t *identity)
{
    const int32_t given = s->fields.target_language;
    language_identify(model, s->fields.source_language, "source_language", identity);
    if (!s->stack)
        return;
    const char *start = hs_tokenizer_token(hs_model_target_tokenizer(model), hs_target_start(model, given));
    json_object_set_new(identity, "stack", json_string(stack_names[s->stack]));
    json_object_set_new(identity, "target_start", json_string(start));
    language_identify(model, given ? given : hs_model_target_language(model), "target_language", identity);
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
    stack_identify(s, model, identity);
    json_object_set_new(identity, "max_tokens", json_integer((json_int_t)fields->max_tokens));
    json_object_set_new(identity, "thresholds", thresholds);
    json_object_set_new(identity, "layers", numbers_json(fields->layers, fields->n_layers));
    if (hs__corpus_map_step(s) > 1)
        json_object_set_new(identity, "map_step", json_integer((json_int_t)hs__corpus_map_step(s)));
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
    if (*s->input.pair_field)
        json_object_set_new(identity, "pair_field", json_string(s->input.pair_field));
    if (s->input.no_quotes)
        json_object_set_new(identity, "no_quotes", json_true());
    for (size_t c = 0; c < HS__N_COUNTERS; c++)
        if (hs__counters[c]->identify)
            hs__counters[c]->identify(s->options[c], s, identity);
}
