#include "api/ask.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What the readers of fields share. */
typedef struct reading {
    const hs_api *api;
    hs__ask *ask;
    hs__problem *problem;
    const hs__served_model *model;
} reading;

/* 422: "threshold must be a number in (0, 1]; it is 2". */
static int refuse_value(hs__problem *problem, const char *pointer, const json_t *value, const char *must)
{
    char is[128];
    switch (json_typeof(value)) {
    case JSON_REAL:
        snprintf(is, sizeof is, "%.17g", json_real_value(value));
        break;
    case JSON_STRING:
        snprintf(is, sizeof is, "\"%.*s\"", hs__clip(json_string_value(value), json_string_length(value), 64),
                 json_string_value(value));
        break;
    default:
        snprintf(is, sizeof is, "%s",
                 json_is_object(value)  ? "an object"
                 : json_is_array(value) ? "a list"
                 : json_is_null(value)  ? "null"
                 : json_is_true(value)  ? "true"
                                        : "false");
    }
    return hs__refuse(problem, 422, pointer, "%s must be %s; it is %s", pointer + 1, must, is);
}

static bool is_integer(const json_t *value, double low, double high)
{
    /* Integers are read as reals: 1.0 and 1e1 are integers in JSON Schema too, and none is too large to read.
     */
    const double number = json_real_value(value);
    return json_is_real(value) && number == floor(number) && number >= low && number <= high;
}

static int read_integer(reading *r, const json_t *value, const char *pointer, size_t low, size_t high,
                        size_t *ret)
{
    if (!is_integer(value, (double)low, (double)high)) {
        char must[64];
        snprintf(must, sizeof must, "an integer from %zu to %zu", low, high);
        return refuse_value(r->problem, pointer, value, must);
    }
    *ret = (size_t)json_real_value(value);
    return 0;
}

static int read_threshold(reading *r, const json_t *value, const char *pointer, float *ret)
{
    const double number = json_real_value(value);
    if (!json_is_real(value) || !(number > 0) || !(number <= 1))
        return refuse_value(r->problem, pointer, value, "a number in (0, 1]");
    *ret = (float)number;
    return 0;
}

static int read_bool(reading *r, const json_t *value, const char *pointer, bool *ret)
{
    if (!json_is_boolean(value))
        return refuse_value(r->problem, pointer, value, "true or false");
    *ret = json_is_true(value);
    return 0;
}

static int read_text(reading *r, const json_t *value, const char *pointer, hs_text *ret)
{
    if (!json_is_string(value))
        return refuse_value(r->problem, pointer, value, "a string");
    *ret = (hs_text){json_string_value(value), json_string_length(value)};
    return 0;
}

/* The number of the choice, -1 for none of them. choices ends with NULL. */
static int find_choice(const json_t *value, const char *const *choices)
{
    if (!json_is_string(value))
        return -1;
    for (int i = 0; choices[i]; i++) {
        if (json_string_length(value) == strlen(choices[i]) &&
            memcmp(json_string_value(value), choices[i], strlen(choices[i])) == 0)
            return i;
    }
    return -1;
}

static int read_choice(reading *r, const json_t *value, const char *pointer, const char *const *choices,
                       unsigned *ret)
{
    const int choice = find_choice(value, choices);
    if (choice < 0) {
        char must[160] = "one of";
        for (int i = 0; choices[i]; i++) {
            const size_t n = strlen(must);
            snprintf(must + n, sizeof must - n, "%s \"%s\"", i ? "," : "", choices[i]);
        }
        return refuse_value(r->problem, pointer, value, must);
    }
    *ret = (unsigned)choice;
    return 0;
}

/* A list of layer or head numbers, negative ones from the end, into ascending unique ones below n. */
static int read_numbers(reading *r, const json_t *value, const char *pointer, const char *what, size_t n,
                        uint16_t *ret_numbers, size_t *ret_n)
{
    _Static_assert(HS_LAYERS_MAX >= HS_HEADS_MAX, "chosen holds either");
    bool chosen[HS_LAYERS_MAX] = {false};
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *element = json_array_get(value, i);
        if (!is_integer(element, -(double)n, (double)n - 1)) {
            char at[64], must[128];
            snprintf(at, sizeof at, "%s/%zu", pointer, i);
            snprintf(must, sizeof must, "a %s of the model: 0 to %zu, or -%zu to -1 from the end", what,
                     n - 1, n);
            return refuse_value(r->problem, at, element, must);
        }
        const double number = json_real_value(element);
        chosen[(size_t)(number < 0 ? number + (double)n : number)] = true;
    }
    *ret_n = 0;
    for (size_t i = 0; i < n; i++) {
        if (chosen[i])
            ret_numbers[(*ret_n)++] = (uint16_t)i;
    }
    return 0;
}

