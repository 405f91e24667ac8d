/* request.c - reads a request: its query, its headers and its body. The first error is the answer.
 *
 * Header lists are read element by element (RFC 9110 section 5.6). The most precise range of an Accept header
 * applies to a type. The type with the highest q is chosen. */
#include "api/request/request.h"

#include "api/request/fields.h"
#include "api/request/texts.h"
#include "model/files/json.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ==== queries ==== */

/* Cuts a copy of the query at '&' and '=' and decodes the pieces where they are. */

/* Returns the value of a hexadecimal digit, or -1. */
static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20; /* small letters */
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes %XX and '+'; a '%' without two digits stands for itself. Returns false for a NUL. */
static bool decode(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        const int high = *from == '%' ? hex_value(from[1]) : -1, low = high < 0 ? -1 : hex_value(from[2]);
        *to = low < 0 ? *from == '+' ? ' ' : *from : (char)(high * 16 + low);
        from += low < 0 ? 0 : 2;
        if (!*to++)
            return false;
    }
    *to = '\0';
    return true;
}

/* Writes "max_tokens, layers, ...". */
static const char *list_names(const char *const *names, size_t n, char *ret, size_t n_ret)
{
    size_t used = 0;
    for (size_t k = 0; k < n && used < n_ret; k++)
        used += (size_t)snprintf(ret + used, n_ret - used, "%s%s", k ? ", " : "", names[k]);
    return ret;
}

static int refuse_unknown(const char *name, const char *pointer, const char *const *names, size_t n,
                          hs__problem *problem)
{
    char allowed[512];
    const bool can_point = strlen(name) <= 64 && !strpbrk(name, "/~");
    return hs__refuse(problem, 422, can_point ? pointer : NULL, "unknown query parameter '%.*s'; allowed: %s",
                      hs__clip(name, strlen(name)), name, list_names(names, n, allowed, sizeof allowed));
}

/* Keeps one parameter. value is NULL without '='. */
static int keep_parameter(hs_query *query, char *name, char *value, const char *const *names, size_t n,
                          hs__problem *problem)
{
    char pointer[80];
    size_t k = 0;
    if (!decode(name) || (value && !decode(value)))
        return hs__refuse(problem, 422, NULL, "the query has a NUL, %%00; send text without it");
    snprintf(pointer, sizeof pointer, "/%.64s", name);
    while (k < n && strcmp(name, names[k]) != 0)
        k++;
    if (k == n)
        return refuse_unknown(name, pointer, names, n, problem);
    if (query->values[k])
        return hs__refuse(problem, 422, pointer, "the query parameter '%s' is given twice; send it once",
                          name);
    if (!value || strlen(value) >= HS_QUERY_VALUE_BYTES)
        return hs__refuse(problem, 422, pointer, "%s must have a value of less than %d bytes", name,
                          HS_QUERY_VALUE_BYTES);
    query->values[k] = value;
    return 0;
}

/* Does what hs_query_read does. */
static int query_read(const char *query, const char *const *names, size_t n, hs_query *ret_query,
                      hs__problem *problem)
{
    assert(n <= HS_QUERY_NAMES_MAX);
    *ret_query = (hs_query){.text = strdup(query ? query : "")};
    char *rest = ret_query->text, *name;
    if (!rest)
        return hs__refuse_memory(problem, "no memory for the query");
    while ((name = strsep(&rest, "&"))) {
        char *value = strchr(name, '=');
        if (value)
            *value++ = '\0';
        if ((*name || value) && keep_parameter(ret_query, name, value, names, n, problem))
            return problem->status;
    }
    return 0;
}

bool hs_query_read(const char *query, const char *const *names, size_t n, hs_query *ret_query,
                   hs_response *ret_response)
{
    hs__problem problem = {0};
    if (!query_read(query, names, n, ret_query, &problem))
        return true;
    *ret_response = (hs_response){0};
    hs__problem_write(&problem, NULL, ret_response);
    return false;
}

void hs_query_finish(hs_query *query)
{
    free(query->text);
    *query = (hs_query){0};
}

/* ==== formats ==== */

