/* corpora_rows.c - runs as rows of corpora.db. A row says what was acknowledged; its state goes
 * uploading -> queued -> running -> done, failed or cancelled, with cancelling and deleting for what a crash
 * shall not undo. */
#include "server/runs/corpora_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char schema[] =
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
    "CREATE TABLE IF NOT EXISTS runs ("
    /* max_tokens, layers and thresholds, and lines below, are of earlier versions: settings holds them now */
    " number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, name TEXT NOT NULL,"
    " model TEXT NOT NULL, max_tokens INTEGER NOT NULL, layers TEXT NOT NULL,"
    " thresholds TEXT NOT NULL, state TEXT NOT NULL, bytes INTEGER NOT NULL DEFAULT 0,"
    " texts_total INTEGER, texts_done INTEGER NOT NULL DEFAULT 0,"
    " bad_lines TEXT NOT NULL DEFAULT '[]', error TEXT);"
    /* a run that a crash kept from ending */
    "UPDATE runs SET state = 'cancelled' WHERE state = 'cancelling';";

/* Folders of earlier versions have no such columns. */
static const struct {
    const char *name, *sql;
} added[] = {
    {"bad_lines_total", "ALTER TABLE runs ADD COLUMN bad_lines_total INTEGER NOT NULL DEFAULT 0;"
                        "UPDATE runs SET bad_lines_total = json_array_length(bad_lines);"},
    {"lines", "ALTER TABLE runs ADD COLUMN lines INTEGER NOT NULL DEFAULT 0"},   /* hs__corpus_format */
    {"starts", "ALTER TABLE runs ADD COLUMN starts INTEGER NOT NULL DEFAULT 0"}, /* of hs__run_row */
    {"reserved",
     "ALTER TABLE runs ADD COLUMN reserved INTEGER NOT NULL DEFAULT 0"}, /* bytes, until it ends */
    {"settings", "ALTER TABLE runs ADD COLUMN settings TEXT"},           /* of hs__run_row */
    {"created", "ALTER TABLE runs ADD COLUMN created TEXT"},             /* NULL: a run of before */
    {"precision", "ALTER TABLE runs ADD COLUMN precision TEXT"},         /* NULL: also one not begun */
};

hs_status hs__rows_fail(const hs_corpora *c, hs_error *err)
{
    const int code = sqlite3_errcode(c->db) & 0xff, why = sqlite3_system_errno(c->db);
    const bool io = code == SQLITE_IOERR || code == SQLITE_CANTOPEN;
    const bool full = code == SQLITE_FULL || (io && (why == ENOSPC || why == EDQUOT || why == EFBIG));
    return hs_fail(err, full ? HS_TOO_LARGE : HS_IO, "corpora.db: %s",
                   io && why ? strerror(why) : sqlite3_errmsg(c->db));
}

/* corpora.db, as far as SQLite can use it. */
static bool rows_prepare(hs_corpora *c)
{
    char path[HS__RUN_PATH_MAX];
    snprintf(path, sizeof path, "%s/corpora.db", c->dir);
    bool ok =
        sqlite3_open(path, &c->db) == SQLITE_OK && sqlite3_exec(c->db, schema, NULL, NULL, NULL) == SQLITE_OK;
    for (size_t i = 0; ok && i < sizeof added / sizeof *added; i++)
        ok = sqlite3_table_column_metadata(c->db, NULL, "runs", added[i].name, NULL, NULL, NULL, NULL,
                                           NULL) == SQLITE_OK ||
             sqlite3_exec(c->db, added[i].sql, NULL, NULL, NULL) == SQLITE_OK;
    return ok;
}

hs_status hs__rows_open(hs_corpora *c, hs_error *err)
{
    if (rows_prepare(c))
        return HS_OK;
    const int code = sqlite3_errcode(c->db) & 0xff;
    hs_status st = hs__rows_fail(c, err);
    if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
        st = HS_INVALID;
    sqlite3_close(c->db);
    c->db = NULL;
    return st;
}

sqlite3_stmt *hs__row_statement(hs_corpora *c, const char *sql, const char *first, const char *second)
{
    sqlite3_stmt *s = NULL;
    if (!c->db || sqlite3_prepare_v2(c->db, sql, -1, &s, NULL) != SQLITE_OK)
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
    sqlite3_stmt *s = hs__row_statement(
        c, "SELECT state FROM runs WHERE id = ?1 AND state NOT IN ('uploading', 'deleting')", id, NULL);
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
    c->bytes_reserved = hs__row_number(c, "SELECT total(reserved) FROM runs");
    c->bytes_kept = c->bytes_reserved + hs__row_number(c, "SELECT total(bytes) FROM runs");
    atomic_store(&c->counts.bytes, c->bytes_kept);
}

bool hs__row_next(hs_corpora *c, hs__run_row *ret)
{
    sqlite3_stmt *s =
        hs__row_statement(c,
                          "SELECT id, model, coalesce(settings, json_object("
                          "'max_tokens', CAST(max_tokens AS TEXT), 'layers', layers,"
                          " 'thresholds', thresholds, 'input_format',"
                          " CASE lines WHEN 1 THEN 'text' WHEN 2 THEN 'jsonl' ELSE 'auto' END)),"
                          " texts_done, bad_lines_total, starts FROM runs"
                          " WHERE state IN ('running', 'queued')"
                          " ORDER BY state = 'running' DESC, number LIMIT 1",
                          NULL, NULL);
    const bool found = s && sqlite3_step(s) == SQLITE_ROW;
    if (found) {
        snprintf(ret->id, sizeof ret->id, "%s", hs__row_text(s, 0));
        snprintf(ret->model, sizeof ret->model, "%s", hs__row_text(s, 1));
        snprintf(ret->settings, sizeof ret->settings, "%s", hs__row_text(s, 2));
        ret->progress = (hs__corpus_progress){.texts = (uint64_t)sqlite3_column_int64(s, 3),
                                              .bad_lines = (uint64_t)sqlite3_column_int64(s, 4)};
        ret->starts = sqlite3_column_int(s, 5);
    }
    sqlite3_finalize(s);
    return found;
}
