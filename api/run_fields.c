/* run_fields.c - reads each text as a request that has no other field. */
#include "api/run_fields.h"

#include "api/field_texts.h"
#include "api/fields.h"

#include <stdlib.h>

struct hs_fields {
    hs_shape shape; /* the model's, with tokens_max positions */
    hs__served_model model;
    hs__analysis_request read;
};

hs_status hs_fields_create(const hs_model *model, size_t tokens_max, hs_fields **ret_fields, hs_error *err)
{
    hs_fields *fields = calloc(1, sizeof *fields);
    if (!fields)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the settings");
    fields->shape = *hs_model_shape(model);
    fields->shape.n_positions = tokens_max;
    fields->model.model = model;
    fields->model.shape = &fields->shape;
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
        return hs_fail(err, problem.status == 500 ? HS_NO_MEMORY : HS_INVALID, "%s", text);
    }
    const hs_status st = hs_interventions_check(&fields->shape, fields->read.interventions,
                                                fields->read.n_interventions, &why);
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
                             .layers = read->layers,
                             .n_layers = read->n_layers,
                             .attention_threshold = read->attention_threshold,
                             .special_masked = read->special_tokens != 0,
                             .split_special_tokens = read->split_special_tokens,
                             .prompt = read->prompt,
                             .has_sentence_ends = read->has_sentence_ends,
                             .sentence_ends = read->sentence_ends,
                             .n_sentence_ends = read->n_sentence_ends,
                             .residual = read->similarity_space == HS__SPACE_RESIDUAL,
                             .interventions = read->interventions,
                             .n_interventions = read->n_interventions};
}