static const hs_format formats[HS__FORMAT_COUNT] = {
    [HS__JSON] = {"json", "application/json"},
    [HS__NPZ] = {"npz", "application/x-npz"},
    [HS__SAFETENSORS] = {"safetensors", "application/x-safetensors"},
    [HS__SVG] = {"svg", "image/svg+xml"},
    [HS__PDF] = {"pdf", "application/pdf"},
    [HS__PNG] = {"png", "image/png"},
    [HS__CSV] = {"csv", "text/csv"},
};

/* The format of answers to a body of several requests. */
static const hs_format lines_format = {"ndjson", "application/x-ndjson"};
static const char *const lines_types[] = {"application/x-ndjson", "application/jsonl", "application/ndjson"};

const char *hs__format_media_type(hs__answer_format format)
{
    return formats[format].media_type;
}

/* One element of a header list such as "text/html;q=0.8, x". */
typedef struct item {
    const char *name; /* before any parameter, trimmed */
    size_t n_name;
    const char *parameters; /* from the first ';' on, may be empty */
    size_t n_parameters;
} item;

/* Takes the next element off *list; false at its end. */
static bool next_item(const char **list, item *ret_item)
{
    const char *at = *list + strspn(*list, ", \t");
    if (!*at)
        return false;
    bool quoted = false;
    const char *end = at;
    for (; *end && (quoted || *end != ','); end++) {
        if (*end == '"')
            quoted = !quoted;
        else if (quoted && *end == '\\' && end[1])
            end++;
    }
    size_t n_name = 0;
    while (at + n_name < end && at[n_name] != ';')
        n_name++;
    ret_item->parameters = at + n_name;
    ret_item->n_parameters = (size_t)(end - at) - n_name;
    while (n_name > 0 && strchr(" \t", at[n_name - 1]))
        n_name--;
    ret_item->name = at;
    ret_item->n_name = n_name;
    *list = end;
    return true;
}

static bool item_is(const item *it, const char *name)
{
    return it->n_name == strlen(name) && strncasecmp(it->name, name, it->n_name) == 0;
}

/* "text/" followed by "*", for "text/html" */
static bool item_is_range(const item *it, const char *media_type)
{
    const size_t n_type = strcspn(media_type, "/") + 1;
    return it->n_name == n_type + 1 && it->name[n_type] == '*' &&
           strncasecmp(it->name, media_type, n_type) == 0;
}

/* The value of a parameter, unquoted; NULL when absent. */
static const char *item_parameter(const item *it, const char *name, size_t *ret_n)
{
    const char *at = it->parameters, *end = at + it->n_parameters;
    const size_t n = strlen(name);
    while (at < end) {
        at++; /* the ';' */
        while (at < end && strchr(" \t", *at))
            at++;
        const char *stop = memchr(at, ';', (size_t)(end - at));
        stop = stop ? stop : end;
        if ((size_t)(stop - at) > n && strncasecmp(at, name, n) == 0 && at[n] == '=') {
            at += n + 1;
            while (stop > at && strchr(" \t", stop[-1]))
                stop--;
            if (stop - at >= 2 && *at == '"' && stop[-1] == '"') {
                at++;
                stop--;
            }
            *ret_n = (size_t)(stop - at);
            return at;
        }
        at = stop;
    }
    return NULL;
}

/* q in thousandths; 1000 where it is absent or no number. */
static int item_quality(const item *it)
{
    size_t n;
    const char *q = item_parameter(it, "q", &n);
    if (!q || n == 0 || (*q != '0' && *q != '1'))
        return 1000;
    int quality = (*q - '0') * 1000;
    for (size_t i = 2, weight = 100; i < n && weight > 0 && q[i] >= '0' && q[i] <= '9'; i++, weight /= 10)
        quality += (q[i] - '0') * (int)weight;
    return quality > 1000 ? 1000 : quality;
}

/* Returns the rank of a media type in an Accept header: by q, then by precision; 0 if it is excluded. */
static int rank(const char *accept, const char *media_type)
{
    int best_precision = 0, quality = 0;
    item it;
    while (next_item(&accept, &it)) {
        int precision = item_is(&it, media_type) ? 3 : 0;
        if (item_is_range(&it, media_type))
            precision = 2;
        else if (item_is(&it, "*/*"))
            precision = 1;
        if (precision > best_precision) {
            best_precision = precision;
            quality = item_quality(&it);
        }
    }
    return quality ? quality * 4 + best_precision : 0;
}

