/* results.h - the results of a run so far: its statistics, examples and bad lines, and where they come from.
 *
 * A checkpoint saves them, a report shows them. The results of two shards of one run can be merged. */
#pragma once

#include "engine/statistics/labels.h"
#include "engine/statistics/statistics.h"
#include "engine/statistics/syntax.h"
#include "server/corpus/corpus.h"
#include "server/corpus/report/bad_lines.h"

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
