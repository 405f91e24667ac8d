/* help.c - a command's table of options as a page, as a section of the manual and as a branch of the shell's
 * completion. Each is made on request, from the table that also reads the options, so none can lag
 * behind. */
#include "server/commands/help.h"

#include <stdio.h>
#include <string.h>

bool hs__help_form_read(const char *text, hs__help_form *ret_form)
{
    *ret_form = text && strcmp(text, "bash") == 0 ? HS__HELP_BASH : text ? HS__HELP_MAN : HS__HELP_TEXT;
    return !text || strcmp(text, "man") == 0 || strcmp(text, "bash") == 0;
}

static void print_text(const hs_command *command)
{
    printf("usage: headscope %s [OPTION]...%s%s\n%s.\n\n", command->name, *command->operands ? " " : "",
           command->operands, command->summary);
    for (size_t i = 0; i < command->n_options; i++) {
        const hs_option *o = &command->options[i];
        char left[64];
        snprintf(left, sizeof left, "%c%c%s--%s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
                 o->letter ? ", " : "  ", o->name, o->argument ? " " : "", o->argument ? o->argument : "");
        printf("  %-34s %s\n", left, o->help);
    }
    printf("  %-34s %s\n", "-h, --help", "this page");
    if (command->environment)
        printf("\nEach option can also be set in the environment, --max-body as HEADSCOPE_MAX_BODY;"
               " the command line wins.\n");
    if (command->details)
        printf("\n%s\n", command->details);
}

/* Text for groff: a minus is one, and a line that begins with a dot is no request. */
static void man_text(const char *text)
{
    for (const char *c = text; *c; c++) {
        if ((c == text || c[-1] == '\n') && (*c == '.' || *c == '\''))
            fputs("\\&", stdout);
        if (*c == '-' || *c == '\\')
            fputs(*c == '-' ? "\\-" : "\\e", stdout);
        else
            putchar(*c);
    }
}

static void man_option(const hs_option *o)
{
    fputs(".TP\n", stdout);
    if (o->letter)
        printf("\\fB\\-%c\\fR, ", o->letter);
    fputs("\\fB\\-\\-", stdout);
    man_text(o->name);
    fputs("\\fR", stdout);
    if (o->argument)
        printf(" \\fI%s\\fR", o->argument);
    putchar('\n');
    man_text(o->help);
    putchar('\n');
}

static void print_man(const hs_command *command)
{
    printf(".SS headscope %s [OPTION]... %s\n", command->name, command->operands);
    man_text(command->summary);
    fputs(".\n", stdout);
    for (size_t i = 0; i < command->n_options; i++)
        man_option(&command->options[i]);
    if (command->environment)
        fputs(".PP\nEach option can also be set in the environment, \\-\\-max\\-body as HEADSCOPE_MAX_BODY; "
              "the command "
              "line wins.\n",
              stdout);
    if (command->details) {
        fputs(".PP\n", stdout);
        man_text(command->details);
        putchar('\n');
    }
}

/* "native|openblas" -> "native openblas" */
static void bash_choices(const char *choices)
{
    for (const char *c = choices; *c; c++)
        putchar(*c == '|' || *c == ',' ? ' ' : *c);
}

/* Inside `case $command in`: what may follow, and behind an option its choices. */
static void print_bash(const hs_command *command)
{
    printf("    %s)\n        options=\"", command->name);
    for (size_t i = 0; i < command->n_options; i++)
        printf("--%s ", command->options[i].name);
    fputs("--help\"\n        case $previous in\n", stdout);
    for (size_t i = 0; i < command->n_options; i++) {
        if (!command->options[i].choices)
            continue;
        printf("        --%s) choices=\"", command->options[i].name);
        bash_choices(command->options[i].choices);
        fputs("\" ;;\n", stdout);
    }
    fputs("        esac ;;\n", stdout);
}

void hs__help_print(const hs_command *command, hs__help_form form)
{
    static void (*const prints[])(const hs_command *) = {
        [HS__HELP_TEXT] = print_text, [HS__HELP_MAN] = print_man, [HS__HELP_BASH] = print_bash};
    prints[form](command);
}
