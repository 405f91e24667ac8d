/* runs_internal.h - private to server/runs: rows of corpora.db, and the runs' folders. */
#pragma once

#include "server/corpus/run/requirements.h"
#include "server/runs/runs.h"

#include <pthread.h>
#include <sqlite3.h>

enum { HS__RUN_SETTINGS_BYTES = 8192, HS__RUN_PATH_MAX = 4400, HS__RUNS_DIR_MAX = 4096 };

struct hs_runs {
    char dir[HS__RUNS_DIR_MAX];
    size_t n_workers;
    uint64_t bytes_max;
    int lock_fd; /* locked while this server uses the folder */
    hs_api *api;
    const hs_catalog_options *options;
    struct hs__run_plan *plan; /* of the thread */
    pthread_t thread;
    atomic_bool started, stopping;
    atomic_int stop; /* of the current run */
    struct {         /* hs_runs_counts; written under the lock, read without */
        atomic_bool running;
        atomic_uint_least64_t done, failed, cancelled, texts, bad_lines, bytes;
    } counts;

    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t changed;
    sqlite3 *db;                     /* NULL while the disk is full */
    uint64_t bytes_kept;             /* of runs' files, reserved bytes included */
    uint64_t bytes_reserved;         /* for runs that have not ended */
    uint64_t bytes_coming;           /* sent so far by unfinished uploads */
    hs__run_memory memory_free;      /* for runs, when the current one began */
    char current[HS_RUN_ID_MAX + 1]; /* "" when none runs */
    const char *precision;           /* of its engine */
    char begun[HS_RUN_ID_MAX + 1];   /* the last run that began, until its outcome is saved */
    char waiting[HS_RUN_ID_MAX + 1]; /* the run that was paused last, */
    char waiting_why[256];           /* and why: on a full disk its row cannot say it */
    bool counting;                   /* the current run has loaded its save; the thread's own */
    uint64_t paused_ns;              /* when a run was paused last */
    bool cancel;                     /* the current run shall not resume later */
    bool ended;                      /* the thread takes no more runs */
    hs__corpus_progress progress;    /* of the current run */
    char *bad_lines;                 /* of the current run, as JSON; NULL: those in its row */
};

/* A copy of a row. */
typedef struct hs__run_row {
    char id[HS_RUN_ID_MAX + 1], model[256];
    char settings[HS__RUN_SETTINGS_BYTES]; /* the options given: {"layers": "0,2"} */
    int starts;                            /* of the program during this run, since the last save */
    int pauses;                            /* for lack of space or memory, since the last save */
    bool restarted; /* by a client, and nothing was saved since: results that do not suit it are removed */
    hs__corpus_progress progress; /* counts only */
} hs__run_row;

/* The job that a row describes, and what it needs. */
typedef struct hs__run_plan {
    hs_api *api;
    hs_served_model *served; /* in use until hs__run_plan_finish */
    hs__corpus_job job;
    hs__requirements needs;
} hs__run_plan;

/* ---- rows; the lock is held ---- */

/* SQL: the id has HS_RUN_ID_MAX hexadecimal digits. Ids become paths, so no other may leave the database. The
 * length is that of a blob, because length() of a text stops at a NUL. */
#define HS__RUN_ID_IS_VALID                                                                                  \
    "(typeof(id) = 'text' AND length(CAST(id AS BLOB)) = 16 AND id NOT GLOB '*[^0-9a-f]*')"

/* Reports SQLite's last error: HS_NO_SPACE if the disk is full, HS_NO_MEMORY, else HS_IO. */
hs_status hs__run_table_fail(const hs_runs *c, hs_error *err);
/* Prepares sql and binds texts to ?1 and ?2 (NULL: not bound), which must stay until the statement is
 * finalized: so binding allocates nothing and cannot fail. Returns NULL if SQLite fails. */
