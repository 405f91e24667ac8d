/* texts.c - reads values of fields from texts. */
#include "api/request/texts.h"

#include "api/request/fields.h"
#include "model/base/read_number.h"
#include "model/files/json.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ==== fields ==== */

/* Turns texts into JSON by the kind of their field. */

/* ---- texts to JSON ---- */

static json_t *integer_json(const char *text, hs_error *err)
{
    int64_t number;
    if (!hs_integer_read(text, NULL, INT64_MIN, INT64_MAX, &number))
        return json_integer(number);
    hs_fail(err, HS_INVALID, "expected an integer");
    return NULL;
}

static json_t *real_json(const char *text, hs_error *err)
{
    double number;
    json_t *json = hs_real_read(text, NULL, &number) ? NULL : json_real(number);
    if (!json)
        hs_fail(err, HS_INVALID, "expected a number");
    return json;
}

static json_t *flag_json(const char *text, hs_error *err)
{
    const bool yes = strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
    if (yes || strcmp(text, "false") == 0 || strcmp(text, "0") == 0)
        return json_boolean(yes);
    hs_fail(err, HS_INVALID, "expected true or false");
    return NULL;
}

static json_t *string_json(const char *text, size_t n, hs_error *err)
{
    json_t *json = json_stringn(text, n);
    if (!json)
        hs_fail(err, HS_INVALID, "expected UTF-8");
    return json;
}

/* Parses numbers with commas between, or one of the field's choices. */
static json_t *numbers_json(const hs_field *field, const char *text, hs_error *err)
{
    if (hs_choice_find(field->choices, text, strlen(text)) >= 0)
        return json_string(text);
    json_t *list = json_array();
    int64_t number;
    for (const char *at = text;
         !hs_integer_read(at, &at, INT64_MIN, INT64_MAX, &number) && (!*at || *at == ','); at++) {
        json_array_append_new(list, json_integer(number));
        if (!*at)
            return list;
    }
    json_decref(list);
    hs_fail(err, HS_INVALID, "expected %s%snumbers like 0,3,-1", field->choices ? field->choices : "",
            field->choices ? ", or " : "");
    return NULL;
}

static json_t *objects_json(const char *text, hs_error *err)
{
    json_error_t error;
    json_t *json;
    if (hs_json_load(text, strlen(text), JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &json, &error))
        hs_fail(err, HS_INVALID, "expected JSON: %s at column %d", error.text, error.column);
    return json;
}

/* Parses strings with commas between, or a JSON array of them: no other form has a comma in a string. */
static json_t *strings_json(const char *text, hs_error *err)
{
    if (strncmp(text, "[\"", 2) == 0)
        return objects_json(text, err);
    json_t *list = json_array();
    for (const char *at = text;; at++) {
        const size_t n = strcspn(at, ",");
        json_t *one = string_json(at, n, err);
        if (!one) {
            json_decref(list);
            return NULL;
        }
        json_array_append_new(list, one);
        at += n;
        if (!*at)
            return list;
    }
}

static json_t *value_json(const hs_field *field, const char *text, hs_error *err)
{
    switch (field->kind) {
    case HS_FIELD_STRINGS:
        return strings_json(text, err);
    case HS_FIELD_NUMBERS:
    case HS_FIELD_IDS:
        return numbers_json(field, text, err);
    case HS_FIELD_INTEGER:
        return integer_json(text, err);
    case HS_FIELD_FRACTION:
    case HS_FIELD_REAL:
        return real_json(text, err);
    case HS_FIELD_FLAG:
        return flag_json(text, err);
    case HS_FIELD_OBJECTS:
        return objects_json(text, err);
    case HS_FIELD_TEXT:
    case HS_FIELD_ENUM:
        break;
    }
    return string_json(text, strlen(text), err);
}

json_t *hs_field_json(const hs_field *field, const char *text, hs_error *err)
{
    const size_t refusals = hs_json_refusals();
    hs_error why = {0};
    json_t *json = hs_json_whole(value_json(field, text, &why), refusals);
    if (!json && hs_json_refusals() != refusals)
        hs_fail(err, HS_NO_MEMORY, "there is no memory for it");
    else if (!json)
        hs_fail(err, why.status, "%s", why.text);
    return json;
}

/* ---- problems ---- */

void hs_field_problem(const char *pointer, const char *detail, char *ret_text, size_t n_ret)
{
    const size_t n_pointer = strlen(pointer + 1);
    const char *member = pointer + 1 + strcspn(pointer + 1, "/");
    const bool is_named = strstr(detail, pointer + 1) == detail && detail[n_pointer] == ' ';
    if (*member && !member[1 + strspn(member + 1, "0123456789")])
        member = ""; /* an element: its value says which */
    snprintf(ret_text, n_ret, "%s%s%s%s", *member ? " " : "", *member ? member + 1 : "", is_named ? "" : ": ",
             is_named ? detail + n_pointer : detail);
}

