/* database.c - settings first, then the schema, then the pages: no statement that the file could slow down
 * runs before its settings are made. */
#include "server/base/database.h"

#include "server/base/atomic_files.h"
#include "server/base/system_errors.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The largest values are texts: a record and its tokens. */
enum { VALUE_BYTES_MAX = 16 << 20, SQL_BYTES_MAX = 64 << 10, COLUMNS_MAX = 64 };

/* Instructions of SQLite's machine that a statement may take: for each byte of the file, whose rows have some
 * 20 bytes at least and take some 20 instructions, and for any file. */
enum { FOR_BYTE = 8, AT_LEAST = 5 * 1000 * 1000 };

static const struct {
    int what, most;
} limits[] = {
    {SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX},  {SQLITE_LIMIT_SQL_LENGTH, SQL_BYTES_MAX},
    {SQLITE_LIMIT_COLUMN, COLUMNS_MAX},      {SQLITE_LIMIT_EXPR_DEPTH, 32},
    {SQLITE_LIMIT_COMPOUND_SELECT, 4},       {SQLITE_LIMIT_VDBE_OP, 25000},
    {SQLITE_LIMIT_FUNCTION_ARG, 16},         {SQLITE_LIMIT_ATTACHED, 0},
    {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 256}, {SQLITE_LIMIT_TRIGGER_DEPTH, 1},
    {SQLITE_LIMIT_WORKER_THREADS, 0},
};

