/* counter.h - the interface of a counter: what a corpus run counts or keeps beside the paper's statistics.
 *
 * A counter is one hs__counter in a file of its own. The file has everything that the counter does: its
 * settings, what it counts of each text, its part of the checkpoint, and what it shows in the report. A run,
 * its workers, the checkpoint, the merge and the report walk the list of all counters (counters.c).
 *
 * A function may be NULL. In a run they are called in this order:
 *
 *     configure                         before anything is created
 *     open, begin                       once: what all workers share
 *     worker_create                     in each worker; its result is the state of the following functions
 *         block                         for each block of records
 *             record, text              for each of its records, before and after its text is encoded
 *             start, head, pass         for the texts of a pass, its heads, and when it has ended
 *             text_end                  for each text that `text` has seen
 *         block_end
 *     expect                            once the first blocks have been counted
 *     complete                          once all texts have been counted
 *     gather                            before a checkpoint: adds a worker's counts to the results
 *     save
 *     worker_destroy
 *     finish                            once the reports have been written
 *     end
 *
 * Report and page show the results. A worker's functions are called by one thread at a time. */
#pragma once

#include "api/formats/arrays.h"
#include "api/request/texts.h"
#include "engine/statistics/chance.h"
#include "engine/statistics/labels.h"
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

static inline hs_status hs__name_read(const char *text, char *ret, size_t n_ret, hs_error *err)
{
    return snprintf(ret, n_ret, "%s", text) < (int)n_ret
               ? HS_OK
               : hs_fail(err, HS_INVALID, "a name of less than %zu bytes", n_ret);
}

/* ---- a run ---- */

/* A counter in a run. */
typedef struct hs__counting {
    const hs__counter *counter;
    const hs__corpus_job *job;
    const void *options;         /* as `read` left them; NULL: the defaults */
    hs__corpus_results *results; /* of the run */
    void **counts;               /* the counter's own in the results */
    const hs_corpus_options *statistics;
    void *shared; /* what `open` or `begin` has made */
} hs__counting;

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

/* ---- a report ---- */

/* An array of the report. */
typedef struct hs__described_array {
    const char *name, *axes, *unit, *meaning; /* axes: names with spaces between, in the order of its shape */
} hs__described_array;

#define HS__COUNTER_ARRAYS_MAX 32

typedef struct hs__sums_kind hs__sums_kind;

struct hs__counter {
    const char *name;
    const hs__sums_kind *sums; /* what its counts are, if these are sums (words.h) */

    const hs__setting_row *settings;
    size_t n_settings;
    size_t options_bytes; /* of what they are read into; zeroed before */
    /* Adds the settings to a run's identity if they are not the default. */
    void (*identify)(const void *options, const hs__corpus_settings *settings, json_t *identity);

    /* Adds sizes. */
    void (*measure)(const hs__corpus_job *job, const void *options, hs__counter_size *size);
    /* Sets what it needs of the statistics, and adds HS_KEEP(..) of the activations that a pass keeps. */
    void (*configure)(const void *options, const hs__corpus_settings *settings, hs_corpus_options *statistics,
                      unsigned *taps);

    /* Opens files outside of the run's folder, before that is read or changed. */
    hs_status (*open)(hs__counting *counting, hs_error *err);
    /* Begins in a run. anew: nothing was loaded. */
    hs_status (*begin)(hs__counting *counting, bool anew, hs_error *err);
    /* Returns false if loaded counts have another shape than the options: the checkpoint is damaged. */
    bool (*matches)(const hs__counting *counting);
    /* Estimates the size of its files of `open` from n_seen records, which have been counted; no worker has a
     * block. Called if something is shared. HS_NO_SPACE: their disk is too small. */
    hs_status (*expect)(hs__counting *counting, uint64_t n_seen, hs_error *err);
    /* Wakes workers that wait in `head` or `block_end`: the run has failed. Any thread. */
    void (*interrupt)(hs__counting *counting);
    /* Completes its files of `open`, once a run has succeeded. */
    hs_status (*finish)(hs__counting *counting, hs_error *err);
    /* Ends in a run, also after a failure of `open` or `begin`. Removes files that are not finished. */
    void (*end)(hs__counting *counting);

