/* counters.c - the list of all counters. */
#include "server/corpus/counters/counter.h"

#define POINTER(name) &hs__counter_##name,
const hs__counter *const hs__counters[] = {HS__COUNTERS(POINTER)};
const size_t hs__n_counters = sizeof hs__counters / sizeof *hs__counters;
