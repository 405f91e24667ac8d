/* merge.c - `headscope merge` joins shards. */
#include "server/base/atomic_files.h"

#include "server/base/printable.h"
#include "server/commands/commands.h"
#include "server/corpus/report/report.h"
#include "server/corpus/run/run_checkpoint.h"
#include "server/corpus/search/text_index.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct merge_options {
    const char *output;
} merge_options;

static const hs_option merge_table[] = {
    {"output", 'o', "DIR", "folder for the merged run (required)", hs__set_string,
     offsetof(merge_options, output), 0, 0, NULL},
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

static bool is_same_folder(const char *a, const char *b)
{
    struct stat of_a, of_b;
    return !stat(a, &of_a) && !stat(b, &of_b) && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

/* Returns a member of the identity, at most `most`. */
static size_t count_of(const hs__corpus_results *results, const char *name, size_t most)
{
    const json_int_t n = json_integer_value(json_object_get(results->identity, name));
    return n < 0 ? 0 : (size_t)n < most ? (size_t)n : most;
}

/* Joins the shards' indexes of texts, if the run has them. The output may be one of the shards. */
static hs_status indexes_merge(char *const *dirs, size_t n, const hs__corpus_results *results,
                               const char *output, hs_error *err)
{
    const hs_corpus_options o = hs_corpus_stats_options(results->stats);
    const hs__text_index_options options = {.n_texts = count_of(results, "search_texts", HS__INDEX_TEXTS_MAX),
                                            .n_examples = count_of(results, "examples", HS__TOP_TEXTS_MAX),
                                            .layers = o.layers,
                                            .n_layers = o.n_layers,
                                            .n_heads = o.n_heads};
    hs__text_index *index = NULL;
    if (!options.n_texts && !options.n_examples)
        return HS_OK;
    bool is_shard = false;
    for (size_t i = 0; i < n; i++)
        is_shard |= is_same_folder(output, dirs[i]);
    hs_status st = hs__text_index_open(output, !is_shard, &options, &index, err);
    for (size_t i = 0; !st && i < n; i++)
        if (!is_same_folder(output, dirs[i]))
            st = hs__text_index_merge(index, dirs[i], err);
    if (!st)
        st = hs__text_index_commit(index, err);
    hs__text_index_close(index);
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
        st = indexes_merge(argv + operand, (size_t)(argc - operand), &results, options.output, &err);
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