    /* Creates the state of a worker; *ret_state may stay NULL, and is destroyed after a failure too. states:
     * of the counters before this one. */
    hs_status (*worker_create)(hs__counting *counting, void *const *states, void **ret_state, hs_error *err);
    void (*worker_destroy)(void *state);
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
    /* Moves a worker's counts into the results. */
    hs_status (*gather)(hs__counting *counting, void *state, hs_error *err);
    /* Writes files of its own before a checkpoint is saved. */
    hs_status (*commit)(hs__counting *counting, hs_error *err);
    /* Adds to the results what depends on all texts, once they have been counted. HS_CANCELLED: the run was
     * stopped; the next session calls it again. */
    hs_status (*complete)(hs__counting *counting, hs_workspace *workspace, hs_error *err);

    /* Adds members to a checkpoint, and reads them from a damaged one, too. HS_INVALID, HS_NO_MEMORY. */
    hs_status (*save)(const hs__corpus_results *results, void *counts, json_t *checkpoint, hs_error *err);
    hs_status (*load)(const hs__corpus_results *results, const json_t *checkpoint, void **counts,
                      hs_error *err);
    /* Adds the counts of another shard. */
    hs_status (*merge)(hs__corpus_results *results, void **counts, const hs__corpus_results *from,
                       void **from_counts, const char *from_dir, hs_error *err);
    void (*destroy)(void *counts);
    /* Merges files that it keeps in the folders dirs [n] into those of the folder output, which may be one of
     * them.
     */
    hs_status (*merge_files)(const hs__corpus_results *results, char *const *dirs, size_t n,
                             const char *output, hs_error *err);

    /* Arrays that a report with counts has, and those of the statistics that only this counter fills. */
    const hs__described_array *arrays;
    size_t n_arrays;
    /* Lists arrays of counts for report.json and report.npz, and reads n elements of one: int64_t or double.
     */
    size_t (*list)(const void *counts, hs_corpus_array ret_arrays[HS__COUNTER_ARRAYS_MAX]);
    void (*read)(const void *counts, const hs_corpus_array *array, size_t first, size_t n, void *ret);
    /* Writes further arrays to report.npz. */
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

/* All counters. */
extern const hs__counter *const hs__counters[];
extern const size_t hs__n_counters;

/* The list. A counter may use those before it. */
#define HS__COUNTERS(X)                                                                                      \
    X(windows)                                                                                               \
    X(same_distance)                                                                                         \
    X(long_range)                                                                                            \
    X(resampling)                                                                                            \
    X(signal_noise)                                                                                          \
    X(strata)                                                                                                \
    X(masked_tokens)                                                                                         \
    X(treebank)                                                                                              \
    X(labelled_texts)                                                                                        \
    X(head_effects)                                                                                          \
    X(pruning)                                                                                               \
    X(search_texts)                                                                                          \
    X(examples)                                                                                              \
    X(one_text)                                                                                              \
    X(pairs_file)

#define HS__COUNTER_DECLARE(name) extern const hs__counter hs__counter_##name;
HS__COUNTERS(HS__COUNTER_DECLARE)
#undef HS__COUNTER_DECLARE

/* The number of each counter in the list, and of its counts in the results. */
#define HS__COUNTER_NUMBER(name) HS__NUMBER_OF_##name,
enum { HS__COUNTERS(HS__COUNTER_NUMBER) HS__NUMBER_OF_COUNTERS };
#undef HS__COUNTER_NUMBER
_Static_assert((int)HS__NUMBER_OF_COUNTERS <= HS__COUNTERS_MAX, "HS__COUNTERS_MAX is too small");

/* ---- what counters tell others ---- */

/* windows: returns the number of texts in results with statistics; all windows of a text are one. */
uint64_t hs__texts_counted(const hs__corpus_results *results);
/* same_distance: returns the chance of the text at a place of the pass, from the state of a worker. */
const hs_chance *hs__same_distance_of_worker(const void *state, size_t place);
/* labelled_texts: returns the statistics of a worker, from its state. */
hs_labels *hs__labels_of_worker(void *state);
