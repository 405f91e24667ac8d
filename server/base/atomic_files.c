/* atomic_files.c - writes through a stream of its own (fopencookie), because stdio forgets why a write
 * failed. */
#include "server/base/atomic_files.h"

#include "model/base/bytes.h"
#include "server/base/system_errors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define ENDING      ".unfinished"
#define PIECE_BYTES ((size_t)8 << 20) /* written between two checks of `stop` */
#define HOLE_BYTES  ((size_t)4 << 10) /* shorter runs of zeros are written */

/* The target of a stream's bytes. */
typedef struct sink {
    int fd;
    bool is_new;     /* a new regular file: zeros may become holes */
    off64_t at, end; /* of a new file: offset of the next byte; its size */
    int why;         /* errno of the first write that failed, or 0 */
    const atomic_int *stop;
} sink;

static bool is_hole(const char *bytes, size_t n)
{
    return n >= HOLE_BYTES && !*bytes && memcmp(bytes, bytes + 1, HOLE_BYTES - 1) == 0;
}

/* Writes up to the next run of zeros, or skips one: files of short texts are mostly zeros, and holes take no
 * disk space. Returns the number of bytes done; below 0 with errno. */
static ssize_t piece_write(sink *to, const char *bytes, size_t n)
{
    const bool may = to->is_new && to->at == to->end, hole = may && is_hole(bytes, n);
    const size_t most = n < PIECE_BYTES ? n : PIECE_BYTES;
    size_t size = may ? HOLE_BYTES : most;
    while (size < most && is_hole(bytes + size, n - size) == hole)
        size += HOLE_BYTES;
    size = size < most ? size : most;
    if (hole)
        size = size / HOLE_BYTES * HOLE_BYTES;
    const bool lost = hole && lseek64(to->fd, to->at + (off64_t)size, SEEK_SET) < 0;
    const ssize_t done = lost ? -1 : hole ? (ssize_t)size : write(to->fd, bytes, size);
    to->at += done > 0 ? done : 0;
    to->end = to->at > to->end ? to->at : to->end;
    return done;
}

static ssize_t on_write(void *cookie, const char *bytes, size_t n)
{
    sink *to = cookie;
    for (size_t done = 0; done < n && !to->why;) {
        const ssize_t more = piece_write(to, bytes + done, n - done);
        if (more > 0)
            done += (size_t)more;
        else if (more == 0 || errno != EINTR)
            to->why = more ? errno : EIO;
        if (!to->why && to->stop && atomic_load(to->stop))
            to->why = ECANCELED;
    }
    return to->why ? 0 : (ssize_t)n; /* fopencookie: 0 is a failure */
}

static int on_seek(void *cookie, off64_t *offset, int whence)
{
    sink *to = cookie;
    const off64_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? to->at : to->end;
    const off64_t at =
        to->is_new ? lseek64(to->fd, from + *offset, SEEK_SET) : lseek64(to->fd, *offset, whence);
    *offset = to->at = at;
    return at < 0 ? -1 : 0;
}

static hs_status failed(const char *path, int why, hs_error *err)
{
    if (why == ECANCELED)
        return hs_fail(err, HS_CANCELLED, "stopped");
    return hs_fail(err, hs__errno_status(why), "cannot write '%s': %s", path, hs__errno_text(why));
}

bool hs__folder_sync(const char *dir)
{
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const bool ok = fsync(fd) == 0 || errno == EINVAL; /* some file systems know no fsync of folders */
    close(fd);
    return ok;
}

