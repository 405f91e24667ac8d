/* same_distance.h - what pairs at the same distances would show by chance, for the sums of blocks. */
#pragma once

#include "engine/statistics/chance.h"
#include "server/corpus/corpus.h"

/* Returns the chance of the text at a place of the pass, from the state of a worker. */
const hs_chance *hs__same_distance_of_worker(const void *state, size_t place);
