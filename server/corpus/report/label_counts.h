/* label_counts.h - the statistics of labels as JSON for a checkpoint, and as figures of a report. */
#pragma once

#include "engine/statistics/labels.h"

#include <jansson.h>

/* Returns the counts as JSON; NULL for NULL, or if memory is short. */
json_t *hs__labels_save(hs_labels *labels);
/* Loads saved counts; NULL gives NULL. names: the labels' names. HS_INVALID: they are damaged. */
HS_MUST_USE hs_status hs__labels_load(const json_t *saved, const json_t *names,
                                      const hs_corpus_options *options, hs_labels **ret_labels,
                                      hs_error *err);

/* Returns the member `labels` of report.json; NULL if memory is short. */
json_t *hs__labels_json(const hs_labels *labels, const json_t *names, const hs_corpus_options *options);
