/* report.h - writes the results of a run as report.json, report.npz and report.html.
 *
 * report.npz holds every array of docs/reference/arrays.md. report.json holds all but the maps, the derived
 * figures (fractions, lifts, spreads, d', areas), findings, examples and provenance. report.html draws the
 * paper's figures and needs no network. */
#pragma once

#include "server/corpus/report/results.h"

#include <stdio.h>

#define HS__REPORT_JSON "report.json"
#define HS__REPORT_NPZ  "report.npz"
#define HS__REPORT_HTML "report.html"

/* Writes all three files into dir. HS_CANCELLED: *stop became non-zero; stop may be NULL. */
HS_MUST_USE hs_status hs__corpus_report_write(hs__corpus_results *results, const char *dir,
                                              const atomic_int *stop, hs_error *err);

/* Returns the content of report.json; NULL if memory is short. */
json_t *hs__corpus_report_json(hs__corpus_results *results);

/* Returns true if report.json has this array. Large arrays and maps are only in report.npz. */
bool hs__report_lists(const hs_corpus_array *array);

/* Returns [{claim, paper, measured, criterion, holds}]; holds is null if the run cannot decide it. */
json_t *hs__corpus_findings(const hs__corpus_results *results);

/* Writes report.html. report: the content of report.json. */
HS_MUST_USE hs_status hs__corpus_html_write(FILE *file, const hs_corpus_stats *stats, const json_t *report,
                                            hs_error *err);