/* ==== settings of a run ==== */

/* Reads each text as a request that has no other field. */

struct hs_fields {
    hs_shape shape;                /* of the stack, with tokens_max positions */
    hs__served_model model, other; /* the stack's, and that of the encoder or decoder beside it, if any */
    hs__analysis_request read;
};

hs_status hs_fields_create(const hs_model *model, hs_stack stack, size_t tokens_max, hs_fields **ret_fields,
                           hs_error *err)
{
    hs_fields *fields = calloc(1, sizeof *fields);
    if (!fields)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the settings");
    const hs_architecture *encoder = hs_model_architecture(model), *decoder = hs_model_decoder(model),
                          *own = stack ? decoder : encoder, *other = stack ? encoder : decoder;
    fields->shape = own->shape;
    fields->shape.n_positions = tokens_max;
    fields->model = (hs__served_model){.name = "this model",
                                       .list_command = "'headscope models' or GET /models",
                                       .model = model,
                                       .architecture = own,
                                       .shape = &fields->shape};
    if (other) {
        fields->other = (hs__served_model){
            .name = "this model", .model = model, .architecture = other, .shape = &other->shape};
        *(stack ? &fields->model.encoder : &fields->model.decoder) = &fields->other;
    }
    fields->read.model = &fields->model;
    fields->read.stack = stack;
    hs__fields_default(&fields->model, &fields->read);
    *ret_fields = fields;
    return HS_OK;
}

void hs_fields_destroy(hs_fields *fields)
{
    if (fields)
        hs__analysis_request_finish(&fields->read);
    free(fields);
}

static hs_status patches_refuse(const hs__analysis_request *read, hs_error *err)
{
    for (size_t i = 0; i < read->n_interventions; i++)
        if (hs_intervention_is_patch(&read->interventions[i]) ||
            hs_intervention_is_of_state(&read->interventions[i]))
            return hs_fail(
                err, HS_INVALID,
                "patch and add, which change one text, are for POST /analyze alone: leave them out");
    return HS_OK;
}

static hs_status value_read(hs_fields *fields, const char *name, json_t *value, hs_error *err)
{
    hs__problem problem = {0};
    hs_error why = {0};
    char text[sizeof err->text];
    json_t *body = json_object();
    if (json_object_set_new(body, name, value)) {
        json_decref(body);
        return hs_fail(err, HS_NO_MEMORY, ": no memory for the value");
    }
    hs__fields_read(&fields->model, body, &fields->read, &problem);
    json_decref(body);
    if (problem.status) {
        hs_field_problem(problem.pointer, problem.detail, text, sizeof text);
        return hs_fail(err, problem.no_memory ? HS_NO_MEMORY : HS_INVALID, "%s", text);
    }
    const hs__analysis_request *read = &fields->read;
    const size_t n_own = read->n_own_interventions, n_other = read->n_interventions - n_own;
    hs_status st = patches_refuse(read, &why);
    if (!st)
        st = hs_interventions_check(fields->model.architecture, read->interventions, n_own, &why);
    if (!st && n_other)
        st = hs_interventions_check(fields->other.architecture, read->interventions + n_own, n_other, &why);
    return st ? hs_fail(err, st, ": %s", why.text) : HS_OK;
}

hs_status hs_fields_set(hs_fields *fields, const char *name, const char *text, hs_error *err)
{
    hs_error why = {0};
    json_t *value = hs_field_json(hs_field_find(name), text, &why);
    return value ? value_read(fields, name, value, err)
                 : hs_fail(err, why.status, " is \"%.40s\"; %s", text, why.text);
}

hs_field_values hs_fields_values(const hs_fields *fields)
{
    const hs__analysis_request *read = &fields->read;
    return (hs_field_values){.max_tokens = read->max_tokens,
                             .stride = read->stride,
                             .layers = read->layers,
                             .n_layers = read->n_layers,
                             .attention_threshold = read->attention_threshold,
                             .special_masked = read->special_tokens != 0,
                             .split_special_tokens = read->split_special_tokens,
                             .source_language = read->source_language,
                             .target_language = read->target_language,
                             .prompt = read->prompt,
                             .has_sentence_ends = read->has_sentence_ends,
                             .sentence_ends = read->sentence_ends,
                             .n_sentence_ends = read->n_sentence_ends,
                             .similarity = hs__similarity_kind(read),
                             .interventions = read->interventions,
                             .n_interventions = read->n_own_interventions,
                             .source_interventions = read->interventions + read->n_own_interventions,
                             .n_source_interventions = read->n_interventions - read->n_own_interventions};
}
