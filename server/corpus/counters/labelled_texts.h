/* labelled_texts.h - the statistics of labels for the counter of effects, which adds to them. */
#pragma once

#include "engine/statistics/labels.h"
#include "server/corpus/counters/counter.h"

/* Returns the statistics of a worker. state: of the counter of labels. */
hs_labels *hs__labels_of_worker(void *state);
