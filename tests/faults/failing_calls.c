/* failing_calls.c - preloaded into headscope: one call to the system fails, waits, or is the last there is.
 *
 * FAILING_CALL=write:12:28 lets the twelfth call (from 0, over all threads) of the group "write" fail with
 * errno 28; write:12:kill ends the process there as kill -9 does, before the call does anything. A file of
 * the name FAILING_CALL_SEEN is made when it comes to that; write:12:wait goes on once that is removed.
 * write:-1:wait lets all calls wait, until the file that the first one made is removed. Only
 * reads and writes of regular files count: a loop's own pipes cannot fail, and libuv aborts when they do.
 * Only opens of paths with FAILING_CALL_PATH in them count; all count without that variable. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long calls;
static atomic_bool is_seen; /* the file has been made */

/* True with errno when this call of the group is the one. */
static bool fails(const char *group)
{
    const char *chosen = getenv("FAILING_CALL"), *seen = getenv("FAILING_CALL_SEEN");
    const size_t n = strlen(group);
    char *rest;
    if (!chosen || strncmp(chosen, group, n) != 0 || chosen[n] != ':')
        return false;
    const long number = atomic_fetch_add(&calls, 1), which = strtol(chosen + n + 1, &rest, 10);
    if (which >= 0 && number != which)
        return false;
    if (seen && (which >= 0 || number == 0)) {
        syscall(SYS_close, syscall(SYS_openat, AT_FDCWD, seen, O_CREAT | O_WRONLY, 0600));
        atomic_store(&is_seen, true);
    }
    if (strcmp(rest, ":kill") == 0)
        syscall(SYS_kill, getpid(), SIGKILL);
    if (strcmp(rest, ":wait") == 0) {
        while (!atomic_load(&is_seen) || access(seen, F_OK) == 0) /* the first may not have made it yet */
            usleep(5000);
        return false;
    }
    errno = (int)strtol(rest + 1, NULL, 10);
    return true;
}

static bool is_file(int fd)
{
    struct stat file;
    const int before = errno;
    const bool regular = fstat(fd, &file) == 0 && S_ISREG(file.st_mode);
    errno = before;
    return regular;
}

static bool is_named(const char *path)
{
    const char *part = getenv("FAILING_CALL_PATH");
    return !part || strstr(path, part);
}

#define WRAP(group, result, failed, name, parameters, arguments, but)                                        \
    result name parameters                                                                                   \
    {                                                                                                        \
        static result(*real) parameters;                                                                     \
        if (!real)                                                                                           \
            real = (result(*) parameters)dlsym(RTLD_NEXT, #name);                                            \
        return !(but) && fails(group) ? (failed) : real arguments;                                           \
    }

WRAP("read", ssize_t, -1, read, (int fd, void *to, size_t n), (fd, to, n), !is_file(fd))
WRAP("read", ssize_t, -1, pread, (int fd, void *to, size_t n, off_t at), (fd, to, n, at), !is_file(fd))
WRAP("read", ssize_t, -1, pread64, (int fd, void *to, size_t n, off64_t at), (fd, to, n, at), !is_file(fd))
WRAP("receive", ssize_t, -1, recv, (int fd, void *to, size_t n, int flags), (fd, to, n, flags), false)
WRAP("write", ssize_t, -1, write, (int fd, const void *from, size_t n), (fd, from, n),
     !is_file(fd) || fd <= 2)
WRAP("write", ssize_t, -1, pwrite, (int fd, const void *from, size_t n, off_t at), (fd, from, n, at),
     !is_file(fd))
WRAP("write", ssize_t, -1, pwrite64, (int fd, const void *from, size_t n, off64_t at), (fd, from, n, at),
     !is_file(fd))
WRAP("send", ssize_t, -1, send, (int fd, const void *from, size_t n, int flags), (fd, from, n, flags), false)
WRAP("send", ssize_t, -1, sendmsg, (int fd, const struct msghdr *from, int flags), (fd, from, flags), false)
WRAP("fsync", int, -1, fsync, (int fd), (fd), false)
WRAP("fsync", int, -1, fdatasync, (int fd), (fd), false)
WRAP("rename", int, -1, rename, (const char *from, const char *to), (from, to), false)
WRAP("truncate", int, -1, ftruncate, (int fd, off_t n), (fd, n), false)
WRAP("truncate", int, -1, ftruncate64, (int fd, off64_t n), (fd, n), false)
WRAP("accept", int, -1, accept4, (int fd, struct sockaddr *of, socklen_t *n, int flags), (fd, of, n, flags),
     false)
WRAP("mmap", void *, MAP_FAILED, mmap, (void *at, size_t n, int how, int flags, int fd, off_t from),
     (at, n, how, flags, fd, from), false)
WRAP("mmap", void *, MAP_FAILED, mmap64, (void *at, size_t n, int how, int flags, int fd, off64_t from),
     (at, n, how, flags, fd, from), false)

/* The mode is there with O_CREAT only, but to read it where it is not does no harm here. */
#define WRAP_OPEN(name)                                                                                      \
    int name(const char *path, int flags, ...)                                                               \
    {                                                                                                        \
        static int (*real)(const char *path, int flags, ...);                                                \
        va_list rest;                                                                                        \
        va_start(rest, flags);                                                                               \
        const mode_t mode = va_arg(rest, mode_t);                                                            \
        va_end(rest);                                                                                        \
        if (!real)                                                                                           \
            real = (int (*)(const char *path, int flags, ...))dlsym(RTLD_NEXT, #name);                       \
        return is_named(path) && fails("open") ? -1 : real(path, flags, mode);                               \
    }
WRAP_OPEN(open)
WRAP_OPEN(open64)
