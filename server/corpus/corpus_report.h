/* corpus_report.h - what a run found, as report.json, report.npz and report.html.
 *
 * report.npz: every array of docs/methods.md section 4. report.json: the same but the maps, what follows
 * (shares, lifts, spreads, d', areas), the findings table, examples, and where all that comes from.
 * report.html: one file that draws the paper's figures without a network. */
#pragma once

#include "server/corpus/corpus_record.h"

#include <stdio.h>

#define HS__REPORT_JSON "report.json"
#define HS__REPORT_NPZ  "report.npz"
#define HS__REPORT_HTML "report.html"

/* All three, into dir. HS_CANCELLED once *stop (stop may be NULL) is not zero. */
HS_MUST_USE hs_status hs__corpus_report_write(hs__corpus_record *record, const char *dir,
                                              const atomic_int *stop, hs_error *err);

/* The content of report.json; NULL when memory is short. */
json_t *hs__corpus_report_json(hs__corpus_record *record);

/* Whether report.json has this array: the large ones and the maps are in report.npz only. */
bool hs__report_lists(const hs_corpus_array *array);

/* NAN is null, as JSON has it. */
json_t *hs__report_number(double value);

/* [{claim, paper, measured, criterion, holds}]; holds is null where this run cannot tell. */
json_t *hs__corpus_findings(const hs_corpus_stats *stats);

/* provenance: text for the array of that name. */
HS_MUST_USE hs_status hs__corpus_npz_write(FILE *file, const hs_corpus_stats *stats, const char *provenance,
                                           hs_error *err);
HS_MUST_USE hs_status hs__corpus_html_write(FILE *file, const hs_corpus_stats *stats, const json_t *report,
                                            hs_error *err);
