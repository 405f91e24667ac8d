/* pairs_expected.h - estimates the size of a file of pairs from the first texts of a run. */
#pragma once

#include "server/corpus/run/corpus_run.h"
#include "server/corpus/run/pairs_file.h"

/* Blocks of a run that the estimate is based on. */
#define HS__PAIRS_EXPECTED_BLOCKS 4

/* Counts the records of the job's shard. Reads the whole input, which must be regular files that do not
 * change. HS_CANCELLED: *job->stop became non-zero. Other errors as hs__record_stream_next. */
HS_MUST_USE hs_status hs__pairs_texts_count(const hs__corpus_job *job, uint64_t *ret_n, hs_error *err);

/* Calls job->expect with the estimate. n_seen of n_texts records were counted, and no worker has a block.
 * HS_NO_SPACE: the file would not fit on its disk. */
HS_MUST_USE hs_status hs__pairs_expect(const hs__corpus_job *job, hs__pairs_file *pairs, uint64_t n_seen,
                                       uint64_t n_texts, hs_error *err);
