/* counter.h - the interface of a counter: what a corpus run counts or keeps beside the paper's statistics.
 *
 * A counter is one hs__counter in a file of its own. The file has everything that the counter does: its
 * settings, what it counts of each text, and what it shows in the report. A run, its workers, the checkpoint,
 * the merge and the report walk the list of all counters (counters.c).
 *
 * Most counters add to declared sums (engine/statistics/sums.h). Such a counter is its rows, what it adds for
 * a text and a head, and its part of the report. Storage, sizes, checkpoint, merge and the arrays of the
 * report follow from the rows. A counter that keeps anything else has functions for these, too.
 *
 * A function may be NULL. In a run they are called in this order. An inactive counter has no `begin` and no
 * workers; its other functions find `shared` and their counts NULL:
 *
 *     configure                         before anything is created
 *     open, begin                       once: what all workers share
 *     worker_begin                      in each worker; its state is given to the following functions
 *         block                         for each block of records
 *             record, text              for each of its records, before and after its text is encoded
 *             start, head, pass         for the texts of a pass, its heads, and when it has ended
 *             text_end                  for each text that `text` has seen
 *         block_end
 *     expect                            once the first blocks have been counted
 *     complete                          once all texts have been counted
 *     gather                            before a checkpoint: adds a worker's counts to the results
 *     save
 *     worker_end
 *     finish                            once the reports have been written
 *     end
 *
 * Report and page show the results. A worker's functions are called by one thread at a time. */
#pragma once

#include "api/formats/arrays.h"
#include "api/request/texts.h"
#include "engine/statistics/chance.h"
#include "engine/statistics/labels.h"
#include "engine/statistics/sums.h"
#include "model/base/read_number.h"
#include "server/corpus/corpus.h"
#include "server/corpus/report/drawing.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct hs__counter hs__counter;

/* ---- settings ---- */

/* The parts of the list of settings, in their order. A part has those of counters before the others. */
typedef enum hs__setting_part {
    HS__SETTINGS_OF_STATISTICS,
    HS__SETTINGS_OF_EXPERIMENTS,
    HS__SETTINGS_OF_INPUT,
    HS__SETTINGS_OF_COUNTERS,
    HS__SETTING_PARTS
} hs__setting_part;

typedef struct hs__setting_row {
    hs_field field; /* name, kind, choices, and its argument and help on a command line */
    hs__setting_part part;
    /* Reads a value. Fails with what it must be: "a number in [0, 1]". options: of the counter, or NULL.
     * NULL: read as the field of /analyze with this name. */
    hs_status (*read)(const char *text, const hs_model *model, hs__corpus_settings *settings, void *options,
                      hs_error *err);
    const char *default_text; /* NULL: that of /analyze, or none */
    const char *default_json; /* of the report's provenance; NULL: it is left out there */
} hs__setting_row;

/* Reads a number in [0, 1]. */
static inline hs_status hs__fraction_read(const char *text, float *ret, hs_error *err)
{
    double number = -1;
    const bool is = !hs_real_read(text, NULL, &number) && number >= 0 && number <= 1;
    *ret = (float)number;
    return is ? HS_OK : hs_fail(err, HS_INVALID, "a number in [0, 1]");
}

static inline hs_status hs__flag_read(const char *text, bool *ret, hs_error *err)
{
    static const hs_field flag = {.kind = HS_FIELD_FLAG};
    hs_error why = {0};
    json_t *value = hs_field_json(&flag, text, &why);
    *ret = json_is_true(value);
    json_decref(value);
    return value ? HS_OK : hs_fail(err, HS_INVALID, "true or false");
}

static inline hs_status hs__name_read(const char *text, char *ret, size_t n_ret, hs_error *err)
{
    return snprintf(ret, n_ret, "%s", text) < (int)n_ret
               ? HS_OK
               : hs_fail(err, HS_INVALID, "a name of less than %zu bytes", n_ret);
}

