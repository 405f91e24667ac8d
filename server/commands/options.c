/* options.c - reads the command line and the environment; help, manual page and completion come from the same
 * tables. */
#include "server/commands/options.h"

#include "api/request/texts.h"
#include "model/base/read_number.h"
#include "server/base/catalog.h"
#include "server/base/printable.h"

#include <assert.h>
#include <ctype.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- nearest ----
 *
 * By meaning, else by spelling. */

/* Names that other programs use, and our options for the same, the first that a command has. */
static const struct {
    const char *word, *options[2];
} synonyms[] = {
    {"port", {"listen"}},
    {"host", {"listen", "allow-host"}},
    {"bind", {"listen"}},
    {"address", {"listen"}},
    {"addr", {"listen"}},
    {"threads", {"workers", "cores"}},
    {"jobs", {"workers", "cores"}},
    {"processes", {"workers"}},
    {"cpus", {"workers", "cores"}},
    {"cores", {"workers"}},
    {"thread", {"workers", "cores"}},
    {"parallel", {"workers", "cores"}},
    {"batch", {"together"}},
    {"batch-size", {"together"}},
    {"timeout", {"deadline"}},
    {"memory", {"max-held"}},
    {"ram", {"max-held"}},
    {"auth", {"token-file"}},
    {"token", {"token-file"}},
    {"api-key", {"token-file"}},
    {"password", {"token-file"}},
    {"origin", {"cors"}},
    {"cors-origin", {"cors"}},
    {"allow-origin", {"cors"}},
    {"data", {"state"}},
    {"storage", {"state"}},
    {"verbose", {"log"}},
    {"quiet", {"log"}},
    {"device", {"backend"}},
    {"kernels", {"backend"}},
    {"dtype", {"dtype", "precision"}},
    {"quantize", {"precision"}},
    {"checkpoint", {"model"}},
    {"weights", {"model"}},
    {"folder", {"model"}},
    {"revision", {"model"}},
    {"vocab", {"tokenizer"}},
    {"tokenizer-path", {"tokenizer"}},
    {"out", {"output"}},
    {"outfile", {"output"}},
    {"out-dir", {"output"}},
    {"file", {"output"}},
    {"max-length", {"max-tokens"}},
    {"length", {"max-tokens"}},
    {"truncate", {"max-tokens"}},
    {"predict", {"predictions", "masked-share"}},
    {"top-k", {"predictions"}},
    {"lens", {"predictions"}},
    {"mask", {"predictions", "masked-share"}},
    {"ablate", {"interventions"}},
    {"switch-off", {"interventions"}},
    {"tokens", {"input-ids"}},
    {"ids", {"input-ids"}},
    {"second", {"text-pair"}},
    {"column", {"field"}},
    {"key", {"field"}},
    {"type", {"input-format", "format"}},
    {"json", {"format"}},
    {"continue", {"resume"}},
    {"seed", {"mask-seed"}},
    {"part", {"shard"}},
    {"csv", {"pairs"}},
    {"usage", {"help"}},
    {"start", {"serve"}},
    {"run", {"serve"}},
    {"server", {"serve"}},
    {"download", {"pull"}},
    {"fetch", {"pull"}},
    {"list", {"models"}},
    {"join", {"merge"}},
    {"benchmark", {"bench"}},
};

static const char *find(const char *word, const char *const *words)
{
    for (; word && *words; words++)
        if (strcmp(word, *words) == 0)
            return *words;
    return NULL;
}

static const char *find_synonym(const char *word, const char *const *words)
{
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++) {
        const char *found = NULL;
        for (size_t k = 0; k < 2 && !found && strcmp(synonyms[i].word, word) == 0; k++)
            found = find(synonyms[i].options[k], words);
        if (found)
            return found;
    }
    return NULL;
}

/* Returns true if other programs use the word: it is no misspelling then. */
static bool is_known(const char *word)
{
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
        if (strcmp(synonyms[i].word, word) == 0)
            return true;
    return false;
}

