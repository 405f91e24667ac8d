/* pairs_database.c - one transaction without a journal on the disk: the file is published complete or not at
 * all, so a rollback is never needed. */
#include "server/corpus/run/pairs_database.h"

#include "server/base/database.h"

#include <stdlib.h>

enum { STATEMENTS = 3, ADD_TEXT = 0, ADD_TOKEN, ADD_PAIR };

struct hs__pairs_database {
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
    const hs_tokenizer *tokenizer;
    bool *named; /* [vocab_size]; its token is in the table */
    size_t vocab_size;
    int failure; /* SQLite's code of the first failure, or SQLITE_OK */
};

/* The file's lock is that of atomic_files.h. */
static const hs__database_kind kind = {
    .unsafe = true,
    .schema =
        "CREATE TABLE texts(text INTEGER PRIMARY KEY, file TEXT NOT NULL, line INTEGER NOT NULL);"
        "CREATE TABLE tokens(id INTEGER PRIMARY KEY, token TEXT NOT NULL);"
        "CREATE TABLE high_pairs(text INTEGER NOT NULL, layer INTEGER NOT NULL, head INTEGER NOT NULL,"
        " i INTEGER NOT NULL, j INTEGER NOT NULL, id_i INTEGER NOT NULL, id_j INTEGER NOT NULL,"
        " similarity REAL NOT NULL, normalized REAL NOT NULL);"
        "CREATE VIEW pairs AS SELECT p.text, t.file, t.line, p.layer, p.head, p.i, p.j, a.token AS token_i,"
        " b.token AS token_j, p.similarity, p.normalized FROM high_pairs p JOIN texts t ON t.text = p.text"
        " JOIN tokens a ON a.id = p.id_i JOIN tokens b ON b.id = p.id_j;",
};

static const char *const statements[STATEMENTS] = {
    [ADD_TEXT] = "INSERT OR IGNORE INTO texts VALUES (?, ?, ?)",
    [ADD_TOKEN] = "INSERT OR IGNORE INTO tokens VALUES (?, ?)",
    [ADD_PAIR] = "INSERT INTO high_pairs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
};

static hs_status failed(int code, hs_error *err)
{
    const hs_status st = code == SQLITE_FULL ? HS_NO_SPACE : code == SQLITE_NOMEM ? HS_NO_MEMORY : HS_IO;
    return hs_fail(err, st, "cannot write the database of pairs: %s", sqlite3_errstr(code));
}

static void finish(hs__pairs_database *database)
{
    for (int k = 0; k < STATEMENTS; k++)
        sqlite3_finalize(database->statements[k]);
    sqlite3_close(database->db);
    free(database->named);
    free(database);
}

hs_status hs__pairs_database_open(const char *path, const hs_tokenizer *tokenizer, size_t vocab_size,
                                  hs__pairs_database **ret_database, hs_error *err)
{
    hs__pairs_database *database = calloc(1, sizeof *database);
    if (database)
        database->named = calloc(vocab_size, sizeof *database->named);
    if (!database || !database->named) {
        free(database);
        return hs_fail(err, HS_NO_MEMORY, "no memory to write pairs");
    }
    database->tokenizer = tokenizer;
    database->vocab_size = vocab_size;
    hs_error why = {0};
    const hs_status st = hs__database_open(path, HS__DATABASE_CREATE, &kind, &database->db, &why);
    if (st) {
        finish(database);
        return hs_fail(err, st, "cannot write the database of pairs: %s", why.text);
    }
    int code = sqlite3_exec(database->db, "BEGIN", NULL, NULL, NULL);
    for (int k = 0; !code && k < STATEMENTS; k++)
        code = sqlite3_prepare_v2(database->db, statements[k], -1, &database->statements[k], NULL);
    if (code) {
        finish(database);
        return failed(code & 0xff, err);
    }
    *ret_database = database;
    return HS_OK;
}

/* Runs a bound statement. */
static void step(hs__pairs_database *database, sqlite3_stmt *s)
{
    const int code = sqlite3_step(s);
    if (code != SQLITE_DONE && !database->failure)
        database->failure = code & 0xff;
    sqlite3_reset(s);
}

static void token_add(hs__pairs_database *database, int32_t id)
{
    sqlite3_stmt *s = database->statements[ADD_TOKEN];
    if (id < 0 || (size_t)id >= database->vocab_size || database->named[id])
        return;
    database->named[id] = true;
    sqlite3_bind_int(s, 1, id);
    sqlite3_bind_text(s, 2, hs_tokenizer_token(database->tokenizer, id), -1, SQLITE_STATIC);
    step(database, s);
}

static void text_add(hs__pairs_database *database, const hs__pair_row *row)
{
    sqlite3_stmt *s = database->statements[ADD_TEXT];
    sqlite3_bind_int64(s, 1, (sqlite3_int64)row->text);
    sqlite3_bind_text(s, 2, row->file, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 3, (sqlite3_int64)row->line);
    step(database, s);
}

static void pair_add(hs__pairs_database *database, const hs__pair_row *row)
{
    sqlite3_stmt *s = database->statements[ADD_PAIR];
    sqlite3_bind_int64(s, 1, (sqlite3_int64)row->text);
    sqlite3_bind_int(s, 2, row->layer);
    sqlite3_bind_int(s, 3, row->head);
    sqlite3_bind_int(s, 4, (int)row->i);
    sqlite3_bind_int(s, 5, (int)row->j);
    sqlite3_bind_int(s, 6, row->id_i);
    sqlite3_bind_int(s, 7, row->id_j);
    sqlite3_bind_double(s, 8, (double)row->similarity);
    sqlite3_bind_double(s, 9, (double)row->normalized);
    step(database, s);
}

bool hs__pairs_database_add(hs__pairs_database *database, const hs__pair_row *rows, size_t n)
{
    for (size_t k = 0; !database->failure && k < n; k++) {
        if (!k || rows[k].text != rows[k - 1].text)
            text_add(database, &rows[k]);
        token_add(database, rows[k].id_i);
        token_add(database, rows[k].id_j);
        pair_add(database, &rows[k]);
    }
    return !database->failure;
}

static uint64_t pragma_read(hs__pairs_database *database, const char *pragma)
{
    sqlite3_stmt *s = NULL;
    uint64_t value = 0;
    if (sqlite3_prepare_v2(database->db, pragma, -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
        value = (uint64_t)sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return value;
}

uint64_t hs__pairs_database_bytes(hs__pairs_database *database)
{
    return pragma_read(database, "PRAGMA page_count") * pragma_read(database, "PRAGMA page_size");
}

hs_status hs__pairs_database_end(hs__pairs_database *database, hs_error *err)
{
    if (!database)
        return HS_OK;
    int code = database->failure;
    if (!code)
        code = sqlite3_exec(database->db, "COMMIT", NULL, NULL, NULL) & 0xff;
    finish(database);
    return code ? failed(code, err) : HS_OK;
}
