/* database.h - opens SQLite databases, which anybody may have written, and fills those of a run.
 *
 * A folder of a run is passed from hand to hand, so a database in it may be forged. Triggers, views,
 * generated columns and checks compute. Pages that are linked to each other have no end. Values may have a
 * gigabyte. A journal may name a file that SQLite then deletes. hs__database_open refuses all of these: a
 * database that it opened has the expected tables and nothing else. */
#pragma once

#include "model/base/status.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hs__database_kind {
    const char *schema;         /* CREATE statements of all tables and views */
    const char *const *columns; /* definitions that ALTER TABLE may have added, in any order; NULL ends the
                                   list. NULL: none */
    bool locked; /* use SQLite's locks. false: the caller has the only connection that writes. Some network
                    disks refuse locks. */
    bool unsafe; /* a crash may destroy it: nobody reads it before it is complete */
} hs__database_kind;

typedef enum hs__database_mode {
    HS__DATABASE_READ,  /* only; statements that run for too long for the size of the file are interrupted */
    HS__DATABASE_WRITE, /* an existing one, whose pages are all checked */
    HS__DATABASE_CREATE /* WRITE, or make the file and its tables if it is missing or empty */
} hs__database_mode;

/* Opens a database. HS_INVALID: it is damaged, or not of this kind. HS_NO_SPACE, HS_NO_MEMORY, HS_IO. The
 * message is the reason alone. The caller closes *ret_db, which is NULL after an error. */
HS_MUST_USE hs_status hs__database_open(const char *path, hs__database_mode mode,
                                        const hs__database_kind *kind, sqlite3 **ret_db, hs_error *err);

/* Returns the errno of a call that just failed with this code. Returns 0 if it is not known, or if the code
 * is neither SQLITE_IOERR nor SQLITE_CANTOPEN. SQLite itself forgets that of a write to its log. db: may be
 * NULL. */
int hs__database_errno(sqlite3 *db, int code);

/* ---- stores ----
 *
 * A store is a database that a run fills by prepared statements. One thread at a time uses it. Rows are in a
 * transaction, which begins anew with each commit. The first failure is kept: nothing is written after it,
 * and hs__store_outcome reports it. */

#define HS__STORE_STATEMENTS_MAX 8

typedef struct hs__store {
    sqlite3 *db;
    sqlite3_stmt *statements[HS__STORE_STATEMENTS_MAX];
    const char *failed; /* for messages: "the run's file cannot be written" */
    int failure;        /* SQLite's code of the first failure, or SQLITE_OK */
    int why;            /* its errno, or 0 */
} hs__store;

/* Opens a database, prepares n statements and begins a transaction. failed: begins messages; borrowed, as
 * long as the store is used. Errors as of hs__database_open. The caller closes the store, also after an
 * error. */
HS_MUST_USE hs_status hs__store_open(const char *path, hs__database_mode mode, const hs__database_kind *kind,
                                     const char *const *statements, size_t n, const char *failed,
                                     hs__store *ret_store, hs_error *err);
/* Closes without a commit. A zeroed store is fine. */
void hs__store_close(hs__store *store);

/* Keeps a code if it is the first failure. */
void hs__store_note(hs__store *store, int code);
hs_status hs__store_outcome(const hs__store *store, hs_error *err);

/* Runs statement k, whose values are bound. */
void hs__store_step(hs__store *store, int k);
/* Runs SQL without an answer. */
void hs__store_run(hs__store *store, const char *sql);
/* Ends the transaction and begins the next one. */
void hs__store_commit(hs__store *store);

/* Prepares a query, to this database or another one. NULL after a failure. */
sqlite3_stmt *hs__store_query(hs__store *store, sqlite3 *db, const char *sql);
/* Steps to the next row of a query, which may be NULL. Returns false after the last one. */
bool hs__store_next(hs__store *store, sqlite3_stmt *query);
/* Returns the integer that a query answers; 0 after a failure. */
uint64_t hs__store_number(hs__store *store, const char *sql);
