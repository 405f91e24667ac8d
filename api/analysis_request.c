/* analysis_request.c - checks a body in this order: JSON, object, known names, model, then every field with
 * the model's limits. The first error is the answer. */
#include "api/analysis_request.h"

#include "api/field_values.h"
#include "api/fields.h"
#include "api/spelling.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int parse_body(const hs_request *request, json_t **ret_body, hs__problem *problem)
{
    json_error_t error = {0};
    json_t *body = json_loadb(
        request->body_bytes ? request->body : "", request->body_bytes,
        JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, &error);
    if (body) {
        *ret_body = body;
        return 0;
    }
    /* jansson leaves the text empty if it does not report a failed allocation. */
    if (json_error_code(&error) == json_error_out_of_memory || !error.text[0])
        return hs__refuse(problem, 500, NULL, "out of memory");
    if (!request->body_bytes)
        hs__refuse(problem, 400, NULL, "the body is empty; send a JSON object such as {\"text\": \"...\"}");
    else if (request->body_bytes >= 3 && memcmp(request->body, "\xef\xbb\xbf", 3) == 0)
        hs__refuse(problem, 400, NULL,
                   "the body is not valid JSON: it begins with a byte order mark; leave out its 3 bytes");
    else
        hs__refuse(problem, 400, NULL, "the body is not valid %s: %s",
                   json_error_code(&error) == json_error_invalid_utf8 ? "UTF-8" : "JSON", error.text);
    problem->line = error.line > 0 ? (size_t)error.line : 1;
    problem->column = error.column > 0 ? (size_t)error.column : 0;
    problem->byte = error.position > 0 ? (size_t)error.position : 0;
    return 400;
}

/* Writes the JSON pointer to a member of the body, or to the body itself if the name is too long. */
static void member_pointer(const char *name, char ret_pointer[256])
{
    size_t n = 0;
    ret_pointer[n++] = '/';
    for (const char *c = name; *c; c++) {
        if (n + 3 > 256) {
            ret_pointer[0] = '\0';
            return;
        }
        if (*c == '~' || *c == '/') {
            ret_pointer[n++] = '~';
            ret_pointer[n++] = *c == '~' ? '0' : '1';
        } else {
            ret_pointer[n++] = *c;
        }
    }
    ret_pointer[n] = '\0';
}

/* Returns true if a field of this name exists; /tokenize has fewer. */
static bool is_field(const char *name, bool tokens_only)
{
    const hs_field *field = hs_field_find(name);
    return field ? field->tokenize || !tokens_only : strcmp(name, "model") == 0;
}

static int refuse_name(const char *name, bool tokens_only, hs__problem *problem)
{
    enum { NAMES_MAX = 64 };
    const char *names[NAMES_MAX + 1] = {"model"};
    char allowed[512] = "model", pointer[256];
    size_t n_names = 1;
    for (size_t i = 0; hs_field_at(i) && n_names < NAMES_MAX; i++) {
        const size_t n = strlen(allowed);
        if (!hs_field_at(i)->tokenize && tokens_only)
            continue;
        names[n_names++] = hs_field_at(i)->name;
        snprintf(allowed + n, sizeof allowed - n, ", %s", hs_field_at(i)->name);
    }
    member_pointer(name, pointer);
    const char *meant = hs_spelled_like(name, names);
    return hs__refuse(problem, 422, pointer, "unknown field '%.*s'%s%s%s; allowed: %s",
                      hs__clip(name, strlen(name)), name, meant ? "; did you mean '" : "", meant ? meant : "",
                      meant ? "'" : "", allowed);
}

static int check_names(json_t *body, bool tokens_only, hs__problem *problem)
{
    const char *name;
    json_t *value;
    json_object_foreach(body, name, value)
    {
        if (!is_field(name, tokens_only))
            return refuse_name(name, tokens_only, problem);
    }
    return 0;
}

