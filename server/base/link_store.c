/* link_store.c - a list of the files, oldest first, stands in memory. One lock guards the list and the
 * folder.
 */
#include "server/base/link_store.h"

#include "model/base/bytes.h"
#include "server/base/atomic_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct link_entry {
    char id[HS_LINK_ID_CHARS + 1];
    uint64_t bytes;
    struct timespec added; /* only while the folder is opened */
} link_entry;

struct hs_links {
    char dir[PATH_MAX];
    pthread_mutex_t lock;
    link_entry *all; /* [HS_LINKS_MAX + 1], oldest first */
    size_t n;
    uint64_t bytes;
};

static bool is_id(const char *text)
{
    return strlen(text) == HS_LINK_ID_CHARS && strspn(text, "0123456789abcdef") == HS_LINK_ID_CHARS;
}

static void path_of(const hs_links *links, const char *id, char ret_path[PATH_MAX + 32])
{
    snprintf(ret_path, PATH_MAX + 32, "%s/%s", links->dir, id);
}

static void remove_at(hs_links *links, size_t at)
{
    links->bytes -= links->all[at].bytes;
    links->n--;
    memmove(links->all + at, links->all + at + 1, (links->n - at) * sizeof *links->all);
}

/* Removes the oldest until the list and `more` bytes are within the limits. */
static void make_space(hs_links *links, uint64_t more)
{
    while (links->n && (links->n >= HS_LINKS_MAX || links->bytes + more > HS_LINKS_BYTES_MAX)) {
        char path[PATH_MAX + 32];
        path_of(links, links->all[0].id, path);
        unlink(path);
        remove_at(links, 0);
    }
}

static void append(hs_links *links, const char *id, uint64_t bytes, struct timespec added)
{
    link_entry *entry = &links->all[links->n++];
    snprintf(entry->id, sizeof entry->id, "%s", id);
    entry->bytes = bytes;
    entry->added = added;
    links->bytes += bytes;
}

static int by_time(const void *a, const void *b)
{
    const link_entry *one = a, *two = b;
    if (one->added.tv_sec != two->added.tv_sec)
        return one->added.tv_sec < two->added.tv_sec ? -1 : 1;
    if (one->added.tv_nsec != two->added.tv_nsec)
        return one->added.tv_nsec < two->added.tv_nsec ? -1 : 1;
    return strcmp(one->id, two->id);
}

