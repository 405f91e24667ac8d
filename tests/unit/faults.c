#include "tests/unit/faults.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

#define NEVER SIZE_MAX

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t countdown = NEVER; /* calls until the one that fails */
static bool failed;
static int reason;

/* Returns true with errno if this call is the one. */
static bool fails(void)
{
    pthread_mutex_lock(&lock);
    const bool now = countdown == 0;
    if (countdown != NEVER)
        countdown = now ? NEVER : countdown - 1;
    failed |= now;
    if (now)
        errno = reason;
    pthread_mutex_unlock(&lock);
    return now;
}

/* A call, under the names that the linker gives to what it wraps. */
#define WRAP(result, name, parameters, arguments, failure)                                                   \
    result __real_##name parameters;                                                                         \
    result __wrap_##name parameters;                                                                         \
    result __wrap_##name parameters                                                                          \
    {                                                                                                        \
        return fails() ? (failure) : __real_##name arguments;                                                \
    }

WRAP(int, fsync, (int fd), (fd), -1)
WRAP(int, ftruncate, (int fd, off_t n), (fd, n), -1)
WRAP(off_t, lseek, (int fd, off_t at, int whence), (fd, at, whence), -1)
WRAP(off64_t, lseek64, (int fd, off64_t at, int whence), (fd, at, whence), -1)
WRAP(int, rename, (const char *from, const char *to), (from, to), -1)
WRAP(int, symlink, (const char *target, const char *path), (target, path), -1)
WRAP(int, fchmod, (int fd, mode_t mode), (fd, mode), -1)
WRAP(int, flock, (int fd, int operation), (fd, operation), -1)
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode), -1)
WRAP(ssize_t, read, (int fd, void *to, size_t n), (fd, to, n), -1)
WRAP(ssize_t, write, (int fd, const void *from, size_t n), (fd, from, n), -1)
WRAP(ssize_t, getrandom, (void *to, size_t n, unsigned flags), (to, n, flags), -1)
WRAP(int, stat, (const char *path, struct stat *ret), (path, ret), -1)
WRAP(int, lstat, (const char *path, struct stat *ret), (path, ret), -1)
WRAP(int, fstat, (int fd, struct stat *ret), (fd, ret), -1)
WRAP(FILE *, fopen, (const char *path, const char *mode), (path, mode), NULL)
WRAP(DIR *, opendir, (const char *path), (path), NULL)
WRAP(DIR *, fdopendir, (int fd), (fd), NULL)

/* The descriptor is closed in any case, as Linux does. */
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    const bool now = fails();
    const int why = errno, code = __real_close(fd);
    if (now)
        errno = why;
    return now ? -1 : code;
}

/* The mode is there with O_CREAT only, but to read it where it is not does no harm here. */
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    return fails() ? -1 : __real_open(path, flags, mode);
}

void faults_begin(size_t nth, int why)
{
    pthread_mutex_lock(&lock);
    countdown = nth;
    failed = false;
    reason = why;
    pthread_mutex_unlock(&lock);
}

bool faults_end(void)
{
    pthread_mutex_lock(&lock);
    countdown = NEVER;
    const bool result = failed;
    pthread_mutex_unlock(&lock);
    return result;
}
