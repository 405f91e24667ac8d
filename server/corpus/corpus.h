/* corpus.h - the types that all of a corpus run share: its settings, its job, one of its texts, its results.
 *
 * Functions on them are in the files that need them: settings.h, corpus_run.h, results.h. */
#pragma once

#include "api/request/texts.h"
#include "engine/engine.h"
#include "engine/statistics/statistics.h"
#include "engine/statistics/syntax.h"
#include "model/model.h"
#include "server/corpus/input/input.h"
#include "server/corpus/input/records.h"
#include "server/corpus/input/text_format.h"

#include <jansson.h>
#include <stdatomic.h>

/* The counters (counters/counter.h), in the order in which their arrays are in a report. One may use those
 * before it. */
#define HS__COUNTERS(X)                                                                                      \
    X(windows)                                                                                               \
    X(same_distance)                                                                                         \
    X(long_range)                                                                                            \
    X(resampling)                                                                                            \
    X(longest_outputs)                                                                                       \
    X(longest_pairs)                                                                                         \
    X(signal_noise)                                                                                          \
    X(untrained_noise)                                                                                       \
    X(untrained_control)                                                                                     \
    X(strata)                                                                                                \
    X(masked_tokens)                                                                                         \
    X(treebank)                                                                                              \
    X(labelled_texts)                                                                                        \
    X(head_effects)                                                                                          \
    X(head_importance)                                                                                       \
    X(pruning)                                                                                               \
    X(cut_attention)                                                                                         \
    X(search_texts)                                                                                          \
    X(examples)                                                                                              \
    X(one_text)                                                                                              \
    X(pairs_file)

/* The number of each counter in the list, and of its counts in the results. */
#define HS__COUNTER_NUMBER(name) HS__NUMBER_OF_##name,
enum { HS__COUNTERS(HS__COUNTER_NUMBER) HS__N_COUNTERS };
#undef HS__COUNTER_NUMBER

/* Texts of a block: workers take this many at a time. */
#define HS__CORPUS_BLOCK 8

/* ---- settings ---- */

typedef struct hs__corpus_settings {
    hs_stack stack;                             /* whose heads are counted */
    hs_field_values fields;                     /* those that /analyze has too; borrowed from reader */
    hs_fields *reader;                          /* owned */
    float thresholds[HS_CORPUS_THRESHOLDS_MAX]; /* ascending */
    size_t n_thresholds;
    size_t map_bins; /* cells of a map's edge, at most; 0: each position has its own */
    hs_corpus_distance distances;
    hs__input_format input;
    bool windows;                  /* texts longer than max_tokens become several: hs_windows_plan */
    void *options[HS__N_COUNTERS]; /* of the counters, in their order; owned; NULL: the defaults */
} hs__corpus_settings;

/* ---- the job ---- */

typedef struct hs__corpus_progress hs__corpus_progress;
typedef struct hs__pairs_options hs__pairs_options;

/* The size that a file outside of the run's folder will have, estimated from the first texts. */
typedef struct hs__expected_file {
    const char *name;    /* what is in it: "pairs" */
    uint64_t texts_seen; /* the estimate's base */
    uint64_t texts;      /* of the input; 0 if it cannot be counted beforehand: rows and bytes are then those
                            of the texts seen */
    double rows, bytes;
} hs__expected_file;

typedef struct hs__corpus_job {
    const hs_model *model;
    const hs_engine *engine;  /* of the heads that are counted: hs__corpus_stack_choose */
    const hs_engine *encoder; /* of the texts that these heads' decoder reads; NULL: they are no decoder's */
    const char *model_name;
    const struct hs__training_point *training; /* of the model; NULL: unknown */
    const char *const *inputs;
    const char *const *input_names; /* for the report; NULL: the inputs' own */
    size_t n_inputs;
    const char *dir;                /* exists */
    const hs__pairs_options *pairs; /* file for high pairs; NULL: none. Not for resume */
    hs__corpus_settings settings;
    size_t n_workers;
    size_t shard, n_shards;
    uint64_t save_ms;       /* interval of checkpoints */
    bool save_first;        /* save after the first block, too */
    bool strict;            /* a bad line ends the run */
    bool resume;            /* continue the run in dir, if there is one */
    bool restart;           /* remove the checkpoint of the run in dir, if there is one */
    bool yielding;          /* workers use SCHED_IDLE */
    const atomic_int *stop; /* non-zero: save, then end with HS_CANCELLED */
    void (*progress)(const hs__corpus_progress *progress, void *data); /* a few times a second; may be NULL */
    void (*expect)(const hs__expected_file *expected, void *data);     /* with pairs, once; may be NULL */
    void *progress_data;                                               /* of both */
} hs__corpus_job;

/* Returns the name of an input for the report. */
static inline const char *hs__corpus_input_name(const hs__corpus_job *job, size_t i)
{
    return job->input_names ? job->input_names[i] : job->inputs[i];
}

/* Sets the engines of the settings' stack. engine, decoder: of the model; decoder is NULL if it has none. */
static inline void hs__corpus_stack_choose(hs__corpus_job *job, const hs_engine *engine,
                                           const hs_engine *decoder)
{
    job->engine = job->settings.stack ? decoder : engine;
    job->encoder = job->settings.stack ? engine : NULL;
}