const char *hs__nearest(const char *word, const char *const *words)
{
    return is_known(word) ? find_synonym(word, words) : hs_spelled_like(word, words);
}

/* ---- environment ---- */

#define PREFIX "HEADSCOPE_"

/* "max-body" -> "HEADSCOPE_MAX_BODY" */
static const char *environment_name(const hs_option *option, char ret_name[64])
{
    int n = snprintf(ret_name, 64, PREFIX "%s", option->name);
    for (int i = 0; i < n; i++)
        ret_name[i] = (char)(ret_name[i] == '-' ? '_' : toupper((unsigned char)ret_name[i]));
    return ret_name;
}

/* ---- help ----
 *
 * A command's table of options as a page, as a section of the manual and as a branch of the shell's
 * completion. Each is made on request, from the table that also reads the options, so none can lag
 * behind. */

typedef enum hs__help_form {
    HS__HELP_TEXT, /* --help: for the terminal */
    HS__HELP_MAN,  /* --help=man: a section of the manual page (groff) */
    HS__HELP_BASH, /* --help=bash: a branch of the completion's `case` */
} hs__help_form;

/* "man", "bash"; NULL is text. False for anything else. */
static bool help_form_read(const char *text, hs__help_form *ret_form)
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
    char name[64];
    if (command->n_options > 0)
        printf("\nEach option can also be set in the environment, --%s as %s; the command line wins.\n",
               command->options[0].name, environment_name(&command->options[0], name));
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

/* On standard output. */
static void help_print(const hs_command *command, hs__help_form form)
{
    static void (*const prints[])(const hs_command *) = {
        [HS__HELP_TEXT] = print_text, [HS__HELP_MAN] = print_man, [HS__HELP_BASH] = print_bash};
    prints[form](command);
}

/* ---- options ----
 *
 * Getopt_long over a command's one table: options, environment, and what is said when they are
 * wrong. */

enum { HELP = 256 }; /* long options are numbered above every letter */

static void *field(const hs_option *option, void *options)
{
    return (char *)options + option->offset;
}

hs_status hs__set_string(const hs_option *option, const char *value, void *ret, hs_error *err)
{
    if (!*value)
        return hs_fail(err, HS_INVALID, "expected a value, not an empty one");
    memcpy(field(option, ret), &value, sizeof value);
    return HS_OK;
}

hs_status hs__set_choice(const hs_option *option, const char *value, void *ret, hs_error *err)
{
    if (hs_choice_find(option->choices, value, strlen(value)) < 0)
        return hs_fail(err, HS_INVALID, "expected one of %s", option->choices);
    memcpy(field(option, ret), &value, sizeof value);
    return HS_OK;
}

bool hs__ending_is_known(const char *path, const char *endings)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    return !dot || dot == name || hs_choice_find(endings, dot + 1, strlen(dot + 1)) >= 0;
}

/* A number within the option's range, with an optional suffix taken from scales ("KMG": 2^10, 2^20, 2^30). */
static bool number_parse(const hs_option *option, const char *value, const char *scales, double *ret)
{
    const char *end;
    double number;
    if (!isdigit((unsigned char)*value) || hs_real_read(value, &end, &number))
        return false;
    const char *scale = *end ? strchr(scales, toupper((unsigned char)*end)) : NULL;
    if (scale) {
        number = ldexp(number, 10 * (int)(scale - scales + 1));
        end++;
    }
    *ret = number;
    return !*end && number >= option->min && number <= option->max;
}

hs_status hs__set_count(const hs_option *option, const char *value, void *ret, hs_error *err)
{
    double number;
    if (!number_parse(option, value, "", &number) || number != floor(number))
        return hs_fail(err, HS_INVALID, "expected an integer from %.0f to %.0f", option->min, option->max);
    *(size_t *)field(option, ret) = (size_t)number;
    return HS_OK;
}

