/* report_arrays.h - the arrays of a report: their description in report.json, and report.npz. */
#pragma once

#include "server/corpus/corpus.h"

/* Returns {name: {axes, unit, meaning}} of all arrays of a report; axes are in the order of a shape. NULL if
 * memory is short. */
json_t *hs__report_arrays_json(const hs__corpus_results *results);
