/* run_store.c - the runs on the disk: the rows of corpora.db, and the folders. */
#include "server/base/atomic_files.h"
#include "server/base/database.h"
#include "server/base/log.h"
#include "server/base/system_errors.h"
#include "server/runs/runs_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the rows of corpora.db ----
 *
 * A row holds what the server has acknowledged. Its state goes from uploading to queued, running, and done,
 * failed or cancelled. The states cancelling and deleting let a restart finish an operation that was
 * interrupted. */

/* Columns that earlier versions did not have. */
enum { BAD_LINES_TOTAL = 0 };

static const char *const added[] = {
    [BAD_LINES_TOTAL] = "bad_lines_total INTEGER NOT NULL DEFAULT 0",
    "lines INTEGER NOT NULL DEFAULT 0",    /* hs__text_format */
    "starts INTEGER NOT NULL DEFAULT 0",   /* of hs__run_row */
    "reserved INTEGER NOT NULL DEFAULT 0", /* bytes; they count until the run ends */
    "empty_texts INTEGER NOT NULL DEFAULT 0",
    "settings TEXT",                        /* of hs__run_row */
    "created TEXT",                         /* NULL: created by an earlier version */
    "precision TEXT",                       /* NULL: an earlier version, or not started */
    "pauses INTEGER NOT NULL DEFAULT 0",    /* of hs__run_row */
    "restarted INTEGER NOT NULL DEFAULT 0", /* of hs__run_row */
    NULL,
};

static const hs__database_kind kind = {
    .locked = true,
    .columns = added,
    .schema = "CREATE TABLE runs ("
              /* max_tokens, layers, thresholds and lines are unused since settings was added */
              " number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, name TEXT NOT NULL,"
              " model TEXT NOT NULL, max_tokens INTEGER NOT NULL, layers TEXT NOT NULL,"
              " thresholds TEXT NOT NULL, state TEXT NOT NULL, bytes INTEGER NOT NULL DEFAULT 0,"
              " texts_total INTEGER, texts_done INTEGER NOT NULL DEFAULT 0,"
              " bad_lines TEXT NOT NULL DEFAULT '[]', error TEXT);",
};

static const char preparation[] = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                                  /* runs whose cancellation was interrupted */
                                  "UPDATE runs SET state = 'cancelled' WHERE state = 'cancelling';";

hs_status hs__run_table_fail(const hs_runs *c, hs_error *err)
{
    const int code = sqlite3_errcode(c->db) & 0xff, why = hs__database_errno(c->db, code);
    return hs_fail(err,
                   code == SQLITE_FULL    ? HS_NO_SPACE
                   : code == SQLITE_NOMEM ? HS_NO_MEMORY
                                          : hs__errno_status(why),
                   "corpora.db: %s", why ? hs__errno_text(why) : sqlite3_errmsg(c->db));
}

/* Adds a column of `added` if it is missing. */
static bool column_add(hs_runs *c, size_t k)
{
    char name[32], sql[128];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(added[k], " "), added[k]);
    const int code = sqlite3_table_column_metadata(c->db, NULL, "runs", name, NULL, NULL, NULL, NULL, NULL);
    if (code != SQLITE_ERROR) /* which says that there is no such column */
        return code == SQLITE_OK;
    snprintf(sql, sizeof sql, "ALTER TABLE runs ADD COLUMN %s", added[k]);
    return sqlite3_exec(c->db, sql, NULL, NULL, NULL) == SQLITE_OK &&
           (k != BAD_LINES_TOTAL ||
            sqlite3_exec(c->db, "UPDATE runs SET bad_lines_total = json_array_length(bad_lines)", NULL, NULL,
                         NULL) == SQLITE_OK);
}

static bool table_prepare(hs_runs *c)
{
    bool ok = sqlite3_exec(c->db, preparation, NULL, NULL, NULL) == SQLITE_OK;
    for (size_t k = 0; ok && added[k]; k++)
        ok = column_add(c, k);
    return ok;
}

/* Returns true if SQLite refused the file because of its content, not because of the disk, memory or
 * permissions. A damaged format version is SQLITE_READONLY though the file can be written. SQLITE_READONLY
 * also stands for a folder in which SQLite cannot create its log. */
