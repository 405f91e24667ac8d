/* merge.c - `headscope merge` joins shards. */
#include "server/base/atomic_files.h"

#include "server/base/printable.h"
#include "server/commands/commands.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/report/report.h"
#include "server/corpus/run/run_checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct merge_options {
    const char *output;
} merge_options;

static const hs_option merge_table[] = {
    {.name = "output",
     .letter = 'o',
     .argument = "DIR",
     .help = "folder for the merged run (required)",
     .set = hs__set_string,
     .offset = offsetof(merge_options, output)},
};

static hs_status shards_merge(char *const *dirs, size_t n, hs__corpus_results *ret_results, hs_error *err)
{
    hs_status st = hs__run_checkpoint_load(dirs[0], ret_results, err);
    if (!st && !ret_results->done)
        st = hs_fail(err, HS_INVALID, "the run in '%.250s' is not finished: complete it with --resume first",
                     dirs[0]);
    for (size_t i = 1; !st && i < n; i++) {
        hs__corpus_results shard;
        st = hs__run_checkpoint_load(dirs[i], &shard, err);
        if (!st)
            st = hs__corpus_results_merge(ret_results, &shard, dirs[i], err);
        hs__corpus_results_finish(&shard);
    }
    return st;
}

/* Merges the files that counters keep in the shards' folders. The output may be one of the shards. */
static hs_status files_merge(char *const *dirs, size_t n, const hs__corpus_results *results,
                             const char *output, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t c = 0; !st && c < HS__N_COUNTERS; c++)
        if (hs__counters[c]->merge_files)
            st = hs__counters[c]->merge_files(results, dirs, n, output, err);
    return st;
}

static int merge_main(const hs_command *command, int argc, char **argv)
{
    merge_options options = {0};
    hs__corpus_results results = {0};
    hs_error err = {0};
    int operand, exit_code;
    if (!hs__options_parse(command, argc, argv, &options, &operand, &exit_code))
        return exit_code;
    if (!options.output)
        return hs__usage_error(command, "no output folder; name one with -o DIR");
    if (operand == argc)
        return hs__usage_error(command, "no shards; name their folders");
    hs_status st = shards_merge(argv + operand, (size_t)(argc - operand), &results, &err);
    if (!st)
        st = hs__folder_make(options.output, &err);
    if (!st)
        st = files_merge(argv + operand, (size_t)(argc - operand), &results, options.output, &err);
    if (!st)
        st = hs__run_checkpoint_save(&results, options.output, &err);
    if (!st)
        st = hs__corpus_report_write(&results, options.output, NULL, &err);
    const size_t n = json_array_size(results.shards);
    const long long due = json_integer_value(json_object_get(results.identity, "n_shards"));
    hs__corpus_results_finish(&results);
    if (st)
        return hs__command_failed(command, &err);
    if ((long long)n < due)
        fprintf(stderr, "headscope merge: %zu of %lld shards; merge the others with this folder later\n", n,
                due);
    hs__path_print(options.output, "report.html");
    return HS_EXIT_DONE;
}

const hs_command hs__command_merge = {
    .name = "merge",
    .operands = "DIR...",
    .summary = "Joins the shards of a corpus run",
    .details = "The result has the same counts as one run over all texts. All shards must have the same "
               "model, options and\n"
               "input, and each may be named once.",
    .options = merge_table,
    .n_options = sizeof merge_table / sizeof *merge_table,
    .main = merge_main,
};
