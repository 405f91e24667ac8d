/* same_distance.h - what pairs at the same distances would show by chance, for the findings. */
#pragma once

#include "engine/statistics/chance.h"
#include "server/corpus/corpus.h"

/* Returns the chance of the text at a place of the pass, from the state of a worker. */
const hs_chance *hs__same_distance_of_worker(const void *state, size_t place);

/* Returns the expected number of a head's high pairs at threshold t that are of the kind; NAN if the run
 * lacks the counts, as runs of earlier versions do. */
double hs__same_distance_expected(const hs__corpus_results *results, hs_chance_kind kind, size_t t, size_t l,
                                  size_t h);
