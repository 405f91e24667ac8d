/* results.h - the results of a run so far: its statistics, examples and bad lines, and where they come from.
 *
 * A checkpoint saves them, a report shows them. The results of two shards of one run can be merged. */
#pragma once

#include "engine/statistics/labels.h"
#include "engine/statistics/statistics.h"
#include "engine/statistics/syntax.h"
#include "model/base/status.h"
#include "server/corpus/corpus.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define HS__BAD_LINES_LISTED_MAX 1000
typedef struct hs__bad_line {
    size_t file;
    uint64_t line;
    uint64_t n_lines; /* of the record that begins there; counted only */
    char why[128];
} hs__bad_line;

typedef struct hs__bad_lines hs__bad_lines;

hs__bad_lines *hs__bad_lines_create(void); /* NULL if memory is short */
/* Adds a record and counts its lines. Lines may come in any order; the list keeps those with the lowest file
 * and line. */
void hs__bad_lines_add(hs__bad_lines *bad, const hs__bad_line *line);

uint64_t hs__bad_lines_count(hs__bad_lines *bad);
/* Returns {"count": n, "lines": [{"file": name, "line": 7, "why": "..."}]}, with indices as files if names is
 * NULL. NULL if memory is short. */
json_t *hs__bad_lines_save(hs__bad_lines *bad, const json_t *names);

/* Adds a list that was saved with indices. HS_INVALID: it is no such list, or an index is not below n_files.
 */
HS_MUST_USE hs_status hs__bad_lines_load(hs__bad_lines *bad, const json_t *saved, size_t n_files,
                                         hs_error *err);

void hs__corpus_results_finish(hs__corpus_results *results); /* zeroed is fine */
/* Compares identities. HS_INVALID names the difference. `where` names the other run: "the run in 'out'". */
HS_MUST_USE hs_status hs__corpus_identity_check(const json_t *identity, const json_t *other,
                                                const char *where, hs_error *err);

/* Merges `from` into results. HS_INVALID: different identities or inputs, a common shard, or an unfinished
 * run. */
HS_MUST_USE hs_status hs__corpus_results_merge(hs__corpus_results *results, hs__corpus_results *from,
                                               const char *from_dir, hs_error *err);
