/* corpus_settings.c - the table of a run's settings, and a reader for each. */
#include "server/corpus/corpus_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef hs_status setting_reader(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                 hs_error *err);

size_t hs__corpus_tokens_most(const hs_shape *shape)
{
    return shape->n_positions < HS_CORPUS_WINDOW_MAX ? shape->n_positions : HS_CORPUS_WINDOW_MAX;
}

double hs__corpus_decimal(float value)
{
    char shortest[32];
    snprintf(shortest, sizeof shortest, "%.6g", (double)value);
    return strtod(shortest, NULL);
}

/* ---- readers ---- */

static hs_status read_max_tokens(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                 hs_error *err)
{
    const size_t most = hs__corpus_tokens_most(hs_model_shape(model));
    char *end;
    ret->max_tokens = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || ret->max_tokens < 2 || ret->max_tokens > most)
        return hs_fail(err, HS_INVALID, "must be an integer from 2 to %zu; it is \"%.40s\"", most, text);
    return HS_OK;
}

/* "all", "last" or "0,3,-1": ascending numbers, each once. */
static hs_status read_layers(const char *text, const hs_model *model, hs__corpus_settings *ret, hs_error *err)
{
    const size_t n_layers = hs_model_shape(model)->n_layers;
    bool chosen[HS_LAYERS_MAX] = {0};
    if (strcmp(text, "all") == 0)
        memset(chosen, true, n_layers);
    else if (strcmp(text, "last") == 0)
        chosen[n_layers - 1] = true;
    else
        for (const char *at = text;; at++) {
            char *end;
            const long value = strtol(at, &end, 10);
            const long layer = value < 0 ? value + (long)n_layers : value;
            if (end == at || (*end && *end != ',') || layer < 0 || layer >= (long)n_layers)
                return hs_fail(err, HS_INVALID,
                               "must be all, last, or numbers like 0,3,-1 within the model's %zu layers",
                               n_layers);
            chosen[layer] = true;
            at = end;
            if (!*at)
                break;
        }
    ret->n_layers = 0;
    for (size_t l = 0; l < n_layers; l++)
        if (chosen[l])
            ret->layers[ret->n_layers++] = (uint16_t)l;
    return HS_OK;
}

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
            return hs_fail(err, HS_INVALID, "must be up to %d ascending numbers in (0, 1], like 0.1,0.2,0.3",
                           HS_CORPUS_THRESHOLDS_MAX);
        ret->thresholds[ret->n_thresholds++] = value;
        at = end;
        if (!*at)
            return HS_OK;
    }
}

static hs_status read_attention_threshold(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                          hs_error *err)
{
    char *end;
    (void)model;
    ret->attention_threshold = strtof(text, &end);
    if (end == text || *end || !(ret->attention_threshold > 0 && ret->attention_threshold <= 1))
        return hs_fail(err, HS_INVALID, "must be a number in (0, 1]; it is \"%.40s\"", text);
    return HS_OK;
}

static hs_status read_special_tokens(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                     hs_error *err)
{
    (void)model;
    ret->special_masked = strcmp(text, "mask") == 0;
    if (!ret->special_masked && strcmp(text, "keep") != 0)
        return hs_fail(err, HS_INVALID, "must be keep or mask; it is \"%.40s\"", text);
    return HS_OK;
}

static hs_status read_split_special_tokens(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                           hs_error *err)
{
    (void)model;
    ret->split_special_tokens = strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
    if (!ret->split_special_tokens && strcmp(text, "false") != 0 && strcmp(text, "0") != 0)
        return hs_fail(err, HS_INVALID, "must be true or false; it is \"%.40s\"", text);
    return HS_OK;
}

