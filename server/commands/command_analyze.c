/* command_analyze.c - `headscope analyze`: options become the fields of a request, by the api's own table of
 * them, and the answer is written as it is. */
#include "server/base/catalog.h"
#include "server/base/cores.h"
#include "server/base/whole_files.h"
#include "server/commands/answer_page.h"
#include "server/commands/commands.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_BYTES_MAX ((size_t)256 << 20)

typedef struct analyze_options {
    hs_catalog_options catalog;
    json_t *fields; /* the request's, without its text */
    const char *format, *names, *output;
    bool for_a_person;     /* the answer is a page on the terminal */
    const char *tokenizer; /* the kind of the model's, static */
} analyze_options;

/* "max-tokens" -> "max_tokens": an option sets the request's field of its name. */
static hs_status field_set(const hs_option *option, json_t *value, void *ret, hs_error *err)
{
    analyze_options *options = ret;
    char name[64];
    snprintf(name, sizeof name, "%s", option->name);
    for (char *c = name; *c; c++)
        *c = (char)(*c == '-' ? '_' : *c);
    return json_object_set_new(options->fields, name, value) ? hs_fail(err, HS_INVALID, "expected UTF-8")
                                                             : HS_OK;
}

static hs_status set_word(const hs_option *option, const char *value, void *ret, hs_error *err)
{
    return field_set(option, json_string(value), ret, err);
}