hs_status hs__set_bytes(const hs_option *option, const char *value, void *ret, hs_error *err)
{
    double number;
    if (!number_parse(option, value, "KMG", &number))
        return hs_fail(err, HS_INVALID, "expected a number of bytes from %.0f to %.0f, as in 512K, 64M or 1G",
                       option->min, option->max);
    *(size_t *)field(option, ret) = (size_t)number;
    return HS_OK;
}

hs_status hs__set_seconds(const hs_option *option, const char *value, void *ret, hs_error *err)
{
    double number;
    if (!number_parse(option, value, "", &number))
        return hs_fail(err, HS_INVALID, "expected seconds from %g to %g", option->min, option->max);
    *(uint64_t *)field(option, ret) = (uint64_t)(number * 1000);
    return HS_OK;
}

hs_status hs__set_model(const hs_option *option, const char *value, void *ret, hs_error *err)
{
    return hs__catalog_choose(field(option, ret), value, err);
}

hs_status hs__add_model(const hs_option *option, const char *value, void *ret, hs_error *err)
{
    return hs__catalog_add(field(option, ret), value, err);
}

hs_status hs__set_tokenizer(const hs_option *option, const char *value, void *ret, hs_error *err)
{
    return hs__catalog_set_tokenizer(field(option, ret), value, err);
}

hs_status hs__set_untrained(const hs_option *option, const char *value, void *ret, hs_error *err)
{
    return hs__catalog_untrain(field(option, ret), value, err);
}

hs_status hs__set_operand_tokenizer(const hs_option *option, const char *value, void *ret, hs_error *err)
{
    hs_catalog_options *options = field(option, ret);
    if (options->n_places > 0)
        return hs__set_tokenizer(option, value, ret, err);
    options->tokenizer = value;
    return HS_OK;
}

int hs__usage_error(const hs_command *command, const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    hs__print(stderr, "headscope %s: %s\n", command->name, text ? text : "out of memory");
    fprintf(stderr, "Try 'headscope %s --help'.\n", command->name);
    free(text);
    return HS_EXIT_USAGE;
}

int hs__command_failed(const hs_command *command, const hs_error *err)
{
    hs__print(stderr, "headscope %s: %s\n", command->name,
              *err->text ? err->text : hs_status_text(err->status));
    return HS_EXIT_FAILED;
}

/* ---- options of fields ---- */
const char *hs__name_with(const char *name, char from, char to, char ret_name[64])
{
    snprintf(ret_name, 64, "%s", name);
    for (char *c = ret_name; *c; c++)
        *c = *c == from ? to : *c;
    return ret_name;
}

void hs__option_add(hs__option_table *table, const hs_option *option)
{
    assert(table->n < HS_OPTIONS_MAX);
    table->options[table->n++] = *option;
}

void hs__option_add_field(hs__option_table *table, const hs_field *field, hs_option_set set, size_t offset)
{
    hs__option_add(table, &(hs_option){.name = hs__name_with(field->name, '_', '-', table->names[table->n]),
                                       .argument = field->argument,
                                       .help = field->help,
                                       .set = set,
                                       .offset = offset,
                                       .choices = field->choices});
}

/* ---- reading ---- */

/* Options that belong to another one. If the command line gives that one, the environment's do not count. */
static const struct {
    const char *name, *of;
} parts[] = {{"tokenizer", "model"}, {"format", "output"}};

/* Returns the index of an option, or n_options if the command has none of this name. */
static size_t option_index(const hs_command *command, const char *name)
{
    size_t i = 0;
    while (i < command->n_options && strcmp(command->options[i].name, name) != 0)
        i++;
    return i;
}

/* Marks the options of which the command line says enough for the environment not to count. */
static void parts_mark(const hs_command *command, bool has_operands, bool *given)
{
    if (has_operands && command->operand_option)
        given[option_index(command, command->operand_option)] = true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const size_t part = option_index(command, parts[i].name), of = option_index(command, parts[i].of);
        given[part] = given[part] || given[of];
    }
}

/* Reads the value of a flag in the environment. Returns false if it is neither yes nor no. */
static bool flag_read(const char *value, bool *ret_set)
{
    const ptrdiff_t found = hs_choice_find("1|true|yes|on|0|false|no|off", value, strlen(value));
    *ret_set = found >= 0 && found < 4;
    return found >= 0;
}

