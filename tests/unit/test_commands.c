/* test_commands.c - the commands when memory runs out: allocations fail in turn, at ever larger steps. A
 * command prints and writes everything, or fails with a message, and nothing leaks. */
#include "server/commands/commands.h"
#include "tests/unit/chaos.h"
#include "tests/unit/checkpoint.h"
#include "tests/unit/command_output.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ALLOCATIONS_MAX = 10000000, PRINTED_BYTES_MAX = 1 << 22, ARGUMENTS_MAX = 24 };

#define TEXT "The old bridge closed."

/* A command in the folder of the test, and the file that it writes, or NULL. */
typedef struct line {
    const hs_command *command;
    const char *arguments[ARGUMENTS_MAX];
    const char *file;
} line;

static const line lines[] = {
    {&hs__command_models, {"mini"}, NULL},
    {&hs__command_analyze, {"--format", "json", "--outputs", "summary,attentions", "texts"}, NULL},
    {&hs__command_analyze, {"--words", "[\"The\",\"old\"]", "--outputs", "pairs", "--digits", "3"}, NULL},
    {&hs__command_analyze,
     {"--interventions", "[{\"layers\":[0],\"heads\":[0],\"kind\":\"zero\"}]", "texts"},
     NULL},
    {&hs__command_analyze, {"--layers", "all", "-o", "a.npz", "texts"}, "a.npz"},
    {&hs__command_analyze, {"--unknown"}, NULL},
    {&hs__command_plot, {"--kind", "layer", "texts"}, NULL},
    {&hs__command_plot, {"--data", "data.csv", "-o", "plot.pdf", TEXT}, "data.csv"},
    {&hs__command_scores, {"--length", "4", "--sequences", "1"}, NULL},
    {&hs__command_scores, {"--length", "4", "--sequences", "1", "--format", "csv"}, NULL},
    {&hs__command_scores, {"--length", "4", "--sequences", "1", "--format", "json"}, NULL},
    {&hs__command_search, {"--head", "0.0", "--from", "text=the", "a"}, NULL},
    {&hs__command_search, {"--head", "0.0", "--format", "json", "a"}, NULL},
    {&hs__command_search, {"--head", "0.0", "--by", "self", "a"}, NULL},
    {&hs__command_report, {"a"}, "a/report.html"},
    {&hs__command_report, {"-o", "c.html", "a", "b"}, "c.html"},
    {&hs__command_report, {"-o", "c.json", "a", "b"}, "c.json"},
    {&hs__command_report, {"-o", "c.csv", "a", "b"}, "c.csv"},
};
enum { N_LINES = sizeof lines / sizeof *lines };

/* Commands on a terminal, which print a page to read. */
static const line pages[] = {
    {&hs__command_analyze, {"--heads", "0,1", "--predictions", "{\"lens\": true}", "masked"}, NULL},
    {&hs__command_analyze,
     {"--heads", "0", "--center", "text", "--interventions", "[{\"kind\":\"zero\",\"heads\":[1]}]", "texts"},
     NULL},
};
enum { N_PAGES = sizeof pages / sizeof *pages };

static char top[64], printed[PRINTED_BYTES_MAX], expected[PRINTED_BYTES_MAX], written[PRINTED_BYTES_MAX],
    expected_file[PRINTED_BYTES_MAX];
static size_t n_printed;

static bool on_terminal;

/* A command asks this whether to print a page. Its output still goes to a file. */
int isatty(int fd)
{
    return on_terminal && fd == STDOUT_FILENO;
}

/* Runs a command, with its standard output in `printed`. */
static int run(const line *l)
{
    char *argv[ARGUMENTS_MAX + 2] = {(char *)l->command->name};
    int argc = 1;
    for (; l->arguments[argc - 1]; argc++)
        argv[argc] = (char *)l->arguments[argc - 1];
    const int exit_code = command_run(l->command, argc, argv, "printed", "messages");
    n_printed = command_file_read("printed", printed, sizeof printed);
    return exit_code;
}

/* Counts texts into a folder. */
static void count(const char *folder)
{
    const line l = {&hs__command_corpus,
                    {"--layers", "0", "--max-tokens", "8", "--search-texts", "3", "--examples", "2",
                     "--workers", "1", "-o", folder, "texts"},
                    NULL};
    ck_assert_int_eq(run(&l), 0);
}

/* The commands' handlers of signals do not stay: this is the process of all tests. */
static void setup(void)
{
    struct sigaction interrupt, terminate;
    sigaction(SIGINT, NULL, &interrupt);
    sigaction(SIGTERM, NULL, &terminate);
    static const char texts[] = "The river flows past the town.\nA bank of the river.\n",
                      masked[] = "The [MASK] flows.\n";
    folder_create(top);
    ck_assert_int_eq(chdir(top), 0);
    folder_write(".", "texts", texts, sizeof texts - 1);
    folder_write(".", "masked", masked, sizeof masked - 1);
    count("a");
    count("b");
    sigaction(SIGINT, &interrupt, NULL);
    sigaction(SIGTERM, &terminate, NULL);
}

static void teardown(void)
{
    char command[100];
    ck_assert_int_eq(chdir("/"), 0);
    snprintf(command, sizeof command, "rm -r %s", top);
    ck_assert_int_eq(system(command), 0);
}

/* Returns true if the command did what it did with enough memory. */
static bool is_same(const line *l, size_t n_expected, size_t n_file)
{
    return n_printed == n_expected && memcmp(printed, expected, n_printed) == 0 &&
           (!l->file || (command_file_read(l->file, written, sizeof written) == n_file &&
                         memcmp(written, expected_file, n_file) == 0));
}

/* Runs the command with one allocation after the other refused. */
static void everything_or_failure(const line *l)
{
    const int exit_code = run(l);
    const size_t n_expected = n_printed,
                 n_file = l->file ? command_file_read(l->file, expected_file, sizeof expected_file) : 0;
    ck_assert_int_eq(exit_code == 0, strcmp(l->arguments[0], "--unknown") != 0);
    ck_assert(!l->file || n_file > 0);
    memcpy(expected, printed, n_printed);
    const size_t live = chaos_live();
    bool refused = true;
    for (size_t nth = 0; refused; nth += 1 + nth / 8) {
        ck_assert_uint_lt(nth, ALLOCATIONS_MAX);
        ck_assert(!l->file || unlink(l->file) == 0 || errno == ENOENT); /* that of the try before */
        chaos_refuse(nth);
        const int code = run(l);
        refused = chaos_stop();
        ck_assert_msg(code == exit_code || (refused && code), "%s, allocation %zu: exit code %d",
                      l->command->name, nth, code);
        ck_assert_msg(code ? command_says_why(refused && code != exit_code) : is_same(l, n_expected, n_file),
                      "%s, allocation %zu: another output, or message: %s", l->command->name, nth,
                      command_messages);
        ck_assert_msg(chaos_live() == live, "%s, allocation %zu: something leaked", l->command->name, nth);
    }
}

START_TEST(a_command_does_everything_or_fails)
{
    everything_or_failure(&lines[_i]);
}
END_TEST

START_TEST(a_page_is_whole_or_refused)
{
    on_terminal = true;
    everything_or_failure(&pages[_i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("commands");
    TCase *chaos = tcase_create("memory runs out");
    tcase_add_unchecked_fixture(chaos, setup, teardown);
    tcase_add_loop_test(chaos, a_command_does_everything_or_fails, 0, N_LINES);
    tcase_add_loop_test(chaos, a_page_is_whole_or_refused, 0, N_PAGES);
    suite_add_tcase(suite, chaos);
    return tests_run(suite);
}
