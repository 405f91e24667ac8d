/* corpora_rows.c - runs as rows of corpora.db and as folders. */
#include "server/runs/corpora_internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char schema[] =
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
    "CREATE TABLE IF NOT EXISTS runs ("
    " number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, name TEXT NOT NULL,"
    " model TEXT NOT NULL, max_tokens INTEGER NOT NULL, layers TEXT NOT NULL,"
    " thresholds TEXT NOT NULL, state TEXT NOT NULL, bytes INTEGER NOT NULL DEFAULT 0,"
    " texts_total INTEGER, texts_done INTEGER NOT NULL DEFAULT 0,"
    " bad_lines TEXT NOT NULL DEFAULT '[]', error TEXT);"
    /* an upload that never ended, and a run that a crash kept from ending */
    "DELETE FROM runs WHERE state = 'uploading';"
    "UPDATE runs SET state = 'cancelled' WHERE state = 'cancelling';";

/* Folders of earlier versions have no such columns. */
static const struct {
    const char *name, *sql;
} added[] = {
    {"bad_lines_total", "ALTER TABLE runs ADD COLUMN bad_lines_total INTEGER NOT NULL DEFAULT 0;"
                        "UPDATE runs SET bad_lines_total = json_array_length(bad_lines);"},
    {"lines", "ALTER TABLE runs ADD COLUMN lines INTEGER NOT NULL DEFAULT 0"}, /* hs__corpus_lines */
};

hs_status hs__rows_open(hs_corpora *c, hs_error *err)
{
    char path[HS__RUN_PATH_MAX];
    snprintf(path, sizeof path, "%s/corpora.db", c->dir);
    bool ok =
        sqlite3_open(path, &c->db) == SQLITE_OK && sqlite3_exec(c->db, schema, NULL, NULL, NULL) == SQLITE_OK;
    for (size_t i = 0; ok && i < sizeof added / sizeof *added; i++)
        ok = sqlite3_table_column_metadata(c->db, NULL, "runs", added[i].name, NULL, NULL, NULL, NULL,
                                           NULL) == SQLITE_OK ||
             sqlite3_exec(c->db, added[i].sql, NULL, NULL, NULL) == SQLITE_OK;
    if (!ok)
        return hs_fail(err, HS_IO, "cannot use '%s': %s", path, sqlite3_errmsg(c->db));
    return HS_OK;
}

sqlite3_stmt *hs__row_statement(hs_corpora *c, const char *sql, const char *first, const char *second)
{
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v2(c->db, sql, -1, &s, NULL) != SQLITE_OK)
        return NULL;
    if (first)
        sqlite3_bind_text(s, 1, first, -1, SQLITE_TRANSIENT);
    if (second)
        sqlite3_bind_text(s, 2, second, -1, SQLITE_TRANSIENT);
    return s;
}

const char *hs__row_text(sqlite3_stmt *s, int column)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    return text ? text : "";
}

bool hs__row_done(sqlite3_stmt *s)
{
    const bool ok = s && sqlite3_step(s) == SQLITE_DONE;
    sqlite3_finalize(s);
    return ok;
}

bool hs__row_state_set(hs_corpora *c, const char *id, const char *state, const char *error)
{
    sqlite3_stmt *s = hs__row_statement(c, "UPDATE runs SET state = ?1, error = ?3 WHERE id = ?2", state, id);
    if (s && error)
        sqlite3_bind_text(s, 3, error, -1, SQLITE_TRANSIENT);
    return hs__row_done(s);
}

void hs__row_state_get(hs_corpora *c, const char *id, char ret_state[16])
{
    sqlite3_stmt *s = hs__row_statement(c, "SELECT state FROM runs WHERE id = ?1", id, NULL);
    ret_state[0] = '\0';
    if (s && sqlite3_step(s) == SQLITE_ROW)
        snprintf(ret_state, 16, "%s", hs__row_text(s, 0));
    sqlite3_finalize(s);
}

uint64_t hs__row_number(hs_corpora *c, const char *sql)
{
    sqlite3_stmt *s = hs__row_statement(c, sql, NULL, NULL);
    const uint64_t number = s && sqlite3_step(s) == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(s, 0) : 0;
    sqlite3_finalize(s);
    return number;
}

void hs__rows_count_bytes(hs_corpora *c)
{
    c->bytes_stored = hs__row_number(c, "SELECT total(bytes) FROM runs");
}

void hs__run_path(const hs_corpora *c, const char *id, const char *name, char ret_path[HS__RUN_PATH_MAX])
{
    snprintf(ret_path, HS__RUN_PATH_MAX, "%s/runs/%s%s%s", c->dir, id, *name ? "/" : "", name);
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

uint64_t hs__run_files_measure(const hs_corpora *c, const char *id)
{
    char path[HS__RUN_PATH_MAX];
    struct stat file;
    uint64_t bytes = 0;
    hs__run_path(c, id, "", path);
    DIR *folder = opendir(path);
    if (!folder)
        return 0;
    for (const struct dirent *entry; (entry = readdir(folder));)
        if (!fstatat(dirfd(folder), entry->d_name, &file, 0) && S_ISREG(file.st_mode))
            bytes += (uint64_t)file.st_size;
    closedir(folder);
    return bytes;
}

/* An id without a row; a database that cannot be read makes no strays. */
static bool is_stray(hs_corpora *c, const char *name)
{
    if (strspn(name, "0123456789abcdef") != HS_CORPORA_ID_MAX || name[HS_CORPORA_ID_MAX])
        return false;
    return hs__row_done(hs__row_statement(c, "SELECT 1 FROM runs WHERE id = ?1", name, NULL));
}

void hs__run_strays_remove(hs_corpora *c)
{
    char path[HS__RUN_PATH_MAX];
    hs__run_path(c, "", "", path);
    DIR *runs = opendir(path);
    if (!runs)
        return;
    for (const struct dirent *entry; (entry = readdir(runs));)
        if (is_stray(c, entry->d_name))
            hs__run_files_remove(c, entry->d_name);
    closedir(runs);
}