/* ---- a run ---- */

/* A counter in a run. All is borrowed from the run, which outlives it, but for `shared`. */
typedef struct hs__counting {
    const hs__counter *counter;
    const hs__corpus_job *job;
    const void *options;         /* as `read` left them; NULL: the defaults */
    hs__corpus_results *results; /* of the run */
    void **counts; /* the counter's own in the results; NULL in them while nothing was counted */
    const hs_corpus_options *statistics;
    void *shared; /* what `open` or `begin` has made; the counter's `end` releases it */
} hs__counting;

/* The state of a counter in a worker begins so. It has the counter's worker_bytes, zeros but for this part.
 */
typedef struct hs__tally {
    const hs__counting *counting;
    hs_sums *sums; /* owned by the state: what the worker has added since the last checkpoint; NULL: the
                      counter declares none */
} hs__tally;

/* The texts of a pass. */
typedef struct hs__text_pass {
    hs_workspace *workspace;       /* free to use after the pass */
    const hs_run_control *control; /* of further passes: these fail with HS_CANCELLED if the run is stopped */
    hs_corpus_stats *statistics;
    hs__text *texts;                         /* [n] */
    hs_sequence sequences[HS_CORPUS_BATCH];  /* with the captures of the pass */
    hs_corpus_text counted[HS_CORPUS_BATCH]; /* the tokens that are counted */
    hs_corpus_text keys[HS_CORPUS_BATCH];    /* those that are attended to: the same, or the source's */
    size_t n;
} hs__text_pass;

/* Sizes that a run must know before it begins; each is an upper bound. */
typedef struct hs__counter_size {
    uint64_t shared, worker; /* bytes of memory: once, and of each worker */
    uint64_t saved;          /* numbers in a checkpoint's JSON, */
    uint64_t saved_words;    /* and words in its strings (words.h) */
    uint64_t listed;         /* numbers in report.json */
    uint64_t elements;       /* in report.npz */
    uint64_t report;         /* bytes of report.json's other members in memory, */
    uint64_t report_text;    /* and when written */
    uint64_t disk;           /* bytes of files of its own */
} hs__counter_size;

/* ---- a counter ---- */

#define HS__COUNTER_ARRAYS_MAX 32

/* A counter. Members of a group belong together: a counter has all it needs of one or none. All is static. */
struct hs__counter {
    const char *name;

    /* Settings, or none. */
    const hs__setting_row *settings;
    size_t n_settings;
    size_t options_bytes; /* of what they are read into; zeroed before */
    /* Adds the settings to a run's identity if they are not the default. */
    void (*identify)(const void *options, const hs__corpus_settings *settings, json_t *identity);
    /* Returns false if a run of this identity counts nothing of it. NULL: each run does. */
    bool (*is_active)(const json_t *identity);
    /* Sets what it needs of the statistics, and adds HS_KEEP(..) of the activations that a pass keeps. */
    void (*configure)(const void *options, const hs__corpus_settings *settings, hs_corpus_options *statistics,
                      unsigned *taps);

    /* Its counts in the results are sums of this kind. */
    const hs_sums_kind *sums;
    /* Returns false if the sums of a checkpoint disagree with the rest of it, which is then damaged. */
    bool (*is_sound)(const hs__corpus_results *results, const hs_sums *counts);

    /* Its counts are something else. */
    hs_status (*save)(const hs__corpus_results *results, void *counts, json_t *checkpoint, hs_error *err);
    hs_status (*load)(const hs__corpus_results *results, const json_t *checkpoint, void **counts,
                      hs_error *err);
    /* Returns false if loaded counts have another shape than the options: the checkpoint is damaged. */
    bool (*matches)(const hs__counting *counting);
    /* Moves a worker's counts into the results. */
    hs_status (*gather)(hs__counting *counting, void *state, hs_error *err);
    void (*destroy)(void *counts);

