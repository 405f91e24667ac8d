/* run_folders.c - the folders of runs.
 *
 * Only folders of runs that were never accepted, or whose deletion was requested, are removed here. All
 * others that the database does not know are moved to aside/. */
#include "server/runs/runs_internal.h"

#include "server/base/atomic_files.h"
#include "server/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* A truncated path in a message is recognised from this length: messages cut a name at 200 bytes or more. */
enum { PATH_CUT_MIN = 200 };

void hs__run_path(const hs_runs *c, const char *id, const char *name, char ret_path[HS__RUN_PATH_MAX])
{
    snprintf(ret_path, HS__RUN_PATH_MAX, "%s/runs/%s%s%s", c->dir, id, *name ? "/" : "", name);
}

/* Returns how many bytes of dir are at this place of a text. Returns 0 unless it is all of dir, or a prefix
 * so long that the message was truncated. */
static size_t path_at(const char *at, const char *dir)
{
    size_t n = 0;
    while (dir[n] && at[n] == dir[n])
        n++;
    return !dir[n] || n >= PATH_CUT_MIN ? n : 0;
}

void hs__run_path_strip(const hs_runs *c, const char *id, char *text)
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
            memcpy(at, dir + n_dir - n_id, n_id); /* dir ends with the id */
        char *rest = with_file ? at : at + n_id;
        memmove(rest, at + n + with_file, strlen(at + n + with_file) + 1);
    }
}

/* Opens a run's folder, but no symbolic link. Returns NULL with errno if it cannot be opened. */
static DIR *folder_open(const hs_runs *c, const char *id)
{
    char path[HS__RUN_PATH_MAX];
    hs__run_path(c, id, "", path);
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder && fd >= 0)
        close(fd);
    return folder;
}

bool hs__run_results_remove(const hs_runs *c, const char *id)
{
    DIR *folder = folder_open(c, id);
    bool removed = folder != NULL;
    if (!folder)
        return false;
    for (const struct dirent *entry; (entry = readdir(folder));)
        if (strcmp(entry->d_name, "input") != 0 && strcmp(entry->d_name, ".") != 0 &&
            strcmp(entry->d_name, "..") != 0)
            removed &= unlinkat(dirfd(folder), entry->d_name, 0) == 0;
    removed &= fsync(dirfd(folder)) == 0;
    closedir(folder);
    return removed;
}

bool hs__run_files_remove(const hs_runs *c, const char *id)
{
    char path[HS__RUN_PATH_MAX];
    DIR *folder = folder_open(c, id);
    bool removed = !folder && (errno == ENOENT || errno == ELOOP || errno == ENOTDIR);
    hs__run_path(c, id, "", path);
    if (folder) {
        for (const struct dirent *entry; (entry = readdir(folder));)
            unlinkat(dirfd(folder), entry->d_name, 0); /* "." and ".." are refused */
        closedir(folder);
        removed = rmdir(path) == 0;
    }
    if (!removed)
        hs__log("error", "runs/%s cannot be removed: %s; the next start tries again", id, strerror(errno));
    return removed;
}

static void move_aside(const hs_runs *c, const char *from, const char *name, const char *why)
{
    char path[HS__RUN_PATH_MAX], aside[HS__RUN_PATH_MAX];
    struct stat there;
    snprintf(path, sizeof path, "%s/%s", c->dir, from);
    snprintf(aside, sizeof aside, "%s/aside", c->dir);
    if (lstat(path, &there))
        return;
    if (mkdir(aside, 0777) && errno != EEXIST) {
        hs__log("error", "%s cannot be moved to aside/: %s", from, strerror(errno));
        return;
    }
    for (int copy = 0; copy < 100; copy++) {
        snprintf(aside, sizeof aside, copy ? "%s/aside/%s.%d" : "%s/aside/%s", c->dir, name, copy);
        if (lstat(aside, &there) && rename(path, aside) == 0) {
            hs__log("warning", "%s: %s; moved to %s", from, why, aside);
            return;
        }
    }
    hs__log("error", "%s cannot be moved to aside/: %s", from, strerror(errno));
}

static bool is_id(const char *name)
{
    return strspn(name, "0123456789abcdef") == HS_RUN_ID_MAX && !name[HS_RUN_ID_MAX];
}

