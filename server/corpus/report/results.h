/* results.h - the results of a run so far: its statistics, examples and bad lines, and where they come from.
 *
 * A checkpoint saves them, a report shows them. The results of two shards of one run can be merged. */
#pragma once

#include "engine/statistics/labels.h"
#include "engine/statistics/statistics.h"
#include "engine/statistics/syntax.h"
#include "server/corpus/input/record_stream.h"
#include "server/corpus/report/bad_lines.h"
#include "server/corpus/report/examples.h"

/* The identity's member with the digest of config.json and the tokenizer's files. States of earlier versions
 * lack it. */
#define HS__CORPUS_MODEL_FILES "model_files_sha256"

/* The names' member with the maps of one text (one_text.h). */
#define HS__CORPUS_ONE_TEXT "one_text"

/* The names' member with the names of labels, in the order of their numbers. */
#define HS__CORPUS_LABELS "labels"

typedef struct hs__corpus_results {
    json_t *identity; /* flat object of model, options and input: equal in all sessions and shards */
    json_t *names; /* may differ: {"model": name, "causal": bool, "inputs": [paths], "tokens": {id: vocabulary
                      entry}, "one_text": one_text.h, "labels": [names]} */
    json_t *shards;         /* numbers of the shards in these results, ascending */
    hs__stream_place place; /* in the input */
    uint64_t n_empty;       /* texts without a token of their own; place counts blank records */
    bool done;              /* the input was read to its end */
    double seconds;         /* of work */
    char date[24];          /* of the last save, ISO 8601, UTC */
    hs__bad_lines *bad;
    hs__example_sample *sample;
    hs_corpus_stats *stats;
    hs_syntax *syntax; /* NULL: no CoNLL-U */
    hs_labels *labels; /* NULL: texts have no labels */
} hs__corpus_results;

/* Returns the number of empty texts that were skipped, blank records included. */
uint64_t hs__corpus_results_empty(const hs__corpus_results *results);

void hs__corpus_results_finish(hs__corpus_results *results); /* zeroed is fine */

/* Compares identities. HS_INVALID names the difference. `where` names the other run: "the run in 'out'". */
HS_MUST_USE hs_status hs__corpus_identity_check(const json_t *identity, const json_t *other,
                                                const char *where, hs_error *err);

/* Merges `from` into results. HS_INVALID: different identities or inputs, a common shard, or an unfinished
 * run. */
HS_MUST_USE hs_status hs__corpus_results_merge(hs__corpus_results *results, hs__corpus_results *from,
                                               const char *from_dir, hs_error *err);

/* Returns the shortest decimal that reads as value: 0.1, not the float's 0.100000001490116. */
double hs__report_decimal(float value);
/* Returns a JSON number; null for NAN. */
json_t *hs__report_number(double value);