sqlite3_stmt *hs__run_table_prepare(hs_runs *c, const char *sql, const char *first, const char *second);
/* Executes and finalizes a statement. Returns true if it succeeded without a row. NULL: returns false. */
bool hs__run_table_done(sqlite3_stmt *s);
/* Steps to a statement's row. Returns HS_NOT_FOUND if there is none, or why SQLite failed. s: NULL if it
 * could not be prepared. id: of the run, for the message. */
HS_MUST_USE hs_status hs__run_table_step(const hs_runs *c, sqlite3_stmt *s, const char *id, hs_error *err);
/* Finalizes a statement of which a row was read, or not (st). Returns st, or that memory was short for a text
 * of the row. */
HS_MUST_USE hs_status hs__run_table_end(const hs_runs *c, sqlite3_stmt *s, hs_status st, hs_error *err);
/* Returns "" if the column is null or memory is short. */
static inline const char *hs__run_table_text(sqlite3_stmt *s, int column)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    return text ? text : "";
}

/* Reads the number that a query yields. */
HS_MUST_USE hs_status hs__run_table_number(hs_runs *c, const char *sql, uint64_t *ret, hs_error *err);
/* Checks the disk and --max-state for `needed` more bytes. Returns HS_NO_SPACE. */
HS_MUST_USE hs_status hs__run_space_check(const hs_runs *c, uint64_t needed, hs_error *err);
/* Updates c->bytes_kept and c->bytes_reserved after a change of a row's bytes. If SQLite fails they stay
 * until the next change. */
void hs__run_table_count_bytes(hs_runs *c);
/* Reads a row by its id. Returns HS_NOT_FOUND if there is none. */
HS_MUST_USE hs_status hs__run_table_find(hs_runs *c, const char *id, hs__run_row *ret_row, hs_error *err);
/* Finds the run to execute: of those with the fewest pauses one already begun, else the oldest queued one by
 * the start of its upload. Returns HS_NOT_FOUND if there is none. */
HS_MUST_USE hs_status hs__run_table_next(hs_runs *c, hs__run_row *ret_row, hs_error *err);

/* ---- folders ---- */

/* Writes the path of a run's file, or of its folder if name is "". */
void hs__run_path(const hs_runs *c, const char *id, const char *name, char ret_path[HS__RUN_PATH_MAX]);
/* Removes the run's folder from a message for clients, so that it names files relative to the run and does
 * not reveal the server's paths. */
void hs__run_path_strip(const hs_runs *c, const char *id, char *text);
/* Removes a run's folder and files, leftovers of interrupted saves included. Returns false, and logs the
 * reason, if some of it stays. */
bool hs__run_files_remove(const hs_runs *c, const char *id);
/* Removes all files of a run but its input. Returns false if some of them stay. */
bool hs__run_results_remove(const hs_runs *c, const char *id);
/* Locks the folder and opens its database. Ends interrupted uploads and deletions, moves unknown folders to
 * aside/ and removes leftovers of killed writes. Returns HS_NO_SPACE if the disk is full. The lock is held,
 * or no other thread has c yet. */
HS_MUST_USE hs_status hs__run_folders_open(hs_runs *c, hs_error *err);

/* ---- plans ---- */

/* Fills the plan; the caller adds the job's files and threads. Returns HS_NOT_FOUND if the model is not
 * served. Returns HS_INVALID with the wrong setting in *ret_wrong, or SIZE_MAX there if the run would be
 * too large. */
HS_MUST_USE hs_status hs__run_plan_make(const hs_runs *c, const hs__run_row *row, hs__run_plan *ret_plan,
                                        size_t *ret_wrong, hs_error *err);
/* Call it also after hs__run_plan_make failed: the model may be removed again. */
void hs__run_plan_finish(hs__run_plan *plan);
/* Returns the memory for runs: the free bytes, minus what requests and the head cache may still take. */
hs__run_memory hs__runs_memory(const hs_runs *c);
