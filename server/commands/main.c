/* main.c - one program: the server and its commands, and what they say of themselves. */
#include "server/base/version.h"

#include "server/base/printable.h"
#include "server/commands/commands.h"
#include "server/commands/options.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { COMMANDS_MAX = 16, STACK_BYTES = 256 << 10 };
static const hs_command *const commands[COMMANDS_MAX] = {&hs__command_serve,   &hs__command_view,
                                                         &hs__command_analyze, &hs__command_plot,
                                                         &hs__command_corpus,  &hs__command_study,
                                                         &hs__command_merge,   &hs__command_report,
                                                         &hs__command_pull,    &hs__command_models,
                                                         &hs__command_scores,  &hs__command_search,
                                                         &hs__command_bench,   NULL};

static const hs_command *command_find(const char *name)
{
    for (const hs_command *const *command = commands; *command; command++)
        if (strcmp((*command)->name, name) == 0)
            return *command;
    return NULL;
}

static void help_print(FILE *out)
{
    fprintf(out, "usage: headscope COMMAND [OPTION]...\n"
                 "Shows how transformers pay attention.\n\n");
    for (const hs_command *const *command = commands; *command; command++)
        fprintf(out, "  %-10s %s\n", (*command)->name, (*command)->summary);
    fprintf(out, "  %-10s %s\n", "help", "Explains a command, as in: headscope help serve");
    fprintf(out, "  %-10s %s\n", "version", "Tells the version and how this program was built");
    fprintf(out, "\n'headscope COMMAND --help' explains a command.\n");
}

static int help_of(const hs_command *command, const char *option)
{
    char name[64], given[32];
    snprintf(name, sizeof name, "%s", command->name);
    snprintf(given, sizeof given, "%s", option);
    return command->main(command, 2, (char *[]){name, given, NULL});
}

/* Every command's section between a page's beginning and its end. */
static int man_print(void)
{
    printf(".TH HEADSCOPE 1 \"\" \"headscope %s\" \"User Commands\"\n"
           ".SH NAME\nheadscope \\- shows how transformers pay attention\n"
           ".SH SYNOPSIS\n\\fBheadscope\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR]...\n.SH COMMANDS\n",
           HS_VERSION);
    for (const hs_command *const *command = commands; *command; command++)
        help_of(*command, "--help=man");
    printf(
        ".SH ENVIRONMENT\nEach option of a command can also be set in the environment, \\-\\-max\\-body as "
        "HEADSCOPE_MAX_BODY, a flag as 1 or 0. The command line wins.\n"
        ".SH EXIT STATUS\n0 done, 1 failed, 2 wrong usage, 130 ended by ^C.\n"
        ".SH SEE ALSO\nThe interface over HTTP is described at /openapi.json of a running server.\n");
    return HS_EXIT_DONE;
}

static int completion_print(void)
{
    printf("# bash completion for headscope: made by `headscope help --completion`\n"
           "_headscope() {\n"
           "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    local command=${COMP_WORDS[1]} options= choices=\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
           "        COMPREPLY=($(compgen -W \"help version");
    for (const hs_command *const *command = commands; *command; command++)
        printf(" %s", (*command)->name);
    printf("\" -- \"$current\"))\n        return\n    fi\n    case $command in\n");
    for (const hs_command *const *command = commands; *command; command++)
        help_of(*command, "--help=bash");
    printf("    esac\n"
           "    if [ -n \"$choices\" ]; then\n"
           "        COMPREPLY=($(compgen -W \"$choices\" -- \"$current\"))\n"
           "    elif [[ $current == -* ]]; then\n"
           "        COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
           "    else\n"
           "        COMPREPLY=($(compgen -f -- \"$current\"))\n"
           "    fi\n"
           "}\n"
           "complete -o filenames -F _headscope headscope\n");
    return HS_EXIT_DONE;
}

static int version_print(void)
{
    char library[128], kernels[96];
    hs_cblas_describe(library, sizeof library);
    hs_kernels_describe(kernels, sizeof kernels);
    printf("headscope %s", HS_VERSION);
    if (*hs_version_commit)
        printf(" and later changes, commit %s", hs_version_commit);
    printf("\ncompiler  %s %s\nproducts  native (%s), cblas (%s)\n",
#if defined __clang__
           "clang", __clang_version__,
#else
           "gcc", __VERSION__,
#endif
           kernels, library);
    return HS_EXIT_DONE;
}