static int compare_ids(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* "a,b": tokens of the vocabulary, "none" or a list, in the order of their ids so that the order of the list
 * does not matter. */
static hs_status read_sentence_ends(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                    hs_error *err)
{
    ret->has_sentence_ends = true;
    ret->n_sentence_ends = 0;
    for (const char *at = text;; at++) {
        const size_t n = strcspn(at, ",");
        const int32_t id = hs_tokenizer_id(hs_model_tokenizer(model), at, n);
        if (ret->n_sentence_ends == HS__SENTENCE_ENDS_LISTED_MAX)
            return hs_fail(err, HS_INVALID, "must be at most %d tokens", HS__SENTENCE_ENDS_LISTED_MAX);
        if (id < 0)
            return hs_fail(err, HS_INVALID,
                           "must be tokens of the model's vocabulary, like .,!,?; \"%.*s\" is none",
                           n < 40 ? (int)n : 40, at);
        ret->sentence_ends[ret->n_sentence_ends++] = id;
        at += n;
        if (!*at)
            break;
    }
    qsort(ret->sentence_ends, ret->n_sentence_ends, sizeof *ret->sentence_ends, compare_ids);
    return HS_OK;
}

/* The number of the word among the names. */
static hs_status read_choice(const char *text, const char *const *names, size_t n_names, size_t *ret,
                             hs_error *err)
{
    char list[64] = "";
    for (*ret = 0; *ret < n_names; (*ret)++) {
        if (strcmp(text, names[*ret]) == 0)
            return HS_OK;
        const size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", n ? " or " : "", names[*ret]);
    }
    return hs_fail(err, HS_INVALID, "must be %s; it is \"%.40s\"", list, text);
}

static hs_status read_similarity_space(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                       hs_error *err)
{
    size_t at;
    (void)model;
    const hs_status st = read_choice(text, (const char *const[]){"head", "residual"}, 2, &at, err);
    ret->residual = at == 1;
    return st;
}

static const char *const distance_names[] = {"none", "cka", "js"}; /* as hs_corpus_distance */

static hs_status read_head_distances(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                     hs_error *err)
{
    size_t at;
    (void)model;
    const hs_status st = read_choice(text, distance_names, 3, &at, err);
    ret->distances = st ? HS_CORPUS_NO_DISTANCE : (hs_corpus_distance)at;
    return st;
}

static hs_status read_masked_share(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                   hs_error *err)
{
    char *end;
    ret->mask_id = hs_tokenizer_special_ids(hs_model_tokenizer(model))->mask;
    ret->masked_share = strtof(text, &end);
    if (end == text || *end || !(ret->masked_share >= 0 && ret->masked_share <= 1))
        return hs_fail(err, HS_INVALID, "must be a number in [0, 1]; it is \"%.40s\"", text);
    if (ret->masked_share > 0 && (ret->mask_id < 0 || !hs_model_recipe(model)->predictor.decoder.data))
        return hs_fail(err, HS_INVALID,
                       "must be 0: the checkpoint has no head that predicts masked tokens, or no mask");
    return HS_OK;
}

static hs_status read_mask_seed(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                hs_error *err)
{
    char *end;
    (void)model;
    ret->mask_seed = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || ret->mask_seed > INT64_MAX)
        return hs_fail(err, HS_INVALID, "must be an integer from 0 to 2^63 - 1; it is \"%.40s\"", text);
    return HS_OK;
}

static hs_status read_interventions(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                    hs_error *err)
{
    return hs_interventions_parse(text, hs_model_shape(model), &ret->interventions, err);
}

static hs_status read_input_format(const char *text, const hs_model *model, hs__corpus_settings *ret,
                                   hs_error *err)
{
    (void)model;
    if (!hs__input_format_named(text, &ret->input.format))
        return hs_fail(err, HS_INVALID, "must be one of " HS__INPUT_FORMAT_NAMES "; it is \"%.40s\"", text);
    return HS_OK;
}

static hs_status read_field(const char *text, const hs_model *model, hs__corpus_settings *ret, hs_error *err)
{
    (void)model;
    if (snprintf(ret->input.field, sizeof ret->input.field, "%s", text) >= (int)sizeof ret->input.field)
        return hs_fail(err, HS_INVALID, "must be a name of less than %zu bytes", sizeof ret->input.field);
    return HS_OK;
}

/* ---- the table ---- */

static const struct {
    const char *name;
    setting_reader *read;
    const char *usual; /* NULL: what settings_default says */
} settings[HS__SETTINGS] = {
    [HS__SETTING_MAX_TOKENS] = {"max_tokens", read_max_tokens, NULL},
    [HS__SETTING_LAYERS] = {"layers", read_layers, "all"},
    [HS__SETTING_THRESHOLDS] = {"thresholds", read_thresholds, "0.1,0.2,0.3,0.4,0.5"},
    [HS__SETTING_ATTENTION_THRESHOLD] = {"attention_threshold", read_attention_threshold, "0.3"},
    [HS__SETTING_SPECIAL_TOKENS] = {"special_tokens", read_special_tokens, "keep"},
    [HS__SETTING_SPLIT_SPECIAL_TOKENS] = {"split_special_tokens", read_split_special_tokens, "false"},
    [HS__SETTING_SENTENCE_ENDS] = {"sentence_ends", read_sentence_ends, NULL},
    [HS__SETTING_SIMILARITY_SPACE] = {"similarity_space", read_similarity_space, "head"},
    [HS__SETTING_HEAD_DISTANCES] = {"head_distances", read_head_distances, "none"},
    [HS__SETTING_MASKED_SHARE] = {"masked_share", read_masked_share, "0"},
    [HS__SETTING_MASK_SEED] = {"mask_seed", read_mask_seed, "0"},
    [HS__SETTING_INTERVENTIONS] = {"interventions", read_interventions, NULL},
    [HS__SETTING_INPUT_FORMAT] = {"input_format", read_input_format, "auto"},
    [HS__SETTING_FIELD] = {"field", read_field, NULL},
};