int hs__json_accepted(const char *accept, hs__problem *problem)
{
    if (!accept || rank(accept, formats[HS__JSON].media_type))
        return 0;
    return hs__refuse(problem, 406, NULL,
                      "the answer of this path is always application/json: ask for that, or send no Accept");
}

/* "json, npz": their names, or their media types. */
static const char *list(const hs_format *among, size_t n, bool media_types, char ret[256])
{
    size_t used = 0;
    for (size_t f = 0; f < n && used < 256; f++)
        used += (size_t)snprintf(ret + used, 256 - used, "%s%s", f ? ", " : "",
                                 media_types ? among[f].media_type : among[f].name);
    return ret;
}

/* Reads ?format=, n if it is not there, and unless ret_hooks is NULL ?names=hooks. */
static int format_read(const char *query, const hs_format *among, size_t n, size_t *ret_format,
                       bool *ret_hooks, hs__problem *problem)
{
    static const char *const parameters[] = {"format", "names"};
    hs_query q;
    char names[256];
    int status = query_read(query, parameters, ret_hooks ? 2 : 1, &q, problem);
    const char *format = q.values[0], *hooks = q.values[1];
    *ret_format = format ? 0 : n;
    while (format && *ret_format < n && strcmp(format, among[*ret_format].name) != 0)
        ++*ret_format;
    if (!status && format && *ret_format == n)
        status = hs__refuse(problem, 406, NULL, "unknown format '%.*s'; allowed: %s",
                            hs__clip(format, strlen(format)), format, list(among, n, false, names));
    if (!status && hooks && strcmp(hooks, "hooks") != 0)
        status = hs__refuse(problem, 422, NULL, "unknown names '%.*s'; allowed: hooks",
                            hs__clip(hooks, strlen(hooks)), hooks);
    if (ret_hooks)
        *ret_hooks = hooks != NULL;
    hs_query_finish(&q);
    return status;
}

/* Chooses by the query, or else by the Accept header, the first format by default. */
static int choose(const char *query, const char *accept, const hs_format *among, size_t n, size_t *ret_format,
                  bool *ret_hooks, hs__problem *problem)
{
    if (format_read(query, among, n, ret_format, ret_hooks, problem) || *ret_format < n)
        return problem->status;
    *ret_format = 0;
    if (!accept)
        return 0;
    int best = 0;
    for (size_t f = 0; f < n; f++) {
        const int want = rank(accept, among[f].media_type);
        if (want > best) {
            best = want;
            *ret_format = f;
        }
    }
    char media_types[256];
    if (best)
        return 0;
    return hs__refuse(problem, 406, NULL, "the Accept header allows none of %s",
                      list(among, n, true, media_types));
}

int hs__format_choose(const char *query, const char *accept, hs__answer_format *ret_format, bool *ret_hooks,
                      hs__problem *problem)
{
    size_t format;
    if (choose(query, accept, formats, HS__FORMAT_COUNT, &format, ret_hooks, problem))
        return problem->status;
    *ret_format = (hs__answer_format)format;
    if (ret_hooks && *ret_format == HS__JSON)
        *ret_hooks = false; /* JSON keeps its names */
    return 0;
}

size_t hs_format_choose(const hs_format *among, size_t n, const char *query, const char *accept,
                        hs_response *ret_response)
{
    hs__problem problem = {0};
    size_t format;
    if (!choose(query, accept, among, n, &format, NULL, &problem))
        return format;
    *ret_response = (hs_response){0};
    hs__problem_write(&problem, NULL, ret_response);
    return n;
}

/* The one media type of a Content-Type header. */
static bool content_is(const char *content_type, const char *media_type, item *ret_item)
{
    const char *list = content_type ? content_type : "";
    item more;
    return next_item(&list, ret_item) && item_is(ret_item, media_type) && !next_item(&list, &more);
}