/* Returns true if the heads attend to another text than their own. */
static inline bool hs__corpus_crosses(const hs__corpus_job *job)
{
    return job->settings.stack == HS_STACK_CROSS;
}

/* Returns the number of maps that a text has: those of all counted layers and heads. */
static inline size_t hs__corpus_maps(const hs__corpus_job *job)
{
    return job->settings.fields.n_layers * hs_engine_shape(job->engine)->n_heads;
}

/* Returns the number of texts in a pass: fewer for a large window, one for head distances. */
size_t hs__corpus_together(const hs__corpus_job *job);

/* ---- a text ---- */

/* One text of a corpus, from the reader to the counters. */
typedef struct hs__text {
    hs__record record;         /* its record; bytes lie in the block */
    hs__record_text body;      /* its text, until all counters have seen it */
    hs_encoding encoding;      /* of the target for a decoder; owned */
    hs_encoding source;        /* of the text whose states a decoder reads; else zeroed; owned */
    size_t first, end;         /* tokens that are counted: [first, end) */
    size_t key_first, key_end; /* those of them, or for cross heads of the source, that are attended to */
    size_t place;              /* in its pass, below HS_CORPUS_BATCH */
    size_t window;             /* of its record, from 0 */

    size_t label;          /* set by labels */
    bool has_words;        /* of a treebank; set by syntax, as the words of the counted tokens are */
    hs_syntax_text words;  /* owned */
    hs__sentence sentence; /* owned, until all counters have seen the text */

    hs_text reached;                /* up to its last token; NULL: no counter needs it; owned */
    hs_text reached_pair;           /* the same of the second text, or target; NULL: there is none; owned */
    uint32_t reached_first;         /* code points of the text before it, */
    uint32_t reached_pair_first;    /* and of the second text */
    bool sampled;                   /* set by examples: it may become one */
    bool searched;                  /* set by search_texts */
    struct hs__token_label *labels; /* set by search_texts: of the counted tokens, or NULL; owned */
} hs__text;

/* Copies the text and the second text up to their last tokens, if that was not done yet. cuts_left: long
 * texts have lost their beginning. Their copies, and those of further windows, begin at the first token.
 * Fails with HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__text_reach(hs__text *text, bool cuts_left, hs_error *err);

/* The number of a text: its record's, plus its window's times this. It is a multiple of the number of parts
 * (hs_corpus_options), so all windows of a record are in one part. */
#define HS__WINDOW_NUMBERS (UINT64_C(1) << 32)

/* Returns a number that no other text of the run has. */
static inline uint64_t hs__text_number(const hs__text *t)
{
    return t->record.number + t->window * HS__WINDOW_NUMBERS;
}

/* Returns the tokens that the heads of a text attend to: its own, or for cross heads the source's. */
static inline const hs_encoding *hs__text_keys(const hs__corpus_job *job, const hs__text *t)
{
    return hs__corpus_crosses(job) ? &t->source : &t->encoding;
}

/* Returns tokens [first, end) of a text; borrowed from it. */
static inline hs_corpus_text hs__text_tokens(const hs_encoding *e, size_t first, size_t end)
{
    return (hs_corpus_text){.n_tokens = end - first,
                            .ids = e->ids + first,
                            .special = e->special + first,
                            .roles = e->roles + first,
                            .texts = e->texts + first};
}

/* Returns the tokens of a text that are counted, without keys; borrowed from it. */
static inline hs_corpus_text hs__text_counted(const hs__text *t)
{
    hs_corpus_text counted = hs__text_tokens(&t->encoding, t->first, t->end);
    counted.number = hs__text_number(t);
    return counted;
}

/* One head of a text, as it is computed. */
typedef struct hs__text_head {
    const hs_corpus_stats *statistics; /* that the head was just added to */
    size_t l, h, map;                  /* map: l times the number of heads, plus h */
    hs_observed_head maps; /* of the counted tokens: attention [n][k], similarity [n][n], columns [k], lengths
                              [n]; n is end - first, k is key_end - key_first */
    const hs_corpus_observation *observation;
    size_t n_pairs, right[2]; /* as hs_syntax_head_add says; set by syntax, 0 without words */
} hs__text_head;

/* ---- results ---- */

/* The identity's member with the digest of config.json and the tokenizer's files. */
#define HS__CORPUS_MODEL_FILES "model_files_sha256"

struct hs__bad_lines;

typedef struct hs__corpus_results {
    json_t *identity; /* flat object of model, options and input: equal in all sessions and shards */
    json_t *names; /* may differ: {"model": name, "causal": bool, "inputs": [paths], "tokens": {id: vocabulary
                      entry}}, and members of counters */
    json_t *shards;              /* numbers of the shards in these results, ascending */
    hs__input_position position; /* in the input */
    uint64_t n_empty;            /* texts without a token of their own; position counts blank records */
    bool done;                   /* the input was read to its end */
    double seconds;              /* of work */
    char date[24];               /* of the last save, ISO 8601, UTC */
    struct hs__bad_lines *bad;
    hs_corpus_stats *stats;
    void *counts[HS__N_COUNTERS]; /* of the counters, in their order; owned; NULL: nothing was counted */
} hs__corpus_results;
