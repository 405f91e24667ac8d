/* search.c - headscope search: the tokens that a head pairs, and the texts that are typical of it, from the
 * folder of a corpus run. */
#include "model/files/json.h"
#include "server/base/printable.h"
#include "server/commands/commands.h"
#include "server/corpus/report/report.h"
#include "server/corpus/run/run_checkpoint.h"
#include "server/corpus/search/pair_search.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FORMATS "table|json"

typedef struct search_options {
    hs__search_query query;
    const char *head, *format;
} search_options;

#define AT(name) offsetof(search_options, name)

static const hs_option search_table[] = {
    {.name = "head",
     .argument = "L.H",
     .help = "layer and head, from 0, like 5.3 (required)",
     .set = hs__set_string,
     .offset = AT(head)},
    {.name = "from",
     .argument = "TOKEN",
     .help = "token that attends: pos=NOUN, rel=nsubj, text=war; several with commas (any)",
     .set = hs__set_string,
     .offset = AT(query.from)},
    {.name = "to",
     .argument = "TOKEN",
     .help = "token that it attends to, in the same form (any)",
     .set = hs__set_string,
     .offset = AT(query.to)},
    {.name = "of",
     .argument = "WHAT",
     .help = "attention or similarity (attention)",
     .set = hs__set_choice,
     .offset = AT(query.of),
     .choices = "attention|similarity"},
    {.name = "min",
     .argument = "W",
     .help = "smallest weight, in [0, 1] (0)",
     .set = hs__set_string,
     .offset = AT(query.min)},
    {.name = "distance",
     .argument = "N",
     .help = "tokens from the first to the second: -1, or a range like -5..-1 (any)",
     .set = hs__set_string,
     .offset = AT(query.distance)},
    {.name = "by",
     .argument = "FIGURE",
     .help = "instead of pairs: the texts where this figure is highest, like previous",
     .set = hs__set_string,
     .offset = AT(query.by)},
    {.name = "limit",
     .argument = "N",
     .help = "number of answers, 1 to 1000 (100)",
     .set = hs__set_string,
     .offset = AT(query.limit)},
    {.name = "format",
     .argument = "FORMAT",
     .help = "table or json (table)",
     .set = hs__set_choice,
     .offset = AT(format),
     .choices = FORMATS},
};

/* ---- writing ---- */

static const char *printable(const json_t *string, char *ret, size_t n_ret)
{
    return json_is_string(string)
               ? hs__printable_bytes(json_string_value(string), json_string_length(string), ret, n_ret)
               : hs__printable("", ret, n_ret);
}

static void place_print(const json_t *found)
{
    char file[256], body[160];
    printf("  %s:%lld  %s\n", printable(json_object_get(found, "file"), file, sizeof file),
           json_integer_value(json_object_get(found, "line")),
           printable(json_object_get(found, "body"), body, sizeof body));
}

static void pairs_print(const json_t *answer)
{
    const json_t *pairs = json_object_get(answer, "pairs");
    printf("%lld pairs in %lld texts\n", json_integer_value(json_object_get(answer, "total")),
           json_integer_value(json_object_get(answer, "texts")));
    for (size_t k = 0; k < json_array_size(pairs); k++) {
        const json_t *pair = json_array_get(pairs, k), *from = json_object_get(pair, "from"),
                     *to = json_object_get(pair, "to");
        char names[2][64];
        printf("%.3f  %s (%lld) -> %s (%lld)", json_real_value(json_object_get(pair, "weight")),
               printable(json_object_get(from, "token"), names[0], sizeof names[0]),
               json_integer_value(json_object_get(from, "position")),
               printable(json_object_get(to, "token"), names[1], sizeof names[1]),
               json_integer_value(json_object_get(to, "position")));
        place_print(pair);
    }
}

