/* command_report.c - `headscope report` draws the page of a run again, or compares several runs. */
#include "server/base/atomic_files.h"

#include "server/base/printable.h"
#include "server/commands/commands.h"
#include "server/commands/compare_runs.h"
#include "server/corpus/report/comparison.h"
#include "server/corpus/report/report.h"
#include "server/corpus/run/run_checkpoint.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

typedef struct report_options {
    const char *output;
} report_options;

static const hs_option report_table[] = {
    {.name = "output",
     .letter = 'o',
     .argument = "FILE",
     .help = "the page to write (DIR/report.html); of several runs also .json or .csv",
     .set = hs__set_string,
     .offset = offsetof(report_options, output)},
};

static hs_status page_write(FILE *file, void *data, hs_error *err)
{
    hs__corpus_results *results = data;
    json_t *report = hs__corpus_report_json(results);
    const hs_status st = report ? hs__corpus_html_write(file, results->stats, report, err)
                                : hs_fail(err, HS_NO_MEMORY, "no memory for the report");
    json_decref(report);
    return st;
}

/* Refuses to replace a file from which the output is made. */
static hs_status output_check(const char *path, const char *dir, const char *name, hs_error *err)
{
    char own[PATH_MAX];
    snprintf(own, sizeof own, "%s/%s", dir, name);
    return hs__path_replaces(path, own)
               ? hs_fail(err, HS_INVALID, "'%.200s' is a file of the run itself: choose another output", path)
               : HS_OK;
}

static int one_run(const hs_command *command, const char *output, const char *dir)
{
    hs__corpus_results results = {0};
    hs_error err = {0};
    char path[4096];
    if (output && !hs__ending_is_known(output, "html|htm"))
        return hs__usage_error(command, "-o '%s': the report is a page; name a file that ends in .html",
                               output);
    if (output)
        snprintf(path, sizeof path, "%s", output);
    else
        snprintf(path, sizeof path, "%s/" HS__REPORT_HTML, dir);
    hs_status st = output_check(path, dir, HS__RUN_CHECKPOINT_FILE, &err);
    if (!st)
        st = hs__run_checkpoint_load(dir, &results, &err);
    if (!st)
        st = hs__path_write(path, page_write, &results, &err);
    if (!st && !results.done)
        hs__print(
            stderr,
            "headscope report: the run in '%s' is not finished, so this page is of the texts counted so "
            "far; headscope corpus --resume completes it\n",
            dir);
    hs__corpus_results_finish(&results);
    if (st)
        return hs__command_failed(command, &err);
    hs__path_print(path, "");
    return HS_EXIT_DONE;
}

static int several_runs(const hs_command *command, const char *output, const char *const *dirs, size_t n)
{
    static const char *const own[] = {HS__RUN_CHECKPOINT_FILE, HS__REPORT_JSON, HS__REPORT_HTML};
    json_t *comparison = NULL;
    hs_error err = {0};
    hs_status st = HS_OK;
    if (!output)
        return hs__usage_error(command,
                               "several runs are compared: name the file to write with -o FILE.html");
    if (!hs__ending_is_known(output, "html|htm|json|csv"))
        return hs__usage_error(command, "-o '%s': name a file that ends in .html, .json or .csv", output);
    for (size_t i = 0; !st && i < n; i++)
        for (size_t k = 0; !st && k < sizeof own / sizeof *own; k++)
            st = output_check(output, dirs[i], own[k], &err);
    if (!st)
        st = hs__folders_compare(dirs, dirs, n, &comparison, &err);
    if (!st)
        st = hs__comparison_write(comparison, output, &err);
    if (!st)
        hs__comparison_warnings_print(comparison, command->name);
    json_decref(comparison);
    if (st)
        return hs__command_failed(command, &err);
    hs__path_print(output, "");
    return HS_EXIT_DONE;
}

static int report_main(const hs_command *command, int argc, char **argv)
{
    report_options options = {0};
    int operand, exit_code;
    if (!hs__options_parse(command, argc, argv, &options, &operand, &exit_code))
        return exit_code;
    if (argc == operand)
        return hs__usage_error(command, "name the folder of a run, or of several");
    return argc - operand == 1 ? one_run(command, options.output, argv[operand])
                               : several_runs(command, options.output, (const char *const *)argv + operand,
                                              (size_t)(argc - operand));
}

const hs_command hs__command_report = {
    .name = "report",
    .operands = "DIR...",
    .summary = "Draws a corpus run's report again, or compares several runs",
    .details =
        "Of one run: its page. Of several runs, such as checkpoints of one training: a comparison in the "
        "order of the\n"
        "folders, or by step if their models are of one training. It is a page (FILE.html), JSON (FILE.json) "
        "or\n"
        "rows (FILE.csv).",
    .options = report_table,
    .n_options = sizeof report_table / sizeof *report_table,
    .main = report_main,
};