static hs_status variable_store(const hs_option *option, const char *value, void *ret_options, hs_error *err)
{
    bool set = true;
    if (!option->argument && !flag_read(value, &set))
        return hs_fail(err, HS_INVALID, "expected 1, true, yes or on, or 0, false, no or off");
    return set ? option->set(option, option->argument ? value : "1", ret_options, err) : HS_OK;
}

static bool environment_read(const hs_command *command, const bool *given, void *ret_options)
{
    for (size_t i = 0; i < command->n_options; i++) {
        char name[64];
        const char *value = getenv(environment_name(&command->options[i], name));
        hs_error err = {0};
        if (given[i] || !value || !*value)
            continue;
        if (variable_store(&command->options[i], value, ret_options, &err)) {
            hs__usage_error(command, "%s='%s': %s", name, value, err.text);
            return false;
        }
    }
    return true;
}

/* Variables of tests and measurements, which kernels.h and team.h read, and of mecab.c. */
static const char no_options[] = "KERNELS|CACHES|DICTIONARIES";

/* The command whose variables are set for a whole machine or container. */
static const hs_command *service;

void hs__options_share(const hs_command *command)
{
    service = command;
}

/* "HEADSCOPE_MAX_BODY=1M" -> "max-body". False if it is no variable of ours, or too long for one. */
static bool variable_word(const char *variable, char ret_word[64])
{
    const size_t n_prefix = strlen(PREFIX), n = strcspn(variable, "=");
    if (strncmp(variable, PREFIX, n_prefix) != 0 || n - n_prefix >= 64)
        return false;
    snprintf(ret_word, 64, "%.*s", (int)(n - n_prefix), variable + n_prefix);
    if (hs_choice_find(no_options, ret_word, strlen(ret_word)) >= 0)
        return false;
    for (char *c = ret_word; *c; c++)
        *c = (char)(*c == '_' ? '-' : tolower((unsigned char)*c));
    return true;
}

/* Warns of variables that this command does not read. Those of the service are meant for others. */
static void environment_check(const hs_command *command)
{
    const char *names[HS_OPTIONS_MAX + 1] = {NULL};
    for (size_t i = 0; i < command->n_options; i++)
        names[i] = command->options[i].name;
    for (char *const *variable = environ; *variable; variable++) {
        char word[64], name[64];
        if (!variable_word(*variable, word) || find(word, names) ||
            (service && option_index(service, word) < service->n_options))
            continue;
        const char *nearest = hs__nearest(word, names);
        const hs_option *meant = nearest ? &command->options[option_index(command, nearest)] : NULL;
        hs__print(stderr, "headscope %s: ignored %.*s: this command has no option --%s%s%s%s\n",
                  command->name, (int)strcspn(*variable, "="), *variable, word,
                  meant ? "; did you mean " : "", meant ? environment_name(meant, name) : "",
                  meant ? "?" : "");
    }
}

/* getopt's two tables, made from ours. */
static void getopt_tables(const hs_command *command, struct option *ret_long, char *ret_letters)
{
    for (size_t i = 0; i < command->n_options; i++) {
        const hs_option *o = &command->options[i];
        ret_long[i] =
            (struct option){o->name, o->argument ? required_argument : no_argument, NULL, HELP + 1 + (int)i};
        if (o->letter)
            *ret_letters++ = o->letter;
        if (o->letter && o->argument)
            *ret_letters++ = ':';
    }
    ret_long[command->n_options] = (struct option){"help", optional_argument, NULL, HELP};
    *ret_letters++ = 'h';
    *ret_letters = '\0';
}

static const hs_option *option_find(const hs_command *command, int code)
{
    if (code > HELP && (size_t)(code - HELP) <= command->n_options)
        return &command->options[code - HELP - 1];
    for (size_t i = 0; i < command->n_options; i++)
        if (command->options[i].letter == code)
            return &command->options[i];
    return NULL;
}

