/* syntax_counts.h - the counts of relations as JSON for a checkpoint, and as figures and arrays of a report.
 */
#pragma once

#include "api/formats/npz.h"
#include "engine/statistics/statistics.h"
#include "engine/statistics/syntax.h"

#include <jansson.h>

/* Returns the counts as JSON; NULL for NULL, or if memory is short. */
json_t *hs__syntax_save(const hs_syntax *syntax);
/* Loads saved counts; NULL gives NULL. HS_INVALID: they are damaged. */
HS_MUST_USE hs_status hs__syntax_load(const json_t *saved, const hs_corpus_options *options,
                                      hs_syntax **ret_syntax, hs_error *err);

/* The rows of a report: all relations but punctuation together, then each, most frequent first. */
typedef struct hs__syntax_rows {
    const hs_syntax *syntax;
    hs_syntax_relation *relations; /* [n], owned; `right` of the first one too */
    size_t n;
} hs__syntax_rows;
/* HS_NO_MEMORY. Call finish after a failure too. */
HS_MUST_USE hs_status hs__syntax_rows_make(const hs_syntax *syntax, hs__syntax_rows *ret_rows, hs_error *err);
void hs__syntax_rows_finish(hs__syntax_rows *rows);

/* Returns the member `syntax` of report.json; NULL if memory is short. */
json_t *hs__syntax_json(const hs__syntax_rows *rows, const hs_corpus_options *options);

/* Writes the arrays syntax_*. Returns false if memory is short. */
bool hs__syntax_arrays_write(const hs__syntax_rows *rows, hs_npz *npz);
