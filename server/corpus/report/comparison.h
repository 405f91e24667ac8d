/* comparison.h - the figures of several runs side by side: checkpoints of one training, seeds, or models.
 *
 * A comparison reads the report.json of each run and keeps its figures at one threshold: the first run's main
 * one, if none is chosen. Its JSON has an array for each figure, with the axes [run], [run][layer] or
 * [run][layer][head]. */
#pragma once

#include "server/base/read_check.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define HS__COMPARISON_JSON     "comparison.json"
#define HS__COMPARISON_CSV      "comparison.csv"
#define HS__COMPARISON_HTML     "comparison.html"
#define HS__COMPARED_RUNS_MAX   100
#define HS__CORRELATED_RUNS_MAX 16                   /* of more, heads are not correlated */
#define HS__COMPARED_BYTES_MAX  ((uint64_t)32 << 20) /* of one report.json */
#define HS__COMPARED_HEADS_MAX  ((size_t)1 << 15)    /* of all runs together */
#define HS__COMPARED_PARSED     13 /* times its bytes: what a report takes while it is read */
typedef struct hs__comparison hs__comparison;

/* threshold: NAN for the first run's main one. Returns NULL if memory is short. */
hs__comparison *hs__comparison_create(double threshold);
void hs__comparison_destroy(hs__comparison *comparison); /* NULL is fine */
/* Adds a run from the bytes of its report.json, which may be anything. name: what messages call the run, and
 * the comparison if several runs have one model. HS_INVALID: they are no report, or it lacks the
 * threshold. HS_TOO_LARGE: too many runs or heads. HS_NO_MEMORY. A failure adds nothing. */
HS_MUST_USE hs_status hs__comparison_add(hs__comparison *comparison, const char *name, const char *bytes,
                                         size_t n_bytes, hs_error *err);

/* Does the same with an open file, which stays open. HS_TOO_LARGE: it has over HS__COMPARED_BYTES_MAX. HS_IO.
 */
HS_MUST_USE hs_status hs__comparison_add_file(hs__comparison *comparison, const char *name, int fd,
                                              hs_error *err);

/* Sorts the runs: first those of training curves (training_curves.h), by family, step and seed, then the
 * others in the order in which they were added. */
void hs__comparison_sort(hs__comparison *comparison);

/* Returns the memory that the comparison and its JSON take. */
size_t hs__comparison_bytes(const hs__comparison *comparison);

/* Returns the content of comparison.json (docs/reference/files.md). NULL if memory is short. */
json_t *hs__comparison_json(const hs__comparison *comparison);

/* One figure of a comparison. */
typedef struct hs__compared_figure {
    const char *name; /* in the JSON */
    const char *title;
    const char *unit;               /* "share" is written in per cent */
    const char *of_layer, *of_head; /* paths in report.json; NULL: a layer's is the mean of its heads, and a
                                       head has none */
} hs__compared_figure;

extern const hs__compared_figure hs__compared_figures[];
extern const size_t hs__n_compared_figures;
/* Figures of whole runs; of_head is NULL. */
extern const hs__compared_figure hs__compared_totals[];

extern const size_t hs__n_compared_totals;
/* Write the comparison from its JSON: rows of run, name, figure, layer, head, value; and the page, which
 * needs no network. The caller checks the file for failed writes. HS_NO_MEMORY; HS_UNSUPPORTED: this build
 * has no page. The check, which may be NULL, is asked before each figure. */
HS_MUST_USE hs_status hs__comparison_csv_write(FILE *file, const json_t *comparison, hs_error *err);

HS_MUST_USE hs_status hs__comparison_html_write(FILE *file, const json_t *comparison,
                                                const hs__read_check *check, hs_error *err);
