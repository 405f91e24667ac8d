/* runs.h - corpus runs requested over HTTP: stored in a folder, executed one after the other.
 *
 * The folder holds corpora.db (SQLite, write-ahead log) with a row for each run, and runs/<id>/ with a run's
 * input, state and reports. Folders without a row are moved to aside/. Only hs__run_delete deletes an
 * accepted run.
 *
 * Runs that are queued or running when the program ends resume at the next start. A run fails if the program
 * was killed three times during it without a save in between. After the first time it saves often, so that
 * only a run that kills the program fails. A run that lacks disk space, memory, descriptors or threads is
 * paused and goes on from its last save.
 *
 * A run is accepted only if its memory and disk space suffice. Its disk space is reserved until it ends; an
 * upload reserves only the bytes already sent.
 *
 * One thread executes the runs, with workers of a lower priority. Any thread may call the functions. All but
 * hs__runs_count and _stop may wait for the disk. */
#pragma once

#include "server/base/catalog.h"
#include "server/corpus/run/settings.h"
#include "server/corpus/search/pair_search.h"

#include <jansson.h>
#include <stdbool.h>

enum { HS_RUN_ID_MAX = 16, HS_RUNS_PAGE = 50, HS_RUNS_PAGE_MAX = 200 };

typedef struct hs_runs hs_runs;

/* The options of a run as text; "" is the default. Borrowed. */
typedef struct hs_run_request {
    const char *name, *model, *settings[HS__SETTINGS_MAX];
} hs_run_request;

/* Opens the folder. bytes_max bounds the files of all runs together. Returns HS_IO if the folder cannot be
 * used, or HS_BUSY if another server uses it. A full disk is not an error: runs are refused, with the reason,
 * until space is free. */
HS_MUST_USE hs_status hs__runs_open(const char *dir, size_t n_workers, uint64_t bytes_max, hs_runs **ret_runs,
                                    hs_error *err);
/* Starts the thread once the models are loaded. */
HS_MUST_USE hs_status hs__runs_start(hs_runs *runs, hs_api *api, const hs_catalog_options *options,
                                     hs_error *err);
/* Returns HS_OK if runs can be requested; else err says why not, in words for clients. */
HS_MUST_USE hs_status hs__runs_check(hs_runs *runs, hs_error *err);

/* For metrics: counts since the program's start, and the current size of all files. */
typedef struct hs_runs_counts {
    bool running;
    uint64_t done, failed, cancelled; /* runs */
    uint64_t texts, bad_lines;
    uint64_t bytes, bytes_max; /* includes reserved bytes, but not those of unfinished uploads */
} hs_runs_counts;
/* Does not block. */
void hs__runs_count(const hs_runs *runs, hs_runs_counts *ret_counts);

/* Asks the current run to stop. Does not block; NULL is allowed. */
void hs__runs_stop(hs_runs *runs);
/* Ends the thread after the current run has saved. Returns false if that takes too long: the run resumes from
 * its last save at the next start. Its threads are still running then, so the models must stay and the
 * program must exit. NULL is allowed. */
bool hs__runs_close(hs_runs *runs);

/* ---- uploads ---- */

typedef struct hs_upload hs_upload;

/* Checks the request and begins its upload. Returns HS_INVALID, or HS_NOT_FOUND for a model; *ret_option then
 * names the wrong option, and is NULL otherwise. Returns HS_TOO_LARGE if the run needs more memory than the
 * machine has, and HS_NO_MEMORY if it needs more than is free. Returns HS_NO_SPACE for the disk, --max-state
 * or the number of runs. */
HS_MUST_USE hs_status hs__upload_begin(hs_runs *runs, const hs_run_request *request, uint64_t bytes_expected,
                                       hs_upload **ret_upload, const char **ret_option, hs_error *err);
/* Appends bytes. Returns HS_NO_SPACE if the upload exceeds the disk or --max-state, or HS_IO. */
HS_MUST_USE hs_status hs__upload_add(hs_upload *upload, const char *bytes, size_t n_bytes, hs_error *err);
/* Syncs the upload to disk, reserves the run's disk space and queues it. Consumes the upload, also on
 * failure. Returns HS_INVALID if it holds no text, or HS_NO_SPACE as hs__upload_begin. */
HS_MUST_USE hs_status hs__upload_finish(hs_upload *upload, char ret_id[HS_RUN_ID_MAX + 1], hs_error *err);
void hs__upload_abandon(hs_upload *upload); /* NULL is allowed */

/* ---- runs ---- */

/* Reads a CorpusRun of the API, which the caller releases. Returns HS_NOT_FOUND, HS_NO_MEMORY or HS_IO;
 * *ret_run is NULL then. */
HS_MUST_USE hs_status hs__run_get(hs_runs *runs, const char *id, json_t **ret_run, hs_error *err);
/* Reads a page of at most `limit` CorpusRuns, newest first, older than number `before` (0: from the newest),
 * which the caller releases. Returns HS_NO_MEMORY or HS_IO; *ret_page is NULL then. */
HS_MUST_USE hs_status hs__runs_list(hs_runs *runs, uint64_t before, size_t limit, json_t **ret_page,
                                    hs_error *err);

/* Cancels a run. A running one gets a report of what it counted. One that waits gets none, but keeps its last
 * save. An ended one stays as it is. Returns HS_NOT_FOUND. */
HS_MUST_USE hs_status hs__run_cancel(hs_runs *runs, const char *id, hs_error *err);
/* Queues a failed or cancelled run again. The run continues from its last save, or begins anew if that is
 * damaged or of another model than the served one. An error changes nothing. Returns HS_NOT_FOUND for a run,
 * an upload or a model that is not there, HS_BUSY in other states, HS_NO_SPACE, or HS_INVALID if its options
 * do not suit the model. */
HS_MUST_USE hs_status hs__run_restart(hs_runs *runs, const char *id, hs_error *err);
/* Deletes a run and its files. Returns HS_NOT_FOUND, or HS_BUSY while it runs. */
HS_MUST_USE hs_status hs__run_delete(hs_runs *runs, const char *id, hs_error *err);

/* Answers a search or a list of examples of an ended run, as pair_search.h does. HS_NOT_FOUND: there is no
 * such run, it has not ended, or it keeps no such texts. */
typedef hs_status hs__run_reader(const char *dir, const hs__search_query *query, json_t **ret_answer,
                                 const char **ret_wrong, hs_error *err);
HS_MUST_USE hs_status hs__run_search(hs_runs *runs, const char *id, hs__run_reader *reader,
                                     const hs__search_query *query, json_t **ret_answer,
                                     const char **ret_wrong, hs_error *err);

/* Compares runs that are done (comparison.h). ids: hexadecimal ids separated by commas; one alone is its own
 * comparison. threshold: NAN for the first run's main one. HS_NOT_FOUND: an id is unknown. HS_INVALID: a run
 * is not done or is named twice, or they cannot be compared.
 * HS_TOO_LARGE, HS_NO_MEMORY, HS_IO, or what the check returns. Release *ret_comparison with json_decref. */
HS_MUST_USE hs_status hs__runs_compare(hs_runs *runs, const char *ids, double threshold,
                                       const hs__read_check *check, json_t **ret_comparison, hs_error *err);

/* Opens a report of an ended run, which the caller closes. Returns HS_NOT_FOUND if the run has none yet,
 * HS_NO_MEMORY, or HS_IO. */
HS_MUST_USE hs_status hs__run_report_open(hs_runs *runs, const char *id, const char *name, int *ret_fd,
                                          uint64_t *ret_bytes, hs_error *err);
