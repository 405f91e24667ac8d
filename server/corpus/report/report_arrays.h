/* report_arrays.h - says in report.json what each array of a report is. */
#pragma once

#include "engine/statistics/statistics.h"

#include <jansson.h>
#include <stdbool.h>

/* Returns {name: {axes, unit, meaning}}; axes are in the order of a shape. A run of CoNLL-U input has arrays
 * of syntax too. NULL if memory is short. */
json_t *hs__report_arrays_json(const hs_corpus_array *arrays, size_t n_arrays, bool has_syntax);