static int unknown(const char *name)
{
    const char *names[COMMANDS_MAX + 2] = {"help", "version"};
    for (size_t i = 0; commands[i]; i++)
        names[i + 2] = commands[i]->name;
    const char *nearest = hs__nearest(name, names);
    hs__print(stderr, "headscope: there is no command '%s'%s%s%s\n\n", name, nearest ? "; did you mean " : "",
              nearest ? nearest : "", nearest ? "?" : "");
    help_print(stderr);
    return HS_EXIT_USAGE;
}

/* Refuses an argument behind those that help or version takes. */
static int surplus(const char *argument)
{
    hs__print(stderr,
              "headscope: there is nothing to do with '%s'; help takes one command, and version takes "
              "nothing\n",
              argument);
    fputs("Try 'headscope --help'.\n", stderr);
    return HS_EXIT_USAGE;
}

/* headscope help [COMMAND | --man | --completion] */
static bool is_one_of(const char *name, const char *a, const char *b, const char *c)
{
    return strcmp(name, a) == 0 || strcmp(name, b) == 0 || strcmp(name, c) == 0;
}

static int help_main(const char *about)
{
    if (about && strcmp(about, "--man") == 0)
        return man_print();
    if (about && strcmp(about, "--completion") == 0)
        return completion_print();
    if (about && !is_one_of(about, "help", "version", "--help"))
        return command_find(about) ? help_of(command_find(about), "--help") : unknown(about);
    help_print(stdout);
    return HS_EXIT_DONE;
}

/* Opens /dev/null in place of each standard descriptor that is closed: else the next file or socket would get
 * its number, and messages would be written into that. Reading from such an input and writing to such an
 * output fail as with a closed descriptor. Returns false if /dev/null cannot be opened. */
static bool standard_descriptors_open(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        const bool closed = fcntl(fd, F_GETFD) < 0 && errno == EBADF;
        if (closed && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            return false;
    }
    return true;
}

/* Returns the exit code of a command that has printed its result: failed if the result is not written. */
static int written(int exit_code)
{
    if (exit_code != HS_EXIT_DONE || (fflush(stdout) == 0 && !ferror(stdout)))
        return exit_code;
    fprintf(stderr, "headscope: cannot write to standard output\n");
    return HS_EXIT_FAILED;
}

/* Raises the limit of stacks to what the program needs. Returns false if that is more than the hard limit. */
static bool stack_reserve(void)
{
    struct rlimit limit;
    pthread_attr_t threads;
    if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur >= STACK_BYTES)
        return true;
    limit.rlim_cur = STACK_BYTES;
    if (limit.rlim_max < STACK_BYTES || setrlimit(RLIMIT_STACK, &limit))
        return false;
    pthread_attr_init(&threads);
    pthread_attr_setstacksize(&threads, STACK_BYTES);
    return !pthread_setattr_default_np(&threads);
}

int main(int argc, char **argv)
{
    static const char no_stack[] =
        "headscope: the limit of stacks is too low; raise it to 256 KiB (ulimit -s 256)\n";
    if (!stack_reserve()) {
        (void)!write(STDERR_FILENO, no_stack, sizeof no_stack - 1);
        return HS_EXIT_FAILED;
    }
    if (!standard_descriptors_open())
        return HS_EXIT_FAILED;
    signal(SIGXFSZ, SIG_IGN); /* the write fails with EFBIG, which is reported */
    hs_products_prepare();
    const char *name = argc > 1 ? argv[1] : NULL;
    if (!name) {
        help_print(stderr);
        return HS_EXIT_USAGE;
    }
    const bool helps = is_one_of(name, "help", "--help", "-h");
    if (helps && argc <= 3)
        return written(help_main(argv[2]));
    if (helps)
        return surplus(argv[3]);
    if (is_one_of(name, "version", "--version", "-V"))
        return argc > 2 ? surplus(argv[2]) : written(version_print());
    const hs_command *command = command_find(name);
    hs__options_share(&hs__command_serve);
    return command ? written(command->main(command, argc - 1, argv + 1)) : unknown(name);
}
