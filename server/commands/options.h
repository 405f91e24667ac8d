/* options.h - a command's options from one table: getopt_long, the environment and --help all read its rows.
 */
#pragma once

#include "api/request/texts.h"

#include <stdbool.h>
#include <stddef.h>

/* Returns the word of the list, which ends with NULL, that means the same as `word` in other programs. For a
 * word that they do not use, returns one spelled almost alike, else one that begins with `word`. Returns NULL
 * if there is none of these. */
const char *hs__nearest(const char *word, const char *const *words);

enum { HS_OPTIONS_MAX = 64 }; /* of one command */

typedef struct hs_option hs_option;

/* Stores value at option->offset in the command's own struct, or says in err what was expected. */
typedef hs_status (*hs_option_set)(const hs_option *option, const char *value, void *ret_options,
                                   hs_error *err);

struct hs_option {
    const char *name;     /* "max-body" */
    char letter;          /* 'o' for -o, or 0 */
    const char *argument; /* "BYTES" as --help shows it; NULL: a flag, set is called with "1" */
    const char *help;
    hs_option_set set;
    size_t offset;
    double min, max;     /* of numbers */
    const char *choices; /* "text|json", of hs__set_choice */
};

hs_status hs__set_string(const hs_option *option, const char *value, void *ret,
                         hs_error *err); /* const char * */

hs_status hs__set_choice(const hs_option *option, const char *value, void *ret,
                         hs_error *err); /* const char * */

hs_status hs__set_count(const hs_option *option, const char *value, void *ret, hs_error *err); /* size_t */
hs_status hs__set_bytes(const hs_option *option, const char *value, void *ret,
                        hs_error *err); /* size_t, "64M" */

hs_status hs__set_seconds(const hs_option *option, const char *value, void *ret,
                          hs_error *err); /* uint64_t ms */

hs_status hs__set_model(const hs_option *option, const char *value, void *ret,
                        hs_error *err); /* hs_catalog_options: its only model */

hs_status hs__add_model(const hs_option *option, const char *value, void *ret,
                        hs_error *err); /* hs_catalog_options: one more */

hs_status hs__set_tokenizer(const hs_option *option, const char *value, void *ret,
                            hs_error *err); /* hs_catalog_options: that of the last model */
hs_status hs__set_untrained(const hs_option *option, const char *value, void *ret,
                            hs_error *err); /* hs_catalog_options: random weights of the last model */
hs_status hs__set_operand_tokenizer(const hs_option *option, const char *value, void *ret,
                                    hs_error *err); /* or of the operand, if --model names none */

typedef struct hs_command {
    const char *name;          /* "serve" */
    const char *operands;      /* "[FILE|-]" or "" */
    const char *operand_words; /* "text|file": options that people try in place of operands, or NULL */
    const char *operand_help;  /* what to do instead; with operand_words */
    const char *summary;       /* one line */
    const char *details;       /* paragraphs under the options, or NULL */
    const hs_option *options;
    size_t n_options;
    const char *operand_option; /* "model": the option in whose place an operand stands, or NULL */
    int (*main)(const struct hs_command *command, int argc, char **argv);
} hs_command;

/* Options that a command makes when it starts. */
typedef struct hs__option_table {
    char names[HS_OPTIONS_MAX][64];
    hs_option options[HS_OPTIONS_MAX];
    size_t n;
} hs__option_table;

void hs__option_add(hs__option_table *table, const hs_option *option);
/* Adds the option of a field: "max-tokens" for max_tokens, with the field's argument, help and choices. */
void hs__option_add_field(hs__option_table *table, const hs_field *field, hs_option_set set, size_t offset);

/* Replaces a character of a name: '_' by '-' turns a field's name into its option's. */
const char *hs__name_with(const char *name, char from, char to, char ret_name[64]);

/* Exit codes of the program. */
enum { HS_EXIT_DONE = 0, HS_EXIT_FAILED = 1, HS_EXIT_USAGE = 2, HS_EXIT_SIGNAL = 128 /* + its number */ };

/* Names the command whose variables of the environment the others leave alone without a warning: they are set
 * for a whole machine or container. */
void hs__options_share(const hs_command *command);

/* Reads argv, and the environment for what argv does not give: each option also as HEADSCOPE_NAME, a flag as
 * 1 or 0. Warns of variables of this form that the command does not read. Returns true when the command
 * should run, with *ret_operand the index of its first operand; otherwise everything was said and *ret_exit
 * is the program's exit code. */
bool hs__options_parse(const hs_command *command, int argc, char **argv, void *ret_options, int *ret_operand,
                       int *ret_exit);

/* Returns true if a file name has one of the endings "json|npz", or none at all. */
bool hs__ending_is_known(const char *path, const char *endings);

/* "headscope serve: <message>" and where help is, on stderr; returns HS_EXIT_USAGE. */
int hs__usage_error(const hs_command *command, const char *format, ...) HS_PRINTF(2, 3);

/* "headscope serve: <message>" on stderr; returns HS_EXIT_FAILED. */
int hs__command_failed(const hs_command *command, const hs_error *err);