static const struct {
    int what, on;
} settings[] = {
    {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},        {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
    {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},        {SQLITE_DBCONFIG_DEFENSIVE, 1},
    {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
};

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int hs__database_errno(sqlite3 *db, int code)
{
    const int kind = code & 0xff, known = db ? sqlite3_system_errno(db) : 0;
    if (kind != SQLITE_IOERR && kind != SQLITE_CANTOPEN)
        return 0;
    return known || hs__errno_status(errno) == HS_IO ? known : errno;
}

/* A damaged schema is SQLITE_ERROR; an interrupted statement ran for too long. */
static hs_status status_of(sqlite3 *db, int code)
{
    switch (code & 0xff) {
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
    case SQLITE_ERROR:
    case SQLITE_TOOBIG:
    case SQLITE_INTERRUPT:
        return HS_INVALID;
    case SQLITE_FULL:
        return HS_NO_SPACE;
    case SQLITE_NOMEM:
        return HS_NO_MEMORY;
    default:
        return hs__errno_status(hs__database_errno(db, code));
    }
}

static hs_status failed(sqlite3 *db, int code, hs_error *err)
{
    const int why = hs__database_errno(db, code), kind = code & 0xff;
    return hs_fail(err, status_of(db, code), "%s",
                   kind == SQLITE_INTERRUPT ? "the file is damaged"
                   : why                    ? hs__errno_text(why)
                   : kind == SQLITE_NOMEM   ? sqlite3_errstr(kind)
                                            : sqlite3_errmsg(db));
}

/* ---- files ---- */

/* A journal ends with this if it names another one, of a transaction over several files. SQLite deletes the
 * named file after a rollback. No transaction of headscope has two files. */
static const unsigned char journal_magic[8] = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7};

static bool names_another(int fd, off_t size)
{
    unsigned char end[sizeof journal_magic];
    return size >= (off_t)sizeof end &&
           pread(fd, end, sizeof end, size - (off_t)sizeof end) == (ssize_t)sizeof end &&
           memcmp(end, journal_magic, sizeof end) == 0;
}

/* Checks the file, or one that SQLite keeps beside it. Only the journal is opened: closing the others would
 * release the process's locks. */
static hs_status file_check(const char *path, const char *ending, bool may_lack, hs_error *err)
{
    char name[PATH_MAX + 16];
    struct stat file;
    uint64_t bytes = 0;
    snprintf(name, sizeof name, "%s%s", path, ending);
    if (lstat(name, &file))
        return errno == ENOENT && may_lack
                   ? HS_OK
                   : hs_fail(err, HS_IO, "%s: %s", name_of(name), hs__errno_text(errno));
    if (!S_ISREG(file.st_mode))
        return hs_fail(err, HS_INVALID, "%s is not a regular file", name_of(name));
    int fd;
    if (strcmp(ending, "-journal") != 0 || hs__file_open(name, &fd, &bytes, NULL))
        return HS_OK;
    const bool foreign = names_another(fd, (off_t)bytes);
    close(fd);
    return foreign ? hs_fail(err, HS_INVALID, "%s is not headscope's", name_of(name)) : HS_OK;
}

static hs_status files_check(const char *path, hs__database_mode mode, hs_error *err)
{
    static const char *const beside[] = {"-journal", "-wal", "-shm"};
    hs_status st = file_check(path, "", mode == HS__DATABASE_CREATE, err);
    for (size_t k = 0; !st && k < sizeof beside / sizeof *beside; k++)
        st = file_check(path, beside[k], true, err);
    return st;
}

/* Resolves links of the folder: SQLITE_OPEN_NOFOLLOW refuses them in the whole path. */
static hs_status path_resolve(const char *path, char ret_path[PATH_MAX], hs_error *err)
{
    char folder[PATH_MAX], real[PATH_MAX];
    const char *name = name_of(path);
    snprintf(folder, sizeof folder, "%.*s", name == path ? 1 : (int)(name - path), name == path ? "." : path);
    if (!realpath(folder, real))
        return hs_fail(err, HS_IO, "'%.200s': %s", folder, hs__errno_text(errno));
    return snprintf(ret_path, PATH_MAX, "%s/%s", real, name) < PATH_MAX
               ? HS_OK
               : hs_fail(err, HS_INVALID, "'%.200s...' is too long for a path", real);
}

/* ---- the schema ---- */

/* Returns true if `text` is a list of definitions of `columns`, each after ", ", and `end`. */
static bool are_columns(const char *text, const char *const *columns, const char *end)
{
    while (strncmp(text, ", ", 2) == 0) {
        size_t n = 0, k = 0;
        for (; columns[k]; k++) {
            n = strlen(columns[k]);
            if (strncmp(text + 2, columns[k], n) == 0 && (text[2 + n] == ',' || text[2 + n] == *end))
                break;
        }
        if (!columns[k])
            return false;
        text += 2 + n;
    }
    return strcmp(text, end) == 0;
}

static bool is_expected(const char *sql, const char *expected, const hs__database_kind *kind)
{
    if (strcmp(sql, expected) == 0)
        return true;
    const size_t n = strlen(expected) - 1; /* without ")" */
    return kind->columns && strncmp(sql, expected, n) == 0 &&
           are_columns(sql + n, kind->columns, expected + n);
}

/* Compares a row of the database's objects (type, name, sql) with the model's object of this type and name,
 * which `same` finds. Returns SQLITE_NOTADB if they differ or there is none. */
static int object_compare(sqlite3_stmt *object, sqlite3_stmt *same, const hs__database_kind *kind)
{
    int code = SQLITE_OK;
    for (int k = 0; !code && k < 2; k++)
        code = sqlite3_bind_value(same, k + 1, sqlite3_column_value(object, k));
    if (!code)
        code = sqlite3_step(same);
    if (code == SQLITE_ROW) {
        const char *sql = (const char *)sqlite3_column_text(object, 2),
                   *expected = (const char *)sqlite3_column_text(same, 0);
        code = !sql || !expected                  ? SQLITE_NOMEM
               : is_expected(sql, expected, kind) ? SQLITE_OK
                                                  : SQLITE_NOTADB;
    } else if (code == SQLITE_DONE) {
        code = SQLITE_NOTADB;
    }
    sqlite3_reset(same);
    return code;
}

/* Returns SQLITE_OK if every object of the database is one of the model's and the numbers are equal;
 * SQLITE_NOTADB if not. */
static int objects_compare(sqlite3 *db, sqlite3 *model, const hs__database_kind *kind, int *ret_n)
{
    sqlite3_stmt *s = NULL, *same = NULL, *n = NULL;
    int code = sqlite3_prepare_v2(db, "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL", -1,
                                  &s, NULL);
    if (!code)
        code = sqlite3_prepare_v2(
            model, "SELECT sql FROM sqlite_master WHERE type = ? AND name = ? AND sql IS NOT NULL", -1, &same,
            NULL);
    if (!code)
        code = sqlite3_prepare_v2(model, "SELECT count(*) FROM sqlite_master WHERE sql IS NOT NULL", -1, &n,
                                  NULL);
    *ret_n = 0;
    while (!code && (code = sqlite3_step(s)) == SQLITE_ROW) {
        code = object_compare(s, same, kind);
        ++*ret_n;
    }
    if (code == SQLITE_DONE && *ret_n && (code = sqlite3_step(n)) == SQLITE_ROW)
        code = sqlite3_column_int(n, 0) == *ret_n ? SQLITE_DONE : SQLITE_NOTADB;
    sqlite3_finalize(s);
    sqlite3_finalize(same);
    sqlite3_finalize(n);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

/* Compares the tables with those that the schema makes in an empty database, and makes them if there are
 * none. */
static hs_status schema_check(sqlite3 *db, hs__database_mode mode, const hs__database_kind *kind,
                              hs_error *err)
{
    sqlite3 *model = NULL;
    int n = 0, code = sqlite3_open_v2(":memory:", &model, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    if (!code)
        code = sqlite3_exec(model, kind->schema, NULL, NULL, NULL);
    if (!code)
        code = objects_compare(db, model, kind, &n);
    sqlite3_close(model);
    if (!code && !n && mode == HS__DATABASE_CREATE && kind->locked) /* reports a full disk by its errno */
        code = sqlite3_exec(db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
    if (!code && !n && mode == HS__DATABASE_CREATE)
        code = sqlite3_exec(db, kind->schema, NULL, NULL, NULL);
    else if (code == SQLITE_NOTADB || (!code && !n))
        return hs_fail(err, HS_INVALID, "the file is damaged or not headscope's");
    return code ? failed(db, code, err) : HS_OK;
}

/* ---- opening ---- */

static int on_progress(void *data)
{
    (void)data;
    return 1; /* interrupts the statement */
}

/* Bounds the work of each statement. A tree whose pages are linked to each other would have no end. */
static void work_bound(sqlite3 *db, const char *path)
{
    struct stat file;
    const int64_t most = AT_LEAST + FOR_BYTE * (stat(path, &file) ? 0 : (int64_t)file.st_size);
    sqlite3_progress_handler(db, most < INT_MAX ? (int)most : INT_MAX, on_progress, NULL);
}

static int settings_make(sqlite3 *db, const hs__database_kind *kind)
{
    int code = SQLITE_OK;
    for (size_t k = 0; k < sizeof limits / sizeof *limits; k++)
        sqlite3_limit(db, limits[k].what, limits[k].most);
    for (size_t k = 0; !code && k < sizeof settings / sizeof *settings; k++)
        code = sqlite3_db_config(db, settings[k].what, settings[k].on, NULL);
    if (!code)
        code = sqlite3_exec(db, "PRAGMA cell_size_check = ON", NULL, NULL, NULL);
    return code || !kind->unsafe ? code
                                 : sqlite3_exec(db,
                                                "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF;"
                                                "PRAGMA locking_mode = EXCLUSIVE",
                                                NULL, NULL, NULL);
}

/* Checks all pages. */
static hs_status pages_check(sqlite3 *db, hs_error *err)
{
    sqlite3_stmt *s = NULL;
    int code = sqlite3_prepare_v2(db, "PRAGMA integrity_check(1)", -1, &s, NULL);
    if (!code)
        code = sqlite3_step(s);
    const char *found = code == SQLITE_ROW ? (const char *)sqlite3_column_text(s, 0) : NULL;
    hs_status st = code != SQLITE_ROW || !found ? failed(db, code == SQLITE_ROW ? SQLITE_NOMEM : code, err)
                   : strcmp(found, "ok") != 0   ? hs_fail(err, HS_INVALID, "the file is damaged")
                                                : HS_OK;
    sqlite3_finalize(s);
    return st;
}

static hs_status checks_make(sqlite3 *db, const char *path, hs__database_mode mode,
                             const hs__database_kind *kind, hs_error *err)
{
    const int code = settings_make(db, kind);
    if (code)
        return failed(db, code, err);
    work_bound(db, path);
    hs_status st = schema_check(db, mode, kind, err);
    if (!st && mode != HS__DATABASE_READ) {
        st = pages_check(db, err);
        sqlite3_progress_handler(db, 0, NULL, NULL); /* a run may write for days */
    }
    return st;
}

hs_status hs__database_open(const char *path, hs__database_mode mode, const hs__database_kind *kind,
                            sqlite3 **ret_db, hs_error *err)
{
    static const int flags[] = {
        [HS__DATABASE_READ] = SQLITE_OPEN_READONLY,
        [HS__DATABASE_WRITE] = SQLITE_OPEN_READWRITE,
        [HS__DATABASE_CREATE] = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
    };
    char real[PATH_MAX];
    *ret_db = NULL;
    hs_status st = path_resolve(path, real, err);
    if (!st)
        st = files_check(real, mode, err);
    if (st)
        return st;
    const int code =
        sqlite3_open_v2(real, ret_db, flags[mode] | SQLITE_OPEN_NOFOLLOW, kind->locked ? NULL : "unix-none");
    st = code ? failed(*ret_db, code, err) : checks_make(*ret_db, path, mode, kind, err);
    if (st) {
        sqlite3_close(*ret_db);
        *ret_db = NULL;
    }
    return st;
}

/* ---- stores ---- */

void hs__store_note(hs__store *store, int code)
{
    if (!store->failure && code != SQLITE_OK && code != SQLITE_DONE && code != SQLITE_ROW) {
        store->failure = code & 0xff;
        store->why = hs__database_errno(store->db, code);
    }
}

hs_status hs__store_outcome(const hs__store *store, hs_error *err)
{
    switch (store->failure) {
    case SQLITE_OK:
        return HS_OK;
    case SQLITE_FULL:
        return hs_fail(err, HS_NO_SPACE, "%s: %s", store->failed, sqlite3_errstr(store->failure));
    case SQLITE_NOMEM:
        return hs_fail(err, HS_NO_MEMORY, "%s: %s", store->failed, sqlite3_errstr(store->failure));
    case SQLITE_CORRUPT:
    case SQLITE_INTERRUPT:
        return hs_fail(err, HS_INVALID, "%s: %s", store->failed, sqlite3_errstr(store->failure));
    default:
        return hs_fail(err, hs__errno_status(store->why), "%s: %s", store->failed,
                       store->why ? hs__errno_text(store->why) : sqlite3_errstr(store->failure));
    }
}

hs_status hs__store_open(const char *path, hs__database_mode mode, const hs__database_kind *kind,
                         const char *const *statements, size_t n, const char *failed_text,
                         hs__store *ret_store, hs_error *err)
{
    hs_error why = {0};
    *ret_store = (hs__store){.failed = failed_text};
    const hs_status st = hs__database_open(path, mode, kind, &ret_store->db, &why);
    if (st)
        return hs_fail(err, st, "%s: %s", failed_text, why.text);
    assert(n <= HS__STORE_STATEMENTS_MAX);
    for (size_t k = 0; k < n; k++)
        ret_store->statements[k] = hs__store_query(ret_store, ret_store->db, statements[k]);
    hs__store_run(ret_store, "BEGIN");
    return hs__store_outcome(ret_store, err);
}

void hs__store_close(hs__store *store)
{
    for (size_t k = 0; k < HS__STORE_STATEMENTS_MAX; k++)
        sqlite3_finalize(store->statements[k]);
    sqlite3_close(store->db);
    *store = (hs__store){0};
}

void hs__store_step(hs__store *store, int k)
{
    if (store->failure)
        return;
    hs__store_note(store, sqlite3_step(store->statements[k]));
    sqlite3_reset(store->statements[k]);
}

void hs__store_run(hs__store *store, const char *sql)
{
    if (!store->failure)
        hs__store_note(store, sqlite3_exec(store->db, sql, NULL, NULL, NULL));
}

void hs__store_commit(hs__store *store)
{
    hs__store_run(store, "COMMIT; BEGIN");
}

sqlite3_stmt *hs__store_query(hs__store *store, sqlite3 *db, const char *sql)
{
    sqlite3_stmt *query = NULL;
    if (!store->failure)
        hs__store_note(store, sqlite3_prepare_v2(db, sql, -1, &query, NULL));
    return query;
}

bool hs__store_next(hs__store *store, sqlite3_stmt *query)
{
    if (store->failure)
        return false;
    const int code = sqlite3_step(query);
    hs__store_note(store, code);
    return code == SQLITE_ROW;
}

uint64_t hs__store_number(hs__store *store, const char *sql)
{
    sqlite3_stmt *query = hs__store_query(store, store->db, sql);
    const uint64_t number = hs__store_next(store, query) ? (uint64_t)sqlite3_column_int64(query, 0) : 0;
    sqlite3_finalize(query);
    return number;
}
