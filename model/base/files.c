/* files.c - reads small files and maps weight files. Mapping 440 MB takes microseconds; the system reads
 * pages when the engine first touches them. */
#include "model/base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The largest vocabularies in use take 10 MB as tokenizer.json. */
#define READ_BYTES_MAX ((size_t)128 << 20)

static hs_status fail_errno(hs_error *err, const char *name, int error)
{
    hs_status status = error == ENOENT || error == ENOTDIR ? HS_NOT_FOUND
                       : error == ENOMEM                   ? HS_NO_MEMORY
                                                           : HS_IO;
    char text[128];
    return hs_fail(err, status, "%s: %s", name, strerror_r(error, text, sizeof text));
}

/* Opens a regular file. O_NONBLOCK keeps a pipe of that name from blocking; it is then refused as not
 * regular. */
static hs_status open_regular(const char *path, const char *name, int *ret_fd, size_t *ret_size,
                              hs_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return fail_errno(err, name, errno);
    struct stat info;
    hs_status st = HS_OK;
    if (fstat(fd, &info))
        st = fail_errno(err, name, errno);
    else if (!S_ISREG(info.st_mode))
        st = hs_fail(err, HS_BAD_MODEL, "%s: not a regular file", name);
    if (st) {
        close(fd);
        return st;
    }
    *ret_fd = fd;
    *ret_size = (size_t)info.st_size;
    return HS_OK;
}

/* Reads exactly n_bytes. Fails with HS_IO if the file has become shorter. */
static hs_status read_fully(int fd, const char *name, char *ret_data, size_t n_bytes, hs_error *err)
{
    for (size_t done = 0; done < n_bytes;) {
        ssize_t n = read(fd, ret_data + done, n_bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_errno(err, name, errno);
        if (n == 0)
            return hs_fail(err, HS_IO, "%s: changed while it was read; try again", name);
        done += (size_t)n;
    }
    return HS_OK;
}

/* Refuses the text that stands for a large file in a clone without Git LFS. */
static hs_status refuse_pointer(const char *name, const hs_bytes *bytes, hs_error *err)
{
    static const char start[] = "version https://git-lfs.github.com/spec/";
    if (bytes->size < sizeof start - 1 || memcmp(bytes->data, start, sizeof start - 1) != 0)
        return HS_OK;
    return hs_fail(
        err, HS_BAD_MODEL,
        "%s: this is a Git LFS pointer and not the file; run 'git lfs pull' in the folder, or fetch "
        "the model with headscope pull",
        name);
}

static hs_status path_join(const char *dir, const char *name, char ret_path[PATH_MAX], hs_error *err)
{
    const int length = snprintf(ret_path, PATH_MAX, "%s/%s", dir, name);
    return length < 0 || length >= PATH_MAX ? fail_errno(err, name, ENAMETOOLONG) : HS_OK;
}

hs_status hs_path_read(const char *path, const char *name, size_t bytes_max, hs_bytes *ret_bytes,
                       hs_error *err)
{
    int fd = -1;
    size_t size = 0;
    hs_status st = open_regular(path, name, &fd, &size, err);
    if (st)
        return st;
    char *data = size <= bytes_max ? malloc(size + 1) : NULL; /* never 0 bytes: NULL means absent */
    if (size > bytes_max)
        st = hs_fail(err, HS_TOO_LARGE, "%s: larger than %zu MB", name, bytes_max >> 20);
    else if (!data)
        st = hs_fail(err, HS_NO_MEMORY, "%s: out of memory", name);
    else
        st = read_fully(fd, name, data, size, err);
    close(fd);
    if (st) {
        free(data);
        return st;
    }
    *ret_bytes = (hs_bytes){data, size};
    return HS_OK;
}

hs_status hs__file_read(const char *dir, const char *name, bool optional, hs_bytes *ret_bytes, hs_error *err)
{
    char path[PATH_MAX];
    hs_error read_error = {0};
    *ret_bytes = (hs_bytes){NULL, 0};
    hs_status st = path_join(dir, name, path, &read_error);
    if (!st)
        st = hs_path_read(path, name, READ_BYTES_MAX, ret_bytes, &read_error);
    if (st == HS_NOT_FOUND && optional)
        return HS_OK;
    if (st)
        return hs_fail(err, st == HS_TOO_LARGE ? HS_BAD_MODEL : st, "%s", read_error.text);
    st = refuse_pointer(name, ret_bytes, err);
    if (st) {
        free((void *)ret_bytes->data);
        *ret_bytes = (hs_bytes){NULL, 0};
    }
    return st;
}

hs_status hs__file_map(const char *dir, const char *name, hs__mapping *ret_mapping, hs_error *err)
{
    char path[PATH_MAX];
    *ret_mapping = (hs__mapping){.fd = -1};
    int fd = -1;
    size_t size = 0;
    hs_status st = path_join(dir, name, path, err);
    if (!st)
        st = open_regular(path, name, &fd, &size, err);
    if (st)
        return st;
    ret_mapping->fd = fd;
    if (size == 0)
        return hs_fail(err, HS_BAD_MODEL, "%s: the file is empty", name);
    void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return fail_errno(err, name, errno);
    madvise(data, size,
            MADV_WILLNEED); /* a cold disk starts reading while the rest is parsed; 0.1 ms for 440 MB */
    ret_mapping->bytes = (hs_bytes){data, size};
    return refuse_pointer(name, &ret_mapping->bytes, err);
}

void hs__file_unmap(hs__mapping *mapping)
{
    if (mapping->fd < 0)
        return;
    if (mapping->bytes.data)
        munmap((void *)mapping->bytes.data, mapping->bytes.size);
    close(mapping->fd);
    *mapping = (hs__mapping){.fd = -1};
}
