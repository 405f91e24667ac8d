/* synced_names.c - preloaded into headscope: writes down which names are made, and which files and folders
 * are synced.
 *
 * SYNCED_NAMES is the file that gets a line for each: "made PATH" after a rename, mkdir or symlink, "synced
 * PATH" after an fsync. A test then looks for names that a loss of power could take back. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void note(const char *what, const char *path)
{
    char line[PATH_MAX + 16], whole[PATH_MAX] = "";
    const char *to = getenv("SYNCED_NAMES");
    if (*path != '/' && getcwd(whole, sizeof whole))
        strncat(whole, "/", sizeof whole - strlen(whole) - 1);
    const int n = snprintf(line, sizeof line, "%s %.2000s%.2000s\n", what, whole, path);
    const int fd =
        to ? (int)syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    if (fd >= 0 && write(fd, line, (size_t)n) != n)
        abort();
    if (fd >= 0)
        close(fd);
}

int fsync(int fd)
{
    static int (*real)(int);
    char link[64], path[PATH_MAX];
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "fsync");
    const int result = real(fd);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = result ? -1 : readlink(link, path, sizeof path - 1);
    if (n > 0) {
        path[n] = '\0';
        note("synced", path);
    }
    return result;
}

#define WRAP(name, parameters, arguments, made)                                                              \
    int name parameters                                                                                      \
    {                                                                                                        \
        static int(*real) parameters;                                                                        \
        if (!real)                                                                                           \
            *(void **)&real = dlsym(RTLD_NEXT, #name);                                                       \
        const int result = real arguments;                                                                   \
        if (!result)                                                                                         \
            note("made", made);                                                                              \
        return result;                                                                                       \
    }
WRAP(rename, (const char *from, const char *to), (from, to), to)
WRAP(mkdir, (const char *path, mode_t mode), (path, mode), path)