/* Lists the files of the folder. Files beyond the number that a server keeps stay unlisted. */
static hs_status folder_read(hs_links *links, hs_error *err)
{
    DIR *folder = opendir(links->dir);
    if (!folder)
        return hs_fail(err, HS_IO, "cannot read '%s': %s", links->dir, strerror(errno));
    for (const struct dirent *entry; links->n < HS_LINKS_MAX && (entry = readdir(folder));) {
        struct stat file;
        if (is_id(entry->d_name) && fstatat(dirfd(folder), entry->d_name, &file, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(file.st_mode))
            append(links, entry->d_name, (uint64_t)file.st_size, file.st_mtim);
    }
    closedir(folder);
    qsort(links->all, links->n, sizeof *links->all, by_time);
    return HS_OK;
}

hs_status hs__links_open(const char *dir, hs_links **ret_links, hs_error *err)
{
    hs_links *links = calloc(1, sizeof *links);
    link_entry *all = calloc(HS_LINKS_MAX + 1, sizeof *all);
    if (!links || !all) {
        free(links);
        free(all);
        return hs_fail(err, HS_NO_MEMORY, "no memory for short links");
    }
    links->all = all;
    pthread_mutex_init(&links->lock, NULL);
    const int n = snprintf(links->dir, sizeof links->dir, "%s/links", dir);
    hs_status st = n < 0 || (size_t)n >= sizeof links->dir
                       ? hs_fail(err, HS_INVALID, "the state folder's name is too long")
                       : hs__folder_make(links->dir, err);
    if (!st)
        hs__leftovers_remove(links->dir);
    if (!st)
        st = folder_read(links, err);
    if (st) {
        hs__links_close(links);
        return st;
    }
    *ret_links = links;
    return HS_OK;
}

void hs__links_close(hs_links *links)
{
    if (!links)
        return;
    pthread_mutex_destroy(&links->lock);
    free(links->all);
    free(links);
}

/* Reads the file of a name. */
static hs_status file_read(const hs_links *links, const char *id, char **ret_text, size_t *ret_bytes,
                           hs_error *err)
{
    char path[PATH_MAX + 32];
    path_of(links, id, path);
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return hs_fail(err, errno == ENOENT ? HS_NOT_FOUND : HS_IO, "cannot read '%s': %s", path,
                       strerror(errno));
    char *text = malloc(HS_LINK_BYTES_MAX + 1);
    size_t n = 0;
    ssize_t more = 1;
    while (text && n < HS_LINK_BYTES_MAX && more > 0) {
        more = read(fd, text + n, HS_LINK_BYTES_MAX - n);
        n += more > 0 ? (size_t)more : 0;
    }
    close(fd);
    if (!text || more < 0) {
        const hs_status st = text ? hs_fail(err, HS_IO, "cannot read '%s': %s", path, strerror(errno))
                                  : hs_fail(err, HS_NO_MEMORY, "no memory for a link");
        free(text);
        return st;
    }
    text[n] = 0;
    *ret_text = text;
    *ret_bytes = n;
    return HS_OK;
}

typedef struct content {
    const char *text;
    size_t n_bytes;
} content;

static hs_status content_write(FILE *file, void *data, hs_error *err)
{
    const content *c = data;
    (void)err; /* hs__file_replace checks the stream for errors */
    fwrite(c->text, 1, c->n_bytes, file);
    return HS_OK;
}

/* Makes a text that is kept already the newest. Returns HS_NOT_FOUND if it is not kept. */
static hs_status renew(hs_links *links, const char *id, const char *text, size_t n_bytes, hs_error *err)
{
    size_t at = 0;
    while (at < links->n && strcmp(links->all[at].id, id) != 0)
        at++;
    if (at == links->n)
        return HS_NOT_FOUND;
    char *known = NULL, path[PATH_MAX + 32];
    size_t n_known = 0;
    const hs_status st = file_read(links, id, &known, &n_known, err);
    const bool same = !st && n_known == n_bytes && memcmp(known, text, n_bytes) == 0;
    free(known);
    if (st == HS_NOT_FOUND)
        remove_at(links, at); /* somebody else removed the file */
    if (st)
        return st;
    if (!same)
        return hs_fail(err, HS_BUSY, "another text has the name %s", id);
    path_of(links, id, path);
    (void)utimensat(AT_FDCWD, path, NULL,
                    AT_SYMLINK_NOFOLLOW); /* only its age after a restart depends on it */
    const link_entry entry = links->all[at];
    remove_at(links, at);
    append(links, entry.id, entry.bytes, entry.added);
    return HS_OK;
}

static hs_status digest_of(const char *text, size_t n_bytes, char ret_id[HS_LINK_ID_CHARS + 1], hs_error *err)
{
    char hex[HS_SHA256_HEX];
    hs_digest *digest = hs_digest_create();
    if (!digest)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a link");
    hs_digest_add(digest, text, n_bytes);
    hs_digest_read(digest, hex);
    hs_digest_destroy(digest);
    snprintf(ret_id, HS_LINK_ID_CHARS + 1, "%.*s", HS_LINK_ID_CHARS, hex);
    return HS_OK;
}

hs_status hs__links_add(hs_links *links, const char *text, size_t n_bytes, char ret_id[HS_LINK_ID_CHARS + 1],
                        hs_error *err)
{
    hs_status st = digest_of(text, n_bytes, ret_id, err);
    if (st)
        return st;
    pthread_mutex_lock(&links->lock);
    st = renew(links, ret_id, text, n_bytes, err);
    if (st == HS_NOT_FOUND) {
        make_space(links, n_bytes);
        st = hs__file_replace(links->dir, ret_id, NULL, content_write, &(content){text, n_bytes}, err);
        if (!st)
            append(links, ret_id, n_bytes, (struct timespec){0});
    }
    pthread_mutex_unlock(&links->lock);
    return st;
}

hs_status hs__links_read(hs_links *links, const char *id, char **ret_text, size_t *ret_bytes, hs_error *err)
{
    if (!is_id(id))
        return hs_fail(err, HS_NOT_FOUND, "'%s' is no link", id);
    pthread_mutex_lock(&links->lock);
    const hs_status st = file_read(links, id, ret_text, ret_bytes, err);
    pthread_mutex_unlock(&links->lock);
    return st;
}
