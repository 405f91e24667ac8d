/* merge.c - runs that are done: shards joined, the page drawn again. */
#include "server/commands/commands.h"
#include "server/corpus/corpus_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct merge_options {
    const char *output;
} merge_options;

static const hs_option merge_table[] = {
    {"output", 'o', "DIR", "where the whole goes (needed)", hs__set_string, offsetof(merge_options, output),
     0, 0, NULL},
};

static hs_status shards_merge(char *const *dirs, size_t n, hs__corpus_record *ret_record, hs_error *err)
{
    hs_status st = hs__corpus_record_load(dirs[0], ret_record, err);
    if (!st && !ret_record->done)
        st = hs_fail(err, HS_INVALID, "the run in '%.250s' is not finished: go on with it first (--resume)",
                     dirs[0]);
    for (size_t i = 1; !st && i < n; i++) {
        hs__corpus_record shard;
        st = hs__corpus_record_load(dirs[i], &shard, err);
        if (!st)
            st = hs__corpus_record_merge(ret_record, &shard, dirs[i], err);
        hs__corpus_record_finish(&shard);
    }
    return st;
}

static int merge_main(const hs_command *command, int argc, char **argv)
{
    merge_options options = {0};
    hs__corpus_record record = {0};
    hs_error err = {0};
    int operand, exit_code;
    if (!hs__options_parse(command, argc, argv, &options, &operand, &exit_code))
        return exit_code;
    if (!options.output)
        return hs__usage_error(command, "where to? Name a folder with -o DIR");
    if (operand == argc)
        return hs__usage_error(command, "which shards? Name their folders");
    hs_status st = shards_merge(argv + operand, (size_t)(argc - operand), &record, &err);
    if (!st)
        st = hs__folder_make(options.output, &err);
    if (!st)
        st = hs__corpus_record_save(&record, options.output, &err);
    if (!st)
        st = hs__corpus_report_write(&record, options.output, NULL, &err);
    const size_t n = json_array_size(record.shards);
    const long long due = json_integer_value(json_object_get(record.identity, "n_shards"));
    hs__corpus_record_finish(&record);
    if (st)
        return hs__command_failed(command, &err);
    if ((long long)n < due)
        fprintf(stderr, "headscope merge: %zu of %lld shards; merge the rest with this folder later\n", n,
                due);
    printf("%s/report.html\n", options.output);
    return HS_EXIT_DONE;
}

const hs_command hs__command_merge = {
    .name = "merge",
    .operands = "DIR...",
    .summary = "Joins the shards of a corpus run",
    .details = "The whole has the same counts as one run over all texts. Shards of another model, of other "
               "options or\n"
               "of another input are refused, and so is one that is there twice.",
    .options = merge_table,
    .n_options = sizeof merge_table / sizeof *merge_table,
    .main = merge_main,
};

/* ---- report ---- */

static const hs_option report_table[] = {
    {"output", 'o', "FILE", "the page to write (DIR/report.html)", hs__set_string,
     offsetof(merge_options, output), 0, 0, NULL},
};

static hs_status page_write(FILE *file, void *data, hs_error *err)
{
    hs__corpus_record *record = data;
    json_t *report = hs__corpus_report_json(record);
    const hs_status st = report ? hs__corpus_html_write(file, record->stats, report, err)
                                : hs_fail(err, HS_NO_MEMORY, "no memory for the report");
    json_decref(report);
    return st;
}

static int report_main(const hs_command *command, int argc, char **argv)
{
    merge_options options = {0};
    hs__corpus_record record = {0};
    hs_error err = {0};
    char path[4096];
    int operand, exit_code;
    if (!hs__options_parse(command, argc, argv, &options, &operand, &exit_code))
        return exit_code;
    if (argc - operand != 1)
        return hs__usage_error(command, "name the folder of one run");
    if (options.output)
        snprintf(path, sizeof path, "%s", options.output);
    else
        snprintf(path, sizeof path, "%s/" HS__REPORT_HTML, argv[operand]);
    hs_status st = hs__corpus_record_load(argv[operand], &record, &err);
    if (!st)
        st = hs__path_write(path, page_write, &record, &err);
    hs__corpus_record_finish(&record);
    if (st)
        return hs__command_failed(command, &err);
    printf("%s\n", path);
    return HS_EXIT_DONE;
}

const hs_command hs__command_report = {
    .name = "report",
    .operands = "DIR",
    .summary = "Draws a corpus run's report again, as one HTML file",
    .options = report_table,
    .n_options = sizeof report_table / sizeof *report_table,
    .main = report_main,
};