static bool is_damage(const hs_runs *c, int code, const char *path)
{
    return code == SQLITE_NOTADB || code == SQLITE_CORRUPT || code == SQLITE_ERROR ||
           (code == SQLITE_READONLY && access(path, W_OK) == 0 && access(c->dir, W_OK) == 0);
}

/* Opens corpora.db. Returns HS_NO_SPACE if the disk is full, HS_INVALID if the file is not a sound database.
 */
static hs_status rows_open(hs_runs *c, hs_error *err)
{
    char path[HS__RUN_PATH_MAX];
    snprintf(path, sizeof path, "%s/corpora.db", c->dir);
    hs_error why = {0};
    hs_status st = hs__database_open(path, HS__DATABASE_CREATE, &kind, &c->db, &why);
    if (st)
        return hs_fail(err, st, "corpora.db: %s", why.text);
    if (table_prepare(c))
        return HS_OK;
    const int code = sqlite3_errcode(c->db) & 0xff;
    st = hs__run_table_fail(c, err);
    if (is_damage(c, code, path))
        st = HS_INVALID;
    sqlite3_close(c->db);
    c->db = NULL;
    return st;
}

sqlite3_stmt *hs__run_table_prepare(hs_runs *c, const char *sql, const char *first, const char *second)
{
    sqlite3_stmt *s = NULL;
    if (!c->db || sqlite3_prepare_v2(c->db, sql, -1, &s, NULL) != SQLITE_OK)
        return NULL;
    if (first)
        sqlite3_bind_text(s, 1, first, -1, SQLITE_STATIC);
    if (second)
        sqlite3_bind_text(s, 2, second, -1, SQLITE_STATIC);
    return s;
}

bool hs__run_table_done(sqlite3_stmt *s)
{
    const bool ok = s && sqlite3_step(s) == SQLITE_DONE;
    sqlite3_finalize(s);
    return ok;
}

hs_status hs__run_table_step(const hs_runs *c, sqlite3_stmt *s, const char *id, hs_error *err)
{
    const int code = s ? sqlite3_step(s) : SQLITE_ERROR;
    if (code == SQLITE_DONE)
        return hs_fail(err, HS_NOT_FOUND, "There is no run '%.32s'. GET /corpora lists all runs.", id);
    return code == SQLITE_ROW ? HS_OK : hs__run_table_fail(c, err);
}

hs_status hs__run_table_end(const hs_runs *c, sqlite3_stmt *s, hs_status st, hs_error *err)
{
    const int code = sqlite3_finalize(s);
    return !st && code ? hs__run_table_fail(c, err) : st;
}

hs_status hs__run_table_number(hs_runs *c, const char *sql, uint64_t *ret, hs_error *err)
{
    sqlite3_stmt *s = hs__run_table_prepare(c, sql, NULL, NULL);
    const hs_status st = hs__run_table_step(c, s, "", err);
    if (!st)
        *ret = (uint64_t)sqlite3_column_int64(s, 0);
    return hs__run_table_end(c, s, st, err);
}

void hs__run_table_count_bytes(hs_runs *c)
{
    /* A damaged row may hold any number, and a negative one would count as almost 2^64. */
    uint64_t reserved, bytes;
    if (hs__run_table_number(c,
                             "SELECT total(max(0, min(reserved, 1 << 50))) FROM runs"
                             " WHERE state IN ('queued', 'running', 'cancelling')",
                             &reserved, NULL) ||
        hs__run_table_number(c, "SELECT total(max(0, min(bytes, 1 << 50))) FROM runs", &bytes, NULL))
        return;
    c->bytes_reserved = reserved;
    c->bytes_kept = reserved + bytes;
    atomic_store(&c->counts.bytes, c->bytes_kept);
}

static hs_status no_space(const char *where, uint64_t needed, uint64_t left, hs_error *err)
{
    return hs_fail(err, HS_NO_SPACE, "The run takes up to %llu MB; %s %llu MB. Delete old runs.",
                   (unsigned long long)(needed >> 20) + 1, where, (unsigned long long)(left >> 20));
}

hs_status hs__run_space_check(const hs_runs *c, uint64_t needed, hs_error *err)
{
    const uint64_t used = c->bytes_kept + c->bytes_coming, promised = c->bytes_reserved + c->bytes_coming;
    const uint64_t left = used < c->bytes_max ? c->bytes_max - used : 0, free_bytes = hs__disk_free(c->dir);
    const uint64_t on_disk = promised < free_bytes ? free_bytes - promised : 0;
    if (needed > left)
        return no_space("--max-state leaves", needed, left, err);
    return needed > on_disk ? no_space("the disk has", needed, on_disk, err) : HS_OK;
}