static int refuse_model(hs_api *api, const json_t *value, hs__problem *problem)
{
    hs__served_model *models[HS__MODELS_MAX];
    char names[512] = "";
    const size_t n_models = hs__models_list(api, models);
    for (size_t i = 0; i < n_models; i++) {
        const size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", models[i]->name);
        hs__model_release(api, models[i]);
    }
    return hs__refuse(problem, 404, "/model", "unknown model '%.*s'; allowed: %s",
                      hs__clip(json_string_value(value), json_string_length(value)), json_string_value(value),
                      names);
}

static int find_model(hs_api *api, const json_t *value, hs__analysis_request *analysis, hs__problem *problem)
{
    if (value && !json_is_string(value))
        return hs__refuse_value(problem, "/model", value, "a string");
    analysis->model = hs__model_find(api, json_string_value(value), json_string_length(value));
    if (analysis->model)
        return 0;
    return value ? refuse_model(api, value, problem)
                 : hs__refuse(problem, 404, "/model", "no model is loaded: start the server with --model");
}

/* Refuses a body without exactly one input, or with fields that belong to another one. */
static int check_input(const json_t *body, hs__problem *problem)
{
    static const char *const inputs[] = {"text", "words", "input_ids"};
    static const struct {
        const char *field, *input;
    } only[] = {{"text_pair", "text"}, {"prompt_name", "text"}, {"token_type_ids", "input_ids"}};
    const char *input = NULL;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        char pointer[32];
        snprintf(pointer, sizeof pointer, "/%s", inputs[i]);
        if (json_object_get(body, inputs[i]) && input)
            return hs__refuse(problem, 422, pointer,
                              "'%s' and '%s' exclude each other: send only one of them", input, inputs[i]);
        input = json_object_get(body, inputs[i]) ? inputs[i] : input;
    }
    if (!input)
        return hs__refuse(problem, 422, "/text",
                          "the request has no input: one of 'text', 'words' and 'input_ids' is required");
    for (size_t i = 0; i < sizeof only / sizeof *only; i++) {
        char pointer[32];
        snprintf(pointer, sizeof pointer, "/%s", only[i].field);
        if (json_object_get(body, only[i].field) && strcmp(input, only[i].input) != 0)
            return hs__refuse(problem, 422, pointer, "'%s' is allowed with '%s' only", only[i].field,
                              only[i].input);
    }
    return 0;
}

int hs__analysis_request_read(hs_api *api, const hs_request *request, bool tokens_only,
                              hs__analysis_request *ret_analysis, hs__problem *problem)
{
    if (parse_body(request, &ret_analysis->body, problem))
        return problem->status;
    json_t *body = ret_analysis->body;
    if (!json_is_object(body))
        return hs__refuse(problem, 422, "", "the body must be a JSON object such as {\"text\": \"...\"}");
    if (check_names(body, tokens_only, problem) ||
        find_model(api, json_object_get(body, "model"), ret_analysis, problem))
        return problem->status;
    const hs__served_model *model = ret_analysis->model;
    hs__fields_default(model, ret_analysis);
    if (check_input(body, problem))
        return problem->status;
    if (!json_object_get(body, "text"))
        ret_analysis->prompt = NULL;
    return hs__fields_read(model, body, ret_analysis, problem);
}

static void input_finish(hs__input *input)
{
    free(input->words);
    free(input->ids);
    free(input->types);
}

void hs__analysis_request_finish(hs__analysis_request *analysis)
{
    json_decref(analysis->body);
    for (size_t i = 0; i < analysis->n_interventions; i++)
        free((size_t *)analysis->interventions[i].positions);
    for (size_t i = 0; i < analysis->n_sources; i++)
        input_finish(&analysis->sources[i].input);
    input_finish(&analysis->input);
    free(analysis->interventions);
    free(analysis->source_of);
    free(analysis->numbers);
    free(analysis->target_vector);
    free(analysis->predictions.positions);
    *analysis = (hs__analysis_request){0};
}
