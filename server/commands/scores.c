/* scores.c - headscope scores: the heads of a model that attend to the previous token, to the same token, or
 * to the token after it, on random repeated sequences. */
#include "model/files/json.h"
#include "server/base/catalog.h"
#include "server/base/machine.h"
#include "server/base/printable.h"
#include "server/commands/commands.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMATS "table|csv|json"

typedef struct scores_options {
    hs_catalog_options catalog;
    size_t length, sequences, seed, top; /* 0: the default of length and of top */
    const char *format;
} scores_options;

/* The scores, from left to right as the table has them. */
static const char *const names[] = {"induction", "duplicate", "previous"};
enum {
    N_SCORES = sizeof names / sizeof *names,
    TOP = 10,  /* heads in each column, by default */
    DIGITS = 9 /* of a score: those of a float */
};

/* ---- asking ---- */

/* The scores do not depend on the text, so the request has a text of one token. */
static char *body_make(const scores_options *o)
{
    const size_t refusals = hs_json_refusals();
    json_t *scores =
        json_pack("{sI, sI}", "sequences", (json_int_t)o->sequences, "seed", (json_int_t)o->seed);
    if (o->length > 0)
        json_object_set_new(scores, "length", json_integer((json_int_t)o->length));
    json_t *body = json_pack("{s[i], ss, s[s], so, si}", "input_ids", 0, "layers", "all", "outputs",
                             "head_scores", "head_scores", scores, "digits", DIGITS);
    body = hs_json_whole(body, refusals);
    char *text = body ? hs_json_text(body, JSON_COMPACT) : NULL;
    json_decref(body);
    return text;
}

/* Reads the api's answer, or its problem into err. */
static hs_status answer_read(const hs_response *response, json_t **ret_answer, hs_error *err)
{
    json_t *answer;
    if (hs_json_load(response->body, response->body_bytes, JSON_ALLOW_NUL, &answer, NULL))
        return hs_fail(err, HS_NO_MEMORY, "no memory for the answer");
    if (response->status != 200) {
        static const char member[] = "head_scores/"; /* of the request: "length is 9; it must be ..." */
        const char *detail = json_string_value(json_object_get(answer, "detail"));
        const bool of_option = detail && strncmp(detail, member, sizeof member - 1) == 0;
        hs_fail(err, HS_INVALID, "%s%s", of_option ? "--" : "",
                of_option ? detail + sizeof member - 1
                : detail  ? detail
                          : "the scores could not be computed");
        json_decref(answer);
        return HS_INVALID;
    }
    *ret_answer = answer;
    return HS_OK;
}

static hs_status answer_make(scores_options *options, json_t **ret_answer, hs_error *err)
{
    hs_api *api = NULL;
    hs_response response = {0};
    char *body = body_make(options);
    hs_status st = body ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for the request");
    if (!st)
        st = hs_runtime_create(options->catalog.n_threads, &options->catalog.runtime, err);
    if (!st)
        st = hs__catalog_open(&options->catalog, &api, err);
    if (!st) {
        const hs_request request = {.operation = HS_ANALYZE,
                                    .content_type = "application/json",
                                    .id = "command-line",
                                    .body = body,
                                    .body_bytes = strlen(body),
                                    .n_threads = options->catalog.n_threads};
        hs_api_handle(api, &request, &response);
        st = answer_read(&response, ret_answer, err);
    }
    hs_response_finish(&response);
    hs_api_destroy(api);
    hs_runtime_destroy(options->catalog.runtime);
    free(body);
    return st;
}

/* ---- writing ---- */

/* A head and one of its scores. */
typedef struct ranked {
    size_t layer, head;
    double score;
} ranked;

static double score_at(const json_t *scores, size_t layer, size_t head, const char *name)
{
    const json_t *of_head = json_array_get(json_array_get(scores, layer), head);
    return json_number_value(json_object_get(of_head, name));
}

static int compare(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    return x->layer != y->layer ? (x->layer > y->layer) - (x->layer < y->layer)
                                : (x->head > y->head) - (x->head < y->head);
}

/* Ranks all heads by a score, the highest first. */
static void rank(const json_t *scores, const char *name, ranked *ret)
{
    const size_t n_heads = json_array_size(json_array_get(scores, 0));
    const size_t n = json_array_size(scores) * n_heads;
    for (size_t i = 0; i < n; i++)
        ret[i] = (ranked){i / n_heads, i % n_heads, score_at(scores, i / n_heads, i % n_heads, name)};
    qsort(ret, n, sizeof *ret, compare);
}

static hs_status table_print(const json_t *answer, size_t top, hs_error *err)
{
    const json_t *scores = json_object_get(answer, "head_scores");
    const size_t n = json_array_size(scores) * json_array_size(json_array_get(scores, 0));
    ranked *rows = malloc(N_SCORES * n * sizeof *rows);
    if (!rows)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the table");
    hs__print(stdout, "%s: the highest scores, as layer.head\n\n",
              json_string_value(json_object_get(answer, "model")));
    for (size_t k = 0; k < N_SCORES; k++) {
        rank(scores, names[k], rows + k * n);
        printf(k + 1 < N_SCORES ? "%-18s" : "%s", names[k]);
    }
    printf("\n");
    for (size_t i = 0; i < n && i < top; i++) {
        for (size_t k = 0; k < N_SCORES; k++) {
            char head[32];
            snprintf(head, sizeof head, "%zu.%zu", rows[k * n + i].layer, rows[k * n + i].head);
            printf("%-8s%.3f%s", head, rows[k * n + i].score, k + 1 < N_SCORES ? "     " : "");
        }
        printf("\n");
    }
    free(rows);
    return HS_OK;
}

