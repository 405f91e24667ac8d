/* run_checkpoint.h - the file from which a run resumes.
 *
 * The file DIR/state holds a line
 *     headscope-corpus 1 <bytes of JSON> <CRC-32 of the JSON, hex>
 * then the JSON of everything in hs__corpus_results but the statistics, then the statistics as
 * hs_corpus_stats_save writes them. */
#pragma once

#include "server/corpus/report/results.h"

#define HS__RUN_CHECKPOINT_FILE "state"

/* Replaces dir/state and sets results->date. */
HS_MUST_USE hs_status hs__run_checkpoint_save(hs__corpus_results *results, const char *dir, hs_error *err);
/* Fails with HS_NOT_FOUND if there is no dir/state. */
HS_MUST_USE hs_status hs__run_checkpoint_find(const char *dir, hs_error *err);
/* Reads dir/state. HS_NOT_FOUND: there is none. HS_INVALID: it is damaged. */
HS_MUST_USE hs_status hs__run_checkpoint_load(const char *dir, hs__corpus_results *ret_results,
                                              hs_error *err);
/* Parses the bytes of such a file, which may be anything. path appears in messages. */
HS_MUST_USE hs_status hs__run_checkpoint_parse(const void *bytes, size_t n_bytes, const char *path,
                                               hs__corpus_results *ret_results, hs_error *err);
