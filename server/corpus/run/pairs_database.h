/* pairs_database.h - writes pairs into an SQLite database.
 *
 * Tables: texts (text, file, line), tokens (id, token), high_pairs (text, layer, head, i, j, id_i, id_j,
 * similarity, normalized). The view `pairs` joins them to the columns of the CSV. One thread at a time. */
#pragma once

#include "model/tokenizer/tokenizer.h"

typedef struct hs__pairs_database hs__pairs_database;

typedef struct hs__pair_row {
    uint64_t text, line;
    const char *file; /* borrowed until the row is added */
    uint16_t layer, head;
    uint32_t i, j;
    int32_t id_i, id_j;
    float similarity, normalized;
} hs__pair_row;

/* Creates the tables in an empty file that only this process uses. Borrows the tokenizer. HS_IO,
 * HS_NO_SPACE, HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__pairs_database_open(const char *path, const hs_tokenizer *tokenizer,
                                              size_t vocab_size, hs__pairs_database **ret_database,
                                              hs_error *err);
/* Returns false if a row cannot be written; hs__pairs_database_end gives the reason. */
bool hs__pairs_database_add(hs__pairs_database *database, const hs__pair_row *rows, size_t n);
uint64_t hs__pairs_database_bytes(hs__pairs_database *database); /* so far */
/* Commits all rows and frees the database; NULL is fine. HS_IO, HS_NO_SPACE: a row or the commit failed. */
HS_MUST_USE hs_status hs__pairs_database_end(hs__pairs_database *database, hs_error *err);
