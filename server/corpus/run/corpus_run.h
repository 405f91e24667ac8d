/* corpus_run.h - runs a corpus: reads texts, counts their statistics and writes the reports.
 *
 * The caller's thread reads blocks of HS__CORPUS_BLOCK lines and saves checkpoints. Worker threads parse,
 * tokenize, run the engine and count, a block at a time. Each worker has its own workspace and statistics.
 * The lines of a block and the batches of its texts do not depend on workers, shards or interruptions, so
 * results are identical bit for bit.
 *
 * Shard i of n takes the blocks whose number is i modulo n. */
#pragma once

#include "server/corpus/corpus.h"
#include "server/corpus/report/results.h"
#include "server/corpus/run/settings.h"

struct hs__corpus_progress {
    uint64_t texts, bad_lines; /* counted, resumed ones included */
    uint64_t empty_texts;      /* skipped, resumed and blank ones included */
    uint64_t blank_lines;      /* of these, those that are no records */
    hs__bad_lines *bad;        /* the list; borrowed during the call */
    uint64_t saves;            /* of this session */
    double seconds;            /* of this session */
    double texts_per_second;   /* of this session */
    double share_before;       /* fraction of the input when this session began */
    double share;              /* fraction now; below 0 if unknown */
};

/* Estimates the seconds until the input is read, from the speed of this session. Below 0: not known yet. */
double hs__corpus_seconds_left(const hs__corpus_progress *progress);

/* Runs until the input ends, then writes the reports. HS_CANCELLED: stopped and saved, resume continues. If
 * the blocks that workers have begun take too long, a stop leaves the last checkpoint, if there is one.
 * HS_INVALID: dir holds another run, or it holds a run and resume is false. */
HS_MUST_USE hs_status hs__corpus_run(const hs__corpus_job *job, hs_error *err);