static size_t choose_all(uint16_t *ret_numbers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ret_numbers[i] = (uint16_t)i;
    return n;
}

static int read_layers(reading *r, const json_t *value, const char *pointer)
{
    static const char *const choices[] = {"last", "all", NULL};
    hs__ask *ask = r->ask;
    const size_t n = r->model->shape->n_layers;
    const int choice = find_choice(value, choices);
    if (choice == 0) {
        ask->layers[0] = (uint16_t)(n - 1);
        ask->n_layers = 1;
    } else if (choice == 1) {
        ask->n_layers = choose_all(ask->layers, n);
    } else if (json_array_size(value) == 0) { /* also what is no list */
        return refuse_value(r->problem, pointer, value,
                            "\"last\", \"all\" or a list of at least one layer number");
    } else {
        return read_numbers(r, value, pointer, "layer", n, ask->layers, &ask->n_layers);
    }
    return 0;
}

static int read_heads(reading *r, const json_t *value, const char *pointer)
{
    static const char *const choices[] = {"all", NULL};
    hs__ask *ask = r->ask;
    const size_t n = r->model->shape->n_heads;
    if (find_choice(value, choices) == 0)
        ask->n_heads = choose_all(ask->heads, n);
    else if (json_array_size(value) == 0)
        return refuse_value(r->problem, pointer, value, "\"all\" or a list of at least one head number");
    else
        return read_numbers(r, value, pointer, "head", n, ask->heads, &ask->n_heads);
    return 0;
}

static int read_outputs(reading *r, const json_t *value, const char *pointer)
{
    static const char *const choices[] = {"attentions",    "similarities", "head_outputs",
                                          "hidden_states", "pairs",        "regions",
                                          "segments",      "summary",      NULL};
    if (!json_is_array(value))
        return refuse_value(
            r->problem, pointer, value,
            "a list of \"attentions\", \"similarities\", \"head_outputs\", \"hidden_states\", "
            "\"pairs\", \"regions\", \"segments\", \"summary\"");
    r->ask->outputs = 0;
    for (size_t i = 0; i < json_array_size(value); i++) {
        char at[64];
        unsigned choice = 0;
        snprintf(at, sizeof at, "%s/%zu", pointer, i);
        if (read_choice(r, json_array_get(value, i), at, choices, &choice))
            return r->problem->status;
        r->ask->outputs |= 1u << choice;
    }
    return 0;
}

static int read_sentence_ends(reading *r, const json_t *value, const char *pointer)
{
    hs__ask *ask = r->ask;
    const hs_tokenizer *tokenizer = hs_model_tokenizer(r->model->model);
    if (!json_is_array(value) || json_array_size(value) > HS__SENTENCE_ENDS_MAX)
        return refuse_value(r->problem, pointer, value, "a list of at most 64 tokens");
    ask->has_sentence_ends = true;
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *token = json_array_get(value, i);
        const int32_t id = json_is_string(token) ? hs_tokenizer_id(tokenizer, json_string_value(token),
                                                                   json_string_length(token))
                                                 : -1;
        if (id < 0) {
            char at[64];
            snprintf(at, sizeof at, "%s/%zu", pointer, i);
            return refuse_value(r->problem, at, token, "a token of the model's vocabulary");
        }
        ask->sentence_ends[ask->n_sentence_ends++] = id;
    }
    return 0;
}

static int read_text_field(reading *r, const json_t *value, const char *pointer)
{
    return read_text(r, value, pointer, &r->ask->text);
}

static int read_text_pair(reading *r, const json_t *value, const char *pointer)
{
    r->ask->has_pair = true;
    return read_text(r, value, pointer, &r->ask->pair);
}

static int read_max_tokens(reading *r, const json_t *value, const char *pointer)
{
    /* [CLS] text [SEP] pair [SEP] needs one more than [CLS] text [SEP]. */
    return read_integer(r, value, pointer, r->ask->has_pair ? 3 : 2, r->model->shape->n_positions,
                        &r->ask->max_tokens);
}