#define ROW                                                                                                  \
    "SELECT id, model, coalesce(settings, json_object('max_tokens', CAST(max_tokens AS TEXT), 'layers', "    \
    "layers,"                                                                                                \
    " 'thresholds', thresholds, 'input_format',"                                                             \
    " CASE lines WHEN 1 THEN 'text' WHEN 2 THEN 'jsonl' ELSE 'auto' END)),"                                  \
    " texts_done, bad_lines_total, starts, empty_texts, pauses, restarted FROM runs "                        \
    "WHERE " HS__RUN_ID_IS_VALID

/* Copies the row of a statement that begins with ROW, and finalizes it. id: for the message. */
static hs_status row_read(const hs_runs *c, sqlite3_stmt *s, const char *id, hs__run_row *ret, hs_error *err)
{
    const hs_status st = hs__run_table_step(c, s, id, err);
    if (!st) {
        snprintf(ret->id, sizeof ret->id, "%s", hs__run_table_text(s, 0));
        snprintf(ret->model, sizeof ret->model, "%s", hs__run_table_text(s, 1));
        snprintf(ret->settings, sizeof ret->settings, "%s", hs__run_table_text(s, 2));
        ret->progress = (hs__corpus_progress){.texts = (uint64_t)sqlite3_column_int64(s, 3),
                                              .bad_lines = (uint64_t)sqlite3_column_int64(s, 4),
                                              .empty_texts = (uint64_t)sqlite3_column_int64(s, 6)};
        ret->starts = sqlite3_column_int(s, 5);
        ret->pauses = sqlite3_column_int(s, 7);
        ret->restarted = sqlite3_column_int(s, 8) != 0;
    }
    return hs__run_table_end(c, s, st, err);
}

hs_status hs__run_table_find(hs_runs *c, const char *id, hs__run_row *ret, hs_error *err)
{
    return row_read(c, hs__run_table_prepare(c, ROW " AND id = ?1", id, NULL), id, ret, err);
}

hs_status hs__run_table_next(hs_runs *c, hs__run_row *ret, hs_error *err)
{
    return row_read(c,
                    hs__run_table_prepare(c,
                                          ROW " AND state IN ('running', 'queued')"
                                              " ORDER BY pauses, state = 'running' DESC, number LIMIT 1",
                                          NULL, NULL),
                    "", ret, err);
}

/* ---- the folders ----
 *
 * Only folders of runs that were never accepted, or whose deletion was requested, are removed here. All
 * others that the database does not know are moved to aside/. */

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
        hs__log("error", "runs/%s cannot be removed: %s; the next start tries again", id,
                hs__errno_text(errno));
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
        hs__log("error", "%s cannot be moved to aside/: %s", from, hs__errno_text(errno));
        return;
    }
    for (int copy = 0; copy < 100; copy++) {
        snprintf(aside, sizeof aside, copy ? "%s/aside/%s.%d" : "%s/aside/%s", c->dir, name, copy);
        if (lstat(aside, &there) && rename(path, aside) == 0) {
            hs__log("warning", "%s: %s; moved to %s", from, why, aside);
            return;
        }
    }
    hs__log("error", "%s cannot be moved to aside/: %s", from, hs__errno_text(errno));
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
    if (s)
        sqlite3_bind_int64(s, 1, *number);
    const hs_status st = hs__run_table_step(c, s, "", NULL);
    if (!st) {
        *number = sqlite3_column_int64(s, 0);
        snprintf(ret_id, HS_RUN_ID_MAX + 1, "%s", hs__run_table_text(s, 1));
    }
    return hs__run_table_end(c, s, st, NULL) == HS_OK;
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
        return hs_fail(err, hs__errno_status(errno), "cannot write '%s': %s", path, hs__errno_text(errno));
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
    hs_status st = rows_open(c, &why);
    if (st != HS_INVALID)
        return st ? hs_fail(err, st, "%s", why.text) : HS_OK;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        move_aside(c, files[i], files[i], why.text);
    return rows_open(c, err);
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
