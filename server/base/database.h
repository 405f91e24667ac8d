/* database.h - opens SQLite databases, which anybody may have written.
 *
 * A folder of a run is passed from hand to hand, so a database in it may be forged. Triggers, views,
 * generated columns and checks compute. Pages that are linked to each other have no end. Values may have a
 * gigabyte. A journal may name a file that SQLite then deletes. hs__database_open refuses all of these: a
 * database that it opened has the expected tables and nothing else. */
#pragma once

#include "model/base/status.h"

#include <sqlite3.h>
#include <stdbool.h>

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