static int read_normalize(reading *r, const json_t *value, const char *pointer)
{
    static const char *const choices[] = {"none", "max", NULL};
    unsigned choice = 0;
    const int status = read_choice(r, value, pointer, choices, &choice);
    r->ask->normalize = choice == 1;
    return status;
}

static int read_threshold_field(reading *r, const json_t *value, const char *pointer)
{
    return read_threshold(r, value, pointer, &r->ask->threshold);
}

static int read_attention_threshold(reading *r, const json_t *value, const char *pointer)
{
    return read_threshold(r, value, pointer, &r->ask->attention_threshold);
}

static int read_max_pairs(reading *r, const json_t *value, const char *pointer)
{
    return read_integer(r, value, pointer, 0, 1000000, &r->ask->max_pairs);
}

static int read_reduce(reading *r, const json_t *value, const char *pointer)
{
    static const char *const choices[] = {"none", "sum", "mean", NULL};
    unsigned choice = HS__REDUCE_NONE;
    const int status = read_choice(r, value, pointer, choices, &choice);
    r->ask->reduce = (hs__reduce)choice;
    return status;
}

static int read_split_special_tokens(reading *r, const json_t *value, const char *pointer)
{
    return read_bool(r, value, pointer, &r->ask->split_special_tokens);
}

static int read_special_tokens(reading *r, const json_t *value, const char *pointer)
{
    static const char *const choices[] = {"keep", "mask", NULL};
    unsigned choice = 0;
    const int status = read_choice(r, value, pointer, choices, &choice);
    r->ask->mask_special = choice == 1;
    return status;
}

static int read_digits(reading *r, const json_t *value, const char *pointer)
{
    size_t digits = 0;
    const int status = read_integer(r, value, pointer, 1, 9, &digits);
    r->ask->digits = (int)digits;
    return status;
}

static int read_dtype(reading *r, const json_t *value, const char *pointer)
{
    static const char *const choices[] = {"f4", "f2", "u1", NULL};
    unsigned choice = HS__F4;
    const int status = read_choice(r, value, pointer, choices, &choice);
    r->ask->dtype = (hs__dtype)choice;
    return status;
}

/* Every field but model, which the others depend on, in the order of reading: text_pair decides about
 * max_tokens. */
static const struct field {
    const char *name;
    int (*read)(reading *r, const json_t *value, const char *pointer);
    bool tokenize; /* POST /tokenize has it too */
} fields[] = {
    {"text", read_text_field, true},
    {"text_pair", read_text_pair, true},
    {"max_tokens", read_max_tokens, true},
    {"split_special_tokens", read_split_special_tokens, true},
    {"sentence_ends", read_sentence_ends, true},
    {"layers", read_layers, false},
    {"heads", read_heads, false},
    {"outputs", read_outputs, false},
    {"normalize", read_normalize, false},
    {"threshold", read_threshold_field, false},
    {"attention_threshold", read_attention_threshold, false},
    {"max_pairs", read_max_pairs, false},
    {"reduce", read_reduce, false},
    {"special_tokens", read_special_tokens, false},
    {"digits", read_digits, false},
    {"dtype", read_dtype, false},
};
#define N_FIELDS (sizeof fields / sizeof *fields)

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
    /* jansson leaves the text empty where it forgot to say that an allocation failed. */
    if (json_error_code(&error) == json_error_out_of_memory || !error.text[0])
        return hs__refuse(problem, 500, NULL, "out of memory");
    hs__refuse(problem, 400, NULL, "the body is not valid %s: %s",
               json_error_code(&error) == json_error_invalid_utf8 ? "UTF-8" : "JSON", error.text);
    problem->line = error.line > 0 ? (size_t)error.line : 1;
    problem->column = error.column > 0 ? (size_t)error.column : 0;
    problem->byte = error.position > 0 ? (size_t)error.position : 0;
    return 400;
}

/* JSON pointer to a member of the body; to the body itself when the name is too long for one. */
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

static int check_names(json_t *body, bool tokens_only, hs__problem *problem)
{
    const char *name;
    json_t *value;
    json_object_foreach(body, name, value)
    {
        size_t f = 0;
        while (f < N_FIELDS && strcmp(name, fields[f].name) != 0)
            f++;
        if (strcmp(name, "model") == 0 || (f < N_FIELDS && (fields[f].tokenize || !tokens_only)))
            continue;
        char allowed[512] = "model", pointer[256];
        for (f = 0; f < N_FIELDS; f++) {
            const size_t n = strlen(allowed);
            if (fields[f].tokenize || !tokens_only)
                snprintf(allowed + n, sizeof allowed - n, ", %s", fields[f].name);
        }
        member_pointer(name, pointer);
        return hs__refuse(problem, 422, pointer, "unknown field '%.*s'; allowed: %s",
                          hs__clip(name, strlen(name), 64), name, allowed);
    }
    return 0;
}