    /* Adds the counts of another shard, or checks before sums are added. */
    hs_status (*merge)(hs__corpus_results *results, void **counts, const hs__corpus_results *from,
                       void **from_counts, const char *from_dir, hs_error *err);

    /* Adds sizes beside those of sums, their arrays and worker_bytes. A counter with `open`
     * adds the bytes of its worker here, if it has something to do: only it knows. */
    void (*measure)(const hs__corpus_job *job, const void *options, hs__counter_size *size);

    /* Refuses a job whose engine cannot compute what the settings ask for. HS_INVALID: a sentence. */
    hs_status (*check)(const hs__corpus_job *job, hs_error *err);
    /* Opens files outside of the run's folder, before that is read or changed. If nothing is shared then, the
     * counter has nothing to do. */
    hs_status (*open)(hs__counting *counting, hs_error *err);
    /* Begins in a run. anew: nothing was loaded; sums are there. */
    hs_status (*begin)(hs__counting *counting, bool anew, hs_error *err);
    /* Estimates the size of its files of `open` from n_seen records, which have been counted; no worker has a
     * block. Called if something is shared. HS_NO_SPACE: their disk is too small. */
    hs_status (*expect)(hs__counting *counting, uint64_t n_seen, hs_error *err);
    /* Wakes workers that wait in `head` or `block_end`: the run has failed. Any thread. */
    void (*interrupt)(hs__counting *counting);
    /* Completes its files of `open`, once a run has succeeded. */
    hs_status (*finish)(hs__counting *counting, hs_error *err);
    /* Ends in a run, also after a failure of `open` or `begin`. Removes files that are not finished. */
    void (*end)(hs__counting *counting);

    /* Bytes of a worker's state. 0: those of hs__tally if it has sums, else it has no state, and the
     * following functions are not called. */
    size_t worker_bytes;
    /* Allocates what the state refers to, and releases it, also after a failure. states: of the counters
     * before this one. */
    hs_status (*worker_begin)(void *state, void *const *states, hs_error *err);
    void (*worker_end)(void *state);
    /* Blocks have numbers from 0 in the order of the input; each is counted by one worker. `block_end`
     * follows unless the run has failed. */
    void (*block)(void *state, uint64_t number);
    hs_status (*block_end)(void *state, hs_error *err);
    /* HS_BAD_REQUEST: the record is bad; text->body.why says why. */
    hs_status (*record)(void *state, hs__text *text, hs_error *err);
    hs_status (*text)(void *state, hs__text *text, hs_error *err);
    void (*text_end)(void *state, hs__text *text);
    hs_status (*start)(void *state, hs__text *text, hs_error *err);
    void (*head)(void *state, hs__text *text, hs__text_head *head);
    hs_status (*pass)(void *state, hs__text_pass *pass, hs_error *err);
    /* Writes files of its own before a checkpoint is saved. */
    hs_status (*commit)(hs__counting *counting, hs_error *err);
    /* Adds to the results what depends on all texts, once they have been counted. HS_CANCELLED: the run was
     * stopped; the next session calls it again. */
    hs_status (*complete)(hs__counting *counting, hs_workspace *workspace, hs_error *err);
    /* Merges files that it keeps in the folders dirs [n] into those of the folder output, which may be one of
     * them. */
    hs_status (*merge_files)(const hs__corpus_results *results, char *const *dirs, size_t n,
                             const char *output, hs_error *err);