/* Refuses an option that the command does not have, with the one that was probably meant. */
static void option_refuse(const hs_command *command, const char *argument)
{
    const char *names[HS_OPTIONS_MAX + 2] = {NULL};
    char word[64];
    for (size_t i = 0; i < command->n_options; i++)
        names[i] = command->options[i].name;
    names[command->n_options] = "help";
    snprintf(word, sizeof word, "%.*s", (int)strcspn(argument + strspn(argument, "-"), "="),
             argument + strspn(argument, "-"));
    const bool is_long = strncmp(argument, "--", 2) == 0;
    const char *nearest = is_long ? hs__nearest(word, names) : NULL;
    if (is_long && hs_choice_find(command->operand_words, word, strlen(word)) >= 0)
        hs__usage_error(command, "there is no option '--%s'; %s", word, command->operand_help);
    else if (nearest)
        hs__usage_error(command, "there is no option '%s'; did you mean --%s?", argument, nearest);
    else
        hs__usage_error(command, "there is no option '%s'", argument);
}

/* Returns true unless an argument abbreviates a long option, which getopt_long takes for the whole name. */
static bool is_spelled_out(const char *argument, const char *name)
{
    const size_t n = strlen(name);
    return strncmp(argument, "--", 2) != 0 ||
           (strncmp(argument + 2, name, n) == 0 && (!argument[2 + n] || argument[2 + n] == '='));
}

/* Refuses what getopt_long could not read. */
static void argument_refuse(const hs_command *command, const char *argument, int code)
{
    const char letter[] = {'-', (char)optopt, '\0'};
    const hs_option *flag = optopt > HELP ? option_find(command, optopt) : NULL;
    if (code == ':')
        hs__usage_error(command, "%s needs a value", optopt < HELP ? letter : argument);
    else if (flag)
        hs__usage_error(command, "--%s takes no value", flag->name);
    else
        option_refuse(command, optopt ? letter : argument);
}

/* --help, -h, --help=man */
static int help_show(const hs_command *command, const char *form_name)
{
    hs__help_form form;
    if (!help_form_read(form_name, &form))
        return hs__usage_error(command, "--help has the forms man and bash");
    help_print(command, form);
    return HS_EXIT_DONE;
}

static bool option_store(const hs_command *command, const hs_option *option, const char *value,
                         void *ret_options)
{
    hs_error err = {0};
    if (!option->set(option, value ? value : "1", ret_options, &err))
        return true;
    hs__usage_error(command, "--%s '%s': %s", option->name, value ? value : "", err.text);
    return false;
}

bool hs__options_parse(const hs_command *command, int argc, char **argv, void *ret_options, int *ret_operand,
                       int *ret_exit)
{
    struct option longs[HS_OPTIONS_MAX + 2] = {0};
    char letters[2 * HS_OPTIONS_MAX + 3] = ":"; /* missing arguments have their own code */
    bool given[HS_OPTIONS_MAX + 1] = {0};       /* the last for options that the command does not have */
    *ret_exit = HS_EXIT_USAGE;
    getopt_tables(command, longs, letters + 1);
    optind = 1;
    opterr = 0;
    for (int code; (code = getopt_long(argc, argv, letters, longs, NULL)) != -1;) {
        const char *argument = argv[optind - 1 - (optarg && optarg == argv[optind - 1])];
        const bool is_help = code == HELP || code == 'h';
        const hs_option *option = option_find(command, code);
        if (!option && !is_help) {
            argument_refuse(command, argument, code);
            return false;
        }
        if (!is_spelled_out(argument, is_help ? "help" : option->name)) {
            option_refuse(command, argument);
            return false;
        }
        if (is_help) {
            *ret_exit = help_show(command, optarg);
            return false;
        }
        if (!option_store(command, option, optarg, ret_options))
            return false;
        given[option - command->options] = true;
    }
    *ret_operand = optind;
    parts_mark(command, optind < argc, given);
    environment_check(command);
    return environment_read(command, given, ret_options);
}
