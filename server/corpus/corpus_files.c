/* corpus_files.c - files that appear whole or not at all. */
#include "server/corpus/corpus_record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

hs_status hs__folder_make(const char *dir, hs_error *err)
{
    char path[4096];
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

hs_status hs__file_replace(const char *dir, const char *name, hs__file_write write, void *data, hs_error *err)
{
    char path[4200], temporary[4200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    snprintf(temporary, sizeof temporary, "%s/.%s.%ld", dir, name, (long)getpid());
    FILE *file = fopen(temporary, "w+e");
    if (!file)
        return hs_fail(err, HS_IO, "cannot write '%s': %s", temporary, strerror(errno));
    hs_status st = write(file, data, err);
    errno = 0;
    if (!st && (ferror(file) || fflush(file) || fsync(fileno(file))))
        st = hs_fail(err, HS_IO, "cannot write '%s': %s", path, strerror(errno ? errno : EIO));
    if (fclose(file) && !st)
        st = hs_fail(err, HS_IO, "cannot write '%s': %s", path, strerror(errno));
    if (!st && (rename(temporary, path) || !folder_sync(dir)))
        st = hs_fail(err, HS_IO, "cannot write '%s': %s", path, strerror(errno));
    if (st)
        unlink(temporary);
    return st;
}