static void csv_print(const json_t *answer)
{
    const json_t *scores = json_object_get(answer, "head_scores");
    printf("layer,head,induction,duplicate,previous\n");
    for (size_t l = 0; l < json_array_size(scores); l++)
        for (size_t h = 0; h < json_array_size(json_array_get(scores, l)); h++) {
            printf("%zu,%zu", l, h);
            for (size_t k = 0; k < N_SCORES; k++)
                printf(",%.*g", DIGITS, score_at(scores, l, h, names[k]));
            printf("\n");
        }
}

static hs_status answer_print(const json_t *answer, const scores_options *options, hs_error *err)
{
    hs_status st = HS_OK;
    if (strcmp(options->format, "table") == 0)
        st = table_print(answer, options->top ? options->top : TOP, err);
    else if (strcmp(options->format, "csv") == 0)
        csv_print(answer);
    else
        st = hs_json_write(json_object_get(answer, "head_scores"), stdout, DIGITS, err);
    if (!st && strcmp(options->format, "json") == 0)
        printf("\n");
    return st ? st : fflush(stdout) == 0 ? HS_OK : hs_fail(err, HS_IO, "cannot write to standard output");
}

/* ---- the command ---- */

#define AT(name) offsetof(scores_options, name)

static const hs_option scores_table[] = {
    {.name = "model",
     .argument = HS_MODEL_ARGUMENT,
     .help = HS_MODEL_HELP,
     .set = hs__set_model,
     .offset = AT(catalog)},
    {.name = "tokenizer",
     .argument = "DIR",
     .help = HS_TOKENIZER_HELP,
     .set = hs__set_operand_tokenizer,
     .offset = AT(catalog)},
    {.name = "length",
     .argument = "N",
     .help = "tokens of a sequence before it is repeated (50)",
     .set = hs__set_count,
     .offset = AT(length),
     .min = 2,
     .max = HS_POSITIONS_MAX},
    {.name = "sequences",
     .argument = "N",
     .help = "sequences whose scores are averaged (10)",
     .set = hs__set_count,
     .offset = AT(sequences),
     .min = 1,
     .max = 1000},
    {.name = "seed",
     .argument = "N",
     .help = "of the random tokens (0)",
     .set = hs__set_count,
     .offset = AT(seed),
     .max = 9007199254740991.0},
    {.name = "top",
     .argument = "N",
     .help = "heads in each column of the table (10)",
     .set = hs__set_count,
     .offset = AT(top),
     .min = 1,
     .max = HS_LAYERS_MAX * HS_HEADS_MAX},
    {.name = "format",
     .argument = "FORMAT",
     .help = "table, or all heads as csv or json (table)",
     .set = hs__set_choice,
     .offset = AT(format),
     .choices = FORMATS},
};

static int scores_main(const hs_command *command, int argc, char **argv)
{
    scores_options options = {.catalog.n_threads = hs__cores_usable(), .sequences = 10, .format = "table"};
    json_t *answer = NULL;
    int operand, exit_code;
    hs_error err = {0};
    if (!hs__options_parse(command, argc, argv, &options, &operand, &exit_code))
        return exit_code;
    if (argc - operand > 1)
        return hs__usage_error(command, "one model at a time; there is nothing to do with '%s'",
                               argv[operand + 1]);
    if (operand < argc && options.catalog.n_places > 0)
        return hs__usage_error(command, "--model names the model already: leave '%s' out", argv[operand]);
    if (options.top && strcmp(options.format, "table") != 0)
        return hs__usage_error(command,
                               "--top is of the table; leave it out with --format %s, which has all heads",
                               options.format);
    if (options.catalog.tokenizer && operand == argc)
        return hs__usage_error(command, "--tokenizer '%s': expected with the folder of its model",
                               options.catalog.tokenizer);
    hs_status st = operand < argc ? hs__catalog_choose(&options.catalog, argv[operand], &err) : HS_OK;
    if (!st)
        st = answer_make(&options, &answer, &err);
    if (!st)
        st = answer_print(answer, &options, &err);
    json_decref(answer);
    return st == HS_INVALID ? hs__usage_error(command, "%s", err.text)
           : st             ? hs__command_failed(command, &err)
                            : HS_EXIT_DONE;
}

const hs_command hs__command_scores = {
    .name = "scores",
    .operands = "[[NAME=]DIR]",
    .operand_words = "dir|folder|path",
    .operand_option = "model",
    .operand_help = "name the folder without an option",
    .summary = "Induction, duplicate-token and previous-token heads",
    .details = "A random sequence of tokens is repeated once. The scores are a head's mean attention:\n"
               "  induction  in the repetition, to the token after the same token\n"
               "  duplicate  in the repetition, to the same token\n"
               "  previous   to the previous token",
    .options = scores_table,
    .n_options = sizeof scores_table / sizeof *scores_table,
    .main = scores_main,
};