static void folder_tidy(hs_runs *c, const char *id)
{
    char path[HS__RUN_PATH_MAX], from[HS__RUN_PATH_MAX];
    hs__run_path(c, id, "", path);
    hs__leftovers_remove(path);
    /* The query had no row and no error: with an unreadable database, all folders stay. */
    if (hs__run_table_done(hs__run_table_prepare(c, "SELECT 1 FROM runs WHERE id = ?1", id, NULL))) {
        snprintf(from, sizeof from, "runs/%s", id);
        move_aside(c, from, id, "corpora.db knows no such run");
    }
}

/* Finds the next run, by number, whose upload or deletion was interrupted. */
static bool half_done(hs_runs *c, sqlite3_int64 *number, char ret_id[HS_RUN_ID_MAX + 1])
{
    sqlite3_stmt *s =
        hs__run_table_prepare(c,
                              "SELECT number, id FROM runs WHERE state IN ('uploading', 'deleting')"
                              " AND number > ?1 AND " HS__RUN_ID_IS_VALID " ORDER BY number LIMIT 1",
                              NULL, NULL);
    const bool found = s && !sqlite3_bind_int64(s, 1, *number) && sqlite3_step(s) == SQLITE_ROW;
    if (found) {
        *number = sqlite3_column_int64(s, 0);
        snprintf(ret_id, HS_RUN_ID_MAX + 1, "%s", hs__run_table_text(s, 1));
    }
    sqlite3_finalize(s);
    return found;
}

/* Removes rows with malformed ids. Such rows have no files. */
static void strange_rows_remove(hs_runs *c)
{
    const bool ok = hs__run_table_done(
        hs__run_table_prepare(c, "DELETE FROM runs WHERE NOT " HS__RUN_ID_IS_VALID, NULL, NULL));
    if (ok && sqlite3_changes(c->db))
        hs__log("warning", "corpora.db had %d runs with ids that are not this server's; they are removed",
                sqlite3_changes(c->db));
}

static void folders_tidy(hs_runs *c)
{
    char path[HS__RUN_PATH_MAX], id[HS_RUN_ID_MAX + 1];
    strange_rows_remove(c);
    for (sqlite3_int64 number = INT64_MIN; half_done(c, &number, id);) {
        if (hs__run_files_remove(c, id))
            (void)hs__run_table_done(hs__run_table_prepare(c, "DELETE FROM runs WHERE id = ?1", id, NULL));
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

static hs_status lock_take(hs_runs *c, hs_error *err)
{
    char path[HS__RUN_PATH_MAX];
    snprintf(path, sizeof path, "%s/lock", c->dir);
    if (c->lock_fd < 0)
        c->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (c->lock_fd < 0)
        return hs_fail(err, hs__write_status(errno), "cannot write '%s': %s", path, strerror(errno));
    if (flock(c->lock_fd, LOCK_EX | LOCK_NB))
        return hs_fail(err, HS_BUSY, "'%s' is in use by another server", c->dir);
    return HS_OK;
}

/* Opens the database. Moves one that cannot be read to aside/ and begins a new one; the folders of its runs
 * are then moved too. */
static hs_status table_open(hs_runs *c, hs_error *err)
{
    static const char *const files[] = {"corpora.db", "corpora.db-wal", "corpora.db-shm"};
    hs_error why = {0};
    hs_status st = hs__run_table_open(c, &why);
    if (st != HS_INVALID)
        return st ? hs_fail(err, st, "%s", why.text) : HS_OK;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        move_aside(c, files[i], files[i], why.text);
    return hs__run_table_open(c, err);
}

hs_status hs__run_folders_open(hs_runs *c, hs_error *err)
{
    char path[HS__RUN_PATH_MAX];
    struct stat folder;
    snprintf(path, sizeof path, "%s/runs", c->dir);
    hs_status st = hs__folder_make(path, err);
    if (!st)
        st = lock_take(c, err);
    if (!st)
        st = table_open(c, err);
    if (st)
        return st;
    if (stat(c->dir, &folder) == 0 && folder.st_mode & (S_IRWXG | S_IRWXO))
        hs__log("warning", "other users may look into the state folder '%s': chmod 700 it", c->dir);
    folders_tidy(c);
    hs__run_table_count_bytes(c);
    return HS_OK;
}
