/* help.h - what a command says of itself, in each form that its one table of options is shown in. */
#pragma once

#include "server/commands/options.h"

typedef enum hs__help_form {
    HS__HELP_TEXT, /* --help: for the terminal */
    HS__HELP_MAN,  /* --help=man: a section of the manual page (groff) */
    HS__HELP_BASH, /* --help=bash: a branch of the completion's `case` */
} hs__help_form;

/* "man", "bash"; NULL is text. False for anything else. */
bool hs__help_form_read(const char *text, hs__help_form *ret_form);

/* On standard output. */
void hs__help_print(const hs_command *command, hs__help_form form);
