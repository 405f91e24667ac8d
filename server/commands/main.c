/* headscope - one program: the server and its commands. */
#include "server/base/version.h"
#include "server/commands/commands.h"

#include <stdio.h>
#include <string.h>

static const hs_command *const commands[] = {&hs__command_serve,  &hs__command_analyze, &hs__command_corpus,
                                             &hs__command_merge,  &hs__command_report,  &hs__command_pull,
                                             &hs__command_models, &hs__command_bench,   NULL};

static void help_print(FILE *out)
{
    fprintf(out, "usage: headscope COMMAND [OPTION]...\n"
                 "Shows how BERT-like encoders pay attention.\n\n");
    for (const hs_command *const *command = commands; *command; command++)
        fprintf(out, "  %-10s %s\n", (*command)->name, (*command)->summary);
    fprintf(out, "\n'headscope COMMAND --help' explains a command; --version tells the version.\n");
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;
    for (const hs_command *const *command = commands; name && *command; command++)
        if (strcmp((*command)->name, name) == 0)
            return (*command)->main(*command, argc - 1, argv + 1);
    if (name && strcmp(name, "--help") == 0) {
        help_print(stdout);
        return HS_EXIT_DONE;
    }
    if (name && strcmp(name, "--version") == 0) {
        printf("headscope %s\n", HS_VERSION);
        return HS_EXIT_DONE;
    }
    if (name)
        fprintf(stderr, "headscope: there is no command '%s'\n\n", name);
    help_print(stderr);
    return HS_EXIT_USAGE;
}
