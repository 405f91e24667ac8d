#include "tests/unit/command_output.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

char command_messages[65536];

size_t command_file_read(const char *path, char *ret, size_t n_max)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, ret, n_max) : 0;
    if (fd >= 0)
        close(fd);
    return n > 0 ? (size_t)n : 0;
}

/* Makes fd write into the file. Returns what it wrote to before. */
static int redirect(int fd, const char *path)
{
    const int before = dup(fd), to = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    dup2(to, fd);
    close(to);
    return before;
}

static void restore(int fd, int before)
{
    dup2(before, fd);
    close(before);
}

int command_run(const hs_command *command, int argc, char **argv, const char *output, const char *messages)
{
    fflush(NULL);
    const int standard_output = redirect(STDOUT_FILENO, output),
              standard_error = redirect(STDERR_FILENO, messages);
    const int exit_code = command->main(command, argc, argv);
    fflush(NULL);
    restore(STDOUT_FILENO, standard_output);
    restore(STDERR_FILENO, standard_error);
    command_messages[command_file_read(messages, command_messages, sizeof command_messages - 1)] = '\0';
    return exit_code;
}

bool command_says_why(bool refused)
{
    return *command_messages && (!refused || strstr(command_messages, "memory"));
}
