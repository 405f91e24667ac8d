/* run_fields.h - the fields of /analyze that are also settings of a corpus run, read from texts. */
#pragma once

#include "engine/plan.h"
#include "model/model.h"

typedef struct hs_field_values {
    size_t max_tokens;
    const uint16_t *layers; /* [n_layers], ascending */
    size_t n_layers;
    float attention_threshold;
    bool special_masked; /* special_tokens: "mask" */
    bool split_special_tokens;
    const hs_prompt *prompt; /* of the model, before each text; NULL: none */
    bool has_sentence_ends;  /* else a sentence ends where HS_ROLE_SENTENCE_END says */
    const int32_t *sentence_ends;
    size_t n_sentence_ends;
    bool residual; /* similarity_space: "residual" */
    const hs_intervention *interventions;
    size_t n_interventions;
} hs_field_values;

/* Fields read outside a request. One thread at a time. */
typedef struct hs_fields hs_fields;

/* Creates fields with the defaults of /analyze. tokens_max: the limit of max_tokens. Borrows the model. */
HS_MUST_USE hs_status hs_fields_create(const hs_model *model, size_t tokens_max, hs_fields **ret_fields,
                                       hs_error *err);
void hs_fields_destroy(hs_fields *fields); /* NULL is fine */

/* Sets a field from a text, at most once. HS_INVALID: the message continues the field's name, as in
 * hs_field_problem. */
HS_MUST_USE hs_status hs_fields_set(hs_fields *fields, const char *name, const char *text, hs_error *err);

/* Returns the values. Their pointers stay valid until the next call of hs_fields_set or hs_fields_destroy. */
hs_field_values hs_fields_values(const hs_fields *fields);
