/* command_output.h - runs commands of the program with their output in files. It allocates nothing. */
#pragma once

#include "server/commands/options.h"

#include <stdbool.h>
#include <stddef.h>

/* The beginning of the last command's messages. */
extern char command_messages[65536];

/* Runs a command. Its standard output goes into the file `output`, and what it writes to standard error into
 * the file `messages` and into command_messages. Returns its exit code. */
int command_run(const hs_command *command, int argc, char **argv, const char *output, const char *messages);

/* Returns true if the last command's messages say why it failed: that memory is short, if it was refused. */
bool command_says_why(bool refused);

/* Reads a file of at most n_max bytes; nothing if it is not there. Returns its size. */
size_t command_file_read(const char *path, char *ret, size_t n_max);