/* Copies the folder part of a path with its last slash; "." if there is none. */
static void folder_above(const char *path, char ret_folder[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    snprintf(ret_folder, PATH_MAX, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
}

static bool folder_above_sync(const char *path)
{
    char folder[PATH_MAX];
    folder_above(path, folder);
    return hs__folder_sync(folder);
}

bool hs__file_publish(const char *from, const char *to)
{
    return rename(from, to) == 0 && folder_above_sync(to);
}

/* Creates ".name.0123456789abcdef.unfinished" in dir. Returns a descriptor; below 0 with errno. */
static int unfinished_create(const char *dir, const char *name, mode_t mode, char ret_path[PATH_MAX])
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return -1;
    if (snprintf(ret_path, PATH_MAX, "%s/.%s.%016llx" ENDING, dir, name, (unsigned long long)number) >=
        PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(ret_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
}

/* Creates an unfinished file and locks it. Tries again if another process took it for a leftover and removed
 * it before it was locked. */
static int unfinished_open(const char *dir, const char *name, mode_t mode, char ret_path[PATH_MAX])
{
    int fd;
    while ((fd = unfinished_create(dir, name, mode, ret_path)) >= 0) {
        while (flock(fd, LOCK_EX) && errno == EINTR) /* without locks no process removes leftovers */
            continue;
        /* Checks the name, not the link count: NFS counts a name that was removed while the file is open. */
        if (!access(ret_path, F_OK) || errno != ENOENT)
            break;
        close(fd);
    }
    return fd;
}

/* Returns true if file_name is one of unfinished_create for `name`, or for any name if it is NULL. */
static bool is_unfinished(const char *file_name, const char *name)
{
    const size_t n = strlen(file_name), n_rest = sizeof ".0123456789abcdef" ENDING - 1;
    return n > n_rest && *file_name == '.' && file_name[n - n_rest] == '.' &&
           hs_ends_with(file_name, ENDING) && strspn(file_name + n - n_rest + 1, "0123456789abcdef") == 16 &&
           (!name || (strlen(name) == n - n_rest - 1 && strncmp(file_name + 1, name, strlen(name)) == 0));
}

/* Removes unfinished files. A locked one has a living writer and stays. */
static void leftovers_remove(const char *dir, const char *name)
{
    DIR *folder = opendir(dir);
    if (!folder)
        return;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        if (!is_unfinished(entry->d_name, name))
            continue;
        const int fd = openat(dirfd(folder), entry->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            unlinkat(dirfd(folder), entry->d_name, 0);
        if (fd >= 0)
            close(fd);
    }
    closedir(folder);
}

void hs__leftovers_remove(const char *dir)
{
    leftovers_remove(dir, NULL);
}

/* ---- a file that is being written ---- */

struct hs__new_file {
    sink to;
    FILE *stream;        /* into the sink; NULL: written by path */
    bool has_mode;       /* of the file that it replaces */
    mode_t mode;         /* what that has */
    char path[PATH_MAX]; /* for messages, and of the target of an unfinished file */
    char unfinished[PATH_MAX];
};

static hs_status stream_open(hs__new_file *file, hs_error *err)
{
    file->stream = fopencookie(&file->to, "w", (cookie_io_functions_t){.write = on_write, .seek = on_seek});
    return file->stream ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory to write '%s'", file->path);
}

/* Begins an unfinished file. old: the file to replace, whose mode the new one gets, or NULL. Users who may
 * not read the old file may not read the unfinished one either. The caller ends the file, also after a
 * failure. */
static hs_status unfinished_begin(hs__new_file *file, const char *dir, const char *name,
                                  const struct stat *old, hs_error *err)
{
    if (snprintf(file->path, sizeof file->path, "%s/%s", dir, name) >= (int)sizeof file->path)
        return hs_fail(err, HS_INVALID, "'%.200s...' is too long for a path", dir);
    file->has_mode = old != NULL;
    file->mode = old ? old->st_mode : 0666;
    file->to.is_new = true;
    file->to.fd = unfinished_open(dir, name, (file->mode & 0666) | (old ? 0600 : 0), file->unfinished);
    return file->to.fd < 0 ? failed(file->path, errno, err) : HS_OK;
}

/* Begins to write into an existing file. Takes ownership of fd. */
static hs_status direct_begin(hs__new_file *file, int fd, const char *path, hs_error *err)
{
    file->to.fd = fd;
    snprintf(file->path, sizeof file->path, "%s", path);
    return fd < 0 ? failed(path, errno, err) : HS_OK;
}

/* Closes the stream. st: what its writer returned, with the reason `why`. A failed write explains other
 * failures. */
static hs_status stream_end(hs__new_file *file, hs_status st, const hs_error *why, hs_error *err)
{
    const bool closed = !file->stream || fclose(file->stream) == 0;
    file->stream = NULL;
    if (file->to.why)
        return failed(file->path, file->to.why, err);
    if (st)
        return hs_fail(err, st, "%s", why->text);
    return closed ? HS_OK : failed(file->path, EIO, err);
}

/* Publishes an unfinished file. A file that ends with a hole is shorter than its content. */
static bool unfinished_publish(const hs__new_file *file, bool streamed)
{
    return (!streamed || !ftruncate(file->to.fd, file->to.end)) &&
           (!file->has_mode || !fchmod(file->to.fd, file->mode & 07777)) && !fsync(file->to.fd) &&
           hs__file_publish(file->unfinished, file->path);
}

/* Closes a file, and publishes it if st is HS_OK. */
static hs_status file_end(hs__new_file *file, hs_status st, const hs_error *why, hs_error *err)
{
    const bool streamed = file->stream != NULL;
    st = stream_end(file, st, why, err);
    if (!st && file->to.is_new && !unfinished_publish(file, streamed))
        st = failed(file->path, errno, err);
    if (st && *file->unfinished)
        unlink(file->unfinished);
    if (file->to.fd >= 0 && close(file->to.fd) && !st)
        st = failed(file->path, errno, err);
    return st;
}

/* Fills a file that was begun with status st, and ends it. */
static hs_status file_fill(hs__new_file *file, hs_status st, hs__file_write write, void *data, hs_error *why,
                           hs_error *err)
{
    if (!st)
        st = stream_open(file, why);
    if (!st)
        st = write(file->stream, data, why);
    return file_end(file, st, why, err);
}

hs_status hs__file_replace(const char *dir, const char *name, const atomic_int *stop, hs__file_write write,
                           void *data, hs_error *err)
{
    hs__new_file file = {.to = {.fd = -1, .stop = stop}};
    hs_error why = {0};
    const hs_status st = unfinished_begin(&file, dir, name, NULL, &why);
    return file_fill(&file, st, write, data, &why, err);
}

/* Begins to replace a regular file, or a new one. path is what the user typed; old is NULL for a new file. */
static hs_status path_replace(hs__new_file *file, const char *path, const struct stat *old, hs_error *err)
{
    char real[PATH_MAX];
    if (!old || !realpath(path, real))
        snprintf(real, sizeof real, "%s", path);
    char *slash = strrchr(real, '/');
    const char *dir = slash == real ? "/" : slash ? real : ".", *name = slash ? slash + 1 : real;
    if (slash)
        *slash = '\0';
    leftovers_remove(dir, name);
    return unfinished_begin(file, dir, name, old, err);
}

/* Returns true for a regular file that has a name: /dev/stdout may be a deleted file. */
static bool is_replaceable(const char *path, const struct stat *file)
{
    char real[PATH_MAX];
    return S_ISREG(file->st_mode) && realpath(path, real);
}

/* Begins to write a path that a user typed. */
static hs_status path_begin(hs__new_file *file, const char *path, bool by_path, hs_error *err)
{
    struct stat old;
    if (!path)
        return direct_begin(file, dup(STDOUT_FILENO), "standard output", err);
    const bool exists = stat(path, &old) == 0;
    if (!exists && errno != ENOENT) /* it may be a device, which is not to be replaced */
        return failed(path, errno, err);
    const bool direct = exists && !is_replaceable(path, &old);
    if (direct && by_path)
        return hs_fail(err, HS_INVALID, "'%.200s' is not a regular file: name one", path);
    return direct ? direct_begin(file, open(path, O_WRONLY | O_TRUNC | O_CLOEXEC), path, err)
                  : path_replace(file, path, exists ? &old : NULL, err);
}

hs_status hs__path_write(const char *path, hs__file_write write, void *data, hs_error *err)
{
    hs__new_file file = {.to.fd = -1};
    hs_error why = {0};
    const hs_status st = path_begin(&file, path, false, &why);
    return file_fill(&file, st, write, data, &why, err);
}

hs_status hs__new_file_create(const char *path, bool by_path, hs__new_file **ret_file, hs_error *err)
{
    hs__new_file *file = calloc(1, sizeof *file);
    hs_error why = {0};
    if (!file)
        return hs_fail(err, HS_NO_MEMORY, "no memory to write '%s'", path);
    file->to.fd = -1;
    hs_status st = path_begin(file, path, by_path, &why);
    if (!st && !by_path)
        st = stream_open(file, &why);
    if (st) {
        st = file_end(file, st, &why, err);
        free(file);
    } else {
        *ret_file = file;
    }
    return st;
}

FILE *hs__new_file_stream(const hs__new_file *file)
{
    return file->stream;
}

const char *hs__new_file_path(const hs__new_file *file)
{
    return file->unfinished;
}

hs_status hs__new_file_check(const hs__new_file *file, hs_error *err)
{
    return file->to.why ? failed(file->path, file->to.why, err) : HS_OK;
}

hs_status hs__new_file_publish(hs__new_file *file, hs_error *err)
{
    const hs_status st = file_end(file, HS_OK, NULL, err);
    free(file);
    return st;
}

void hs__new_file_discard(hs__new_file *file)
{
    const hs_error why = {.status = HS_CANCELLED};
    if (file)
        (void)file_end(file, HS_CANCELLED, &why, NULL);
    free(file);
}

/* Describes the folder of a path and finds its last component. Returns false if there is no such folder. */
static bool folder_of(const char *path, struct stat *ret_folder, const char **ret_name)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (strlen(path) >= sizeof folder)
        return false;
    folder_above(path, folder);
    *ret_name = slash ? slash + 1 : path;
    return stat(folder, ret_folder) == 0;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool hs__path_replaces(const char *path, const char *other)
{
    struct stat a, b;
    const char *name, *other_name;
    const bool there = stat(path, &a) == 0;
    if (there && (strcmp(other, "-") == 0 ? fstat(STDIN_FILENO, &b) : stat(other, &b)) == 0)
        return S_ISREG(a.st_mode) && is_same(&a, &b);
    return !there && folder_of(path, &a, &name) && folder_of(other, &b, &other_name) && is_same(&a, &b) &&
           strcmp(name, other_name) == 0;
}

/* Makes the folder and syncs its name. Returns true if the name exists already. */
static bool folder_create(const char *path)
{
    if (mkdir(path, 0777))
        return errno == EEXIST;
    return folder_above_sync(path);
}

hs_status hs__folder_make(const char *dir, hs_error *err)
{
    char path[PATH_MAX];
    struct stat folder;
    const size_t n = strlen(dir);
    if (!n || n >= sizeof path)
        return hs_fail(err, HS_INVALID, "'%s' cannot be a folder's name", dir);
    memcpy(path, dir, n + 1);
    bool ok = true;
    for (char *slash = path + 1; ok && (slash = strchr(slash, '/'));) {
        *slash = '\0';
        ok = folder_create(path);
        if (ok)
            *slash++ = '/';
    }
    if (ok && folder_create(path) && stat(path, &folder) == 0) {
        ok = S_ISDIR(folder.st_mode);
        errno = ENOTDIR;
    } else {
        ok = false;
    }
    return ok ? HS_OK
              : hs_fail(err, hs__errno_status(errno), "cannot make the folder '%s': %s", path,
                        hs__errno_text(errno));
}

hs_status hs__folder_make_above(const char *path, hs_error *err)
{
    char folder[PATH_MAX];
    folder_above(path, folder);
    return hs__folder_make(folder, err);
}

hs_status hs__file_open(const char *path, int *ret_fd, uint64_t *ret_bytes, hs_error *err)
{
    struct stat file = {0};
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const int why = fd < 0 || fstat(fd, &file) ? errno : 0;
    *ret_fd = fd;
    if (!why && S_ISREG(file.st_mode)) {
        *ret_bytes = (uint64_t)file.st_size;
        return HS_OK;
    }
    if (fd >= 0)
        close(fd);
    *ret_fd = -1;
    return why && why != ELOOP && why != ENXIO
               ? hs_fail(err, why == ENOENT ? HS_NOT_FOUND : hs__errno_status(why), "cannot read '%s': %s",
                         path, hs__errno_text(why))
               : hs_fail(err, HS_IO, "cannot read '%s': it is a link, pipe or folder; put a file there",
                         path);
}

uint64_t hs__folder_bytes(const char *dir)
{
    struct stat file;
    uint64_t bytes = 0;
    DIR *folder = opendir(dir);
    if (!folder)
        return 0;
    for (const struct dirent *entry; (entry = readdir(folder));)
        if (!fstatat(dirfd(folder), entry->d_name, &file, 0) && S_ISREG(file.st_mode))
            bytes += (uint64_t)file.st_size;
    closedir(folder);
    return bytes;
}

uint64_t hs__disk_free(const char *path)
{
    char folder[PATH_MAX];
    struct statvfs disk;
    folder_above(path, folder);
    return statvfs(path, &disk) && statvfs(folder, &disk) ? UINT64_MAX
                                                          : (uint64_t)disk.f_bavail * disk.f_frsize;
}