static void examples_print(const json_t *answer)
{
    const json_t *examples = json_object_get(answer, "examples");
    if (json_array_size(examples) == 0)
        printf("0 texts: the figure is undefined in every text of this head\n");
    for (size_t k = 0; k < json_array_size(examples); k++) {
        printf("%.4g", json_number_value(json_object_get(json_array_get(examples, k), "value")));
        place_print(json_array_get(examples, k));
    }
}

static hs_status answer_print(const json_t *answer, const search_options *o, hs_error *err)
{
    hs_status st = HS_OK;
    if (strcmp(o->format, "json") == 0)
        st = hs_json_write(answer, stdout, 6, err);
    else if (o->query.by)
        examples_print(answer);
    else
        pairs_print(answer);
    if (!st && strcmp(o->format, "json") == 0)
        printf("\n");
    return st ? st : fflush(stdout) == 0 ? HS_OK : hs_fail(err, HS_IO, "cannot write to standard output");
}

/* ---- the command ---- */

/* Searches the run in a folder. A folder without a run has the error of every other command. */
static hs_status run_search(const char *dir, const hs__search_query *query, json_t **ret_answer,
                            const char **ret_wrong, hs_error *err)
{
    hs_error why = {0};
    const hs_status st =
        (query->by ? hs__search_examples : hs__search_pairs)(dir, query, ret_answer, ret_wrong, err);
    if (st == HS_NOT_FOUND && hs__run_checkpoint_find(dir, &why))
        *err = why;
    return st;
}

/* Says so if the run in a folder is not finished, which then has a checkpoint and no report. */
static void unfinished_tell(const char *dir)
{
    char path[PATH_MAX];
    hs_error why = {0};
    const int n = snprintf(path, sizeof path, "%s/" HS__REPORT_JSON, dir);
    if (n < (int)sizeof path && access(path, F_OK) && !hs__run_checkpoint_find(dir, &why))
        hs__print(stderr,
                  "headscope search: the run in '%s' is not finished, so this answer is of the texts counted "
                  "so far; headscope corpus --resume completes it\n",
                  dir);
}

static int search_main(const hs_command *command, int argc, char **argv)
{
    search_options options = {.format = "table"};
    hs__search_query *query = &options.query;
    char layer[16] = "";
    int operand, exit_code;
    hs_error err = {0};
    json_t *answer = NULL;
    const char *wrong = NULL;
    if (!hs__options_parse(command, argc, argv, &options, &operand, &exit_code))
        return exit_code;
    if (argc - operand != 1)
        return hs__usage_error(command, "name the folder of one run");
    const char *dot = options.head ? strchr(options.head, '.') : NULL;
    if (!dot || dot - options.head >= (int)sizeof layer)
        return hs__usage_error(command, "--head must be a layer and a head, from 0, like 5.3");
    if (query->by && (query->from || query->to || query->of || query->min || query->distance))
        return hs__usage_error(command, "--from, --to, --of, --min and --distance are of pairs; leave them "
                                        "out with --by, which lists texts");
    snprintf(layer, sizeof layer, "%.*s", (int)(dot - options.head), options.head);
    query->layer = layer;
    query->head = dot + 1;
    const hs_status st = run_search(argv[operand], query, &answer, &wrong, &err);
    if (st == HS_INVALID)
        return hs__usage_error(command, wrong && strcmp(wrong, "layer") == 0 ? "--head: %s" : "--%s",
                               err.text);
    if (!st)
        unfinished_tell(argv[operand]);
    const hs_status printed = st ? st : answer_print(answer, &options, &err);
    json_decref(answer);
    return printed ? hs__command_failed(command, &err) : HS_EXIT_DONE;
}

const hs_command hs__command_search = {
    .name = "search",
    .operands = "DIR",
    .summary = "Finds pairs of tokens and typical texts of a head in a corpus run",
    .details =
        "The run must have been started with --search-texts N, or for --by with --examples N. Pairs are "
        "the 32\n"
        "strongest of each text and head, one for each token, without special tokens. pos and rel are "
        "those of\n"
        "CoNLL-U.",
    .options = search_table,
    .n_options = sizeof search_table / sizeof *search_table,
    .main = search_main,
};