const char *hs__setting_name(hs__setting setting)
{
    return settings[setting].name;
}

hs_status hs__corpus_settings_read(const char *const texts[HS__SETTINGS], const hs_model *model,
                                   hs__corpus_settings *ret, hs__setting *ret_wrong, hs_error *err)
{
    const size_t most = hs__corpus_tokens_most(hs_model_shape(model));
    *ret = (hs__corpus_settings){.max_tokens = most < 128 ? most : 128};
    hs_status st = HS_OK;
    for (int k = 0; !st && k < HS__SETTINGS; k++) {
        const char *text = texts[k] && *texts[k] ? texts[k] : settings[k].usual;
        *ret_wrong = (hs__setting)k;
        if (text)
            st = settings[k].read(text, model, ret, err);
    }
    return st;
}

void hs__corpus_settings_finish(hs__corpus_settings *s)
{
    hs_interventions_destroy(s->interventions);
    *s = (hs__corpus_settings){0};
}

static json_t *numbers_json(const uint16_t *numbers, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(numbers[i]));
    return list;
}

/* As /analyze takes them, every layer and head by its number. NULL: there are none. */
static json_t *interventions_json(const hs_interventions *interventions)
{
    static const char *const kinds[] = {"zero", "scale", "mean", "uniform", "identity"};
    size_t n;
    const hs_intervention *list = hs_interventions_list(interventions, &n);
    json_t *all = n ? json_array() : NULL;
    for (size_t i = 0; i < n; i++) {
        json_t *one =
            json_pack("{so so ss}", "layers", numbers_json(list[i].layers, list[i].n_layers), "heads",
                      numbers_json(list[i].heads, list[i].n_heads), "kind", kinds[list[i].kind]);
        if (list[i].kind == HS_INTERVENE_SCALE)
            json_object_set_new(one, "factor", json_real(hs__corpus_decimal(list[i].factor)));
        json_array_append_new(all, one);
    }
    return all;
}

/* Those of experiments. */
static void experiments_identify(const hs__corpus_settings *s, json_t *identity)
{
    json_t *interventions = interventions_json(s->interventions);
    if (s->residual)
        json_object_set_new(identity, "similarity_space", json_string("residual"));
    if (s->distances)
        json_object_set_new(identity, "head_distances", json_string(distance_names[s->distances]));
    if (s->masked_share > 0) {
        json_object_set_new(identity, "masked_share", json_real(hs__corpus_decimal(s->masked_share)));
        json_object_set_new(identity, "mask_seed", json_integer((json_int_t)s->mask_seed));
    }
    if (interventions)
        json_object_set_new(identity, "interventions", interventions);
}

void hs__corpus_settings_identify(const hs__corpus_settings *s, const hs_model *model, json_t *identity)
{
    json_t *thresholds = json_array(), *layers = json_array(), *ends = json_array();
    for (size_t t = 0; t < s->n_thresholds; t++)
        json_array_append_new(thresholds, json_real(hs__corpus_decimal(s->thresholds[t])));
    for (size_t l = 0; l < s->n_layers; l++)
        json_array_append_new(layers, json_integer(s->layers[l]));
    for (size_t i = 0; i < s->n_sentence_ends; i++)
        json_array_append_new(
            ends, json_string(hs_tokenizer_token(hs_model_tokenizer(model), s->sentence_ends[i])));
    json_object_set_new(identity, "max_tokens", json_integer((json_int_t)s->max_tokens));
    json_object_set_new(identity, "thresholds", thresholds);
    json_object_set_new(identity, "layers", layers);
    if (s->attention_threshold != 0.3f)
        json_object_set_new(identity, "attention_threshold",
                            json_real(hs__corpus_decimal(s->attention_threshold)));
    if (s->special_masked)
        json_object_set_new(identity, "special_tokens", json_string("mask"));
    if (s->split_special_tokens)
        json_object_set_new(identity, "split_special_tokens", json_true());
    if (s->has_sentence_ends)
        json_object_set(identity, "sentence_ends", ends);
    json_decref(ends);
    experiments_identify(s, identity);
    if (s->input.format)
        json_object_set_new(identity, "input_format", json_string(hs__input_format_name(s->input.format)));
    if (*s->input.field)
        json_object_set_new(identity, "field", json_string(s->input.field));
}
