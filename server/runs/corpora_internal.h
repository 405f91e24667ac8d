/* corpora_internal.h - what the files of corpora share: rows of corpora.db, and the runs' folders. */
#pragma once

#include "server/corpus/corpus_needs.h"
#include "server/runs/corpora.h"

#include <pthread.h>
#include <sqlite3.h>

enum { HS__RUN_SETTINGS_BYTES = 8192, HS__RUN_PATH_MAX = 4400, HS__CORPORA_DIR_MAX = 4096 };

struct hs_corpora {
    char dir[HS__CORPORA_DIR_MAX];
    size_t n_workers;
    uint64_t bytes_max;
    int lock_fd; /* held while the folder is ours */
    const hs_catalog *catalog;
    const hs_catalog_options *options;
    pthread_t thread;
    bool started;
    atomic_bool stopping;
    atomic_int stop; /* of the current run */
    struct {         /* hs_corpora_counts, written under the lock, read without */
        atomic_bool running;
        atomic_uint_least64_t done, failed, cancelled, texts, bad_lines, bytes;
    } counts;

    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t changed;
    sqlite3 *db;                         /* NULL as long as the disk is full */
    uint64_t bytes_kept;                 /* of runs' files, and reserved for runs that have not ended */
    uint64_t bytes_reserved;             /* the latter */
    uint64_t bytes_coming;               /* of uploads under way, with what their runs will take */
    uint64_t memory_free;                /* for runs, when the current one began */
    char current[HS_CORPORA_ID_MAX + 1]; /* "" when none runs */
    const char *precision;               /* of its engine */
    bool cancel;                         /* it shall not go on later */
    hs__corpus_progress progress;        /* its */
    char *bad_lines;                     /* its, as JSON; NULL: those in its row */
};

/* A row's copy. */
typedef struct hs__run_row {
    char id[HS_CORPORA_ID_MAX + 1], model[256];
    char settings[HS__RUN_SETTINGS_BYTES]; /* {"layers": "0,2"}: those that were given */
    int starts;                   /* of the program while it was under way, since it was saved last */
    hs__corpus_progress progress; /* counts only */
} hs__run_row;

/* What a row asks for, as a job borrows it. */
typedef struct hs__run_plan {
    hs__corpus_job job;
    hs__corpus_needs needs;
} hs__run_plan;

/* ---- rows; the lock is held ---- */

/* HS_TOO_LARGE when the disk is full, HS_INVALID when the file is no database. */
HS_MUST_USE hs_status hs__rows_open(hs_corpora *c, hs_error *err);
/* What SQLite says of the last call: HS_TOO_LARGE when the disk is full, else HS_IO. */
hs_status hs__rows_fail(const hs_corpora *c, hs_error *err);
/* Prepares sql and binds texts to ?1, ?2, ... NULL when SQLite cannot. */
sqlite3_stmt *hs__row_statement(hs_corpora *c, const char *sql, const char *first, const char *second);
/* Steps and finalizes: true when no row came, as of all that is not a query. NULL: false. */
bool hs__row_done(sqlite3_stmt *s);
/* "" where it is null, or memory short. */
const char *hs__row_text(sqlite3_stmt *s, int column);
bool hs__row_state_set(hs_corpora *c, const char *id, const char *state, const char *error);
/* "" when there is no such run, as far as clients see: none that is being uploaded or deleted. */
void hs__row_state_get(hs_corpora *c, const char *id, char ret_state[16]);
/* The number that a query gives; 0 when SQLite cannot. */
uint64_t hs__row_number(hs_corpora *c, const char *sql);
/* Into c->bytes_kept and c->bytes_reserved: after each change of a row's bytes. */
void hs__rows_count_bytes(hs_corpora *c);
/* The one that was begun, else the oldest that waits (by when its upload began, so one begun may be younger);
 * false when there is none. */
bool hs__row_next(hs_corpora *c, hs__run_row *ret_row);

/* ---- folders ---- */

/* name: of a file in it, or "". */
void hs__run_path(const hs_corpora *c, const char *id, const char *name, char ret_path[HS__RUN_PATH_MAX]);
/* Takes the run's folder out of a text: what clients are told names files as the run has them, and the run by
 * its id, not where the server keeps them. */
void hs__run_path_strip(const hs_corpora *c, const char *id, char *text);
/* With what a save left that was cut short. */
void hs__run_files_remove(const hs_corpora *c, const char *id);
/* Takes the folder, opens its database, ends what was being uploaded or deleted, puts aside what no row
 * knows, and removes what killed writes left. HS_TOO_LARGE: the disk is full. The lock is held, or nobody has
 * c yet. */
HS_MUST_USE hs_status hs__run_folders_open(hs_corpora *c, hs_error *err);

/* ---- plans ---- */

/* Fills the plan; the job's files and threads are the caller's to add. HS_NOT_FOUND: the model is not served.
 * HS_INVALID: *ret_wrong is the setting that is, HS__SETTINGS: the run would be too large. */
HS_MUST_USE hs_status hs__run_plan_make(const hs_corpora *c, const hs__run_row *row, hs__run_plan *ret_plan,
                                        hs__setting *ret_wrong, hs_error *err);
/* Memory for runs: what is free, less what requests and the head cache may still take. */
uint64_t hs__corpora_memory(const hs_corpora *c);

/* ---- the thread ---- */

/* Takes the runs in turn until c->stopping. data: the hs_corpora. */
void *hs__corpora_main(void *data);
