/* corpora_folders.c - runs as folders. Only what was never acknowledged, or whose deletion was asked for, is
 * removed here; everything else that no row knows is somebody's work, and is put aside. */
#include "server/runs/corpora_internal.h"

#include "server/base/log.h"
#include "server/base/whole_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of a path that a text holds the beginning of: messages are cut at 200 bytes of a name at least. */
enum { PATH_CUT_MIN = 200 };

void hs__run_path(const hs_corpora *c, const char *id, const char *name, char ret_path[HS__RUN_PATH_MAX])
{
    snprintf(ret_path, HS__RUN_PATH_MAX, "%s/runs/%s%s%s", c->dir, id, *name ? "/" : "", name);
}

/* How much of dir stands at a place of a text; 0 unless it is all, or so much that the rest was cut off. */
static size_t path_at(const char *at, const char *dir)
{
    size_t n = 0;
    while (dir[n] && at[n] == dir[n])
        n++;
    return !dir[n] || n >= PATH_CUT_MIN ? n : 0;
}

void hs__run_path_strip(const hs_corpora *c, const char *id, char *text)
{
    char dir[HS__RUN_PATH_MAX];
    hs__run_path(c, id, "", dir);
    const size_t n_id = strlen(id), n_dir = strlen(dir);
    for (char *at = text; *at; at++) {
        const size_t n = path_at(at, dir);
        const bool with_file = n == n_dir && at[n] == '/';
        if (!n)
            continue;
        if (!with_file)
            memcpy(at, dir + n_dir - n_id, n_id); /* which ends with the id */
        char *rest = with_file ? at : at + n_id;
        memmove(rest, at + n + with_file, strlen(at + n + with_file) + 1);
    }
}

void hs__run_files_remove(const hs_corpora *c, const char *id)
{
    char path[HS__RUN_PATH_MAX];
    hs__run_path(c, id, "", path);
    DIR *folder = opendir(path);
    if (!folder)
        return;
    for (const struct dirent *entry; (entry = readdir(folder));)
        unlinkat(dirfd(folder), entry->d_name, 0); /* "." and ".." are refused */
    closedir(folder);
    rmdir(path);
}

static void put_aside(const hs_corpora *c, const char *from, const char *name, const char *why)
{
    char path[HS__RUN_PATH_MAX], aside[HS__RUN_PATH_MAX];
    struct stat there;
    snprintf(path, sizeof path, "%s/%s", c->dir, from);
    snprintf(aside, sizeof aside, "%s/aside", c->dir);
    if (lstat(path, &there))
        return;
    if (mkdir(aside, 0777) && errno != EEXIST) {
        hs__log("error", "%s cannot be put aside: %s", from, strerror(errno));
        return;
    }
    for (int copy = 0; copy < 100; copy++) {
        snprintf(aside, sizeof aside, copy ? "%s/aside/%s.%d" : "%s/aside/%s", c->dir, name, copy);
        if (lstat(aside, &there) && rename(path, aside) == 0) {
            hs__log("warning", "%s: %s; put aside as %s", from, why, aside);
            return;
        }
    }
    hs__log("error", "%s cannot be put aside: %s", from, strerror(errno));
}

static bool is_id(const char *name)
{
    return strspn(name, "0123456789abcdef") == HS_CORPORA_ID_MAX && !name[HS_CORPORA_ID_MAX];
}

static void folder_tidy(hs_corpora *c, const char *id)
{
    char path[HS__RUN_PATH_MAX], from[HS__RUN_PATH_MAX];
    hs__run_path(c, id, "", path);
    hs__leftovers_remove(path);
    /* No row came, and no error: a database that cannot be read makes no strays. */
    if (hs__row_done(hs__row_statement(c, "SELECT 1 FROM runs WHERE id = ?1", id, NULL))) {
        snprintf(from, sizeof from, "runs/%s", id);
        put_aside(c, from, id, "corpora.db knows no such run");
    }
}

/* The id of one run that a crash kept from being uploaded or deleted. */
static bool half_done(hs_corpora *c, char ret_id[HS_CORPORA_ID_MAX + 1])
{
    sqlite3_stmt *s = hs__row_statement(
        c, "SELECT id FROM runs WHERE state IN ('uploading', 'deleting') LIMIT 1", NULL, NULL);
    const bool found = s && sqlite3_step(s) == SQLITE_ROW;
    if (found)
        snprintf(ret_id, HS_CORPORA_ID_MAX + 1, "%s", hs__row_text(s, 0));
    sqlite3_finalize(s);
    return found;
}

static void folders_tidy(hs_corpora *c)
{
    char path[HS__RUN_PATH_MAX], id[HS_CORPORA_ID_MAX + 1];
    while (half_done(c, id)) {
        hs__run_files_remove(c, id);
        if (!hs__row_done(hs__row_statement(c, "DELETE FROM runs WHERE id = ?1", id, NULL)))
            break;
    }
    hs__run_path(c, "", "", path);
    DIR *runs = opendir(path);
    if (!runs)
        return;
    for (const struct dirent *entry; (entry = readdir(runs));)
        if (is_id(entry->d_name))
            folder_tidy(c, entry->d_name);
    closedir(runs);
}

/* Full disks are HS_TOO_LARGE, as hs__folder_make has it. */
static hs_status lock_take(hs_corpora *c, hs_error *err)
{
    char path[HS__RUN_PATH_MAX];
    snprintf(path, sizeof path, "%s/lock", c->dir);
    if (c->lock_fd < 0)
        c->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (c->lock_fd < 0)
        return hs_fail(err, errno == ENOSPC || errno == EDQUOT ? HS_TOO_LARGE : HS_IO,
                       "cannot write '%s': %s", path, strerror(errno));
    if (flock(c->lock_fd, LOCK_EX | LOCK_NB))
        return hs_fail(err, HS_IO, "'%s' is in use by another server", c->dir);
    return HS_OK;
}

/* A database that cannot be read is put aside: another begins, and the folders of its runs are put aside too.
 */
static hs_status rows_open(hs_corpora *c, hs_error *err)
{
    static const char *const files[] = {"corpora.db", "corpora.db-wal", "corpora.db-shm"};
    hs_error why = {0};
    hs_status st = hs__rows_open(c, &why);
    if (st != HS_INVALID)
        return st ? hs_fail(err, st, "%s", why.text) : HS_OK;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        put_aside(c, files[i], files[i], why.text);
    return hs__rows_open(c, err);
}

hs_status hs__run_folders_open(hs_corpora *c, hs_error *err)
{
    char path[HS__RUN_PATH_MAX];
    snprintf(path, sizeof path, "%s/runs", c->dir);
    hs_status st = hs__folder_make(path, err);
    if (!st)
        st = lock_take(c, err);
    if (!st)
        st = rows_open(c, err);
    if (st)
        return st;
    folders_tidy(c);
    hs__rows_count_bytes(c);
    return HS_OK;
}