static hs_status set_json(const hs_option *option, const char *value, void *ret, hs_error *err)
{
    json_error_t error;
    json_t *json = json_loads(value, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    return json ? field_set(option, json, ret, err)
                : hs_fail(err, HS_INVALID, "expected JSON: %s at column %d", error.text, error.column);
}

static hs_status set_flag(const hs_option *option, const char *value, void *ret, hs_error *err)
{
    (void)value;
    return field_set(option, json_true(), ret, err);
}

static hs_status set_whole(const hs_option *option, const char *value, void *ret, hs_error *err)
{
    char *end;
    errno = 0;
    const long long number = strtoll(value, &end, 10);
    if (errno || end == value || *end)
        return hs_fail(err, HS_INVALID, "expected a whole number");
    return field_set(option, json_integer(number), ret, err);
}

static hs_status set_real(const hs_option *option, const char *value, void *ret, hs_error *err)
{
    char *end;
    const double number = strtod(value, &end);
    if (end == value || *end)
        return hs_fail(err, HS_INVALID, "expected a number");
    return field_set(option, json_real(number), ret, err); /* not finite: json_real gives NULL */
}

/* "all", "last" or "0,3,-1" */
static hs_status set_numbers(const hs_option *option, const char *value, void *ret, hs_error *err)
{
    if (strcmp(value, "all") == 0 || strcmp(value, "last") == 0)
        return set_word(option, value, ret, err);
    json_t *list = json_array();
    for (const char *at = value;; at++) {
        char *end;
        errno = 0;
        const long long number = strtoll(at, &end, 10);
        if (errno || end == at || (*end && *end != ',')) {
            json_decref(list);
            return hs_fail(err, HS_INVALID, "expected %s%snumbers like 0,3,-1",
                           option->choices ? option->choices : "", option->choices ? ", or " : "");
        }
        json_array_append_new(list, json_integer(number));
        at = end;
        if (!*at)
            return field_set(option, list, ret, err);
    }
}

/* "similarities,pairs" */
static hs_status set_words(const hs_option *option, const char *value, void *ret, hs_error *err)
{
    json_t *list = json_array();
    for (const char *at = value;; at++) {
        const size_t n = strcspn(at, ",");
        json_array_append_new(list, json_stringn(at, n));
        at += n;
        if (!*at)
            return field_set(option, list, ret, err);
    }
}

static hs_status set_model(const hs_option *option, const char *value, void *ret, hs_error *err)
{
    analyze_options *options = ret;
    (void)option;
    return hs__catalog_choose(&options->catalog, value, err);
}

#define AT(field) offsetof(analyze_options, field)
/* What is no field of the request. */
static const hs_option own_options[] = {
    {"model", 0, "DIR|NAME", HS_MODEL_HELP, set_model, 0, 0, 0, NULL},
    {"format", 0, "FORMAT", "json, npz or safetensors (by FILE's ending, else json)", hs__set_choice,
     AT(format), 0, 0, "json|npz|safetensors"},
    {"names", 0, "NAMES", "of binary arrays: hooks, as TransformerLens has them, one a layer", hs__set_choice,
     AT(names), 0, 0, "hooks"},
    {"output", 'o', "FILE", "write there instead of standard output", hs__set_string, AT(output), 0, 0, NULL},
    {"backend", 0, "NAME", "native, openblas or onednn (native)", hs__set_choice, AT(catalog.backend), 0, 0,
     HS_BACKEND_NAMES},
    {"precision", 0, "NAME", "of products with weights: fp32, or bf16 or int8 where the CPU has it (fp32)",
     hs__set_choice, AT(catalog.precision), 0, 0, HS_PRECISION_NAMES},
};
enum { N_OWN = sizeof own_options / sizeof *own_options };

static const hs_option_set set_kinds[] = {
    [HS_FIELD_TEXT] = set_word,       [HS_FIELD_WORD] = set_word,   [HS_FIELD_WORDS] = set_words,
    [HS_FIELD_NUMBERS] = set_numbers, [HS_FIELD_IDS] = set_numbers, [HS_FIELD_WHOLE] = set_whole,
    [HS_FIELD_SHARE] = set_real,      [HS_FIELD_FLAG] = set_flag,   [HS_FIELD_OBJECTS] = set_json,
};

/* The options: each field of the request, by the api's table, then our own. */
typedef struct option_table {
    char names[HS_OPTIONS_MAX][40];
    hs_option options[HS_OPTIONS_MAX];
    char details[1024];
    size_t n;
} option_table;

static void table_add_field(option_table *table, const hs_field *field)
{
    char *name = table->names[table->n];
    snprintf(name, sizeof *table->names, "%s", field->name);
    for (char *c = name; *c; c++)
        *c = (char)(*c == '_' ? '-' : *c);
    table->options[table->n++] = (hs_option){.name = name,
                                             .argument = field->argument,
                                             .help = field->help,
                                             .set = set_kinds[field->kind],
                                             .choices = field->choices};
}

/* "Outputs: ..." in lines of a hundred characters. */
static void table_list_outputs(option_table *table)
{
    char *to = table->details, *const end = to + sizeof table->details;
    size_t column = 8;
    to += snprintf(to, (size_t)(end - to), "Outputs:");
    for (size_t i = 0; hs_output_name(i) && to < end; i++) {
        const char *name = hs_output_name(i);
        const bool wraps = column + strlen(name) > 98;
        to += snprintf(to, (size_t)(end - to), "%s%s%s", i ? "," : "", wraps ? "\n         " : " ", name);
        column = (wraps ? 8 : column) + strlen(name) + 2;
    }
    if (to < end)
        snprintf(to, (size_t)(end - to),
                 ".\nThe answer is that of POST /analyze; on a terminal, unless outputs or a format are "
                 "asked for,\na page to read.");
}

static void table_fill(option_table *table)
{
    table->options[table->n++] = own_options[0];
    for (size_t i = 0; hs_field_at(i); i++)
        if (strcmp(hs_field_at(i)->name, "text") != 0) /* the operand */
            table_add_field(table, hs_field_at(i));
    for (size_t i = 1; i < N_OWN; i++)
        table->options[table->n++] = own_options[i];
    table_list_outputs(table);
}

/* The whole of a file, or of standard input for NULL and "-". *ret_text is malloc'ed. */
static hs_status text_read(const char *path, char **ret_text, size_t *ret_n_bytes, hs_error *err)
{
    const bool standard = !path || strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "re");
    size_t capacity = 0, n_bytes = 0;
    char *text = NULL;
    hs_status st = HS_OK;
    if (!file)
        return hs_fail(
            err, HS_IO, "cannot read '%s': %s%s", path, strerror(errno),
            errno == ENOENT ? "; if that is the text itself, pipe it: echo TEXT | headscope analyze" : "");
    while (!st && !feof(file)) {
        if (n_bytes == capacity) {
            capacity = capacity ? 2 * capacity : 65536;
            char *more = capacity <= TEXT_BYTES_MAX ? realloc(text, capacity) : NULL;
            st = more ? HS_OK : hs_fail(err, HS_TOO_LARGE, "the text is too long; use shorter pieces");
            text = more ? more : text;
        }
        if (!st)
            n_bytes += fread(text + n_bytes, 1, capacity - n_bytes, file);
        if (!st && ferror(file))
            st = hs_fail(err, HS_IO, "cannot read '%s': %s", standard ? "standard input" : path,
                         strerror(errno));
    }
    if (!standard)
        fclose(file);
    if (st) {
        free(text);
        return st;
    }
    *ret_text = text;
    *ret_n_bytes = n_bytes;
    return HS_OK;
}

/* What a person reads instead of the JSON. */
static hs_status answer_show(const hs_response *response, const char *tokenizer, hs_error *err)
{
    json_t *answer = json_loadb(response->body, response->body_bytes, JSON_ALLOW_NUL, NULL);
    if (!answer)
        return hs_fail(err, HS_NO_MEMORY, "no memory to show the answer");
    hs__answer_page_print(answer, tokenizer, stdout);
    json_decref(answer);
    return fflush(stdout) == 0 ? HS_OK : hs_fail(err, HS_IO, "cannot write to the terminal");
}

/* An hs__file_write of an hs_response's body. */
static hs_status body_write(FILE *file, void *data, hs_error *err)
{
    const hs_response *response = data;
    (void)err;
    fwrite(response->body, 1, response->body_bytes, file);
    return HS_OK;
}

static const char *format_choose(const analyze_options *options)
{
    const char *dot = options->output ? strrchr(options->output, '.') : NULL;
    if (options->format)
        return options->format;
    return dot && (strcmp(dot, ".npz") == 0 || strcmp(dot, ".safetensors") == 0) ? dot + 1 : "json";
}

