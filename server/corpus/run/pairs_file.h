/* pairs_file.h - writes the high pairs of a run as rows of CSV or of an SQLite database.
 *
 * Workers buffer rows and write them in the order of blocks, so the file does not depend on the number of
 * workers. Buffers are bounded. Columns: text,file,line,layer,head,i,j,token_i,token_j,similarity,normalized
 * i < j are positions among the text's tokens, special ones included; pairs are those of E
 * (docs/reference/formulas.md) at the main threshold. */
#pragma once

#include "model/base/status.h"
#include "model/model.h"
#include "server/corpus/run/corpus_run.h"
#include "server/corpus/run/pairs_filter.h"

#include <stdbool.h>
#include <stdio.h>

/* Buffer of each worker. */
#define HS__PAIRS_BYTES (((size_t)4 << 20) + ((size_t)32 << 10))

typedef struct hs__pairs_file hs__pairs_file;

typedef struct hs__pairs_rows hs__pairs_rows;

/* The destination of rows: a CSV file, compressed by gzip if the name job->pairs ends in .gz, or a database
 * at the path of an empty file. */
typedef struct hs__pairs_target {
    const hs__corpus_job *job;
    FILE *file;           /* or NULL */
    const char *database; /* or NULL */
} hs__pairs_target;

/* Borrows what target points to and writes the header or the tables. countable: the inputs are regular files
 * that do not change; the records of the job's shard are counted first. HS_CANCELLED: *job->stop became
 * non-zero. HS_NO_MEMORY, HS_IO, HS_NO_SPACE, or as hs__record_stream_next. */
HS_MUST_USE hs_status hs__pairs_file_begin(const hs__pairs_target *target, bool countable,
                                           hs__pairs_file **ret_pairs, hs_error *err);

/* Wakes all waiting workers because the run has failed. The file is unusable. Any thread. */
void hs__pairs_file_give_up(hs__pairs_file *pairs);

/* Completes the file's stream after the last row. Takes ownership of pairs; NULL is fine. */
HS_MUST_USE hs_status hs__pairs_file_end(hs__pairs_file *pairs, hs_error *err);

/* Creates the buffer of a worker, which free releases; NULL if memory is short. */
hs__pairs_rows *hs__pairs_rows_create(hs__pairs_file *pairs);

/* The map whose pairs become rows. */
typedef struct hs__pairs_source {
    const char *file;
    uint64_t text, line;
    uint16_t layer, head; /* the model's numbers */
    const hs_tokenizer *tokenizer;
    const int32_t *ids; /* [n_tokens] */
    size_t first;       /* position of the first of them */
    size_t n_tokens;
    const float *similarity; /* [n_tokens][n_tokens], above the diagonal */
    float threshold;
} hs__pairs_source;

/* Block after block: numbers from 0, each taken once by some worker. The rows of a block are written
 * after those of all blocks before, at the latest by end. False: the run failed elsewhere, or the file
 * cannot be written. */
void hs__pairs_block_begin(hs__pairs_rows *rows, uint64_t block);

bool hs__pairs_add(hs__pairs_rows *rows, const hs__pairs_source *source);
bool hs__pairs_block_end(hs__pairs_rows *rows);

/* ---- the expected size ---- */

/* Blocks of a run that the estimate is based on. */
#define HS__PAIRS_EXPECTED_BLOCKS 4

/* Calls job->expect with the estimate. n_seen records were counted, and no worker has a block. HS_NO_SPACE:
 * the file would not fit on its disk. */
HS_MUST_USE hs_status hs__pairs_expect(hs__pairs_file *pairs, uint64_t n_seen, hs_error *err);
