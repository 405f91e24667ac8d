/* corpus_pairs.h - every high pair of a run, a row of CSV each.
 *
 * Workers write rows into memory of their own and hand it on in the order of their blocks, each when its turn
 * comes: the file is the same whatever the workers, and what waits is bounded. Columns:
 *     text,file,line,layer,head,i,j,token_i,token_j,similarity,normalized
 * i < j are positions among the text's tokens, special ones included; pairs are those of E (docs/methods.md)
 * at the main threshold. */
#pragma once

#include "model/model.h"
#include "model/status.h"

#include <stdbool.h>
#include <stdio.h>

/* Of each worker. */
#define HS__PAIRS_BYTES (((size_t)4 << 20) + ((size_t)32 << 10))

typedef struct hs__pairs_file hs__pairs_file;
typedef struct hs__pairs_rows hs__pairs_rows;

/* Borrows file and writes its header; packed: by gzip. HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__pairs_file_begin(FILE *file, bool packed, hs__pairs_file **ret_pairs,
                                           hs_error *err);
/* Releases all who wait: the run fails, and the file is of no use. Any thread. */
void hs__pairs_file_give_up(hs__pairs_file *pairs);
/* All rows are in the file's stream. Takes pairs; NULL is fine. */
HS_MUST_USE hs_status hs__pairs_file_end(hs__pairs_file *pairs, hs_error *err);

/* A worker's; NULL when memory is short. */
hs__pairs_rows *hs__pairs_rows_create(hs__pairs_file *pairs);
void hs__pairs_rows_destroy(hs__pairs_rows *rows); /* NULL is fine */

/* Where a map's rows come from. */
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

/* Block after block: numbers from 0, each taken once by some worker. False: the run failed elsewhere, or the
 * file cannot be written. */
void hs__pairs_block_begin(hs__pairs_rows *rows, uint64_t block);
bool hs__pairs_add(hs__pairs_rows *rows, const hs__pairs_source *source);
bool hs__pairs_block_end(hs__pairs_rows *rows);
