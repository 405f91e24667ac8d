/* whole_files.c - a stream of our own over the temporary file: stdio forgets why a write failed, the stream's
 * functions see it. */
#include "server/base/whole_files.h"

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
#include <unistd.h>

#define ENDING      ".unfinished"
#define PIECE_BYTES ((size_t)8 << 20) /* written between two looks at whether to stop */
#define HOLE_BYTES  ((size_t)4 << 10) /* zeros that are not worth writing */

/* Where a stream's bytes go. */
typedef struct sink {
    int fd;
    bool is_new;     /* a regular file, empty at first: what is passed over at its end is a hole, and reads as
                        zeros */
    off64_t at, end; /* of a new file: where the next byte goes, and the last one went */
    int why;         /* errno of the first write that failed, or 0 */
    const atomic_int *stop;
} sink;

static bool is_hole(const char *bytes, size_t n)
{
    return n >= HOLE_BYTES && !*bytes && memcmp(bytes, bytes + 1, HOLE_BYTES - 1) == 0;
}

/* Writes up to the next hole, or passes over one: the maps of short texts are zeros for the most part, and no
 * disk need hold them. Returns how far it came; below 0 with errno. */
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
    const bool full = why == ENOSPC || why == EDQUOT || why == EFBIG;
    return hs_fail(err, full ? HS_TOO_LARGE : HS_IO, "cannot write '%s': %s", path, strerror(why));
}

/* Everything write() has to say into fd. path is for messages. */
static hs_status sink_fill(sink *to, const char *path, hs__file_write write, void *data, hs_error *err)
{
    hs_error why = {0};
    FILE *file = fopencookie(to, "w", (cookie_io_functions_t){.write = on_write, .seek = on_seek});
    if (!file)
        return hs_fail(err, HS_NO_MEMORY, "no memory to write '%s'", path);
    const hs_status st = write(file, data, &why);
    const bool closed = fclose(file) == 0;
    if (to->why)
        return failed(path, to->why, err);
    if (st)
        return hs_fail(err, st, "%s", why.text);
    if (to->is_new && ftruncate(to->fd, to->end)) /* a hole may be the last */
        return failed(path, errno, err);
    return closed ? HS_OK : failed(path, EIO, err);
}

/* Makes a rename last over a loss of power. */
static bool folder_sync(const char *dir)
{
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const bool ok = fsync(fd) == 0 || errno == EINVAL; /* some file systems know no fsync of folders */
    close(fd);
    return ok;
}

/* A new ".name.0123456789abcdef.unfinished" in dir, of this mode less the umask; below 0 with errno. */
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

/* The same, locked. Before the lock it may be taken for a leftover: then there is no name of it any more. */
static int unfinished_open(const char *dir, const char *name, mode_t mode, char ret_path[PATH_MAX])
{
    int fd;
    while ((fd = unfinished_create(dir, name, mode, ret_path)) >= 0) {
        while (flock(fd, LOCK_EX) && errno == EINTR) /* where there are no locks, nobody sweeps */
            continue;
        /* By name: NFS counts on what it unlinks while it is open. */
        if (!access(ret_path, F_OK) || errno != ENOENT)
            break;
        close(fd);
    }
    return fd;
}

/* As unfinished_create names them; a NULL name stands for all. */
static bool is_unfinished(const char *file_name, const char *name)
{
    const size_t n = strlen(file_name), n_rest = sizeof ".0123456789abcdef" ENDING - 1;
    return n > n_rest && *file_name == '.' && file_name[n - n_rest] == '.' &&
           strcmp(file_name + n - (sizeof ENDING - 1), ENDING) == 0 &&
           strspn(file_name + n - n_rest + 1, "0123456789abcdef") == 16 &&
           (!name || (strlen(name) == n - n_rest - 1 && strncmp(file_name + 1, name, strlen(name)) == 0));
}

/* Whose writer lives is locked. */
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

/* old: what is there already and keeps its mode, or NULL. Who may not read that may not read what replaces it
 * while it grows either. */
static hs_status replace(const char *dir, const char *name, const struct stat *old, const atomic_int *stop,
                         hs__file_write write, void *data, hs_error *err)
{
    char path[PATH_MAX], unfinished[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path)
        return hs_fail(err, HS_INVALID, "'%.200s...' is too long for a path", dir);
    sink to = {.fd = unfinished_open(dir, name, old ? (old->st_mode & 0666) | 0600 : 0666, unfinished),
               .is_new = true,
               .stop = stop};
    if (to.fd < 0)
        return failed(path, errno, err);
    hs_status st = sink_fill(&to, path, write, data, err);
    if (!st && ((old && fchmod(to.fd, old->st_mode & 07777)) || fsync(to.fd) || rename(unfinished, path) ||
                !folder_sync(dir)))
        st = failed(path, errno, err);
    if (st)
        unlink(unfinished);
    if (close(to.fd) && !st)
        st = failed(path, errno, err);
    return st;
}

hs_status hs__file_replace(const char *dir, const char *name, const atomic_int *stop, hs__file_write write,
                           void *data, hs_error *err)
{
    return replace(dir, name, NULL, stop, write, data, err);
}

/* Straight into what is there. Takes fd. */
static hs_status stream_fill(int fd, const char *path, hs__file_write write, void *data, hs_error *err)
{
    sink to = {.fd = fd};
    const hs_status st = fd < 0 ? failed(path, errno, err) : sink_fill(&to, path, write, data, err);
    if (fd >= 0 && close(fd) && !st)
        return failed(path, errno, err);
    return st;
}

hs_status hs__path_write(const char *path, hs__file_write write, void *data, hs_error *err)
{
    char real[PATH_MAX];
    struct stat file;
    if (!path)
        return stream_fill(dup(STDOUT_FILENO), "standard output", write, data, err);
    const bool exists = stat(path, &file) == 0;
    const bool named = exists && S_ISREG(file.st_mode) && realpath(path, real);
    if (exists && !named) /* "/dev/stdout" may be a file that has no name any more */
        return stream_fill(open(path, O_WRONLY | O_TRUNC | O_CLOEXEC), path, write, data, err);
    if (!named)
        snprintf(real, sizeof real, "%s", path);
    char *slash = strrchr(real, '/');
    const char *dir = slash == real ? "/" : slash ? real : ".", *name = slash ? slash + 1 : real;
    if (slash)
        *slash = '\0';
    leftovers_remove(dir, name);
    return replace(dir, name, exists ? &file : NULL, NULL, write, data, err);
}

hs_status hs__folder_make(const char *dir, hs_error *err)
{
    char path[PATH_MAX];
    const size_t n = strlen(dir);
    if (!n || n >= sizeof path)
        return hs_fail(err, HS_INVALID, "'%s' cannot be a folder's name", dir);
    memcpy(path, dir, n + 1);
    for (char *slash = path + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        if (mkdir(path, 0777) && errno != EEXIST)
            return hs_fail(err, HS_IO, "cannot make the folder '%s': %s", path, strerror(errno));
    }
    struct stat folder;
    if (mkdir(path, 0777) && (errno != EEXIST || stat(path, &folder) || !S_ISDIR(folder.st_mode)))
        return hs_fail(err, HS_IO, "cannot make the folder '%s': %s", path, strerror(errno));
    return HS_OK;
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
