/* texts.h - texts that stand for values: options of a command line, parameters of a query, settings of a
 * corpus run. */
#pragma once

#include "api/api.h"
#include "engine/plan.h"
#include "model/model.h"

#include <jansson.h>

/* ==== fields ==== */

/* Values of fields as texts, which command lines and query strings have. */

/* Returns the index of text[n] in the list "a|b"; -1 if it is not there, or choices or text is NULL. */
int hs_choice_find(const char *choices, const char *text, size_t n);

/* Parses a text into the JSON value of a field: "0,3,-1" into a list, "true" or "1" into true. Does not check
 * what depends on the model. Returns NULL if the text is no such value; err says what was expected. */
json_t *hs_field_json(const hs_field *field, const char *text, hs_error *err);

/* Words a problem's detail as the continuation of the field's name. Messages that spell the name as an option
 * need this: " is 9999; it must be ..." or " 0/factor: only scale takes a factor". */
void hs_field_problem(const char *pointer, const char *detail, char *ret_text, size_t n_ret);

/* ==== settings of a run ==== */

/* The fields of /analyze that are also settings of a corpus run, read from texts. */

typedef struct hs_field_values {
    size_t max_tokens;
    size_t stride;          /* tokens that neighbouring windows share */
    const uint16_t *layers; /* [n_layers], ascending */
    size_t n_layers;
    float attention_threshold;
    bool special_masked; /* special_tokens: "mask" */
    bool split_special_tokens;
    int32_t source_language; /* of each text, or of what a decoder reads; 0: the model's default */
    int32_t target_language;
    const hs_prompt *prompt; /* of the model, before each text; NULL: none */
    bool has_sentence_ends;  /* else a sentence ends where HS_ROLE_SENTENCE_END says */
    const int32_t *sentence_ends;
    size_t n_sentence_ends;
    hs_similarity similarity; /* similarity_space and center */
    const hs_intervention *interventions;
    size_t n_interventions;
    const hs_intervention *source_interventions; /* of a decoder: those in the encoder that it reads */
    size_t n_source_interventions;
} hs_field_values;

/* Fields read outside a request. One thread at a time. */
typedef struct hs_fields hs_fields;

/* Creates fields with the defaults of /analyze for the heads of a stack, which the model has. tokens_max: the
 * limit of max_tokens. Borrows the model. */
HS_MUST_USE hs_status hs_fields_create(const hs_model *model, hs_stack stack, size_t tokens_max,
                                       hs_fields **ret_fields, hs_error *err);
void hs_fields_destroy(hs_fields *fields); /* NULL is fine */

/* Sets a field from a text, at most once. HS_INVALID: the message continues the field's name, as in
 * hs_field_problem. */
HS_MUST_USE hs_status hs_fields_set(hs_fields *fields, const char *name, const char *text, hs_error *err);

/* Returns the values. Their pointers stay valid until the next call of hs_fields_set or hs_fields_destroy. */
hs_field_values hs_fields_values(const hs_fields *fields);

/* ==== queries ==== */

/* Reads the query of a URL: "max_tokens=128&name=my%20run". */

enum { HS_QUERY_NAMES_MAX = 40, HS_QUERY_VALUE_BYTES = 2048 };

typedef struct hs_query {
    const char *values[HS_QUERY_NAMES_MAX]; /* decoded, in the order of the names; NULL: not given */
    char *text;                             /* holds them */
} hs_query;

/* Reads the parameters that names [n] lists; query may be NULL. Refuses with 422 one that is unknown, given
 * twice, without '=', as long as HS_QUERY_VALUE_BYTES or with a NUL. Returns false if it refused;
 * ret_response then has the problem. Call hs_query_finish also after a refusal. */
bool hs_query_read(const char *query, const char *const *names, size_t n, hs_query *ret_query,
                   hs_response *ret_response);

void hs_query_finish(hs_query *query);

/* ==== misspelled names ==== */

/* The name that a misspelled word most likely means. */

/* Returns the word of the list, which ends with NULL, that is spelled almost like `word`, else one that
 * begins with it. Returns NULL if there is none. */
const char *hs_spelled_like(const char *word, const char *const *words);
