/* test_commands.c - the commands when memory runs out: each allocation fails in turn. A command
 * prints and writes everything, or fails with a message, and nothing leaks. */
#include "server/commands/commands.h"
#include "tests/unit/chaos.h"
#include "tests/unit/checkpoint.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <fcntl.h>
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
     {"--interventions", "[{\"layer\":0,\"head\":0,\"kind\":\"zero\"}]", "texts"},
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

static char top[64], printed[PRINTED_BYTES_MAX], expected[PRINTED_BYTES_MAX], written[PRINTED_BYTES_MAX],
    expected_file[PRINTED_BYTES_MAX];
static size_t n_printed;

/* Reads a file into a buffer of PRINTED_BYTES_MAX bytes; nothing if it is not there. Returns its size. */
static size_t file_read(const char *name, char *ret)
{
    const int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, ret, PRINTED_BYTES_MAX) : 0;
    if (fd >= 0)
        close(fd);
    return n > 0 ? (size_t)n : 0;
}

/* Runs a command with its standard output into "printed" and its messages into "messages". */
static int run(const line *l)
{
    char *argv[ARGUMENTS_MAX + 2] = {(char *)l->command->name};
    int argc = 1;
    for (; l->arguments[argc - 1]; argc++)
        argv[argc] = (char *)l->arguments[argc - 1];
    fflush(NULL);
    const int output = dup(STDOUT_FILENO), messages = dup(STDERR_FILENO);
    const int to = open("printed", O_CREAT | O_TRUNC | O_WRONLY, 0600),
              said = open("messages", O_CREAT | O_TRUNC | O_WRONLY, 0600);
    dup2(to, STDOUT_FILENO);
    dup2(said, STDERR_FILENO);
    const int exit_code = l->command->main(l->command, argc, argv);
    fflush(NULL);
    dup2(output, STDOUT_FILENO);
    dup2(messages, STDERR_FILENO);
    close(to);
    close(said);
    close(output);
    close(messages);
    n_printed = file_read("printed", printed);
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

static void setup(void)
{
    static const char texts[] = "The river flows past the town.\nA bank of the river.\n";
    folder_create(top);
    ck_assert_int_eq(chdir(top), 0);
    folder_write(".", "texts", texts, sizeof texts - 1);
    count("a");
    count("b");
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
           (!l->file ||
            (file_read(l->file, written) == n_file && memcmp(written, expected_file, n_file) == 0));
}

/* Returns true if the messages tell why the command failed. */
static bool says_why(bool refused)
{
    const size_t n = file_read("messages", written);
    written[n < PRINTED_BYTES_MAX ? n : PRINTED_BYTES_MAX - 1] = '\0';
    return n > 0 && (!refused || strstr(written, "memory"));
}

START_TEST(a_command_does_everything_or_fails)
{
    const line *l = &lines[_i];
    const int exit_code = run(l);
    const size_t n_expected = n_printed, n_file = l->file ? file_read(l->file, expected_file) : 0;
    memcpy(expected, printed, n_printed);
    const size_t live = chaos_live();
    bool refused = true;
    for (size_t nth = 0; refused; nth += 1 + nth / 8) {
        ck_assert_uint_lt(nth, ALLOCATIONS_MAX);
        chaos_refuse(nth);
        const int code = run(l);
        refused = chaos_stop();
        ck_assert_msg(code == exit_code || (refused && code), "%s, allocation %zu: exit code %d",
                      l->command->name, nth, code);
        ck_assert_msg(code ? says_why(refused && code != exit_code) : is_same(l, n_expected, n_file),
                      "%s, allocation %zu: another output, or message: %s", l->command->name, nth, written);
        ck_assert_msg(chaos_live() == live, "%s, allocation %zu: something leaked", l->command->name, nth);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("commands");
    TCase *chaos = tcase_create("memory runs out");
    tcase_add_unchecked_fixture(chaos, setup, teardown);
    tcase_set_timeout(chaos, 600);
    tcase_add_loop_test(chaos, a_command_does_everything_or_fails, 0, N_LINES);
    suite_add_tcase(suite, chaos);
    return tests_run(suite);
}