static int charset_check(const item *it, hs__problem *problem)
{
    size_t n;
    const char *charset = item_parameter(it, "charset", &n);
    if (charset && !(n == 5 && strncasecmp(charset, "utf-8", 5) == 0) &&
        !(n == 4 && strncasecmp(charset, "utf8", 4) == 0))
        return hs__refuse(problem, 415, NULL, "charset is %.*s; JSON must be UTF-8", hs__clip(charset, n),
                          charset);
    return 0;
}

int hs__content_type_check(const char *content_type, hs__problem *problem)
{
    item it;
    if (!content_is(content_type, "application/json", &it))
        return hs__refuse(problem, 415, NULL,
                          "the body needs the header 'Content-Type: application/json' (curl: -H "
                          "'Content-Type: application/json')");
    return charset_check(&it, problem);
}

/* Returns true if the body is several requests, by any name of the media type that clients use. */
static bool content_is_lines(const char *content_type, item *ret_item)
{
    for (size_t k = 0; k < sizeof lines_types / sizeof *lines_types; k++)
        if (content_is(content_type, lines_types[k], ret_item))
            return true;
    return false;
}

bool hs_request_is_lines(const hs_request *request)
{
    item it;
    return request->operation == HS_ANALYZE && content_is_lines(request->content_type, &it);
}

bool hs_lines_refused(const hs_request *request, hs_response *ret_response)
{
    hs__problem problem = {0};
    item it;
    size_t format;
    if (!content_is_lines(request->content_type, &it) || charset_check(&it, &problem) ||
        choose(request->query, request->accept, &lines_format, 1, &format, NULL, &problem)) {
        *ret_response = (hs_response){0};
        hs__problem_write(&problem, request->id, ret_response);
    }
    return problem.status;
}

bool hs_gzip_accepted(const char *accept_encoding)
{
    if (!accept_encoding)
        return false;
    int gzip = -1, any = 0, identity = -1;
    item it;
    while (next_item(&accept_encoding, &it)) {
        const int quality = item_quality(&it);
        if (item_is(&it, "gzip") || item_is(&it, "x-gzip"))
            gzip = quality;
        else if (item_is(&it, "identity"))
            identity = quality;
        else if (item_is(&it, "*"))
            any = quality;
    }
    gzip = gzip < 0 ? any : gzip;
    return gzip > 0 && gzip >= identity;
}

/* ==== the body ==== */

/* JSON, an object, known names, a model, then every field. */