    /* Arrays that a report with counts has beside those of `sums`. */
    const hs_array_row *arrays;
    size_t n_arrays;
    /* Lists the arrays that `read` reads, if the counts are no sums. */
    size_t (*list)(const void *counts, hs_corpus_array ret_arrays[HS__COUNTER_ARRAYS_MAX]);
    /* Reads n elements of an array: int64_t or double. With sums it reads only rows that are HS_MADE. */
    void (*read)(const void *counts, const hs_corpus_array *array, size_t first, size_t n, void *ret);
    /* Writes arrays to report.npz that are not listed. */
    void (*write)(const hs__corpus_results *results, void *counts, hs_npz *npz);
    /* Adds members to report.json. */
    void (*report)(const hs__corpus_results *results, void *counts, json_t *report);
    /* Writes rows of the page's header from report.json. */
    void (*header)(const json_t *report, FILE *out);
    /* A section of the page: its id, which is a member of report.json too, its title in the contents, and
     * what writes it. */
    const char *section, *title;
    void (*page)(const hs__drawing *drawing, hs__indices at, FILE *out);
    const hs__report_panel *panels;
    size_t n_panels;
};

/* All counters, in the order of HS__COUNTERS (corpus.h). */
extern const hs__counter *const hs__counters[HS__N_COUNTERS];
/* Writes a digest of their rows and of those of the statistics, which a checkpoint has: those of other
 * versions are refused. */
void hs__counters_digest(char ret[17]);

#define HS__COUNTER_DECLARE(name) extern const hs__counter hs__counter_##name;
HS__COUNTERS(HS__COUNTER_DECLARE)
#undef HS__COUNTER_DECLARE

/* ---- what a run does with each counter: what its members say, and what follows from its sums ---- */

bool hs__counter_is_active(const hs__counter *counter, const json_t *identity);
/* Adds the sizes of an active counter but for those of its arrays. */
void hs__counter_measure(const hs__counter *counter, const hs__corpus_job *job, const void *options,
                         hs__counter_size *size);
/* Writes the lengths of the axes that a job's arrays have. */
void hs__counter_lengths(const hs__corpus_job *job, size_t ret_lengths[HS_LENGTHS]);

hs_status hs__counter_begin(hs__counting *counting, bool anew, hs_error *err);
bool hs__counter_matches(const hs__counting *counting);
/* Creates the state of a worker. *ret_state is NULL if the counter has nothing to do; it is to be destroyed
 * after a failure too. */
hs_status hs__counter_worker_create(const hs__counting *counting, void *const *states, void **ret_state,
                                    hs_error *err);
void hs__counter_worker_destroy(void *state);
hs_status hs__counter_gather(hs__counting *counting, void *state, hs_error *err);
/* Adds the counts to a checkpoint, and reads them from a damaged one, too. HS_INVALID, HS_NO_MEMORY. */
hs_status hs__counter_save(const hs__counter *counter, const hs__corpus_results *results, void *counts,
                           json_t *checkpoint, hs_error *err);
hs_status hs__counter_load(const hs__counter *counter, const hs__corpus_results *results,
                           const json_t *checkpoint, void **counts, hs_error *err);
hs_status hs__counter_merge(const hs__counter *counter, hs__corpus_results *results, void **counts,
                            const hs__corpus_results *from, void **from_counts, const char *from_dir,
                            hs_error *err);
void hs__counter_destroy(const hs__counter *counter, void *counts); /* NULL is fine */

/* Lists the arrays of counts for report.json and report.npz, and reads n elements of one: int64_t or double.
 */
size_t hs__counter_arrays(const hs__counter *counter, const void *counts,
                          hs_corpus_array ret_arrays[HS__COUNTER_ARRAYS_MAX]);
void hs__counter_array_read(const hs__counter *counter, const void *counts, const hs_corpus_array *array,
                            size_t first, size_t n, void *ret);

/* ---- what counters tell others ---- */

/* windows: returns the number of texts in results with statistics; all windows of a text are one. */
uint64_t hs__texts_counted(const hs__corpus_results *results);
/* same_distance: returns the chance of the text at a place of the pass, from the state of a worker. */
const hs_chance *hs__same_distance_of_worker(const void *state, size_t place);
/* labelled_texts: the names' member with the names of labels, in the order of their numbers. */
#define HS__LABEL_NAMES "labels"
