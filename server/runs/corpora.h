/* corpora.h - corpus runs that were asked for over HTTP: kept in a folder, run one after the other.
 *
 * The folder holds corpora.db (SQLite, write-ahead log), which knows the runs, and runs/<id>/ with each one's
 * input, state and reports. What was queued or running when the program ended goes on when it starts again;
 * one during which it was killed twice, without a save in between, is failed. What a run may take of memory
 * and disk is known before it is accepted, and its disk is reserved until it ends. Nothing of an accepted run
 * is deleted but by hs__corpora_delete: folders that no row knows are put into aside/.
 *
 * One thread of our own runs them, with workers that give way to everything else. Any thread may call; all
 * functions but hs__corpora_started, _count and _stop may wait for the disk. */
#pragma once

#include "server/base/catalog.h"
#include "server/corpus/corpus_settings.h"

#include <jansson.h>
#include <stdbool.h>

enum { HS_CORPORA_ID_MAX = 16, HS_CORPORA_PAGE = 50, HS_CORPORA_PAGE_MAX = 200 };

typedef struct hs_corpora hs_corpora;

/* What a run is asked to do, as text; "" is the default. Borrowed. */
typedef struct hs_corpora_request {
    const char *name, *model, *settings[HS__SETTINGS];
} hs_corpora_request;

/* bytes_max: of all runs' files together. HS_IO when the folder cannot be used, or another server uses it. A
 * full disk is no failure: runs are refused, with the reason, until there is room. */
HS_MUST_USE hs_status hs__corpora_open(const char *dir, size_t n_workers, uint64_t bytes_max,
                                       hs_corpora **ret_corpora, hs_error *err);
/* The models are there: begins with what is queued. Names are those of options. */
HS_MUST_USE hs_status hs__corpora_start(hs_corpora *corpora, const hs_catalog *catalog,
                                        const hs_catalog_options *options, hs_error *err);
/* HS_OK: runs can be asked for. Else err says why not, in words for clients. */
HS_MUST_USE hs_status hs__corpora_check(hs_corpora *corpora, hs_error *err);
bool hs__corpora_started(const hs_corpora *corpora); /* NULL is fine */

/* For metrics: runs that ended and what was read since the program's start; what their files take now. */
typedef struct hs_corpora_counts {
    bool running;
    uint64_t done, failed, cancelled; /* runs */
    uint64_t texts, bad_lines;
    uint64_t bytes, bytes_max; /* reserved ones included; those of uploads under way are not */
} hs_corpora_counts;
/* Waits for nothing. */
void hs__corpora_count(const hs_corpora *corpora, hs_corpora_counts *ret_counts);

/* Begins to stop the one that runs. Waits for nothing; NULL is fine. */
void hs__corpora_stop(hs_corpora *corpora);
/* Ends the thread: the run is saved as far as it is counted. False when that takes too long: the run goes on
 * from its last save when the program starts again, but its threads are still at work, so that the models
 * must stay and the program must end at once. NULL is fine. */
bool hs__corpora_close(hs_corpora *corpora);

/* ---- uploads ---- */

typedef struct hs_upload hs_upload;

/* HS_INVALID, HS_NOT_FOUND (a model): *ret_option names the option that is wrong, NULL: the run would be too
 * large for this machine. HS_NO_MEMORY: it is now. HS_TOO_LARGE: no room on the disk. */
HS_MUST_USE hs_status hs__upload_begin(hs_corpora *corpora, const hs_corpora_request *request,
                                       uint64_t bytes_expected, hs_upload **ret_upload,
                                       const char **ret_option, hs_error *err);
/* HS_TOO_LARGE when the disk or the quota is full. */
HS_MUST_USE hs_status hs__upload_add(hs_upload *upload, const char *bytes, size_t n_bytes, hs_error *err);
/* On disk for good, and queued. Takes the upload, whatever comes. HS_INVALID when there is no text in it. */
HS_MUST_USE hs_status hs__upload_finish(hs_upload *upload, char ret_id[HS_CORPORA_ID_MAX + 1], hs_error *err);
void hs__upload_abandon(hs_upload *upload); /* NULL is fine */

/* ---- runs ---- */

/* A CorpusRun of the API; NULL: there is none of this id. */
json_t *hs__corpora_get(hs_corpora *corpora, const char *id);
/* A page of CorpusRuns, newest first: limit of them that are older than number `before` (0: the newest). */
json_t *hs__corpora_list(hs_corpora *corpora, uint64_t before, size_t limit);

/* HS_NOT_FOUND; of a run that has ended: nothing happens. One under way keeps a report of what it counted. */
HS_MUST_USE hs_status hs__corpora_cancel(hs_corpora *corpora, const char *id, hs_error *err);
/* HS_NOT_FOUND; HS_INVALID while it runs. */
HS_MUST_USE hs_status hs__corpora_delete(hs_corpora *corpora, const char *id, hs_error *err);

/* A descriptor of one of an ended run's reports, the caller's to close; below 0: there is none. */
int hs__corpora_file(hs_corpora *corpora, const char *id, const char *name, uint64_t *ret_bytes);