static int find_model(const hs_api *api, const json_t *value, hs__ask *ask, hs__problem *problem)
{
    ask->model = 0;
    if (!value)
        return 0;
    if (!json_is_string(value))
        return refuse_value(problem, "/model", value, "a string");
    for (size_t i = 0; i < api->n_models; i++) {
        if (strlen(api->models[i].name) == json_string_length(value) &&
            strcmp(api->models[i].name, json_string_value(value)) == 0) {
            ask->model = i;
            return 0;
        }
    }
    char names[512] = "";
    for (size_t i = 0; i < api->n_models; i++) {
        const size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", api->models[i].name);
    }
    return hs__refuse(problem, 404, "/model", "there is no model '%.*s'; there is: %s",
                      hs__clip(json_string_value(value), json_string_length(value), 64),
                      json_string_value(value), names);
}

static void set_defaults(const hs__served_model *model, hs__ask *ask)
{
    const hs_shape *shape = model->shape;
    ask->max_tokens = shape->n_positions < 128 ? shape->n_positions : 128;
    ask->outputs = HS__ATTENTIONS | HS__SIMILARITIES | HS__PAIRS;
    ask->layers[0] = (uint16_t)(shape->n_layers - 1);
    ask->n_layers = 1;
    ask->n_heads = choose_all(ask->heads, shape->n_heads);
    ask->threshold = 0.3f;
    ask->attention_threshold = 0.3f;
    ask->max_pairs = 10000;
    ask->digits = 6;
}

bool hs__ask_ends_sentence(const hs__ask *ask, const hs_encoding *encoding, size_t i)
{
    if (!ask->has_sentence_ends)
        return encoding->roles[i] == HS_ROLE_SENTENCE_END;
    for (size_t k = 0; k < ask->n_sentence_ends; k++)
        if (ask->sentence_ends[k] == encoding->ids[i])
            return true;
    return false;
}

int hs__ask_read(const hs_api *api, const hs_request *request, bool tokens_only, hs__ask *ret_ask,
                 hs__problem *problem)
{
    if (api->n_models == 0)
        return hs__refuse(problem, 404, "/model", "no model is loaded");
    if (parse_body(request, &ret_ask->body, problem))
        return problem->status;
    json_t *body = ret_ask->body;
    if (!json_is_object(body))
        return hs__refuse(problem, 422, "", "the body must be a JSON object such as {\"text\": \"...\"}");
    if (check_names(body, tokens_only, problem) ||
        find_model(api, json_object_get(body, "model"), ret_ask, problem))
        return problem->status;
    reading r = {api, ret_ask, problem, &api->models[ret_ask->model]};
    set_defaults(r.model, ret_ask);
    if (!json_object_get(body, "text"))
        return hs__refuse(problem, 422, "/text", "the field 'text' is required: the text to analyse");
    for (size_t f = 0; f < N_FIELDS; f++) {
        char pointer[32];
        const json_t *value = json_object_get(body, fields[f].name);
        snprintf(pointer, sizeof pointer, "/%s", fields[f].name);
        if (value && fields[f].read(&r, value, pointer))
            return problem->status;
    }
    return 0;
}

int hs__ask_check_format(const hs__ask *ask, hs__format format, hs__problem *problem)
{
    if (format == HS__JSON || ask->dtype != HS__U1)
        return 0;
    if (ask->outputs & (HS__HEAD_OUTPUTS | HS__HIDDEN_STATES))
        return hs__refuse(problem, 422, "/dtype",
                          "u1 holds values in [0, 1]: head_outputs and hidden_states need f4 or f2");
    if ((ask->outputs & HS__SIMILARITIES) && !ask->normalize)
        return hs__refuse(problem, 422, "/dtype",
                          "u1 holds values in [0, 1]: similarities need normalize \"max\", or f4 or f2");
    if (ask->reduce == HS__REDUCE_SUM)
        return hs__refuse(problem, 422, "/dtype",
                          "u1 holds values in [0, 1]: with it reduce must be \"none\" or \"mean\"");
    return 0;
}

void hs__ask_finish(hs__ask *ask)
{
    json_decref(ask->body);
    ask->body = NULL;
}
