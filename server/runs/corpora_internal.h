/* corpora_internal.h - what the files of corpora share: rows of corpora.db, and the runs' folders. */
#pragma once

#include "server/corpus/corpus_run.h"
#include "server/runs/corpora.h"

#include <pthread.h>
#include <sqlite3.h>

enum { HS__RUN_PATH_MAX = 4400, HS__CORPORA_DIR_MAX = 4096 };

struct hs_corpora {
    char dir[HS__CORPORA_DIR_MAX];
    size_t n_workers;
    uint64_t bytes_max;
    int lock_fd; /* held while the folder is ours */
    const hs_catalog *catalog;
    const hs_catalog_options *options;
    pthread_t thread;
    bool started;

    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t changed;
    sqlite3 *db;
    uint64_t bytes_stored, bytes_coming; /* of runs' files; of uploads under way */
    bool stopping;
    char current[HS_CORPORA_ID_MAX + 1]; /* "" when none runs */
    atomic_int stop;                     /* of the current run */
    bool cancel;                         /* it shall not go on later */
    hs__corpus_progress progress;        /* its */
    char *bad_lines;                     /* its, as JSON; NULL: those in its row */
};

/* A row's copy. */
typedef struct hs__corpora_task {
    char id[HS_CORPORA_ID_MAX + 1], model[256], layers[2048], thresholds[256];
    size_t max_tokens;
    hs__corpus_lines lines;
    hs__corpus_progress progress; /* counts only */
} hs__corpora_task;

/* ---- rows; the lock is held ---- */

HS_MUST_USE hs_status hs__rows_open(hs_corpora *c, hs_error *err);
/* Prepares sql and binds texts to ?1, ?2, ... NULL when SQLite cannot. */
sqlite3_stmt *hs__row_statement(hs_corpora *c, const char *sql, const char *first, const char *second);
/* Steps and finalizes: true when no row came, as of all that is not a query. NULL: false. */
bool hs__row_done(sqlite3_stmt *s);
/* "" where it is null, or memory short. */
const char *hs__row_text(sqlite3_stmt *s, int column);
bool hs__row_state_set(hs_corpora *c, const char *id, const char *state, const char *error);
/* "" when there is no such run. */
void hs__row_state_get(hs_corpora *c, const char *id, char ret_state[16]);
/* The number that a query gives; 0 when SQLite cannot. */
uint64_t hs__row_number(hs_corpora *c, const char *sql);
/* Into c->bytes_stored: after each change of a row's bytes. */
void hs__rows_count_bytes(hs_corpora *c);

/* ---- folders ---- */

/* name: of a file in it, or "". */
void hs__run_path(const hs_corpora *c, const char *id, const char *name, char ret_path[HS__RUN_PATH_MAX]);
/* With what a save left that was cut short. */
void hs__run_files_remove(const hs_corpora *c, const char *id);
uint64_t hs__run_files_measure(const hs_corpora *c, const char *id);
/* Those of uploads that never ended and of runs whose removal was cut short. The lock is held. */
void hs__run_strays_remove(hs_corpora *c);