static int parse_body(const hs_request *request, json_t **ret_body, hs__problem *problem)
{
    enum { FLAGS = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL };
    json_error_t error = {0};
    const hs_status st =
        hs_json_load(request->body_bytes ? request->body : "", request->body_bytes, FLAGS, ret_body, &error);
    if (!st)
        return 0;
    if (st == HS_NO_MEMORY)
        return hs__refuse_memory(problem, "no memory for the body");
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
    char allowed[768] = "model", pointer[256];
    size_t n_names = 1;
    for (size_t i = 0; hs_field_at(i) && n_names < NAMES_MAX; i++) {
        const size_t n = strlen(allowed);
        if (!hs_field_at(i)->tokenize && tokens_only)
            continue;
        names[n_names++] = hs_field_at(i)->name;
        snprintf(allowed + n, sizeof allowed - n, ", %s", hs_field_at(i)->name);
    }
    member_pointer(name, pointer);
    if (strcmp(name, "messages") == 0)
        return hs__refuse(
            problem, 422, pointer,
            "messages need the model's chat template, which is not rendered here. transformers makes the "
            "field input_ids of them: tokenizer.apply_chat_template(messages, "
            "return_dict=True)[\"input_ids\"]");
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

/* Refuses fields beside max_new_tokens. A target of text ends with the tokens that end a text, so that
 * nothing can follow. */
static int check_new_tokens(const hs__analysis_request *analysis, hs__problem *problem)
{
    static const char *const names[] = {"text_target", "text_pair", "token_type_ids", "window"};
    for (size_t i = 0; analysis->max_new_tokens > 0 && i < sizeof names / sizeof *names; i++) {
        char pointer[32];
        snprintf(pointer, sizeof pointer, "/%s", names[i]);
        if (json_object_get(analysis->body, names[i]))
            return hs__refuse(problem, 422, pointer, "'%s' and 'max_new_tokens' exclude each other%s",
                              names[i],
                              i == 0 ? ": to let the model continue a target, send target_ids" : "");
    }
    return 0;
}

/* Returns the decoder of a model, or NULL. */
static const hs__served_model *decoder_of(const hs__served_model *model)
{
    return model->encoder ? model : model->decoder;
}

/* Returns true if the decoder's first token is the language of its text: mBART. */
static bool starts_with_language(const hs__served_model *decoder)
{
    return decoder->architecture->starts_with_language &&
           hs_tokenizer_languages(hs_model_tokenizer(decoder->model))->last;
}

static int need_language(const hs__served_model *model, hs__problem *problem)
{
    return hs__refuse(problem, 422, "/target_language",
                      "the target needs a language: send target_language, one of languages in %s",
                      model->list_command);
}

/* Returns true if one of the texts that the request or its patches read has no ids. */
static bool has_text(const hs__analysis_request *analysis, bool of_decoder)
{
    const hs__input *own = of_decoder ? &analysis->decoder_input : &analysis->input;
    bool found = own->text.bytes || own->words;
    for (size_t k = 0; k < analysis->n_sources; k++) {
        const hs__source *source = &analysis->sources[k];
        found = found || (of_decoder ? source->decoder_input.text.bytes : source->input.text.bytes);
    }
    return found;
}

/* Refuses the language of ids, which have their own, that of a target that the request lacks, and a target
 * without a language, of which transformers would take the source's. */
static int check_languages(const hs__analysis_request *analysis, hs__problem *problem)
{
    const hs__served_model *model = analysis->model, *decoder = decoder_of(model);
    const bool reads = has_text(analysis, true);
    const hs_model *whole = model->model;
    if (analysis->source_language && !has_text(analysis, false))
        return hs__refuse(problem, 422, "/source_language",
                          "'source_language' and 'input_ids' exclude each other: ids have the token of "
                          "their language");
    if (reads && !analysis->target_language &&
        hs_tokenizer_languages(hs_model_target_tokenizer(whole))->source >= 0 &&
        hs_model_target_language(whole) < 0)
        return need_language(model, problem);
    if (!analysis->target_language || reads || (decoder && starts_with_language(decoder)))
        return 0;
    if (analysis->decoder_input.ids)
        return hs__refuse(problem, 422, "/target_language",
                          "'target_language' and 'target_ids' exclude each other: ids have the token of "
                          "their language");
    if (!model->encoder || !analysis->max_new_tokens)
        return hs__refuse(
            problem, 422, "/target_language",
            "'target_language' is allowed with text_target, or with max_new_tokens of a decoder");
    return 0;
}

/* Refuses windows of a text that has none, and a stride without windows. */
static int check_window(const hs__analysis_request *analysis, hs__problem *problem)
{
    if (!analysis->has_window && json_object_get(analysis->body, "stride"))
        return hs__refuse(problem, 422, "/stride", "'stride' is allowed with 'window' only");
    if (analysis->has_window && analysis->model->encoder)
        return hs__refuse(problem, 422, "/window",
                          "'window' is allowed with stack \"encoder\" only: a decoder reads two texts");
    if (analysis->has_window && analysis->input.ids)
        return hs__refuse(problem, 422, "/window",
                          "'window' is allowed with 'text' and 'words' only: input_ids are not cut");
    if (analysis->has_window && analysis->prompt)
        return hs__refuse(problem, 422, "/window",
                          "'window' is not allowed with the prompt \"%s\", because only the first window "
                          "would have it; send prompt_name \"\"",
                          analysis->prompt->name);
    return 0;
}

/* Refuses a decoder whose first token is not known. served is the whole model. */
static int check_start(const hs__served_model *served, const hs__analysis_request *analysis,
                       hs__problem *problem)
{
    if (served->decoder->architecture->start_id >= 0)
        return 0;
    if (starts_with_language(served->decoder))
        return json_object_get(analysis->body, "target_language") ||
                       hs_model_target_language(served->model) >= 0
                   ? 0
                   : need_language(served, problem);
    return hs__refuse(problem, 422, "/stack",
                      "the config.json of %s does not say which token its decoder reads first: add "
                      "decoder_start_token_id to it",
                      served->name);
}

int hs__stack_choose(hs__analysis_request *analysis, hs__problem *problem)
{
    const hs__served_model *served = analysis->model;
    const json_t *stack = json_object_get(analysis->body, "stack");
    const int choice = hs__choice_find(stack, hs_field_find("stack")->choices);
    if (stack && choice < 0)
        return hs__refuse_value(problem, "/stack", stack, "one of \"encoder\", \"decoder\", \"cross\"");
    if (!stack || choice == HS_STACK_ENCODER)
        return 0;
    if (!served->decoder)
        return hs__refuse(
            problem, 422, "/stack",
            "%s has one stack of layers, and a request is about that by default: leave stack out; "
            "stacks in %s shows which models have a decoder and cross heads",
            served->name, served->list_command);
    if (check_start(served, analysis, problem))
        return problem->status;
    analysis->model = served->decoder;
    return 0;
}

/* Refuses a decoder without exactly one text of its own, and such a text without a decoder. */
static int check_decoder_input(const hs__analysis_request *analysis, hs__problem *problem)
{
    const hs__served_model *model = analysis->model;
    const bool text = json_object_get(analysis->body, "text_target") != NULL;
    const bool ids = json_object_get(analysis->body, "target_ids") != NULL;
    const char *name = text ? "text_target" : "target_ids", *pointer = text ? "/text_target" : "/target_ids";
    if (text && ids)
        return hs__refuse(problem, 422, "/target_ids",
                          "'text_target' and 'target_ids' exclude each other: send only one of them");
    if (model->encoder && !text && !ids && !json_object_get(analysis->body, "max_new_tokens"))
        return hs__refuse(
            problem, 422, "/text_target",
            "the decoder has no text to read: send text_target, or target_ids, without the start "
            "token, or max_new_tokens to let the model write it");
    if (model->encoder || (!text && !ids))
        return 0;
    if (model->decoder)
        return check_start(model, analysis, problem);
    return hs__refuse(problem, 422, pointer,
                      "%s has no decoder to read %s: leave it out; stacks in %s shows which models have one",
                      model->name, name, model->list_command);
}

int hs__analysis_request_parse(const hs_request *request, bool tokens_only,
                               hs__analysis_request *ret_analysis, hs__problem *problem)
{
    if (parse_body(request, &ret_analysis->body, problem))
        return problem->status;
    if (!json_is_object(ret_analysis->body))
        return hs__refuse(problem, 422, "", "the body must be a JSON object such as {\"text\": \"...\"}");
    return check_names(ret_analysis->body, tokens_only, problem);
}

int hs__analysis_request_read(hs__analysis_request *analysis, hs__problem *problem)
{
    hs__fields_default(analysis->model, analysis);
    if (check_input(analysis->body, problem) || check_decoder_input(analysis, problem))
        return problem->status;
    if (!json_object_get(analysis->body, "text"))
        analysis->prompt = NULL;
    if (hs__fields_read(analysis->model, analysis->body, analysis, problem))
        return problem->status;
    if (check_new_tokens(analysis, problem) || check_languages(analysis, problem))
        return problem->status;
    return check_window(analysis, problem);
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
    for (size_t i = 0; i < analysis->n_interventions; i++) {
        free((size_t *)analysis->interventions[i].positions);
        free((float *)analysis->interventions[i].vector);
    }
    for (size_t i = 0; i < analysis->n_sources; i++) {
        input_finish(&analysis->sources[i].input);
        input_finish(&analysis->sources[i].decoder_input);
    }
    input_finish(&analysis->input);
    input_finish(&analysis->decoder_input);
    free(analysis->interventions);
    free(analysis->changes);
    free(analysis->named_at);
    free(analysis->numbers);
    free(analysis->target_vector);
    free(analysis->predictions.positions);
    *analysis = (hs__analysis_request){0};
}
