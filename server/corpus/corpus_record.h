/* corpus_record.h - everything a run has done so far, and its file.
 *
 * A folder of a run holds `state`, and once all is done report.json, report.npz and report.html. The state
 * is one file: a line
 *     headscope-corpus 1 <bytes of JSON> <CRC-32 of the JSON, hex>
 * the JSON of what is below, and the statistics as hs_corpus_stats_save gives them.
 *
 * Two records merge when their identities agree and they are different shards. */
#pragma once

#include "engine/statistics/statistics.h"
#include "server/base/whole_files.h"
#include "server/corpus/corpus_bad.h"
#include "server/corpus/corpus_input.h"
#include "server/corpus/corpus_sample.h"

#define HS__CORPUS_STATE "state"

typedef struct hs__corpus_record {
    json_t *identity; /* what must not change: model, options, input; flat */
    json_t *names;    /* what may: {"model": name, "inputs": [paths], "tokens": {id: vocabulary entry}} */
    json_t *shards;   /* those in here, ascending; [0] of 1 for a whole run */
    hs__corpus_place place; /* in the input */
    bool done;              /* the input was read to its end */
    double seconds;         /* of work */
    char date[24];          /* when it was saved last, ISO 8601, UTC */
    hs__corpus_bad *bad;
    hs__corpus_sample *sample;
    hs_corpus_stats *stats;
} hs__corpus_record;

/* Writes dir/state. */
HS_MUST_USE hs_status hs__corpus_record_save(hs__corpus_record *record, const char *dir, hs_error *err);
/* HS_NOT_FOUND when the folder has no state; HS_INVALID when that is damaged. */
HS_MUST_USE hs_status hs__corpus_record_load(const char *dir, hs__corpus_record *ret_record, hs_error *err);
void hs__corpus_record_finish(hs__corpus_record *record); /* zeroed is fine */

/* HS_INVALID, saying what differs; `where` names the other one: "the run in 'out'". */
HS_MUST_USE hs_status hs__corpus_identity_check(const json_t *identity, const json_t *other,
                                                const char *where, hs_error *err);

/* Adds what `from` holds. HS_INVALID when they do not belong together, share a shard, or `from` is not done.
 */
HS_MUST_USE hs_status hs__corpus_record_merge(hs__corpus_record *record, hs__corpus_record *from,
                                              const char *from_dir, hs_error *err);