/* "value 'x' ..." of a problem+json body, with the option it is about. */
static void problem_tell(const hs_response *response, hs_error *err)
{
    json_t *problem = json_loadb(response->body, response->body_bytes, JSON_ALLOW_NUL, NULL);
    const char *detail = json_string_value(json_object_get(problem, "detail"));
    const char *pointer = json_string_value(json_object_get(problem, "pointer"));
    hs_fail(err, HS_INVALID, "%s%s%s", pointer ? pointer + (*pointer == '/') : "", pointer ? ": " : "",
            detail ? detail : "the answer could not be made");
    json_decref(problem);
}

/* A line on the terminal that the next one, or the prompt, takes the place of. */
static void progress_show(void *data, size_t n_done)
{
    (void)data;
    fprintf(stderr, "\reffects of %zu heads\r", n_done);
}

static hs_status answer_make(analyze_options *options, const char *body, hs_response *ret_response,
                             hs_error *err)
{
    hs_catalog catalog = {0};
    hs_api_worker *worker = NULL;
    char query[48];
    hs_status st = hs_runtime_create(options->catalog.n_threads, &options->catalog.runtime, err);
    if (!st)
        st = hs__catalog_open(&options->catalog, &catalog, err);
    if (!st)
        st = hs_api_worker_create(catalog.api, &worker, err);
    if (!st) {
        options->tokenizer = hs_tokenizer_kind(hs_model_tokenizer(catalog.models[0]));
        snprintf(query, sizeof query, "format=%s%s%s", format_choose(options),
                 options->names ? "&names=" : "", options->names ? options->names : "");
        const hs_request request = {.operation = HS_ANALYZE,
                                    .query = query,
                                    .content_type = "application/json",
                                    .id = "command-line",
                                    .body = body,
                                    .body_bytes = strlen(body),
                                    .n_threads = options->catalog.n_threads,
                                    .progress = isatty(STDERR_FILENO) ? progress_show : NULL};
        hs_api_handle(catalog.api, worker, &request, ret_response);
    }
    hs_api_worker_destroy(worker);
    hs__catalog_close(&catalog);
    hs_runtime_destroy(options->catalog.runtime);
    return st;
}

static int analyze_run(const hs_command *command, analyze_options *options, const char *path)
{
    hs_error err = {0};
    hs_response response = {0};
    char *text = NULL, *body = NULL;
    size_t n_bytes = 0;
    int exit_code = HS_EXIT_FAILED;
    const bool has_input =
        json_object_get(options->fields, "words") || json_object_get(options->fields, "input_ids");
    if (has_input && path)
        return hs__usage_error(command, "--words and --input-ids stand instead of a text: leave '%s' out",
                               path);
    if (!has_input && text_read(path, &text, &n_bytes, &err))
        goto out;
    if ((!has_input &&
         json_object_set_new(options->fields, "text", json_stringn(text ? text : "", n_bytes))) ||
        !(body = json_dumps(options->fields, JSON_COMPACT))) {
        hs_fail(&err, HS_BAD_REQUEST, "the text is not valid UTF-8; convert it, for example with iconv");
        goto out;
    }
    if (answer_make(options, body, &response, &err))
        goto out;
    if (response.status == 200) {
        if (!(options->for_a_person ? answer_show(&response, options->tokenizer, &err)
                                    : hs__path_write(options->output, body_write, &response, &err)))
            exit_code = HS_EXIT_DONE;
    } else {
        problem_tell(&response, &err);
        exit_code = response.status == 422 ? HS_EXIT_USAGE : HS_EXIT_FAILED;
    }
out:
    if (exit_code == HS_EXIT_USAGE)
        hs__usage_error(command, "%s", err.text);
    else if (exit_code == HS_EXIT_FAILED)
        hs__command_failed(command, &err);
    hs_response_finish(&response);
    free(body);
    free(text);
    return exit_code;
}

static int analyze_main(const hs_command *command, int argc, char **argv)
{
    analyze_options options = {.catalog.n_threads = hs__cores_usable(), .fields = json_object()};
    option_table table = {.n = 0};
    int operand, exit_code;
    table_fill(&table);
    hs_command filled = *command;
    filled.options = table.options;
    filled.n_options = table.n;
    filled.details = table.details;
    if (!hs__options_parse(&filled, argc, argv, &options, &operand, &exit_code))
        goto out;
    if (argc - operand > 1)
        exit_code = hs__usage_error(command, "one text at a time; there is nothing to do with '%s'",
                                    argv[operand + 1]);
    else if (strcmp(format_choose(&options), "json") != 0 && !options.output && isatty(STDOUT_FILENO))
        exit_code = hs__usage_error(command, "this format is not for a terminal: name a file with -o FILE");
    else {
        options.for_a_person = !options.format && !options.output && isatty(STDOUT_FILENO) &&
                               hs__answer_page_ask(options.fields);
        exit_code = analyze_run(command, &options, argv[operand]);
    }
out:
    json_decref(options.fields);
    return exit_code;
}

const hs_command hs__command_analyze = {
    .name = "analyze",
    .operands = "[FILE|-]",
    .summary = "Attention, similarity and pairs of one text",
    .main = analyze_main,
};
