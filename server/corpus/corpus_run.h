/* corpus_run.h - one run: lines in, statistics and reports out.
 *
 * The caller's thread reads lines into blocks of HS__CORPUS_BLOCK and saves now and then; worker threads
 * parse, tokenize, compute and count, a block at a time, each with its own workspace and statistics. A block
 * always holds the same lines, whatever the workers, shards and interruptions, and its texts always share the
 * same passes of the engine: so every number is the same to the bit.
 *
 * Shard i of n takes the blocks whose number is i modulo n. */
#pragma once

#include "engine/engine.h"
#include "model/model.h"
#include "server/corpus/corpus_record.h"
#include "server/corpus/corpus_settings.h"

#include <stdatomic.h>

#define HS__CORPUS_BLOCK 8

typedef struct hs__corpus_progress {
    uint64_t texts, bad_lines; /* counted, resumed ones included */
    hs__corpus_bad *bad;       /* lists them; for the length of the call */
    uint64_t saves;            /* of this session */
    double seconds;            /* of this session */
    double texts_per_second;   /* of this session */
    double share_before;       /* of the input, when this session began */
    double share;              /* and now; below 0 when not known */
} hs__corpus_progress;

/* Until the input is read, at this session's pace; below 0 when that cannot be told yet. */
double hs__corpus_seconds_left(const hs__corpus_progress *progress);

typedef struct hs__corpus_job {
    const hs_model *model;
    const hs_engine *engine;
    const char *model_name;
    const char *const *inputs;
    const char *const *input_names; /* for the report; NULL: the inputs' own */
    size_t n_inputs;
    const char *dir; /* exists */
    const char
        *pairs; /* where all high pairs go, as CSV, packed if it ends in .gz; NULL: nowhere. Not for resume */
    hs__corpus_settings settings;
    size_t n_workers;
    size_t shard, n_shards;
    uint64_t save_ms;       /* between two saves */
    bool strict;            /* a bad line ends the run */
    bool resume;            /* go on with what dir holds, if it holds something */
    bool yielding;          /* workers run when nobody else wants the CPU */
    const atomic_int *stop; /* non-zero: save, then end with HS_CANCELLED */
    void (*progress)(const hs__corpus_progress *progress, void *data); /* a few times a second; may be NULL */
    void *progress_data;
} hs__corpus_job;

/* Runs until the input ends, then writes the reports. HS_CANCELLED when stopped (saved; resume goes on);
 * HS_INVALID when dir holds another run, or one and resume is false. */
HS_MUST_USE hs_status hs__corpus_run(const hs__corpus_job *job, hs_error *err);
